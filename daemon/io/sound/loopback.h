/*
 * Loopback of a sound card: measures the round trip from its outputs to its inputs, a fixed number
 * of frames. It plays chirps on every playback channel of a duplex request, captures every channel
 * and finds the chirps with a matched filter. The card's outputs must be connected to its inputs,
 * by a cable or in JACK.
 *
 * Blocks for some seconds and needs no event loop: for a command that does nothing else.
 */
#ifndef CONVOLVD_IO_SOUND_LOOPBACK_H
#define CONVOLVD_IO_SOUND_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/sound/shared.h"
#include "signal/round_trip.h"

struct sound_loopback {
    uint32_t period_frames;
    double rate_hz;
    char device[SOUND_NAME_BYTES], api[32];
    uint32_t heard;  /* capture channels with chirps */
    uint64_t frames; /* the round trip of the first of them, to the nearest frame */
    double exact;    /* the same in fractions of a frame, mean over the chirps */
    struct {
        bool heard;
        struct round_trip trip;     /* of the clearest chirp */
    } channels[SOUND_CHANNELS_MAX]; /* of the capture side */
};

/* level: peak of the chirps relative to full scale, 0 < level ≤ 1. Returns 0, ERROR_NO_DEVICE when
 * the card cannot be opened or stops, ERROR_ACCURACY when no channel has the chirps or the round
 * trip varies, ERROR_MEMORY or ERROR_SYSTEM. */
int sound_loopback_measure(const struct sound_request *request, double level,
                           struct sound_loopback *out, struct problem *problem);

#endif
