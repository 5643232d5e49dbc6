/*
 * Hub: where the source and the sink of a stream that computes a partition meet. The sink holds the
 * appender at LOG and says when a term begins; the source then reads RAW from where that term needs
 * it. Both share the term.
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

struct nats_partition {
    const char *name;
    struct nats_partition *next;
    struct term term;
    bool running;          /* a term has begun, and the source was told or will be */
    uint64_t raw_sequence; /* where reading begins for it; 0: at the beginning */

    /* The source; NULL: it is not there. */
    void *source;
    void (*begin)(void *source);
    void (*end)(void *source);
    struct source_plan plan;
    /* The sink; NULL: likewise. */
    void *sink;
    void (*planned)(void *sink); /* source and sink are there, and `plan` is known */
    void (*left)(void *sink);    /* the source has gone: the term is over */
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
/* Freed once source and sink are both NULL. */
void nats_hub_leave(struct nats_hub *hub, struct nats_partition *partition);

/* By the sink: a term begins behind output frame `next` of `epoch`; it ends. */
void nats_partition_begin(struct nats_partition *p, uint64_t epoch, uint64_t next,
                          uint64_t raw_sequence);
void nats_partition_end(struct nats_partition *p);

#endif
