/* OSC server: see server.h. Loop thread. */
#include "io/osc/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/address.h"
#include "io/net/receiver.h"
#include "io/net/socket.h"
#include "io/osc/tcp.h"

enum {
    TICK_MS = 500,
    LOG_INTERVAL_S = 30,
    TOLERATED_INTERVAL_S = 600,
    PARTS_MAX = 4,
};

struct osc {
    struct io_environment environment;
    struct osc_options options;
    struct osc_hub *hub;
    struct receiver *receiver; /* owns the UDP socket; NULL: none */
    struct osc_tcp *tcp;       /* NULL: none */
    uv_timer_t tick;
    unsigned closing; /* parts that are not closed yet */
    struct osc_peers peers;
    struct osc_subscriptions subscriptions;
    struct log_limit fault_limits[OSC_FAULTS], tolerated_limits[OSC_TOLERATED];
    struct log_limit unclaimed_limit, drops_limit;
};

bool osc_stats(const struct osc_hub *hub, struct osc_stats *stats)
{
    *stats = hub->stats;
    if (hub->server != NULL) {
        const struct osc *osc = hub->server;
        stats->connections = osc->tcp != NULL ? osc_tcp_links(osc->tcp) : 0;
        stats->subscriptions = osc_subscriptions_count(&osc->subscriptions);
        stats->peers = osc_peers_count(&osc->peers);
    }
    return hub->served;
}

struct osc_subscriptions *osc_subscriptions(struct osc *osc)
{
    return &osc->subscriptions;
}

/* ---- out --------------------------------------------------------------------------------- */

void osc_answer(struct osc_peer *peer, const char *address, lo_message message)
{
    size_t bytes = 0;
    void *data = lo_message_serialise(message, address, NULL, &bytes);
    if (data != NULL)
        osc_send(peer, data, bytes);
    free(data);
    lo_message_free(message);
}

