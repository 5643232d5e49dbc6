/*
 * Analysis stage: one analysis (analysis/analysis.h) that runs beside a stream, on a thread of its
 * own. It takes the results of the stream, or the events of another analysis, and passes its events
 * on to its sinks and to the analyses that read it.
 *
 *     stream ─► analysis_feed ─► thread: put ─► emit ─┬─► event_writer (a sink, thread of its own)
 *                                                     ├─► event_inlet ─► another stage's thread
 *                                                     └─► analysis_store, event_totals, for those
 *                                                         who look
 *
 * Nothing here blocks the loop: what a live stream delivers and the ring cannot take is dropped as
 * whole results and becomes dead time; what a queue cannot take is dropped there by name. Of a
 * stream that can wait the thread waits for its sinks instead, and the stream waits for the thread.
 *
 * Two ledgers add up at every instant: frames = live + dead + pending, and for each taker of events
 * events = delivered + each named drop + pending.
 *
 * Each declaration names its thread: WORKER (before anything runs) or LOOP.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_STAGE_H
#define CONVOLVD_PIPELINE_ANALYSIS_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "analysis/analysis.h"
#include "io/event_sink.h"
#include "pipeline/analysis_outlets.h"
#include "stream/result.h"

struct analysis_stage_options {
    uv_loop_t *loop;
    const struct analysis_ops *ops;
    const struct analysis_options *options; /* copied; `emit` is the stage's */
    uint64_t queue_bytes;                   /* of frames, or of events */
    uint32_t marks_most;                    /* of one result: see analysis_feed.h */
    const struct analysis_limit *limits; /* [limit_count], see analysis/limits.h; they outlive it */
    uint32_t limit_count;
    bool waits;  /* the stream can wait: nothing is dropped but at a deadline */
    bool logged; /* a log has its events before anybody else (io/event_log.h): analysis_stage_event
                  */
    /* LOOP: there is room again after analysis_stage_room had said 0. May be NULL. */
    void (*room_again)(void *context);
    void *context;
};

struct event_message;

struct analysis_stage_ledger {
    uint64_t frames, live, dead, pending;
    uint64_t dropped[DROPS];         /* frames among the dead ones, by what dropped them */
    uint64_t taken, taken_pending;   /* events of another analysis … */
    uint64_t taken_dropped[DROPS];   /* … and of these, what it never saw */
    struct analysis_ledger analysis; /* what the analysis itself has counted */
};

struct analysis_stage;
struct parameter_inlet;

/* The most that it holds [bytes]: rings and the analysis itself; `logged`: with its events on their
 * way to a log. Any thread. */
uint64_t analysis_stage_memory(const struct analysis_ops *ops,
                               const struct analysis_options *options, uint64_t queue_bytes,
                               bool logged);

/* WORKER. Nothing of it runs yet. block_frames: of the longest result. */
int analysis_stage_open(const struct analysis_stage_options *options, uint64_t block_frames,
                        struct analysis_stage **out, struct problem *problem);
/* WORKER. Opens a sink for its events. At most ANALYSIS_SINKS_MAX. */
int analysis_stage_add_sink(struct analysis_stage *stage, const struct event_sink_ops *ops,
                            const struct event_sink_options *options,
                            const struct io_environment *environment, struct problem *problem);
/* WORKER. `reader` takes its events, and is closed with it. At most ANALYSIS_READERS_MAX. */
int analysis_stage_add_reader(struct analysis_stage *stage, struct analysis_stage *reader,
                              struct problem *problem);
/* WORKER, once all are added. */
int analysis_stage_begin(struct analysis_stage *stage, struct problem *problem);

/* LOOP. As a port of the stream takes results; see result_port. What rests on inputs near full
 * scale comes by channel of the output, in order of `from`. */
void analysis_stage_put(struct analysis_stage *stage, const struct result *result);
uint64_t analysis_stage_room(struct analysis_stage *stage);
/* LOOP. Passes a mark on to its sinks, in its place among the events. False: no room. */
bool analysis_stage_mark(struct analysis_stage *stage, const struct sink_mark *mark);
/* LOOP, of one that is logged: the oldest event or mark that has left the analysis and was not
 * taken; NULL: there is none now, `room_again` says when there may be. Valid until taken. */
const struct event_message *analysis_stage_event(struct analysis_stage *stage);
void analysis_stage_take_event(struct analysis_stage *stage);
/* LOOP, likewise. Passes one on to those who look and to its sinks. */
void analysis_stage_pass_on(struct analysis_stage *stage, const struct event_message *message);
/* LOOP, likewise. Nobody wants its events until analysis_stage_walk has read another state. */
void analysis_stage_discard(struct analysis_stage *stage);

/* LOOP. All that was put has been analysed, here and by its readers, and the threads wait; if not,
 * room_again says when that may be. */
bool analysis_stage_idle(struct analysis_stage *stage);

/* LOOP, while it is idle: all of its state, to write, to count, or to read into a stage with equal
 * options into which nothing was put (codec.h): what the analysis holds, the frames before the next
 * run, and what is counted. False: what was read is no state of it, and it is as new. */
bool analysis_stage_walk(struct analysis_stage *stage, struct codec *codec);
/* LOOP, while it is idle: frames of the epoch that events still to come rest on, up to the newest
 * one. 0 for one that takes events. */
uint64_t analysis_stage_held(const struct analysis_stage *stage);
/* LOOP. So many frames that another one held before it are part of no event: they are dead, dropped
 * by a stop. */
void analysis_stage_lose(struct analysis_stage *stage, uint64_t frames);
/* LOOP, while it is idle: nobody goes on from it, so the epoch ends for it: what is open is cut,
 * and told. One that takes events: only while the one that puts them is idle, too, and stays so. */
void analysis_stage_end(struct analysis_stage *stage);

/* LOOP. Analyses what it holds, closes its sinks and readers, then calls `closed`. What is left
 * half way to the deadline [monotonic] is dropped, so that those behind it have the rest of the
 * time. */
void analysis_stage_close(struct analysis_stage *stage, int64_t deadline_ns,
                          void (*closed)(void *context), void *context);
/* Closed, or never begun; frees no reader. NULL is fine. */
void analysis_stage_free(struct analysis_stage *stage);

/* LOOP. Where its parameters of other streams come in (parameter_links.h); NULL: there are none. */
struct parameter_inlet *analysis_stage_parameters(const struct analysis_stage *stage);

/* Any thread: its last events. */
const struct analysis_store *analysis_stage_store(const struct analysis_stage *stage);
/* Any thread: what they add up to on each channel. */
const struct event_totals *analysis_stage_totals(const struct analysis_stage *stage);

/* LOOP. */
void analysis_stage_ledger(struct analysis_stage *stage, struct analysis_stage_ledger *ledger);
uint32_t analysis_stage_sinks(const struct analysis_stage *stage);
void analysis_stage_sink_ledger(struct analysis_stage *stage, uint32_t sink,
                                struct event_sink_ledger *ledger);

#endif
