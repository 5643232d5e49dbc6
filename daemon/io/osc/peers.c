/* OSC peers: see peers.h. Loop thread. */
#include "io/osc/peers.h"

#include <assert.h>
#include <sys/random.h>

#include "core/clock.h"
#include "io/net/address.h"

enum {
    LOG_INTERVAL_S = 30,
    CHALLENGE_INTERVAL_MS = 250, /* to a sender of blocks */
};

/* ---- networks ---------------------------------------------------------------------------- */

int osc_networks_add(struct osc_networks *networks, const char *const *texts, uint32_t count,
                     struct problem *problem)
{
    for (uint32_t i = 0; i < count; i++) {
        if (networks->count == OSC_NETWORKS_MAX)
            return problem_set(problem, ERROR_LIMIT, "osc: more than %d networks; write wider ones",
                               OSC_NETWORKS_MAX);
        if (network_parse(texts[i], &networks->list[networks->count++]) != 0)
            return problem_set(problem, ERROR_ADDRESS,
                               "osc: `%s` is no address; write 192.0.2.7, 10.0.0.0/8 or any",
                               texts[i]);
    }
    return 0;
}

int osc_networks_trusted(struct osc_networks *networks, const char *const *trust, uint32_t count,
                         struct problem *problem)
{
    static const char *const loopback[] = {"127.0.0.0/8", "::1"};
    const int error = osc_networks_add(networks, loopback, 2, problem);
    return error != 0 ? error : osc_networks_add(networks, trust, count, problem);
}

bool osc_networks_hold(const struct osc_networks *networks, const struct sockaddr_storage *address)
{
    for (uint32_t i = 0; i < networks->count; i++)
        if (network_contains(&networks->list[i], address))
            return true;
    return false;
}

bool osc_peers_allowed(struct osc_peers *peers, const struct sockaddr_storage *from)
{
    if (osc_networks_hold(&peers->trust, from) || osc_networks_hold(&peers->allow, from))
        return true;
    char text[ADDRESS_TEXT];
    peers->stats->refused++;
    log_limited(&peers->refused_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: packets from %s refused; add its address to `allow` in [osc]",
                address_text(from, text));
    return false;
}

/* ---- the table --------------------------------------------------------------------------- */

static bool is_peer(const struct osc_peer *peer, const struct osc_link *link,
                    const struct sockaddr_storage *to)
{
    if (!peer->used || peer->link != link)
        return false;
    return link != NULL ||
           (address_port(&peer->to) == address_port(to) && address_same_host(&peer->to, to));
}

/* What a newcomer may replace, in this order. */
enum worth { FREE, UNPROVEN, IDLE, KEPT };

static enum worth worth_of(const struct osc_peer *peer)
{
    if (!peer->used)
        return FREE;
    if (!peer->proven)
        return UNPROVEN;
    return peer->link == NULL && peer->leases == 0 ? IDLE : KEPT;
}

/* The entry for a newcomer; NULL: every peer is kept. */
static struct osc_peer *replaceable(struct osc_peers *peers)
{
    struct osc_peer *found = NULL;
    enum worth least = KEPT;
    for (int i = 0; i < OSC_PEERS_MAX && least > FREE; i++) {
        struct osc_peer *peer = &peers->list[i];
        enum worth worth = worth_of(peer);
        if (worth < least ||
            (worth == least && found != NULL && peer->expires_ns < found->expires_ns)) {
            found = peer;
            least = worth;
        }
    }
    return found;
}

struct osc_peer *osc_peers_find(struct osc_peers *peers, struct osc_link *link,
                                const struct sockaddr_storage *to)
{
    int64_t now_ns = clock_monotonic_ns();
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &peers->list[i];
        if (!is_peer(peer, link, to))
            continue;
        peer->expires_ns = peer->proven ? now_ns + peers->lease_ns : peer->expires_ns;
        return peer;
    }
    struct osc_peer *peer = replaceable(peers);
    if (peer == NULL)
        return NULL;
    *peer = (struct osc_peer){.used = true,
                              .table = peers,
                              .link = link,
                              .to = *to,
                              .proven = link != NULL || osc_networks_hold(&peers->trust, to),
                              .expires_ns = now_ns + peers->lease_ns};
    if (getrandom(&peer->token, sizeof peer->token, 0) != (ssize_t)sizeof peer->token) {
        peer->used = false; /* a challenge that can be predicted proves nothing */
        return NULL;
    }
    return peer;
}

uint32_t osc_peers_count(const struct osc_peers *peers)
{
    uint32_t count = 0;
    for (int i = 0; i < OSC_PEERS_MAX; i++)
        count += peers->list[i].used;
    return count;
}

struct osc_peer *osc_peer_at(struct osc_peer *peer, uint16_t port)
{
    if (peer->link != NULL || port == 0)
        return peer;
    struct sockaddr_storage to = peer->to;
    address_set_port(&to, port);
    struct osc_peer *other = osc_peers_find(peer->table, NULL, &to);
    if (other != NULL && !is_peer(other, NULL, &peer->to))
        other->narrow = other->narrow || peer->narrow;
    return other;
}

/* ---- challenges -------------------------------------------------------------------------- */

bool osc_peer_prove(struct osc_peer *peer)
{
    if (peer->proven)
        return true;
    /* 16 bytes: no request that leads here is shorter. */
    uint8_t data[16];
    struct osc_writer writer = {.data = data, .capacity = sizeof data};
    osc_begin(&writer, "/prove", ",i");
    osc_put_int(&writer, peer->token);
    assert(!writer.full);
    peer->table->stats->challenged++;
    osc_send(peer, data, writer.bytes);
    return false;
}

bool osc_peer_confirm(struct osc_peer *from, int32_t token)
{
    struct osc_peers *peers = from->table;
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &peers->list[i];
        if (!peer->used || peer->proven || peer->token != token ||
            !address_same_host(&peer->to, &from->to))
            continue;
        peer->proven = true;
        peers->stats->proven++;
        peer->expires_ns = clock_monotonic_ns() + peers->lease_ns;
        return true;
    }
    return false;
}

bool osc_peers_blocks(struct osc_peers *peers, const struct osc_link *link,
                      const struct sockaddr_storage *from)
{
    if (link != NULL || osc_networks_hold(&peers->trust, from))
        return true;
    struct osc_peer *peer = osc_peers_find(peers, NULL, from);
    if (peer != NULL && peer->proven)
        return true;
    char text[ADDRESS_TEXT];
    int64_t now_ns = clock_monotonic_ns();
    peers->stats->blocks_unproven++;
    if (peer != NULL && now_ns >= peer->challenge_ns) {
        peer->challenge_ns = now_ns + CHALLENGE_INTERVAL_MS * NS_PER_MS;
        osc_peer_prove(peer);
    }
    log_limited(&peers->unproven_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: blocks from %s refused until it returns the challenge /prove; list it under "
                "`trust` in [osc] if it cannot",
                address_text(from, text));
    return false;
}

/* ---- sending ----------------------------------------------------------------------------- */

bool osc_send(struct osc_peer *peer, const uint8_t *data, size_t bytes)
{
    const struct osc_peers *peers = peer->table;
    bool sent = false;
    if (peer->link != NULL) {
        sent = osc_link_send(peer->link, data, bytes);
    } else if (peers->fd >= 0) {
        socklen_t length = peer->to.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                          : sizeof(struct sockaddr_in);
        sent = sendto(peers->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&peer->to, length) == (ssize_t)bytes;
    }
    peers->stats->sent += sent;
    peers->stats->dropped += !sent;
    return sent;
}
