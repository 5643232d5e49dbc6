/*
 * Hub: where the source and the sink of a stream that computes a partition meet. The sink holds the
 * appender at LOG and says when a term begins; the source then reads RAW, or what it holds of the
 * input itself, from where that term needs it. Both share the term.
 *
 *     sink: appender ── resume ──► begin ──► source: reads RAW ──► stream ──► sink: term_cut ──►
 * LOG └─ stop ────► end
 *
 * Loop thread.
 */
#ifndef CONVOLVD_IO_NATS_HUB_H
#define CONVOLVD_IO_NATS_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/term.h"
#include "io/nats/presence.h"
#include "io/source.h"
#include "wire/record.h"

struct nats_appender;

struct nats_partition {
    const char *name;
    struct nats_partition *next;
    struct term term;
    bool running;         /* a term has begun, and the source was told or will be */
    struct record newest; /* what the log ended with then; without what follows the header */

    /* The source; NULL: it is not there. */
    void *source;
    void (*begin)(void *source);
    void (*end)(void *source);
    void (*replan)(void *source); /* `plan` as the stream's is now */
    struct source_plan plan;
    /* The sink; NULL: likewise. */
    void *sink;
    void (*planned)(void *sink); /* source and sink are there, and `plan` is known */
    /* The next packet begins an epoch of the stream: input frame `start` of this one. */
    void (*place)(void *sink, uint64_t epoch, uint64_t start);
    void (*left)(void *sink); /* the source has gone: the term is over */
    struct nats_appender *appender;
};

/* One for the process; starts zeroed. */
struct nats_hub {
    struct nats_presence presence;
    struct nats_partition *first;
};

/* The partition of this name whose source (or sink) is not there yet; makes it. NULL: no memory.
 * `name` outlives it. */
struct nats_partition *nats_hub_source(struct nats_hub *hub, const char *name);
struct nats_partition *nats_hub_sink(struct nats_hub *hub, const char *name);
/* The source leaves: what the stream makes of its end is nobody's, since the next owner computes it
 * from true input. */
void nats_hub_source_leaves(struct nats_hub *hub, struct nats_partition *partition);
/* Freed once source and sink are both NULL. */
void nats_hub_leave(struct nats_hub *hub, struct nats_partition *partition);

/* By the sink: a term begins behind the log's newest record; it ends. */
void nats_partition_begin(struct nats_partition *p, const struct record *newest);
void nats_partition_end(struct nats_partition *p);
/* By the source, before it puts the packet that begins an epoch of the stream. */
void nats_partition_place(const struct nats_partition *p, uint64_t epoch, uint64_t start);

#endif
