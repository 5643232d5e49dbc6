/*
 * Analysis outlets: where the events of one analysis go from its thread: into the store for those
 * who look at them live, to its sinks, and to the analyses that take them. What a queue cannot take
 * is dropped there by name; of a stream that can wait the thread waits instead.
 *
 * Each declaration names its thread: WORKER (before anything runs), THREAD or LOOP.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_OUTLETS_H
#define CONVOLVD_PIPELINE_ANALYSIS_OUTLETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/limits.h"
#include "io/event_writer.h"
#include "io/sink_thread.h"
#include "pipeline/analysis_store.h"
#include "pipeline/event_inlet.h"
#include "pipeline/event_totals.h"

enum { ANALYSIS_SINKS_MAX = 16, ANALYSIS_READERS_MAX = 8 };

struct analysis_outlets {
    /* immutable once the thread runs */
    struct sink_thread *thread; /* the one whose events leave */
    bool waits;
    /* Of a stream whose events a log has first (io/event_log.h): all of them leave through it, to
     * the loop, which passes them on. Closed: they leave the other way. */
    struct message_ring outbox;
    struct analysis_store *store;
    struct event_totals *totals;
    const struct analysis_limit *limits; /* [limit_count]: others do not leave */
    uint32_t limit_count;
    struct event_inlet *readers[ANALYSIS_READERS_MAX];
    uint32_t reader_count, sink_count;
    struct outlet_sink {
        struct event_writer *writer;     /* LOOP: NULL once closed */
        struct event_sink_ledger ledger; /* LOOP: the last one, when closed */
        struct analysis_outlets *outlets;
    } sinks[ANALYSIS_SINKS_MAX];

    /* shared */
    _Atomic uint64_t limited; /* events that did not hold the limits; hits once */
    _Atomic bool discards;    /* nobody wants what would go into the outbox */

    /* loop */
    uint32_t closing;
    void (*closed)(void *context);
    void *context;
};

/* WORKER. Opens store and totals; `own` outlives them. With `outbox_bytes` an outbox, too. 0 or
 * ERROR_MEMORY. */
int analysis_outlets_open(struct analysis_outlets *outlets, const struct analysis_ops *ops,
                          const struct analysis_options *own, uint64_t outbox_bytes);
/* What `open` has opened, all of it or a part; nobody reads it any more. */
void analysis_outlets_free(struct analysis_outlets *outlets);
/* Any thread. Of store and totals. */
uint64_t analysis_outlets_bytes(const struct analysis_ops *ops, const struct analysis_options *own);

/* THREAD. As analysis_options.emit and advance. */
void analysis_outlets_emit(struct analysis_outlets *outlets, const struct analysis_event *event);
void analysis_outlets_advance(struct analysis_outlets *outlets, uint64_t epoch, uint64_t frame);
/* THREAD. As analysis_ops.live, for those that take the events; whether one of them wants it. */
bool analysis_outlets_want_live(const struct analysis_outlets *outlets);
void analysis_outlets_live(struct analysis_outlets *outlets, const struct analysis_event *head);
void analysis_outlets_mark(struct analysis_outlets *outlets, const struct sink_mark *mark);

/* LOOP, of one with an outbox: an event or a mark of it goes on its way. What a queue cannot take
 * is dropped there by name. */
void analysis_outlets_pass_on(struct analysis_outlets *outlets,
                              const struct event_message *message);

/* LOOP, the thread has ended. Closes the sinks by the deadline [monotonic], then calls `closed`. */
void analysis_outlets_close(struct analysis_outlets *outlets, int64_t deadline_ns,
                            void (*closed)(void *context), void *context);
/* LOOP. */
void analysis_outlets_sink_ledger(struct analysis_outlets *outlets, uint32_t sink,
                                  struct event_sink_ledger *ledger);

#endif
