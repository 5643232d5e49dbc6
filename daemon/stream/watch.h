/*
 * Watch: lets one viewer look at what a stream takes in and hands on, without a port: a watched
 * stream computes, delivers and counts exactly as one that nobody watches. While there is no viewer
 * this costs one comparison a batch.
 *
 * What the calls point to stays as it is until `flushed` returns: the viewer may look at it there,
 * when the results are on their way already. Loop thread.
 */
#ifndef CONVOLVD_STREAM_WATCH_H
#define CONVOLVD_STREAM_WATCH_H

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
    void (*result)(void *context, const struct result *result);
    void (*flushed)(void *context);
};

/* NULL: nobody watches. `watch` stays the caller's and outlives its use. */
void stream_watch(struct stream *stream, const struct stream_watch *watch);

/* For deliver.c: shows a completed flight to whoever watches; somebody does. */
void watch_flight(struct stream *stream, const struct flight *flight,
                  const struct batch_item *item);

#endif
