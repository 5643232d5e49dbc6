/*
 * The input ring of a stream and what depends on its size, made on a worker thread by the rule of
 * ring_size.h, and replaced by a larger one while the stream runs when a new plan needs more
 * history.
 *
 * stream_ring_now, stream_ring_prepare, stream_ring_copy, stream_ring_free and stream_ring_replaced
 * (stream.h) are defined here.
 */
#ifndef CONVOLVD_STREAM_INPUT_RING_H
#define CONVOLVD_STREAM_INPUT_RING_H

#include <stdint.h>

#include "stream/stream.h"

struct block_times;

struct stream_ring {
    struct engine *engine;
    struct ring *ring;
    struct block_times *times; /* [times_mask + 1] */
    uint64_t times_mask;
    uint64_t jump_max;                  /* the longest gap that it bridges [frames] */
    uint32_t history;                   /* the longest history that it holds [frames] */
    uint64_t copied_from, copied_until; /* positions that stream_ring_copy has copied into it */
};

/* WORKER. A ring for plans that need as much history as `info`; at least `frames_min` frames, 0: by
 * rule, and smaller, with a line in the log, where the input memory has no room for that. 0,
 * ERROR_MEMORY, ERROR_LIMIT, or ERROR_FULL without room for the least. */
int input_ring_make(struct engine *engine, const struct stream_options *options,
                    const struct plan_info *info, uint64_t frames_min, struct stream_ring *out,
                    struct problem *problem);
/* WORKER. */
void input_ring_close(struct stream_ring *ring);

/* LOOP. The lowest position that a plan with this history reads from now on. */
uint64_t input_ring_reach(const struct stream *stream, uint64_t history);

/* LOOP. Takes a larger ring into use with everything that the one in use still holds from position
 * min(reach_from, epochs_low) on, as far as it has not been copied before; positions stay. `ring`
 * becomes the one that was in use, and is kept as stream.old_ring. */
void input_ring_take(struct stream *stream, struct stream_ring *ring, uint64_t reach_from);

#endif
