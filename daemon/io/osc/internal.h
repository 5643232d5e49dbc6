/*
 * Shared by osc/server.c (sockets, peers), osc/tcp.c (connections), osc/subscriptions.c and
 * osc/source.c, and by nobody else. Loop thread.
 */
#ifndef CONVOLVD_IO_OSC_INTERNAL_H
#define CONVOLVD_IO_OSC_INTERNAL_H

#include "io/osc/server.h"
#include "io/osc/frames.h"
#include "io/net/receiver.h"
#include "io/net/socket.h"

enum {
    OSC_PEERS_MAX = 64,
    OSC_LINKS_MAX = 32,
    OSC_SUBSCRIPTIONS_MAX = 128,
    OSC_NETWORKS_MAX = 32,
    OSC_NAME_BYTES = 64,
};

/* The first `bits` of an address; IPv4 as ::ffff:a.b.c.d. */
struct osc_network {
    uint8_t address[16];
    unsigned bits;
};

struct osc_networks {
    struct osc_network list[OSC_NETWORKS_MAX];
    uint32_t count;
};

struct osc_subscription {
    bool used;
    struct osc_peer *peer;
    char stream[OSC_NAME_BYTES];
    unsigned topic; /* one OSC_TOPIC_* */
    double rate_hz;
    int64_t expires_ns;
    uint64_t sequence, dropped; /* of results */
    double credit;              /* results that may be sent now */
    int64_t last_ns;            /* credit was given, levels were sent */
    /* since levels were last sent */
    uint64_t first_frame, frames;
    uint32_t channels;
    float peak[OSC_CHANNELS_MAX];
    double squares[OSC_CHANNELS_MAX];
    uint64_t clips[OSC_CHANNELS_MAX]; /* told so far */
};

struct osc {
    uv_loop_t *loop;
    struct osc_options options;
    struct osc_networks allow, trust;
    struct osc_stats stats;
    int fd; /* the UDP socket, owned by the receiver */
    struct receiver *receiver;
    int listen_fd;
    bool listening;
    uv_poll_t listener;
    uv_timer_t tick;
    unsigned closing; /* uv handles not closed yet */
    struct osc_peer peers[OSC_PEERS_MAX];
    struct osc_link *links[OSC_LINKS_MAX];
    struct osc_subscription subscriptions[OSC_SUBSCRIPTIONS_MAX];
    struct log_limit refused_limit, fault_limit;
    uint8_t packet[OSC_PACKET_MAX]; /* where results are built */
};

/* ---- osc/server.c ------------------------------------------------------------------------ */

bool osc_allowed(struct osc *osc, const struct sockaddr_storage *from);
/* A packet of somebody allowed. */
void osc_packet(struct osc *osc, struct osc_link *link, const struct sockaddr_storage *from,
                const uint8_t *data, size_t bytes, int64_t receive_ns, int64_t receive_realtime_ns);
/* A handle of the server is closed; the last one frees it. */
void osc_handle_closed(struct osc *osc);
void osc_forget_link(struct osc *osc, const struct osc_link *link);

/* ---- osc/tcp.c --------------------------------------------------------------------------- */

int osc_tcp_open(struct osc *osc, struct problem *problem);
void osc_tcp_tick(struct osc *osc, int64_t now_ns);
void osc_tcp_close(struct osc *osc);
bool osc_link_send(struct osc_link *link, const uint8_t *data, size_t bytes);

/* ---- osc/subscriptions.c ----------------------------------------------------------------- */

void osc_subscriptions_tick(struct osc *osc, int64_t now_ns);
void osc_forget_peer(struct osc *osc, const struct osc_peer *peer);

/* ---- osc/source.c ------------------------------------------------------------------------ */

/* False: no stream of that name takes blocks. */
bool osc_source_block(const char *stream, size_t length, const struct received *received);

#endif
