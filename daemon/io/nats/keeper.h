/*
 * Keeper of a log's settings: what commands change of a partition's stream becomes a record of kind
 * `change`, appended before the first frame that the stream computes with it; all records behind
 * it carry the same, so that a successor finds it in whatever record the log ends with. And the
 * other way round: what the log says when a term begins is in use before the first record of RAW is
 * read.
 *
 *     control: keep ──► waits ──► appended ──► acknowledged (KEPT) ──► LOG has `until` (SETTLED)
 *
 * Part of the sink `nats`; loop thread. Allocates when a change is kept or a term begins.
 */
#ifndef CONVOLVD_IO_NATS_KEEPER_H
#define CONVOLVD_IO_NATS_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/setting.h"
#include "io/nats/appender.h"
#include "io/nats/hub.h"
#include "io/nats/pieces.h"
#include "io/sink.h"

struct nats_keeper {
    /* immutable; all NULL: not open */
    const char *name;
    const struct cluster *cluster;
    struct nats_appender *appender;
    struct nats_partition *partition;
    const struct keeper_host *host;

    bool touched;                  /* this run has had a setting other than the configured one */
    struct setting_change *change; /* the newest; NULL: none */
    bool waits;                    /* to be appended, before piece number `behind` */
    bool sent, kept, settled;      /* … appended, acknowledged, not needed any more */
    uint64_t behind, token;
    bool resuming;        /* the host has been asked; then: what the log ended with */
    struct record newest; /* without what follows the header */
    bool computed;        /* there are results, by this plan */
    char plan[600];
};

/* What it is given outlives it. */
void nats_keeper_open(struct nats_keeper *k, const struct sink_options *options,
                      const struct cluster *cluster, struct nats_appender *appender,
                      struct nats_partition *partition);
void nats_keeper_close(struct nats_keeper *k);

/* A term begins behind `newest`. True: the stream computes with what the log says; false: the host
 * has been asked for that, and nats_keeper_resumed follows. */
bool nats_keeper_resume(struct nats_keeper *k, const struct record *newest);
/* True: as above, and the term may begin now. */
bool nats_keeper_resumed(struct nats_keeper *k, bool done);
/* Begins the term at the partition. True: the results so far are of another plan. */
bool nats_keeper_begin(struct nats_keeper *k);
/* The term is over. */
void nats_keeper_stop(struct nats_keeper *k);

/* The source begins an epoch of the stream with input frame `start` of the partition's. */
void nats_keeper_place(struct nats_keeper *k, uint64_t epoch, uint64_t start);

/* As keeper_ops; `owned`: the sink owns, and has resumed. */
bool nats_keeper_owns(struct nats_keeper *k, bool owned, uint64_t epoch,
                      struct keeper_frames *frames, struct problem *problem);
bool nats_keeper_settled(const struct nats_keeper *k);
void nats_keeper_keep(struct nats_keeper *k, struct pieces *pieces,
                      const struct setting_change *change);

/* As owner, before piece `number` is appended: appends the change where it is due. False: there is
 * no room. */
bool nats_keeper_before(struct nats_keeper *k, uint64_t number);
/* Appends were acknowledged. */
void nats_keeper_look(struct nats_keeper *k);

#endif
