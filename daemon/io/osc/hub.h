/*
 * OSC hub: where the OSC server, the sources that take its blocks and the sinks that publish
 * through it find each other. They come and go independently: a reload replaces sources and sinks,
 * the server opens after the first streams and closes before the last.
 *
 *     source `osc` ── osc_hub_add ──► takers ◄── osc_hub_offer ── server ◄── osc_publish ── sink
 *
 * One object per process, a member of struct io_environment; all zero at the start, nothing to
 * free. The server counts into `stats`, so that the counters outlive it.
 *
 * Loop thread. `hub` may be NULL in osc_hub_add and osc_hub_remove: then no block arrives.
 */
#ifndef CONVOLVD_IO_OSC_HUB_H
#define CONVOLVD_IO_OSC_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/osc.h"

struct osc;
struct received;

/* Counters of the server; control/osc_counters.c has a sentence for each. */
struct osc_stats {
    struct osc_counts counts;
    uint64_t refused, socket_drops, unclaimed, peers_refused;
    uint64_t challenged, proven, blocks_unproven;
    uint64_t sent, dropped;
    uint64_t connected, connections_refused, closed_slow, closed_stuck, closed_idle, closed_framing;
    uint64_t leases, leases_expired, events_dropped;
    uint64_t connections, subscriptions, peers; /* at this instant */
};

/* A source that takes the blocks of one stream. */
struct osc_taker {
    const char *stream;
    void *context;
    void (*take)(void *context, const struct received *received);
    struct osc_taker *next; /* the hub's */
};

struct osc_hub {
    struct osc *server; /* NULL: none is open */
    bool served;        /* a server was opened: `stats` means something */
    struct osc_stats stats;
    struct osc_taker *takers;
};

/* Enters a taker, which stays the caller's; osc_hub_remove of one that is not entered is fine. */
void osc_hub_add(struct osc_hub *hub, struct osc_taker *taker);
void osc_hub_remove(struct osc_hub *hub, const struct osc_taker *taker);

/* Passes a block to the taker of the stream whose name is the first `length` bytes of `stream`.
 * False when no source takes blocks for it. */
bool osc_hub_offer(struct osc_hub *hub, const char *stream, size_t length,
                   const struct received *received);

#endif
