/*
 * Playback follow: plays the results of a stream whose clock differs from the card's. A resampler
 * (libsamplerate, sinc, 121 dB) converts them at the speed that keeps the latency at its set point
 * (clock_follow.h); this module also chooses the card frame at which each result is played.
 *
 *     results ──► resampler ──► ring of the card
 *                    ▲ speed
 *     times of puts and callbacks ──► clock_follow
 *
 * Only playback is resampled; frames that are captured, recorded or sent never are.
 *
 * open runs on a worker thread, everything else on the loop thread and without allocating.
 */
#ifndef CONVOLVD_IO_SOUND_PLAYBACK_FOLLOW_H
#define CONVOLVD_IO_SOUND_PLAYBACK_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum {
    FOLLOW_CHUNK_FRAMES = 512, /* most frames of one conversion */
    FOLLOW_CHANNELS_MAX = 128, /* of libsamplerate's sinc converters */
};

struct playback_follow;

/* rate_hz: nominal, of stream and card alike. Returns 0, ERROR_UNSUPPORTED (too many channels) or
 * ERROR_MEMORY. */
int playback_follow_open(uint32_t channels, double rate_hz, struct playback_follow **out,
                         struct problem *problem);
void playback_follow_close(struct playback_follow *follow); /* NULL is fine */

/* Frames that the resampler holds until later ones arrive. */
uint32_t playback_follow_held(const struct playback_follow *follow);

/* How far the card is at a put; frames are numbered over all sessions. */
struct playback_position {
    uint64_t callback_frame; /* first frame of the newest callback */
    int64_t callback_ns;     /* when it ran [monotonic] */
    uint32_t period_frames;
    uint64_t written;        /* playback frames below are written */
    uint64_t latency_frames; /* from put to play; the playback ring holds at least twice as many */
    int64_t now_ns;          /* of the put [monotonic] */
};

enum playback_step {
    PLAYBACK_CONTINUE, /* convert the frames */
    PLAYBACK_RESTART,  /* convert them; the resampler restarted, the frames it held are gone */
    PLAYBACK_DROP,     /* drop them: too many are queued, until the latency is back */
};

/* Results [timeline_frame, timeline_frame + frames) have arrived: says what to do with them. */
enum playback_step playback_follow_put(struct playback_follow *follow,
                                       const struct playback_position *position,
                                       uint64_t timeline_frame, uint32_t frames);

/* Converts the next `frames` (at most FOLLOW_CHUNK_FRAMES) of the last put. Returns *out_frames
 * frames to be played from card frame *frame on, valid until the next call. */
const float *playback_follow_convert(struct playback_follow *follow, const float *samples,
                                     uint32_t frames, uint64_t *frame, uint32_t *out_frames);

/* The latency or the card's period has changed: the next put sets them, and restarts. */
void playback_follow_retune(struct playback_follow *follow);

/* True between a put and the loss of the card: convert may be called. */
bool playback_follow_running(const struct playback_follow *follow);

/* The card went away, or converted frames did not fit into its ring: restart with the next put. */
void playback_follow_lost(struct playback_follow *follow);

struct playback_follow_report {
    bool ppm_known;
    double ppm;                   /* how much faster the stream's clock is than the card's */
    double speed_ppm;             /* current speed of the resampler, above the nominal one */
    double latency_frames;        /* from put to play, smoothed; 0 before the first put */
    uint64_t underruns, overruns; /* restarts, by cause */
};
void playback_follow_report(const struct playback_follow *follow,
                            struct playback_follow_report *report);

#endif
