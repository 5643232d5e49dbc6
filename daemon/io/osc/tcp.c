/* OSC over TCP: see tcp.h. Loop thread. */
#include "io/osc/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/address.h"
#include "io/net/socket.h"
#include "io/osc/frames.h"

enum {
    IN_BYTES = OSC_PACKET_MAX + 4,
    OUT_BYTES = 512 * 1024,
    READ_BYTES = 65536,
    READS_PER_WAKE = 4, /* so that a fast sender does not starve the others */
    BACKLOG = 16,
    LOG_INTERVAL_S = 30,
};

struct osc_tcp {
    struct osc_tcp_options options;
    uv_loop_t *loop;
    int fd;
    int spare; /* given up to accept a connection that is refused; -1: none */
    uv_poll_t listener;
    bool paused; /* the listener is not polled before the next tick */
    struct osc_link *links[OSC_LINKS_MAX];
    unsigned handles; /* open or closing: the last one frees the object */
    struct log_limit refused_limit, failed_limit;
    void (*closed)(void *context);
};

struct osc_link {
    struct osc_tcp *tcp;
    int fd;
    uv_poll_t poll;
    bool closing, writing;
    struct sockaddr_storage from;
    struct osc_frames frames;
    int64_t partial_ns; /* when the unfinished packet began; 0: there is none */
    int64_t stuck_ns;   /* when the reader stopped accepting; 0: it accepts */
    int64_t active_ns;  /* when the last packet came, or bytes were sent */
    uint8_t *out;
    size_t out_from, out_until;
    int64_t receive_ns, receive_realtime_ns;
    uint8_t in[IN_BYTES];
};

static void handle_closed(struct osc_tcp *tcp)
{
    if (--tcp->handles > 0)
        return;
    tcp->closed(tcp->options.context);
    free(tcp);
}

static void on_link_closed(uv_handle_t *handle)
{
    struct osc_link *link = handle->data;
    struct osc_tcp *tcp = link->tcp;
    close(link->fd);
    free(link->out);
    free(link);
    handle_closed(tcp);
}

static void close_link(struct osc_link *link, const char *why)
{
    char text[ADDRESS_TEXT];
    if (link->closing)
        return;
    if (why != NULL)
        log_notice("osc: connection of %s closed: %s", address_text(&link->from, text), why);
    link->closing = true;
    struct osc_tcp *tcp = link->tcp;
    tcp->options.gone(tcp->options.context, link);
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        if (tcp->links[i] == link)
            tcp->links[i] = NULL;
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
        link->active_ns = clock_monotonic_ns();
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
    link->active_ns = link->receive_ns;
    const struct osc_tcp_options *o = &link->tcp->options;
    if (!link->closing)
        o->packet(o->context, link, &link->from, data, bytes, link->receive_ns,
                  link->receive_realtime_ns);
}

static void receive(struct osc_link *link)
{
    static uint8_t bytes[READ_BYTES]; /* scratch of the loop thread */
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
            link->tcp->options.stats->closed_framing++;
            close_link(link, error == ERROR_LIMIT ? "a packet is longer than 64 KiB"
                                                  : "neither length prefixes nor SLIP");
            return;
        }
        /* The time counts from the first byte: one byte a second is not progress. */
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

/* Closes the link idle longest, if that has been idle for the timeout. */
static void close_idlest(struct osc_tcp *tcp)
{
    struct osc_link *idlest = tcp->links[0];
    for (int i = 1; i < OSC_LINKS_MAX; i++)
        if (tcp->links[i]->active_ns < idlest->active_ns)
            idlest = tcp->links[i];
    if (clock_monotonic_ns() - idlest->active_ns <= tcp->options.timeout_ns)
        return;
    tcp->options.stats->closed_idle++;
    close_link(idlest, "it was idle, and a new connection needs its slot");
}

static int free_slot(const struct osc_tcp *tcp)
{
    int slot = 0;
    while (slot < OSC_LINKS_MAX && tcp->links[slot] != NULL)
        slot++;
    return slot;
}

