/* OSC server: UDP, who is listened to, who is answered; see osc.h. Loop thread. */
#include "io/osc/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/clock.h"
#include "io/osc/internal.h"

enum {
    TICK_MS = 500,
    LOG_INTERVAL_S = 30,
    PARTS_MAX = 4,
};

static struct osc *server;

struct osc *osc_server(void)
{
    return server;
}

static bool has_last;
static struct osc_stats last; /* of a server that is closed */

bool osc_stats(struct osc_stats *stats)
{
    const struct osc *osc = server;
    if (osc == NULL) {
        *stats = last;
        return has_last;
    }
    *stats = osc->stats;
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        stats->connections += osc->links[i] != NULL;
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++)
        stats->subscriptions += osc->subscriptions[i].used;
    for (int i = 0; i < OSC_PEERS_MAX; i++)
        stats->peers += osc->peers[i].used;
    return true;
}

/* ---- networks ---------------------------------------------------------------------------- */

static void to_bytes(const struct sockaddr_storage *address, uint8_t bytes[16])
{
    if (address->ss_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        return;
    }
    memset(bytes, 0, 10);
    bytes[10] = bytes[11] = 0xff;
    memcpy(bytes + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
}

static bool parse_network(const char *text, struct osc_network *network)
{
    char host[64];
    *network = (struct osc_network){0};
    if (strcmp(text, "any") == 0)
        return true;
    size_t length = strcspn(text, "/");
    if (length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    struct in_addr four;
    bool is_four = inet_pton(AF_INET, host, &four) == 1;
    if (is_four) {
        network->address[10] = network->address[11] = 0xff;
        memcpy(network->address + 12, &four, 4);
    } else if (inet_pton(AF_INET6, host, network->address) != 1) {
        return false;
    }
    unsigned most = is_four ? 32 : 128;
    unsigned bits = most;
    if (text[length] == '/') {
        char *end;
        unsigned long written = strtoul(text + length + 1, &end, 10);
        if (end == text + length + 1 || *end != '\0' || written > most)
            return false;
        bits = (unsigned)written;
    }
    network->bits = bits + 128 - most;
    return true;
}

bool osc_network_valid(const char *text)
{
    struct osc_network network;
    return parse_network(text, &network);
}

static bool in_network(const struct osc_network *network, const uint8_t bytes[16])
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(network->address, bytes, whole) != 0)
        return false;
    return rest == 0 || (network->address[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}

static bool in_networks(const struct osc_networks *networks, const struct sockaddr_storage *from)
{
    uint8_t bytes[16];
    to_bytes(from, bytes);
    for (uint32_t i = 0; i < networks->count; i++)
        if (in_network(&networks->list[i], bytes))
            return true;
    return false;
}

static int fill_networks(struct osc_networks *networks, const char *const *texts, uint32_t count,
                         struct problem *problem)
{
    for (uint32_t i = 0; i < count; i++) {
        if (networks->count == OSC_NETWORKS_MAX)
            return problem_set(problem, ERROR_LIMIT, "osc: more than %d networks; write wider ones",
                               OSC_NETWORKS_MAX);
        if (!parse_network(texts[i], &networks->list[networks->count++]))
            return problem_set(problem, ERROR_ADDRESS,
                               "osc: `%s` is no address; write 192.0.2.7, 10.0.0.0/8 or any",
                               texts[i]);
    }
    return 0;
}

bool osc_allowed(struct osc *osc, const struct sockaddr_storage *from)
{
    if (in_networks(&osc->trust, from) || in_networks(&osc->allow, from))
        return true;
    char text[SOCKET_TEXT];
    osc->stats.refused++;
    log_limited(&osc->refused_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: packets from %s refused; add its address to `allow` in [osc]",
                socket_text(from, text));
    return false;
}

/* ---- peers ------------------------------------------------------------------------------- */

static uint16_t port_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6
               ? ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port)
               : ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static bool is_peer(const struct osc_peer *peer, const struct osc_link *link,
                    const struct sockaddr_storage *to)
{
    if (!peer->used || peer->link != link)
        return false;
    return link != NULL || (port_of(&peer->to) == port_of(to) && socket_same_host(&peer->to, to));
}

static bool has_subscription(const struct osc *osc, const struct osc_peer *peer)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++)
        if (osc->subscriptions[i].used && osc->subscriptions[i].peer == peer)
            return true;
    return false;
}

/* Whose place is taken first by a newcomer: nobody's, then that of one who is not proven, then that
 * of one who has only asked. Connections and subscribers keep theirs. */
enum { FREE, UNPROVEN, ASKED, KEPT };

static int worth(const struct osc *osc, const struct osc_peer *peer)
{
    if (!peer->used)
        return FREE;
    if (!peer->proven)
        return UNPROVEN;
    return peer->link == NULL && !has_subscription(osc, peer) ? ASKED : KEPT;
}

