/*
 * Playback follow: results of a stream with a clock of its own, played on a card with another one.
 * A resampler (libsamplerate, sinc, 121 dB) takes them at the speed that holds what waits before
 * the card at its set point (clock_follow.h), and decides which card frame each is played as.
 *
 *     results ──► resampler ──► ring of the card
 *                    ▲ speed
 *     times of puts and callbacks ──► clock_follow
 *
 * Only what is played passes here: what is captured, recorded or sent never does. Opened on a
 * worker, then one thread; nothing allocates per result.
 */
#ifndef CONVOLVD_IO_SOUND_PLAYBACK_FOLLOW_H
#define CONVOLVD_IO_SOUND_PLAYBACK_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum { FOLLOW_CHUNK_FRAMES = 512, FOLLOW_CHANNELS_MAX = 128 }; /* of libsamplerate's sinc */

struct playback_follow;

int playback_follow_open(uint32_t channels, double rate_hz, struct playback_follow **out,
                         struct problem *problem);
void playback_follow_close(struct playback_follow *follow); /* NULL is fine */

/* Frames that the resampler keeps back until later ones come. */
uint32_t playback_follow_held(const struct playback_follow *follow);

/* The card at the time of a put; frames are numbered over all its sessions. */
struct playback_position {
    uint64_t callback_frame; /* the newest callback began with it */
    int64_t callback_ns;     /* and ran then */
    uint32_t period_frames;
    uint64_t written;        /* playback frames below are there */
    uint64_t latency_frames; /* from the put of a frame's block to its play; the ring holds twice */
    int64_t now_ns;
};

enum playback_step {
    PLAYBACK_GO,      /* convert it */
    PLAYBACK_BEGIN,   /* convert it, the first of a new beginning: what was held back is gone */
    PLAYBACK_LEFT_OUT /* far too much waits: nothing more until the latency is back */
};

/* Results [timeline_frame, timeline_frame + frames) are here. */
enum playback_step playback_follow_put(struct playback_follow *follow,
                                       const struct playback_position *position,
                                       uint64_t timeline_frame, uint32_t frames);

/* The next `frames` (≤ FOLLOW_CHUNK_FRAMES) of what was put: *out_frames frames, valid until the
 * next call, to be played from card frame *frame on. */
const float *playback_follow_convert(struct playback_follow *follow, const float *samples,
                                     uint32_t frames, uint64_t *frame, uint32_t *out_frames);

/* The card went away, or what was put did not fit: begin again. */
void playback_follow_lost(struct playback_follow *follow);

struct playback_follow_report {
    bool ppm_known;
    double ppm;            /* the stream's clock is so much faster than the card's */
    double speed_ppm;      /* at which results are taken now */
    double latency_frames; /* smoothed, against the same put and play as latency_frames above */
    uint64_t underruns, overruns; /* new beginnings, by cause */
};
void playback_follow_report(const struct playback_follow *follow,
                            struct playback_follow_report *report);

#endif
