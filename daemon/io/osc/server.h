/*
 * OSC server: one UDP and one TCP socket for the whole daemon, through which blocks arrive,
 * requests are answered and results go to the peers that subscribed.
 *
 *     datagram ──┐                             ┌─ /convolvd/STREAM/block ─► hub ─► source `osc`
 *                ├─► allowed? ─► osc_walk ─────┤
 *     TCP link ──┘                             └─ anything else ─► options.control
 *
 *     sink `osc` ─► osc_publish ─► subscriptions ─► peers
 *
 * peers.h says who is listened to and answered, subscriptions.h what a lease is, tcp.h when a
 * connection ends.
 *
 * Loop thread. Nothing is allocated per block: what is sent is built in memory made once. Only
 * answers to requests use liblo.
 */
#ifndef CONVOLVD_IO_OSC_SERVER_H
#define CONVOLVD_IO_OSC_SERVER_H

#include <lo/lo.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/environment.h"
#include "io/osc/hub.h"
#include "io/osc/peers.h"
#include "io/osc/subscriptions.h"
#include "stream/result.h"
#include "wire/osc.h"

struct osc;

struct osc_options {
    const char *address;                     /* UDP; NULL: none */
    const char *tcp_address;                 /* NULL: none */
    const char *const *allow, *const *trust; /* "192.0.2.7", "10.0.0.0/8", "any" */
    uint32_t allow_count, trust_count;
    int64_t
        tcp_timeout_ns;  /* ends a link with an unfinished packet or a reader that accepts none */
    int64_t tcp_idle_ns; /* ends a link on which no packet goes either way */
    int64_t lease_ns;
    uint64_t receive_buffer_bytes;
    void *context;
    /* A message of an allowed peer that is no block; valid during the call. */
    void (*control)(void *context, struct osc_peer *peer, const struct osc_message *message);
    /* Types of the arguments of an address that has one signature; NULL: it has several, or none.
     */
    const char *(*signature)(const char *address);
    bool (*measure)(void *context, const char *stream, struct osc_measures *measures);
};

/* Opens the one server of this environment and enters it in the environment's hub, which must be
 * there. Returns 0 or an error whose sentence begins with "[osc]". */
int osc_open(const struct io_environment *environment, const struct osc_options *options,
             struct osc **out, struct problem *problem);
/* Leaves the hub at once, frees itself after uv's closes; NULL is fine. */
void osc_close(struct osc *osc);

/* Counters of the hub's server, or of the last one; false when there was none. */
bool osc_stats(const struct osc_hub *hub, struct osc_stats *stats);

/* The leases, for osc_subscribe and osc_unsubscribe. */
struct osc_subscriptions *osc_subscriptions(struct osc *osc);

/* Serialises with liblo, sends, and frees the message. */
void osc_answer(struct osc_peer *peer, const char *address, lo_message message);
/* Sends /convolvd/error: the address that was asked, and a sentence. */
void osc_answer_error(struct osc_peer *peer, const char *address, const char *text);
/* Adds h, or two i for a narrow peer. */
void osc_add_wide(const struct osc_peer *peer, lo_message message, uint64_t value);

/* Sends a result of a stream to every peer with a lease on it; without a server it does nothing. */
void osc_publish(const struct osc_hub *hub, const char *stream, const struct result *result);

#endif