static void add_link(struct osc_tcp *tcp, int fd, const struct sockaddr_storage *from)
{
    int one = 1;
    if (free_slot(tcp) == OSC_LINKS_MAX)
        close_idlest(tcp);
    int slot = free_slot(tcp);
    struct osc_link *link = slot < OSC_LINKS_MAX ? calloc(1, sizeof *link) : NULL;
    uint8_t *out = link != NULL ? malloc(OUT_BYTES) : NULL;
    if (out == NULL || uv_poll_init(tcp->loop, &link->poll, fd) != 0) {
        tcp->options.stats->connections_refused++;
        log_limited(&tcp->refused_limit, NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "osc: a connection was refused: %d are open already", slot);
        free(out);
        free(link);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->tcp = tcp;
    link->fd = fd;
    link->from = *from;
    link->out = out;
    link->active_ns = clock_monotonic_ns();
    link->frames = (struct osc_frames){.buffer = link->in, .capacity = IN_BYTES};
    link->poll.data = link;
    tcp->links[slot] = link;
    tcp->options.stats->connected++;
    tcp->handles++;
    uv_poll_start(&link->poll, UV_READABLE, on_link);
}

static void take_spare(struct osc_tcp *tcp)
{
    if (tcp->spare < 0)
        tcp->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/*
 * No descriptor is left: accepts one connection with the spare one and closes it, so that it does
 * not keep the listener readable. accept4 reports EMFILE also when none waits, so that is no
 * failure. False when there is no spare one either.
 */
static bool refuse_waiting(struct osc_tcp *tcp, bool *refused)
{
    if (tcp->spare < 0)
        return false;
    close(tcp->spare);
    tcp->spare = -1;
    int fd = accept(tcp->fd, NULL, NULL);
    int reason = errno;
    *refused = fd >= 0;
    if (fd >= 0) {
        close(fd);
        tcp->options.stats->connections_refused++;
        log_limited(&tcp->failed_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "osc: a connection was refused: the process has no descriptor left; raise "
                    "LimitNOFILE= (ulimit -n)");
    }
    take_spare(tcp);
    return fd >= 0 || reason == EAGAIN;
}

/* The listener would only fail again at once: the next tick resumes it. */
static void pause_listener(struct osc_tcp *tcp, int reason)
{
    log_limited(&tcp->failed_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "osc: no TCP connection can be accepted: %s; trying again", strerror(reason));
    uv_poll_stop(&tcp->listener);
    tcp->paused = true;
}

/* Accepts one connection, or refuses it. False when none is left that can be. */
static bool accept_next(struct osc_tcp *tcp)
{
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    int fd = accept4(tcp->fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool refused = false;
    if (fd >= 0) {
        if (tcp->options.allowed(tcp->options.context, &from))
            add_link(tcp, fd, &from);
        else
            close(fd);
        return true;
    }
    int reason = errno;
    switch (reason) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
        if (refuse_waiting(tcp, &refused))
            return refused;
        break;
    case ENOBUFS:
    case ENOMEM:
    case EBADF:
    case EINVAL:
        break;
    default: /* the connection ended in the queue (accept(2)): the next one may be fine */
        return true;
    }
    pause_listener(tcp, reason);
    return false;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct osc_tcp *tcp = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < BACKLOG && accept_next(tcp); i++)
        ;
}

/* ---- life -------------------------------------------------------------------------------- */

static int listen_at(const char *text, int *out, struct problem *problem)
{
    struct address address;
    int error = address_resolve(text, true, &address, problem);
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
                           "cannot listen at tcp address = %s: %s; write another port", text,
                           strerror(reason));
    }
    *out = fd;
    return 0;
}

int osc_tcp_open(uv_loop_t *loop, const struct osc_tcp_options *options, struct osc_tcp **out,
                 struct problem *problem)
{
    struct osc_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    tcp->options = *options;
    tcp->loop = loop;
    tcp->spare = -1;
    int error = listen_at(options->address, &tcp->fd, problem);
    if (error != 0)
        goto free_tcp;
    if (uv_poll_init(loop, &tcp->listener, tcp->fd) != 0) {
        error = problem_set(problem, ERROR_SYSTEM, "no event handle for TCP");
        goto close_fd;
    }
    tcp->listener.data = tcp;
    tcp->handles = 1;
    uv_poll_start(&tcp->listener, UV_READABLE, on_listener);
    take_spare(tcp);
    log_info("osc: TCP port %u", osc_tcp_port(tcp));
    *out = tcp;
    return 0;

close_fd:
    close(tcp->fd);
free_tcp:
    free(tcp);
    return error;
}

void osc_tcp_tick(struct osc_tcp *tcp, int64_t now_ns)
{
    const int64_t timeout_ns = tcp->options.timeout_ns;
    take_spare(tcp);
    if (tcp->paused)
        tcp->paused = uv_poll_start(&tcp->listener, UV_READABLE, on_listener) != 0;
    for (int i = 0; i < OSC_LINKS_MAX; i++) {
        struct osc_link *link = tcp->links[i];
        if (link == NULL)
            continue;
        if (link->partial_ns != 0 && now_ns - link->partial_ns > timeout_ns) {
            tcp->options.stats->closed_slow++;
            close_link(link, "it sends too slowly (`tcp timeout` in [osc])");
        } else if (link->stuck_ns != 0 && now_ns - link->stuck_ns > timeout_ns) {
            tcp->options.stats->closed_stuck++;
            close_link(link, "it does not read (`tcp timeout` in [osc])");
        } else if (now_ns - link->active_ns > tcp->options.idle_ns) {
            tcp->options.stats->closed_idle++;
            close_link(link, "it was idle (`tcp idle` in [osc])");
        }
    }
}

uint32_t osc_tcp_links(const struct osc_tcp *tcp)
{
    uint32_t count = 0;
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        count += tcp->links[i] != NULL;
    return count;
}

uint16_t osc_tcp_port(const struct osc_tcp *tcp)
{
    return socket_port(tcp->fd);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct osc_tcp *tcp = handle->data;
    close(tcp->fd);
    if (tcp->spare >= 0)
        close(tcp->spare);
    handle_closed(tcp);
}

void osc_tcp_close(struct osc_tcp *tcp, void (*closed)(void *context))
{
    tcp->closed = closed;
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        if (tcp->links[i] != NULL)
            close_link(tcp->links[i], NULL);
    uv_close((uv_handle_t *)&tcp->listener, on_listener_closed);
}