static struct osc_peer *find_place(struct osc *osc)
{
    struct osc_peer *place = NULL;
    int least = KEPT;
    for (int i = 0; i < OSC_PEERS_MAX && least > FREE; i++) {
        struct osc_peer *peer = &osc->peers[i];
        int w = worth(osc, peer);
        if (w < least || (w == least && place != NULL && peer->expires_ns < place->expires_ns)) {
            place = peer;
            least = w;
        }
    }
    return place;
}

/* The peer, made when it is new. NULL: no place is free for it. */
static struct osc_peer *peer_of(struct osc *osc, struct osc_link *link,
                                const struct sockaddr_storage *to)
{
    int64_t now = clock_monotonic_ns();
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &osc->peers[i];
        if (!is_peer(peer, link, to))
            continue;
        peer->expires_ns = peer->proven ? now + osc->options.lease_ns : peer->expires_ns;
        return peer;
    }
    struct osc_peer *place = find_place(osc);
    if (place == NULL)
        return NULL;
    *place = (struct osc_peer){.used = true,
                               .osc = osc,
                               .link = link,
                               .to = *to,
                               .proven = link != NULL || in_networks(&osc->trust, to),
                               .expires_ns = now + osc->options.lease_ns};
    if (getrandom(&place->token, sizeof place->token, 0) != (ssize_t)sizeof place->token) {
        place->used = false; /* a challenge that can be guessed is none */
        return NULL;
    }
    return place;
}

struct osc_peer *osc_peer_at(struct osc_peer *peer, uint16_t port)
{
    if (peer->link != NULL || port == 0)
        return peer;
    struct sockaddr_storage to = peer->to;
    if (to.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)&to)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)&to)->sin_port = htons(port);
    struct osc_peer *other = peer_of(peer->osc, NULL, &to);
    if (other != NULL && !is_peer(other, NULL, &peer->to))
        other->narrow = other->narrow || peer->narrow;
    return other;
}

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
    peer->osc->stats.challenged++;
    osc_send(peer, data, writer.bytes);
    return false;
}

bool osc_peer_confirm(struct osc_peer *from, int32_t token)
{
    struct osc *osc = from->osc;
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &osc->peers[i];
        if (!peer->used || peer->proven || peer->token != token ||
            !socket_same_host(&peer->to, &from->to))
            continue;
        peer->proven = true;
        osc->stats.proven++;
        peer->expires_ns = clock_monotonic_ns() + osc->options.lease_ns;
        return true;
    }
    return false;
}

/* ---- out --------------------------------------------------------------------------------- */

bool osc_send(struct osc_peer *peer, const uint8_t *data, size_t bytes)
{
    struct osc *osc = peer->osc;
    bool gone = false;
    if (peer->link != NULL) {
        gone = osc_link_send(peer->link, data, bytes);
    } else if (osc->fd >= 0) {
        socklen_t length = peer->to.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                          : sizeof(struct sockaddr_in);
        gone = sendto(osc->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&peer->to, length) == (ssize_t)bytes;
    }
    osc->stats.sent += gone;
    osc->stats.dropped += !gone;
    return gone;
}

void osc_answer(struct osc_peer *peer, const char *address, lo_message message)
{
    size_t bytes = 0;
    void *data = lo_message_serialise(message, address, NULL, &bytes);
    if (data != NULL)
        osc_send(peer, data, bytes);
    free(data);
    lo_message_free(message);
}

void osc_add_wide(const struct osc_peer *peer, lo_message message, uint64_t value)
{
    if (!peer->narrow) {
        lo_message_add_int64(message, (int64_t)value);
        return;
    }
    lo_message_add_int32(message, (int32_t)(uint32_t)(value >> 32));
    lo_message_add_int32(message, (int32_t)(uint32_t)value);
}

/* ---- in ---------------------------------------------------------------------------------- */

struct arrival {
    struct osc *osc;
    struct osc_link *link;
    const struct sockaddr_storage *from;
    int64_t receive_ns, receive_realtime_ns;
};

static void arrive(void *context, const struct osc_message *message)
{
    const struct arrival *arrival = context;
    struct osc *osc = arrival->osc;
    struct osc_part parts[PARTS_MAX];
    int count = osc_address_parts(message->address, parts, PARTS_MAX);
    if (count == 2 && parts[1].length == 5 && memcmp(parts[1].text, "block", 5) == 0) {
        const struct received received = {.data = message->data,
                                          .bytes = message->bytes,
                                          .from = arrival->from,
                                          .receive_ns = arrival->receive_ns,
                                          .receive_realtime_ns = arrival->receive_realtime_ns};
        if (!osc_source_block(parts[0].text, parts[0].length, &received)) {
            osc->stats.unclaimed++;
            log_limited(&osc->fault_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                        "osc: blocks for %.*s refused: no stream of that name has `source = osc`",
                        (int)parts[0].length, parts[0].text);
        }
        return;
    }
    struct osc_peer *peer = peer_of(osc, arrival->link, arrival->from);
    if (peer != NULL)
        osc->options.control(osc->options.context, peer, message);
    else
        osc->stats.homeless++;
}

