/*
 * OSC server: one UDP and one TCP socket for the whole daemon, through which blocks come in,
 * questions are answered and results go out to those who subscribed.
 *
 *     datagram ─┐                        ┌─ /convolvd/STREAM/block ─► the stream's source
 * (osc/source.c) ├─► allowed? ─► osc_walk ┤ TCP ──────┘                        └─ all else ─►
 * control: what the service does with it
 *
 *     sink `osc` ─► osc_publish ─► subscriptions ─► peers
 *
 * Who gets what: only loopback, `trust`ed and `allow`ed addresses are listened to. An address that
 * is merely allowed may be forged: until it has answered a challenge it gets nothing but the
 * challenge, which is never larger than what was asked. A TCP connection, loopback and trusted
 * addresses need none. A subscription is a lease.
 *
 * Loop thread. Nothing is allocated per block: what goes out is built in memory made once; only
 * answers to questions use liblo. There is one server in a process (osc_server()), so that sources
 * and sinks find it without knowing who made it.
 */
#ifndef CONVOLVD_IO_OSC_SERVER_H
#define CONVOLVD_IO_OSC_SERVER_H

#include <lo/lo.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"
#include "core/log.h"
#include "wire/osc.h"
#include "stream/result.h"

struct osc;
struct osc_link; /* a TCP connection */

/* Somebody who asks, or to whom results go: an address and port, or a connection. */
struct osc_peer {
    bool used;
    struct osc *osc;
    struct osc_link *link; /* NULL: UDP */
    struct sockaddr_storage to;
    bool proven;        /* nobody could have forged it, or it has answered a challenge */
    bool narrow;        /* 64-bit numbers go there as two i */
    int32_t token;      /* of the challenge */
    int64_t expires_ns; /* monotonic */
};

/* What a subscription may be for. */
enum osc_topic {
    OSC_TOPIC_LEVELS = 1,
    OSC_TOPIC_ENVELOPE = 2,
    OSC_TOPIC_LATENCY = 4,
    OSC_TOPIC_RESULTS = 8,
};

enum { OSC_CHANNELS_MAX = 256 }; /* of levels and envelopes */

/* What only the service knows of a stream, for subscriptions. */
struct osc_measures {
    uint32_t channels;                /* of the input, at most OSC_CHANNELS_MAX */
    uint64_t clips[OSC_CHANNELS_MAX]; /* input samples at full scale so far */
    float total_us[3];                /* p50, p99, max: last frame received → handed over */
    float stage_us[STAGES];           /* p50 */
};

struct osc_options {
    const char *address;                     /* UDP; NULL: none */
    const char *tcp_address;                 /* NULL: none */
    const char *const *allow, *const *trust; /* "192.0.2.7", "10.0.0.0/8", "any" */
    uint32_t allow_count, trust_count;
    int64_t tcp_timeout_ns; /* an unfinished packet, or a reader that stands still, ends the
                               connection */
    int64_t lease_ns;
    uint64_t receive_buffer_bytes;
    void *context;
    void (*control)(void *context, struct osc_peer *peer, const struct osc_message *message);
    /* False: there is no such stream now. */
    bool (*measure)(void *context, const char *stream, struct osc_measures *measures);
};

/* Rows of control/osc_counters.c say what each is. */
struct osc_stats {
    struct osc_counts counts;
    uint64_t refused, socket_drops, unclaimed, homeless;
    uint64_t challenged, proven;
    uint64_t sent, dropped;
    uint64_t connected, connections_refused, closed_slow, closed_stuck, closed_framing;
    uint64_t leases, leases_expired;
    uint64_t connections, subscriptions, peers; /* now */
};

/* True when `text` is an entry for `allow` or `trust`. */
bool osc_network_valid(const char *text);

int osc_open(uv_loop_t *loop, const struct osc_options *options, struct osc **out,
             struct problem *problem);
/* Frees itself after uv's closes; NULL is fine. */
void osc_close(struct osc *osc);
struct osc *osc_server(void); /* NULL: none is open */
/* Of the server, or of the last one that was; false: there was none. */
bool osc_stats(struct osc_stats *stats);

/* ---- peers ------------------------------------------------------------------------------- */

/* The peer at another port of the same host (a patch that listens elsewhere); NULL: no room. */
struct osc_peer *osc_peer_at(struct osc_peer *peer, uint16_t port);
/* Sends the challenge unless it is proven. True when it is. */
bool osc_peer_prove(struct osc_peer *peer);
/* An answer to it: true when some peer of this host awaited the token. */
bool osc_peer_confirm(struct osc_peer *from, int32_t token);

/* Serialises with liblo, sends, and frees the message. */
void osc_answer(struct osc_peer *peer, const char *address, lo_message message);
/* h, or two i for a narrow peer. */
void osc_add_wide(const struct osc_peer *peer, lo_message message, uint64_t value);
/* One packet; false when it was dropped. */
bool osc_send(struct osc_peer *peer, const uint8_t *data, size_t bytes);

/* ---- subscriptions ----------------------------------------------------------------------- */

/* rate_hz: most messages a second, 0: the default. Renews one that is there. */
int osc_subscribe(struct osc_peer *peer, const char *stream, unsigned topics, double rate_hz,
                  struct problem *problem);
/* stream NULL: of all. Returns how many there were. */
unsigned osc_unsubscribe(struct osc_peer *peer, const char *stream);
/* Results of a stream, to all who asked for them. */
void osc_publish(const char *stream, const struct result *result);

#endif
