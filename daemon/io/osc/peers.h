/*
 * OSC peers: everyone the server answers, each an address and port, or a TCP link. Also who may
 * speak to it at all, and whom an answer may reach.
 *
 * The server listens to loopback, `trust`ed and `allow`ed addresses only. An address that is merely
 * allowed may be forged: until it has answered a challenge it receives nothing but the challenge,
 * which is never larger than the request, and no block of it is taken. A link, loopback and trusted
 * addresses need none.
 *
 * The table has OSC_PEERS_MAX entries. A newcomer takes a free one, else replaces the oldest peer
 * that is not proven, else the oldest that holds no lease; links and lease holders stay.
 *
 * Loop thread; nothing is allocated after open.
 */
#ifndef CONVOLVD_IO_OSC_PEERS_H
#define CONVOLVD_IO_OSC_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/log.h"
#include "core/network.h"
#include "io/osc/hub.h"
#include "io/osc/tcp.h"

enum { OSC_PEERS_MAX = 64, OSC_NETWORKS_MAX = 32 };

struct osc_peers;

struct osc_peer {
    bool used;
    struct osc_peers *table;
    struct osc_link *link; /* NULL: UDP */
    struct sockaddr_storage to;
    bool proven;          /* nobody can have forged it, or it has answered a challenge */
    bool narrow;          /* it takes 64-bit numbers as two i */
    uint32_t leases;      /* subscriptions it holds: subscriptions.c counts them */
    int32_t token;        /* of the challenge */
    int64_t challenge_ns; /* when a block may bring it the next challenge */
    int64_t expires_ns;   /* monotonic */
};

struct osc_networks {
    struct network list[OSC_NETWORKS_MAX];
    uint32_t count;
};

struct osc_peers {
    int fd; /* of the UDP socket, owned by the server's receiver; -1: none */
    int64_t lease_ns;
    struct osc_networks allow, trust;
    struct osc_stats *stats; /* counted here: refused, challenged, proven, blocks_unproven, sent,
                                dropped */
    struct log_limit refused_limit, unproven_limit;
    struct osc_peer list[OSC_PEERS_MAX];
};

/* Adds networks ("192.0.2.7", "10.0.0.0/8", "any"). Returns 0, ERROR_ADDRESS or ERROR_LIMIT. */
int osc_networks_add(struct osc_networks *networks, const char *const *texts, uint32_t count,
                     struct problem *problem);

/* Adds this machine's loopback and those that `trust` lists. */
int osc_networks_trusted(struct osc_networks *networks, const char *const *trust, uint32_t count,
                         struct problem *problem);
bool osc_networks_hold(const struct osc_networks *networks, const struct sockaddr_storage *address);

/* Whether the server listens to this address; counts and logs a refusal. */
bool osc_peers_allowed(struct osc_peers *peers, const struct sockaddr_storage *from);

/* Whether blocks may be taken from this address. A sender of datagrams that is merely allowed is
 * challenged, a few times a second at most, until it has proven its address; counts and logs. */
bool osc_peers_blocks(struct osc_peers *peers, const struct osc_link *link,
                      const struct sockaddr_storage *from);

/* The peer at this link (or, with link NULL, address and port), added when it is new. NULL: every
 * entry is kept. */
struct osc_peer *osc_peers_find(struct osc_peers *peers, struct osc_link *link,
                                const struct sockaddr_storage *to);

/* Peers known at this instant. */
uint32_t osc_peers_count(const struct osc_peers *peers);

/* The peer at another port of the same host (a patch that listens elsewhere); NULL: no room. */
struct osc_peer *osc_peer_at(struct osc_peer *peer, uint16_t port);
/* Sends the challenge unless the peer is proven. Returns whether it is. */
bool osc_peer_prove(struct osc_peer *peer);
/* Takes the answer to a challenge. True when some peer of this host awaited the token. */
bool osc_peer_confirm(struct osc_peer *from, int32_t token);

/* Sends one packet; false when it was dropped. May close the peer's link, and with it the peer. */
bool osc_send(struct osc_peer *peer, const uint8_t *data, size_t bytes);

#endif
