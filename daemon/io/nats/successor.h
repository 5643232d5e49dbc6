/*
 * Successor of a gateway: one that waits receives the same sender and would go on in the epoch of
 * RAW where the owner ends. It says so in its questions for the owner, whose body is the sender's
 * SSRC in decimal. An owner that is stopped then leaves the epoch open.
 *
 * Loop thread; never allocates.
 */
#ifndef CONVOLVD_IO_NATS_SUCCESSOR_H
#define CONVOLVD_IO_NATS_SUCCESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "io/nats/link.h"

/* Starts zeroed: it says nothing, and has heard of nobody. */
struct nats_successor {
    char says[16]; /* the body of a question */
    bool heard;
    uint32_t ssrc;    /* as the newest question that named one … */
    int64_t heard_ns; /* … and when it came */
};

/* From now on its questions say that it receives this sender. */
void nats_successor_say(struct nats_successor *s, uint32_t ssrc);
/* As owner: a question came, whose payload is of any bytes. */
void nats_successor_hear(struct nats_successor *s, int64_t now_ns,
                         const struct nats_event *question);
/* Whether somebody waits who receives this sender. */
bool nats_successor_waits(const struct nats_successor *s, int64_t now_ns, uint32_t ssrc);

#endif
