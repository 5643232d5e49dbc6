/*
 * The inside of an analysis stage, for analysis_stage.c, which runs it, and analysis_stage_state.c,
 * which writes and reads what it holds.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_STAGE_INTERNAL_H
#define CONVOLVD_PIPELINE_ANALYSIS_STAGE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/parameters.h"
#include "io/count_lock.h"
#include "io/sink_thread.h"
#include "pipeline/analysis_feed.h"
#include "pipeline/analysis_stage.h"
#include "pipeline/event_inlet.h"
#include "pipeline/parameter_inlet.h"

/* What the analysis has counted, as the thread passes it to the loop. */
enum { COUNTERS = sizeof(struct analysis_ledger) / sizeof(uint64_t) };
union ledger_counters {
    struct analysis_ledger ledger;
    uint64_t counters[COUNTERS];
};

struct analysis_stage {
    /* immutable once it has begun */
    struct analysis_stage_options options;
    const struct analysis_ops *ops;
    struct analysis_options own; /* of the analysis: emit and advance are the stage's */
    struct analysis_outlets outlets;
    struct analysis_stage *readers[ANALYSIS_READERS_MAX]; /* outlets.reader_count */
    bool begun;

    /* the thread's; the loop's while it is idle */
    struct analysis *analysis;
    struct parameter_track *parameters; /* of this stream; NULL: none are stamped here */
    uint64_t told_epoch, told_frame;    /* advance: events before it have been told */

    /* loop */
    uint64_t frames; /* put */
    struct analysis_stage_ledger last;
    uint64_t stopped_before, events_stopped_before; /* over the restart that it goes on from */
    int64_t deadline_ns;
    uint32_t closing;
    void (*closed)(void *context);
    void *closed_context;

    /* shared */
    struct parameter_inlet *others; /* parameters of other streams; NULL: none */
    struct sink_thread thread;
    struct analysis_feed feed; /* of one that takes frames … */
    struct event_inlet inlet;  /* … and of one that takes events */
    struct count_lock lock;
    /* Frames. unseen: dead ones that never came to the analysis; stopped: of them, with samples. */
    _Atomic uint64_t pending, unseen, stopped;
    _Atomic uint64_t counted[COUNTERS]; /* union ledger_counters */
    _Atomic int wakes_owed;             /* to a stream that waits for room: 2 after `room`, 1, 0 */
};

/* THREAD; LOOP while it waits. Publishes what the analysis has counted; `frames` have left the
 * ring, `unseen` of them for nobody, of these `stopped` at a deadline. */
void analysis_stage_publish(struct analysis_stage *stage, uint64_t frames, uint64_t unseen,
                            uint64_t stopped);
/* LOOP. What the threads ring, before the first of it may ring; twice is fine. */
void analysis_stage_open_handles(struct analysis_stage *stage);

#endif