void osc_packet(struct osc *osc, struct osc_link *link, const struct sockaddr_storage *from,
                const uint8_t *data, size_t bytes, int64_t receive_ns, int64_t receive_realtime_ns)
{
    struct arrival arrival = {.osc = osc,
                              .link = link,
                              .from = from,
                              .receive_ns = receive_ns,
                              .receive_realtime_ns = receive_realtime_ns};
    enum osc_fault fault = osc_walk(data, bytes, &osc->stats.counts, arrive, &arrival);
    if (fault == OSC_OK)
        return;
    char text[SOCKET_TEXT];
    log_limited(&osc->fault_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: a packet of %zu bytes from %s refused: %s", bytes, socket_text(from, text),
                osc_fault_name(fault));
}

static void on_datagram(void *context, const struct received *received)
{
    struct osc *osc = context;
    if (!osc_allowed(osc, received->from))
        return;
    osc_packet(osc, NULL, received->from, received->data, received->truncated ? 0 : received->bytes,
               received->receive_ns, received->receive_realtime_ns);
}

static void on_drops(void *context, uint64_t datagrams)
{
    struct osc *osc = context;
    osc->stats.socket_drops += datagrams;
    log_limited(&osc->fault_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "osc: the socket dropped %llu datagrams; raise net.core.rmem_max",
                (unsigned long long)datagrams);
}

/* ---- life -------------------------------------------------------------------------------- */

void osc_forget_link(struct osc *osc, const struct osc_link *link)
{
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        if (!osc->peers[i].used || osc->peers[i].link != link)
            continue;
        osc_forget_peer(osc, &osc->peers[i]);
        osc->peers[i].used = false;
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct osc *osc = timer->data;
    int64_t now = clock_monotonic_ns();
    osc_subscriptions_tick(osc, now);
    osc_tcp_tick(osc, now);
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &osc->peers[i];
        if (!peer->used || peer->link != NULL || peer->expires_ns > now)
            continue;
        osc_forget_peer(osc, peer);
        peer->used = false;
    }
}

static int open_udp(struct osc *osc, struct problem *problem)
{
    const struct socket_receive_options wanted = {
        .stream = "osc",
        .address = osc->options.address,
        .buffer_bytes = osc->options.receive_buffer_bytes,
    };
    uint64_t granted;
    int error = socket_open_receive(&wanted, &osc->fd, &granted, problem);
    if (error != 0) {
        osc->fd = -1;
        return error;
    }
    const struct receiver_options receiver = {
        .stream = "osc", .fd = osc->fd, .context = osc, .datagram = on_datagram, .drops = on_drops};
    error = receiver_open(&receiver, &osc->receiver, problem);
    if (error == 0)
        error = receiver_start(osc->receiver, osc->loop, problem);
    if (error == 0)
        log_info("osc: UDP port %u", receiver_port(osc->receiver));
    return error;
}

int osc_open(uv_loop_t *loop, const struct osc_options *options, struct osc **out,
             struct problem *problem)
{
    static const char *const loopback[] = {"127.0.0.0/8", "::1"};
    assert(server == NULL);
    struct osc *osc = calloc(1, sizeof *osc);
    if (osc == NULL)
        return problem_set(problem, ERROR_MEMORY, "osc: out of memory");
    osc->loop = loop;
    osc->options = *options;
    osc->fd = osc->listen_fd = -1;
    uv_timer_init(loop, &osc->tick);
    osc->tick.data = osc;
    osc->closing = 1;
    int error = fill_networks(&osc->trust, loopback, 2, problem);
    if (error == 0)
        error = fill_networks(&osc->trust, options->trust, options->trust_count, problem);
    if (error == 0)
        error = fill_networks(&osc->allow, options->allow, options->allow_count, problem);
    if (error == 0 && options->address != NULL)
        error = open_udp(osc, problem);
    if (error == 0 && options->tcp_address != NULL)
        error = osc_tcp_open(osc, problem);
    if (error != 0) {
        problem_prefix(problem, error, "[osc]");
        osc_close(osc);
        return error;
    }
    uv_timer_start(&osc->tick, on_tick, TICK_MS, TICK_MS);
    server = osc;
    *out = osc;
    return 0;
}

void osc_handle_closed(struct osc *osc)
{
    if (--osc->closing == 0)
        free(osc);
}

static void on_timer_closed(uv_handle_t *handle)
{
    osc_handle_closed(handle->data);
}

static void on_receiver_closed(void *context)
{
    osc_handle_closed(context);
}

void osc_close(struct osc *osc)
{
    if (osc == NULL)
        return;
    if (server == osc) {
        has_last = osc_stats(&last);
        last.connections = last.subscriptions = last.peers = 0;
        server = NULL;
    }
    memset(osc->subscriptions, 0, sizeof osc->subscriptions);
    osc_tcp_close(osc);
    osc->fd = -1;
    if (osc->receiver != NULL) {
        osc->closing++;
        receiver_stop(osc->receiver);
        receiver_close(osc->receiver, on_receiver_closed, osc);
    }
    uv_close((uv_handle_t *)&osc->tick, on_timer_closed);
}
