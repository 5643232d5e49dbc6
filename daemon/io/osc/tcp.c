/*
 * OSC over TCP: connections with memory of a fixed size for each way. A sender that leaves a packet
 * unfinished, or a reader that takes nothing, for longer than the time-out loses its connection;
 * neither keeps anybody waiting, for nothing here blocks. Loop thread.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "io/osc/internal.h"

enum {
    IN_BYTES = OSC_PACKET_MAX + 4,
    OUT_BYTES = 512 * 1024,
    READ_BYTES = 65536,
    READS_PER_WAKE = 4, /* so that one fast sender starves nobody */
    BACKLOG = 16,
};

struct osc_link {
    struct osc *osc;
    int fd;
    uv_poll_t poll;
    bool closing, writing;
    struct sockaddr_storage from;
    struct osc_frames frames;
    int64_t partial_ns; /* since when a packet is unfinished; 0: none is */
    int64_t stuck_ns;   /* since when nothing could be sent; 0: it can */
    uint8_t *out;
    size_t out_from, out_until;
    int64_t receive_ns, receive_realtime_ns;
    uint8_t in[IN_BYTES];
};

static void on_link_closed(uv_handle_t *handle)
{
    struct osc_link *link = handle->data;
    struct osc *osc = link->osc;
    close(link->fd);
    free(link->out);
    free(link);
    osc_handle_closed(osc);
}

static void close_link(struct osc_link *link, const char *why)
{
    char text[SOCKET_TEXT];
    if (link->closing)
        return;
    if (why != NULL)
        log_notice("osc: connection of %s closed: %s", socket_text(&link->from, text), why);
    link->closing = true;
    osc_forget_link(link->osc, link);
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        if (link->osc->links[i] == link)
            link->osc->links[i] = NULL;
    uv_close((uv_handle_t *)&link->poll, on_link_closed);
}

/* ---- out --------------------------------------------------------------------------------- */

static void on_link(uv_poll_t *poll, int status, int events);

static void send_waiting(struct osc_link *link)
{
    while (link->out_from < link->out_until) {
        ssize_t sent = send(link->fd, link->out + link->out_from, link->out_until - link->out_from,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            close_link(link, strerror(errno));
            return;
        }
        if (sent < 0)
            break;
        link->out_from += (size_t)sent;
        link->stuck_ns = 0;
    }
    bool waiting = link->out_from < link->out_until;
    if (!waiting)
        link->out_from = link->out_until = 0;
    else if (link->stuck_ns == 0)
        link->stuck_ns = clock_monotonic_ns();
    if (waiting != link->writing) {
        link->writing = waiting;
        uv_poll_start(&link->poll, UV_READABLE | (waiting ? UV_WRITABLE : 0), on_link);
    }
}

bool osc_link_send(struct osc_link *link, const uint8_t *data, size_t bytes)
{
    if (link->closing)
        return false;
    if (link->out_from > 0) {
        memmove(link->out, link->out + link->out_from, link->out_until - link->out_from);
        link->out_until -= link->out_from;
        link->out_from = 0;
    }
    size_t wrapped = osc_frames_wrap(link->frames.framing, data, bytes, link->out + link->out_until,
                                     OUT_BYTES - link->out_until);
    link->out_until += wrapped;
    if (!link->writing)
        send_waiting(link);
    return wrapped > 0;
}

/* ---- in ---------------------------------------------------------------------------------- */

static void on_packet(void *context, const uint8_t *data, size_t bytes)
{
    struct osc_link *link = context;
    link->partial_ns = 0;
    if (!link->closing)
        osc_packet(link->osc, link, &link->from, data, bytes, link->receive_ns,
                   link->receive_realtime_ns);
}

static void receive(struct osc_link *link)
{
    static uint8_t bytes[READ_BYTES]; /* one loop, one thread */
    for (int i = 0; i < READS_PER_WAKE && !link->closing; i++) {
        ssize_t got = recv(link->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            close_link(link, NULL);
            return;
        }
        link->receive_ns = clock_monotonic_ns();
        link->receive_realtime_ns = clock_realtime_ns();
        int error = osc_frames_feed(&link->frames, bytes, (size_t)got, on_packet, link);
        if (error != 0) {
            link->osc->stats.closed_framing++;
            close_link(link, error == ERROR_LIMIT ? "a packet is longer than 64 KiB"
                                                  : "neither length prefixes nor SLIP");
            return;
        }
        /* From its first byte on: a byte a second is no progress. */
        if (!osc_frames_partial(&link->frames))
            link->partial_ns = 0;
        else if (link->partial_ns == 0)
            link->partial_ns = link->receive_ns;
    }
}