void osc_answer_error(struct osc_peer *peer, const char *address, const char *text)
{
    lo_message message = lo_message_new();
    lo_message_add_string(message, address);
    lo_message_add_string(message, text);
    osc_answer(peer, "/convolvd/error", message);
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

void osc_publish(const struct osc_hub *hub, const char *stream, const struct result *result)
{
    if (hub != NULL && hub->server != NULL && !(result->flags & RESULT_RAW))
        osc_subscriptions_publish(&hub->server->subscriptions, stream, result);
}

/* ---- in ---------------------------------------------------------------------------------- */

struct arrival {
    struct osc *osc;
    struct osc_link *link;
    const struct sockaddr_storage *from;
    int64_t receive_ns, receive_realtime_ns;
};

static void take_block(const struct arrival *arrival, const struct osc_part *stream,
                       const struct osc_message *message)
{
    struct osc *osc = arrival->osc;
    if (!osc_peers_blocks(&osc->peers, arrival->link, arrival->from))
        return;
    const struct received received = {.data = message->data,
                                      .bytes = message->bytes,
                                      .from = arrival->from,
                                      .receive_ns = arrival->receive_ns,
                                      .receive_realtime_ns = arrival->receive_realtime_ns};
    if (osc_hub_offer(osc->hub, stream->text, stream->length, &received))
        return;
    osc->hub->stats.unclaimed++;
    log_limited(&osc->unclaimed_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: blocks for %.*s refused: no stream of that name has `source = osc`",
                (int)stream->length, stream->text);
}

/* Names a deviation that is tolerated, now and then. */
static void name_tolerated(const struct arrival *arrival, const struct osc_message *message)
{
    char text[ADDRESS_TEXT];
    for (int i = 0; i < OSC_TOLERATED; i++)
        if (message->tolerated >> i & 1)
            log_limited(
                &arrival->osc->tolerated_limits[i], TOLERATED_INTERVAL_S * NS_PER_SECOND,
                LOG_LEVEL_INFO, "osc: messages from %s deviate from OSC 1.0 and are taken: %s",
                address_text(arrival->from, text), osc_tolerated_name((enum osc_tolerated)i));
}

static void on_message(void *context, const struct osc_message *message)
{
    static const char block[] = "block";
    const struct arrival *arrival = context;
    struct osc *osc = arrival->osc;
    if (message->tolerated != 0)
        name_tolerated(arrival, message);
    struct osc_part parts[PARTS_MAX];
    int count = osc_address_parts(message->address, parts, PARTS_MAX);
    if (count == 2 && parts[1].length == sizeof block - 1 &&
        memcmp(parts[1].text, block, sizeof block - 1) == 0) {
        take_block(arrival, &parts[0], message);
        return;
    }
    struct osc_peer *peer = osc_peers_find(&osc->peers, arrival->link, arrival->from);
    if (peer != NULL)
        osc->options.control(osc->options.context, peer, message);
    else
        osc->hub->stats.peers_refused++;
}

static void on_packet(void *context, struct osc_link *link, const struct sockaddr_storage *from,
                      const uint8_t *data, size_t bytes, int64_t receive_ns,
                      int64_t receive_realtime_ns)
{
    struct osc *osc = context;
    struct arrival arrival = {.osc = osc,
                              .link = link,
                              .from = from,
                              .receive_ns = receive_ns,
                              .receive_realtime_ns = receive_realtime_ns};
    enum osc_fault fault = osc_walk_untagged(data, bytes, &osc->hub->stats.counts,
                                             osc->options.signature, on_message, &arrival);
    if (fault == OSC_OK)
        return;
    char text[ADDRESS_TEXT];
    log_limited(&osc->fault_limits[fault], LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "osc: a packet of %zu bytes from %s refused: %s%s", bytes, address_text(from, text),
                osc_fault_name(fault),
                fault == OSC_FAULT_UNTAGGED
                    ? " (its address takes arguments of several types: the sender has to name them)"
                    : "");
}

static bool on_connection(void *context, const struct sockaddr_storage *from)
{
    struct osc *osc = context;
    return osc_peers_allowed(&osc->peers, from);
}

static void on_datagram(void *context, const struct received *received)
{
    struct osc *osc = context;
    if (osc_peers_allowed(&osc->peers, received->from))
        on_packet(osc, NULL, received->from, received->data,
                  received->truncated ? 0 : received->bytes, received->receive_ns,
                  received->receive_realtime_ns);
}

static void on_drops(void *context, uint64_t datagrams)
{
    struct osc *osc = context;
    osc->hub->stats.socket_drops += datagrams;
    log_limited(&osc->drops_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "osc: the socket dropped %llu datagrams; raise net.core.rmem_max",
                (unsigned long long)datagrams);
}

/* ---- life -------------------------------------------------------------------------------- */

static void forget_peer(struct osc *osc, struct osc_peer *peer)
{
    osc_unsubscribe(&osc->subscriptions, peer, NULL);
    peer->used = false;
}

static void on_link_gone(void *context, const struct osc_link *link)
{
    struct osc *osc = context;
    for (int i = 0; i < OSC_PEERS_MAX; i++)
        if (osc->peers.list[i].used && osc->peers.list[i].link == link)
            forget_peer(osc, &osc->peers.list[i]);
}

static void on_tick(uv_timer_t *timer)
{
    struct osc *osc = timer->data;
    int64_t now_ns = clock_monotonic_ns();
    osc_subscriptions_tick(&osc->subscriptions, now_ns);
    if (osc->tcp != NULL)
        osc_tcp_tick(osc->tcp, now_ns);
    for (int i = 0; i < OSC_PEERS_MAX; i++) {
        struct osc_peer *peer = &osc->peers.list[i];
        if (peer->used && peer->link == NULL && peer->expires_ns <= now_ns)
            forget_peer(osc, peer);
    }
}

static int open_udp(struct osc *osc, struct problem *problem)
{
    struct handover *handover = osc->environment.handover;
    const struct socket_receive_options wanted = {
        .stream = "osc",
        .address = osc->options.address,
        .buffer_bytes = osc->options.receive_buffer_bytes,
        .handover = handover,
    };
    uint64_t granted;
    int fd;
    int error = socket_open_receive(&wanted, &fd, &granted, NULL, problem);
    if (error != 0)
        return error;
    const struct receiver_options receiver = {
        .stream = "osc",
        .fd = fd,
        .handover = handover,
        .context = osc,
        .datagram = on_datagram,
        .drops = on_drops,
    };
    error = receiver_open(&receiver, &osc->receiver, problem);
    if (error == 0)
        error = receiver_start(osc->receiver, osc->environment.loop, problem);
    if (error != 0)
        return error;
    osc->peers.fd = fd;
    log_info("osc: UDP port %u", receiver_port(osc->receiver));
    return 0;
}

static int open_tcp(struct osc *osc, struct problem *problem)
{
    const struct osc_tcp_options options = {
        .address = osc->options.tcp_address,
        .timeout_ns = osc->options.tcp_timeout_ns,
        .idle_ns = osc->options.tcp_idle_ns,
        .stats = &osc->hub->stats,
        .context = osc,
        .allowed = on_connection,
        .packet = on_packet,
        .gone = on_link_gone,
    };
    return osc_tcp_open(osc->environment.loop, &options, &osc->tcp, problem);
}

int osc_open(const struct io_environment *environment, const struct osc_options *options,
             struct osc **out, struct problem *problem)
{
    struct osc_hub *hub = environment->osc;
    assert(hub->server == NULL);
    struct osc *osc = calloc(1, sizeof *osc);
    if (osc == NULL)
        return problem_set(problem, ERROR_MEMORY, "osc: out of memory");
    osc->environment = *environment;
    osc->options = *options;
    osc->hub = hub;
    osc->peers.fd = -1;
    osc->peers.lease_ns = osc->subscriptions.lease_ns = options->lease_ns;
    osc->peers.stats = osc->subscriptions.stats = &hub->stats;
    osc->subscriptions.context = options->context;
    osc->subscriptions.measure = options->measure;
    uv_timer_init(environment->loop, &osc->tick);
    osc->tick.data = osc;
    int error =
        osc_networks_trusted(&osc->peers.trust, options->trust, options->trust_count, problem);
    if (error == 0)
        error = osc_networks_add(&osc->peers.allow, options->allow, options->allow_count, problem);
    if (error == 0 && options->address != NULL)
        error = open_udp(osc, problem);
    if (error == 0 && options->tcp_address != NULL)
        error = open_tcp(osc, problem);
    if (error != 0) {
        problem_prefix(problem, error, "[osc]");
        osc_close(osc);
        return error;
    }
    uv_timer_start(&osc->tick, on_tick, TICK_MS, TICK_MS);
    hub->server = osc;
    hub->served = true;
    *out = osc;
    return 0;
}

static void on_part_closed(void *context)
{
    struct osc *osc = context;
    if (--osc->closing == 0)
        free(osc);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void osc_close(struct osc *osc)
{
    if (osc == NULL)
        return;
    if (osc->hub->server == osc)
        osc->hub->server = NULL;
    osc->closing = 1 + (osc->tcp != NULL) + (osc->receiver != NULL);
    osc->peers.fd = -1;
    if (osc->tcp != NULL)
        osc_tcp_close(osc->tcp, on_part_closed);
    if (osc->receiver != NULL) {
        receiver_stop(osc->receiver);
        receiver_close(osc->receiver, on_part_closed, osc);
    }
    uv_close((uv_handle_t *)&osc->tick, on_timer_closed);
}
