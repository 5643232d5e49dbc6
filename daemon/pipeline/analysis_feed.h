/*
 * Analysis feed: brings the results of a stream to the thread of an analysis as runs of frames
 * (analysis/run.h). The loop copies each result once, into the frame ring, and puts a message with
 * its numbers beside it; the thread gets runs whose history lies before their samples.
 *
 *     loop: analysis_feed_put ──► frame ring + messages ──► thread: peek, release
 *
 * Every frame of an epoch becomes part of exactly one run, in order:
 *  - what the stream shed, as a run without samples, with the stream's causes;
 *  - what does not fit into the ring, as whole results, as a run without samples whose cause is
 *    `overload`; in the history that later frames see, these frames are zeros;
 *  - epochs all of which was dropped, while later ones came: only counted (`lumped`).
 * What cannot be told at once waits in a record of fixed size that merges and never forgets a
 * frame.
 *
 * Each declaration names its thread: LOOP or THREAD. Neither side waits, allocates or logs.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_FEED_H
#define CONVOLVD_PIPELINE_ANALYSIS_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "core/codec.h"
#include "core/message_ring.h"
#include "io/sink.h"
#include "pipeline/frame_ring.h"
#include "stream/result.h"

struct analysis_feed_options {
    uint32_t channels;
    double rate_hz;
    uint64_t history;      /* frames that the analysis reads before a run */
    uint64_t block_frames; /* the longest result */
    uint32_t marks_most;   /* of one result, of frames that rest on saturated inputs */
    struct message_ring *messages;
    /* LOOP. Called with frames before they are passed on, or kept to be told: they are pending
     * until the thread has taken them. */
    void (*pending)(void *context, uint64_t frames);
    void *context;
};

/* Consecutive frames of one epoch that were dropped and not yet told. */
struct feed_drop {
    bool any, begins, ends;
    uint64_t epoch, record, from, until;
    int64_t capture_ns, clock_error_ns; /* of `from` */
    enum clock_source clock;
    double delay_frames;
    bool aligned;
};

struct analysis_feed {
    struct analysis_feed_options options; /* immutable after open */
    uint64_t frame_bytes;

    /* loop */
    bool started, open;      /* something was put; its epoch has not ended */
    uint64_t epoch, record;  /* of what was put last … */
    uint64_t next;           /* … and the frame behind it */
    bool told_open;          /* the thread has been told of an epoch that has not ended … */
    uint64_t told_epoch;     /* … this one */
    uint64_t history;        /* frames of it that lie in the ring, in a row up to the newest */
    uint64_t missing;        /* frames of it told without samples behind them */
    struct feed_drop tail;   /* of the epoch that the thread knows */
    struct feed_drop newest; /* of a later one, which it has not been told of */
    uint64_t lumped;         /* frames of the epochs between these two */
    uint64_t dropped;        /* frames that did not fit, since the start */
    double frames_a_message; /* smoothed */

    /* shared */
    struct frame_ring ring;
    _Atomic bool untold; /* drops wait to be told */
};

/* What the thread takes. */
struct feed_message {
    enum {
        FEED_RUN,
        FEED_LUMPED, /* so many frames of epochs that it will not hear of */
        FEED_MARK,
    } kind;
    struct analysis_run run;
    uint64_t position; /* in the ring, of its samples */
    uint64_t lumped;
    const struct sink_mark *mark;
};

/* WORKER. Memory of the ring [bytes], at least the history and one result. 0 or ERROR_MEMORY. */
int analysis_feed_open(struct analysis_feed *feed, const struct analysis_feed_options *options,
                       uint64_t ring_bytes);
void analysis_feed_close(struct analysis_feed *feed); /* a zeroed one is fine */

/* LOOP. The caller wakes the thread. The result's saturated_inputs are by channel of the output, in
 * order of `from`. */
void analysis_feed_put(struct analysis_feed *feed, const struct result *result);
bool analysis_feed_mark(struct analysis_feed *feed, const struct sink_mark *mark);
/* LOOP. The epoch of what was put last ends here, if it has not ended yet: nobody goes on with it.
 * The caller wakes the thread. */
void analysis_feed_end(struct analysis_feed *feed);
/* LOOP, while every message is taken and nothing is untold: the place in the epoch, and the frames
 * that later runs have as their history, to write, to count, or to read into a feed just opened
 * with equal options (codec.h). False: what was read is of another one. */
bool analysis_feed_walk(struct analysis_feed *feed, struct codec *codec);
/* LOOP. Nothing was put since it was opened or read: it is as it was opened. */
void analysis_feed_forget(struct analysis_feed *feed);
/* LOOP; THREAD once the loop puts nothing more. Passes on what was dropped; false: something is
 * still untold. */
bool analysis_feed_tell(struct analysis_feed *feed);
/* LOOP. Frames that it takes now without a drop. */
uint64_t analysis_feed_room(const struct analysis_feed *feed);

/* THREAD. The oldest message, with its run complete; NULL: none. Valid until release. */
const struct feed_message *analysis_feed_peek(struct analysis_feed *feed);
/* THREAD. The message is done with; of its frames the history of later ones stays. */
void analysis_feed_release(struct analysis_feed *feed, const struct feed_message *message);

#endif