static void on_link(uv_poll_t *poll, int status, int events)
{
    struct osc_link *link = poll->data;
    if (status < 0) {
        close_link(link, NULL);
        return;
    }
    if (events & UV_READABLE)
        receive(link);
    if (events & UV_WRITABLE && !link->closing)
        send_waiting(link);
}

/* ---- accept ------------------------------------------------------------------------------ */

static void add_link(struct osc *osc, int fd, const struct sockaddr_storage *from)
{
    int place = 0, one = 1;
    while (place < OSC_LINKS_MAX && osc->links[place] != NULL)
        place++;
    struct osc_link *link = place < OSC_LINKS_MAX ? calloc(1, sizeof *link) : NULL;
    uint8_t *out = link != NULL ? malloc(OUT_BYTES) : NULL;
    if (out == NULL || uv_poll_init(osc->loop, &link->poll, fd) != 0) {
        osc->stats.connections_refused++;
        log_limited(&osc->refused_limit, NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "osc: a connection was refused: %d are open already", place);
        free(out);
        free(link);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->osc = osc;
    link->fd = fd;
    link->from = *from;
    link->out = out;
    link->frames = (struct osc_frames){.buffer = link->in, .capacity = IN_BYTES};
    link->poll.data = link;
    osc->links[place] = link;
    osc->stats.connected++;
    osc->closing++;
    uv_poll_start(&link->poll, UV_READABLE, on_link);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct osc *osc = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < BACKLOG; i++) {
        struct sockaddr_storage from;
        socklen_t bytes = sizeof from;
        int fd =
            accept4(osc->listen_fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (osc_allowed(osc, &from))
            add_link(osc, fd, &from);
        else
            close(fd);
    }
}

int osc_tcp_open(struct osc *osc, struct problem *problem)
{
    struct socket_address address;
    int error = socket_resolve(osc->options.tcp_address, true, &address, problem);
    if (error != 0)
        return error;
    int one = 1, zero = 0;
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return problem_set(problem, ERROR_SYSTEM, "no TCP socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address.any && address.storage.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, (const struct sockaddr *)&address.storage, address.bytes) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int reason = errno;
        close(fd);
        return problem_set(problem, ERROR_ADDRESS,
                           "cannot listen at tcp address = %s: %s; write another port",
                           osc->options.tcp_address, strerror(reason));
    }
    osc->listen_fd = fd;
    if (uv_poll_init(osc->loop, &osc->listener, fd) != 0) {
        close(fd);
        return problem_set(problem, ERROR_SYSTEM, "no event handle for TCP");
    }
    osc->listener.data = osc;
    osc->listening = true;
    osc->closing++;
    uv_poll_start(&osc->listener, UV_READABLE, on_listener);
    log_info("osc: TCP port %u", socket_port(fd));
    return 0;
}

void osc_tcp_tick(struct osc *osc, int64_t now_ns)
{
    for (int i = 0; i < OSC_LINKS_MAX; i++) {
        struct osc_link *link = osc->links[i];
        if (link == NULL)
            continue;
        if (link->partial_ns != 0 && now_ns - link->partial_ns > osc->options.tcp_timeout_ns) {
            osc->stats.closed_slow++;
            close_link(link, "it sends too slowly (`tcp timeout` in [osc])");
        } else if (link->stuck_ns != 0 && now_ns - link->stuck_ns > osc->options.tcp_timeout_ns) {
            osc->stats.closed_stuck++;
            close_link(link, "it does not read (`tcp timeout` in [osc])");
        }
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct osc *osc = handle->data;
    close(osc->listen_fd);
    osc_handle_closed(osc);
}

void osc_tcp_close(struct osc *osc)
{
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        if (osc->links[i] != NULL)
            close_link(osc->links[i], NULL);
    if (osc->listening)
        uv_close((uv_handle_t *)&osc->listener, on_listener_closed);
    osc->listening = false;
}
