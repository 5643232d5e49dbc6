/*
 * The event sink interface: where the events of an analysis go (files, OSC), as io/sink.h is for
 * samples. One file a format; adding one is a file and a row in the table of io/event_sinks.c.
 *
 * Whoever runs it (event_writer.h) gives each sink a bounded queue and a thread of its own: `put`,
 * `mark`, `flush` and `close` come from there and may wait for a disk. What the queue cannot take
 * is dropped under a name.
 *
 * Ledger per sink: events put = delivered + each named drop + in flight.
 */
#ifndef CONVOLVD_IO_EVENT_SINK_H
#define CONVOLVD_IO_EVENT_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/analysis.h"
#include "io/check.h"
#include "io/environment.h"
#include "io/sink.h"

/* What all event sinks have. The driver's own options stand behind `own`. */
struct event_sink_options {
    const char *name;
    const struct analysis_ops *analysis; /* whose events it takes */
    const struct analysis_options *analysis_options;
    uint64_t queue_bytes; /* of the queue, see EVENT_SINK_ROW_QUEUE */
    void *own;            /* the driver's struct, event_sink_ops.options_bytes */
};

struct event_sink_ledger {
    uint64_t events;         /* put */
    uint64_t delivered;      /* written or sent */
    uint64_t pending;        /* in the queue at this instant */
    uint64_t dropped[DROPS]; /* enum drop */
    uint64_t bytes, files;   /* written or sent */
    uint64_t clipped;        /* samples that the format could not hold */
    /* What `put` took and a later write lost: not delivered, but dropped as `disk`. The queue moves
     * it from one to the other. */
    uint64_t lost;
};

struct event_sink;

struct event_sink_ops {
    const char *name;     /* the config's `type = NAME` */
    const char *sentence; /* what it is, in a few words of the manual */
    bool samples;         /* takes the samples of events as well; else they come without */

    const struct option_row *options;
    unsigned option_count;
    size_t options_bytes;
    void (*check)(const struct option_check *check, const struct daemon_facts *facts,
                  struct event_sink_options *options);
    /* The lines of `--check` behind the sink's name: the first says where events go; the others
     * begin with 19 spaces. */
    void (*report)(const struct event_sink_options *options, FILE *out);

    /* Worker thread. */
    int (*open)(const struct event_sink_options *options, const struct io_environment *environment,
                struct event_sink **out, struct problem *problem);
    /* Writes or sends one event; what it points to is valid until it returns. 0, or an error: the
     * event is dropped as `disk` (a file) or `socket`, logged at most once in a while by the sink.
     */
    int (*put)(struct event_sink *sink, const struct analysis_event *event);
    /* Something that somebody has noted, at a frame as the events are numbered. NULL: it keeps
     * none. */
    int (*mark)(struct event_sink *sink, const struct sink_mark *mark);
    /* flush_ns after the first event since the last flush: makes what was put readable for others.
     * May be NULL. */
    void (*flush)(struct event_sink *sink);
    /* Any thread: between flushes while events come; 0: once the queue is empty. NULL: 0. */
    int64_t (*flush_ns)(const struct event_sink_options *options);
    /* Finishes files and frees the sink. `ledger` is not called after it. */
    void (*close)(struct event_sink *sink);
    /* Any thread: adds bytes, files, clipped and lost; the rest is the queue's. May be NULL. */
    void (*ledger)(const struct event_sink *sink, struct event_sink_ledger *ledger);
};

/* The table in order; NULL past its end. */
const struct event_sink_ops *event_sink_at(int index);

#endif
