/* The listener: see listener.h. */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "guard.h"

enum { BACKLOG = 64 };

struct listener {
    uv_poll_t poll;
    int fd;
    void (*accepted)(void *context, int fd);
    void *context;
    uint16_t port;
    bool local;
    char address[INET6_ADDRSTRLEN + 2]; /* as a URL has it; empty: all */
};

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Takes HOST:PORT apart. */
static int read_address(const char *text, union address *address, socklen_t *length,
                        struct problem *problem)
{
    char host[INET6_ADDRSTRLEN + 1] = "";
    const char *colon = strrchr(text, ':');
    const size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;
    char *end = NULL;
    const unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 65536;
    const bool bracketed = bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']';
    memset(address, 0, sizeof *address);
    if (bytes > 0 && bytes < sizeof host)
        memcpy(host, text + bracketed, bytes - 2 * bracketed);
    const bool numbered =
        colon != NULL && colon[1] >= '0' && colon[1] <= '9' && *end == '\0' && port <= 65535;
    if (numbered && !bracketed &&
        (strcmp(host, "*") == 0 || inet_pton(AF_INET, host, &address->four.sin_addr) == 1)) {
        address->four.sin_family = AF_INET;
        address->four.sin_port = htons((uint16_t)port);
        *length = sizeof address->four;
        return 0;
    }
    if (numbered && bracketed && inet_pton(AF_INET6, host, &address->six.sin6_addr) == 1) {
        address->six.sin6_family = AF_INET6;
        address->six.sin6_port = htons((uint16_t)port);
        *length = sizeof address->six;
        return 0;
    }
    return problem_set(problem, ERROR_ADDRESS,
                       "--listen %s: write ADDRESS:PORT, such as 127.0.0.1:8470, *:8470 or "
                       "[::1]:8470",
                       text);
}

static int bind_here(const char *text, int *fd, struct problem *problem)
{
    union address address;
    socklen_t length = 0;
    const int one = 1, error = read_address(text, &address, &length, problem);
    if (error < 0)
        return error;
    *fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return problem_set(problem, ERROR_SYSTEM, "socket: %s", strerror(errno));
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(*fd, &address.any, length) != 0 || listen(*fd, BACKLOG) != 0)
        return problem_set(problem, ERROR_ADDRESS, "--listen %s: %s", text, strerror(errno));
    return 0;
}

/* What the socket is bound to, also where systemd has bound it. */
static int learn(struct listener *listener, struct problem *problem)
{
    union address address = {.any = {0}};
    socklen_t length = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    if (getsockname(listener->fd, &address.any, &length) != 0)
        return problem_set(problem, ERROR_SYSTEM, "getsockname: %s", strerror(errno));
    if (address.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address.four.sin_addr, text, sizeof text);
        listener->port = ntohs(address.four.sin_port);
        if (address.four.sin_addr.s_addr != htonl(INADDR_ANY))
            snprintf(listener->address, sizeof listener->address, "%s", text);
    } else if (address.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address.six.sin6_addr, text, sizeof text);
        listener->port = ntohs(address.six.sin6_port);
        if (!IN6_IS_ADDR_UNSPECIFIED(&address.six.sin6_addr))
            snprintf(listener->address, sizeof listener->address, "[%s]", text);
    }
    listener->local = guard_loopback(text);
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int happened)
{
    struct listener *listener = poll->data;
    const int one = 1;
    int fd;
    (void)status;
    (void)happened;
    while ((fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        listener->accepted(listener->context, fd);
    }
}

int listener_open(uv_loop_t *loop, const char *address, void (*accepted)(void *context, int fd),
                  void *context, struct listener **out, struct problem *problem)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    *listener = (struct listener){.fd = -1, .accepted = accepted, .context = context};
    int error = 0;
    if (sd_listen_fds(1) > 0)
        listener->fd = SD_LISTEN_FDS_START;
    else
        error = bind_here(address, &listener->fd, problem);
    if (error == 0)
        error = learn(listener, problem);
    if (error < 0) {
        if (listener->fd >= 0)
            close(listener->fd);
        free(listener);
        return error;
    }
    uv_poll_init(loop, &listener->poll, listener->fd);
    listener->poll.data = listener;
    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
    *out = listener;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    close(listener->fd);
    free(listener);
}

void listener_close(struct listener *listener)
{
    if (listener != NULL)
        uv_close((uv_handle_t *)&listener->poll, on_closed);
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

const char *listener_address(const struct listener *listener)
{
    return listener->address[0] != '\0' ? listener->address : NULL;
}

bool listener_local(const struct listener *listener)
{
    return listener->local;
}
