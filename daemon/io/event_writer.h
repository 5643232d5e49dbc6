/*
 * Event writer: runs one event sink (event_sink.h) on a thread of its own behind a bounded queue,
 * so that neither the analysis nor the loop ever waits for a disk.
 *
 *     analysis' thread: event_writer_put ──► queue ──► writer's thread: sink.put, flush, close
 *
 * What does not fit into the queue is dropped as `queue`, what a failed write loses as `disk`, what
 * is left at the deadline of a close as `stopped`. The ledger adds up at every instant:
 * events = delivered + each named drop + pending.
 *
 * Each declaration names its thread: WORKER (before anything runs), PRODUCER (one thread), LOOP.
 */
#ifndef CONVOLVD_IO_EVENT_WRITER_H
#define CONVOLVD_IO_EVENT_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/event_sink.h"

struct event_writer;

/* WORKER. Opens the sink and starts its thread. Options and what they point to outlive it. */
int event_writer_open(const struct event_sink_ops *ops, const struct event_sink_options *options,
                      const struct io_environment *environment, struct event_writer **out,
                      struct problem *problem);

/* PRODUCER. Takes the event into the queue if this sink wants it (each event comes to it once, in
 * order). False: there is no room now, and nothing is counted; event_writer_drop then. */
bool event_writer_put(struct event_writer *writer, const struct analysis_event *event);
/* PRODUCER. The event is given up for this sink. */
void event_writer_drop(struct event_writer *writer);
/* PRODUCER. Whether the queue can ever hold the event, once it is empty. */
bool event_writer_can_hold(const struct event_writer *writer, const struct analysis_event *event);
/* PRODUCER. False: no room; marks are not counted. */
bool event_writer_mark(struct event_writer *writer, const struct sink_mark *mark);

/* LOOP. The producer puts nothing more. `closed` is called once, from the loop, when all is written
 * or the deadline [monotonic] has passed; a sink that hangs a second longer is abandoned. The
 * writer answers `ledger` until `closed` returns, and is gone then. */
void event_writer_close(struct event_writer *writer, int64_t deadline_ns,
                        void (*closed)(void *context), void *context);
/* LOOP. */
void event_writer_ledger(struct event_writer *writer, struct event_sink_ledger *ledger);

#endif
