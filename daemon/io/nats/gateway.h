/*
 * Gateway: which frame of RAW each frame of its stream is, and what of them is kept for a RAW that
 * goes back or that another gateway has appended so far.
 *
 * A gateway that owns RAW numbers its input there. One that waits keeps what comes, as far as its
 * spool reaches, under numbers of its own. When it takes RAW over, the newest record says how the
 * sender numbers the frame behind it (numbered.h): that frame is looked for in what was kept, and
 * all from there on is renumbered and appended, in the same epoch. What it has not received either
 * is a gap, declared; one longer than `max gap` ends the epoch.
 *
 *     RAW    … the other one's frames ──────┤ next
 *     kept   oldest ─── (appended already) ─┼─── appended now ─── newest
 *
 * Input without numbers of its sender can be placed nowhere: a gateway that waits keeps none of it,
 * and begins an epoch when it takes over.
 *
 * Loop thread; never allocates.
 */
#ifndef CONVOLVD_IO_NATS_GATEWAY_H
#define CONVOLVD_IO_NATS_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "io/nats/pieces.h"
#include "io/sink.h"
#include "stream/result.h"
#include "wire/record.h"

/* All of it; the members are for gateway.c. */
struct nats_gateway {
    const struct sink_options *options;
    struct pieces *pieces;

    bool numbered;        /* its numbers begin somewhere */
    uint64_t local_epoch; /* of the stream: frame `local_from` of it is frame 0 of raw_epoch */
    uint64_t local_from;  /* modulo 2^64: it may lie before the stream's frame 0 */
    uint64_t raw_epoch;
    uint64_t timeline;              /* RAW's less the stream's, modulo 2^64 */
    uint64_t sent_epoch, sent_next; /* behind the last piece that was filled */
    struct record end; /* of the newest input, without frames: by what it is placed where no piece
                          of it is left; kind 0: none */
    int64_t began_ns;  /* when it began to receive the sender `ssrc` */
    bool receives;
    uint32_t ssrc;
};

/* What it is given outlives it. */
void gateway_open(struct nats_gateway *g, const struct sink_options *options,
                  struct pieces *pieces);

/* Where the input's frames from the returned one on lie in RAW; those before lie there already. */
uint32_t gateway_place(struct nats_gateway *g, const struct result *input,
                       struct piece_target *target);
/* So many of them went into pieces. */
void gateway_take(struct nats_gateway *g, const struct result *input,
                  const struct piece_target *target, uint32_t frames);
/* What comes belongs to another one's RAW, and cannot be placed: the next frame begins an epoch. */
void gateway_forget(struct nats_gateway *g);

/* Since when it receives the sender of this input without a break; INT64_MAX: it cannot tell. */
int64_t gateway_receives(struct nats_gateway *g, const struct result *input, int64_t now_ns);

/* Whether it has all that follows `newest`, where that is of its sender. */
bool gateway_holds(struct nats_gateway *g, const struct record *newest);

/* RAW ends with `newest`, and this gateway takes it. What waits in the pieces is then what follows.
 */
/* It is of this sink, or RAW is gone (kind 0): as it was appended before. */
void gateway_go_back(struct nats_gateway *g, const struct record *newest);
/* It is of another gateway or run that received the same sender. False: it is not. */
bool gateway_succeed(struct nats_gateway *g, const struct record *newest);
/* It is of any other: an epoch begins with what waits. */
void gateway_begin_anew(struct nats_gateway *g, const struct record *newest);

#endif
