/*
 * Cycle: a cycle of a sound server, which may come in several callbacks. PortAudio hands on at most
 * 1024 frames of a JACK cycle at once, or the period that the server had when the stream was
 * opened; a longer cycle is several callbacks, one directly after the other. Only the last one
 * completes the cycle: the next callback is a whole cycle away.
 *
 * The server's frame count at the begin of each cycle tells which callbacks belong together, and
 * how many frames were lost between two cycles.
 *
 * The callback's thread; no system calls.
 */
#ifndef CONVOLVD_IO_SOUND_CYCLE_H
#define CONVOLVD_IO_SOUND_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: no callback has run. */
struct sound_cycle {
    bool begun;
    uint32_t start;      /* the server's frame count at its begin; wraps */
    uint32_t period;     /* frames that the server announced for it */
    uint32_t frames;     /* of its callbacks so far */
    int64_t callback_ns; /* when its first callback ran [monotonic] */
};

struct sound_cycle_step {
    bool begins;     /* the first callback of a cycle */
    bool ends;       /* the last one */
    uint64_t lost;   /* frames between the cycle before and this one */
    uint32_t behind; /* frames of the cycle behind this callback */
};

/* A callback of `frames` runs in the cycle that began at the server's frame `start` and has
 * `period` frames. */
struct sound_cycle_step sound_cycle_next(struct sound_cycle *cycle, uint32_t start, uint32_t period,
                                         uint32_t frames, int64_t now_ns);

#endif
