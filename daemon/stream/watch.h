/*
 * Watch: lets one viewer look at what a stream takes in and hands on, without a port: a watched
 * stream computes, delivers and counts exactly as one that nobody watches. While there is no viewer
 * this costs one comparison a batch.
 *
 * The viewer notes what it is told of while results are handed on, and looks at it in the turns of
 * the loop that follow, a bounded part in each (scheduler.h): nothing waits longer for the loop
 * than for one part. Meanwhile
 *
 *     results     stay as they are until `forget`: the scheduler holds their batch (showing.h)
 *     input       stays in the ring until a source comes round: stream_watch_holds
 *
 * Loop thread.
 */
#ifndef CONVOLVD_STREAM_WATCH_H
#define CONVOLVD_STREAM_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/batch.h"
#include "stream/result.h"

struct flight;
struct stream;

/* Input frames whose results come next, in order. */
struct watched_input {
    uint64_t epoch, record;
    uint64_t first_frame; /* in the epoch */
    uint32_t frames;
    const struct ring *ring; /* from this position on; frames without presence bit are absent */
    uint64_t position;
    double rate_hz;
    int64_t capture_ns; /* realtime, of first_frame */
    bool begins, ends;  /* the epoch */
};

struct stream_watch {
    void *context;
    void (*input)(void *context, const struct watched_input *input);
    /* What the first pass has seen in whole blocks of `block_frames`: [blocks][channels]. */
    void (*reports)(void *context, const struct block_report *reports, uint32_t blocks,
                    uint32_t channels, const struct watched_input *input);
    /* Its samples lie in the batch. */
    void (*result)(void *context, const struct result *result, const struct batch *batch);
    /* Looks at a bounded part of what was noted; false: nothing is left. Called once in a turn. */
    bool (*show)(void *context);
    /* Whether results in the batch were noted and not looked at yet. */
    bool (*keeps)(void *context, const struct batch *batch);
    /* Results in the batch (NULL: all results) are about to go. */
    void (*forget)(void *context, const struct batch *batch);
};

/* NULL: nobody watches. `watch` stays the caller's and outlives its use. */
void stream_watch(struct stream *stream, const struct stream_watch *watch);

/* Whether the ring is still the stream's, and holds what it held at this position and behind it. */
bool stream_watch_holds(const struct stream *stream, const struct ring *ring, uint64_t position);

/* ---- for the scheduler ------------------------------------------------------------------- */

/* Whether something was noted that the viewer has not looked at. */
bool stream_shows(const struct stream *stream);
/* Lets the viewer look at the next part of it. */
void stream_show(struct stream *stream);
/* Whether it has not looked at all results in the batch. */
bool stream_keeps(const struct stream *stream, const struct batch *batch);
/* The memory of results in the batch (NULL: of all) is needed, or goes. Also for move.c. */
void stream_forget_shown(struct stream *stream, const struct batch *batch);

/* ---- for deliver.c and ports.c, while somebody watches ------------------------------------- */

void watch_flight(struct stream *stream, const struct flight *flight,
                  const struct batch_item *item);
void watch_result(struct stream *stream, const struct result *result); /* of some frames */

#endif
