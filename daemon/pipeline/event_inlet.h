/*
 * Event inlet: the queue through which one analysis takes the events of another (of type hits, say,
 * into a location), from thread to thread. The ring is that of the taker's thread
 * (io/sink_thread.h); here are what goes in, and the counts: taken = seen + each drop + pending at
 * every instant.
 *
 * Each declaration names its thread: PRODUCER (of the events), THREAD (that takes them), LOOP.
 */
#ifndef CONVOLVD_PIPELINE_EVENT_INLET_H
#define CONVOLVD_PIPELINE_EVENT_INLET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "io/count_lock.h"
#include "io/event_message.h"
#include "io/sink_thread.h"

struct event_inlet {
    struct sink_thread *thread;
    struct count_lock *lock; /* the taker's */
    bool wants_live;         /* immutable: whether the analysis has `live` */
    _Atomic uint64_t taken, seen, pending, queue_drops, stopped;
};

/* PRODUCER. False: there is no room now, and nothing is counted. */
bool event_inlet_put(struct event_inlet *inlet, const struct analysis_event *event);
/* PRODUCER. The event is given up. */
void event_inlet_drop(struct event_inlet *inlet);
/* PRODUCER. Whether the queue can ever hold the event, once it is empty. */
bool event_inlet_can_hold(const struct event_inlet *inlet, const struct analysis_event *event);
/* PRODUCER. False: there is no room now. */
bool event_inlet_advance(struct event_inlet *inlet, uint64_t epoch, uint64_t frame);
bool event_inlet_live(struct event_inlet *inlet, const struct analysis_event *head);
bool event_inlet_mark(struct event_inlet *inlet, const struct sink_mark *mark);

/* THREAD. The event taken last was put into the analysis, or dropped at a deadline. */
void event_inlet_done(struct event_inlet *inlet, bool seen);

#endif
