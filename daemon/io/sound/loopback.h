/*
 * Loopback of a sound card: plays chirps on every playback channel of a duplex request, listens on
 * every capture channel, and finds the fixed number of frames from one to the other. The card's
 * outputs must lead back to its inputs, by a cable or by JACK's connections.
 *
 * Waits for the card; no event loop: for a command that does nothing else.
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
    uint32_t heard;  /* channels that heard the chirps */
    uint64_t frames; /* the round trip: of the first of them, to the nearest frame */
    double exact;    /* the same with parts of a frame, mean of all its chirps */
    struct {
        bool heard;
        struct round_trip trip; /* of the clearest chirp */
    } channels[SOUND_CHANNELS_MAX];
};

/* level: peak of the chirps against full scale, 0 < level ≤ 1. ERROR_NO_DEVICE when the card cannot
 * be had, ERROR_ACCURACY when nothing comes back or not always after the same time. */
int sound_loopback_measure(const struct sound_request *request, double level,
                           struct sound_loopback *out, struct problem *problem);

#endif
