/* Handover: see handover.h. */
#include "io/net/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

/* In systemd's descriptor store; the number of the interface follows where a group is joined. */
#define KEPT_NAME "convolvd-socket"

enum { FIRST_CAPACITY = 16 };

struct handed {
    int fd;
    bool adopted; /* from a socket unit: stays open */
    bool kept;    /* of the daemon before, and no source's yet */
    bool taken;   /* some source reads it too */
    uint32_t drops_before;
    uint64_t socket; /* duplicates of one socket have one number */
    bool joined;     /* a multicast group, on `interface` */
    unsigned interface;
};

struct handover {
    pthread_mutex_t mutex;
    /* protected by the mutex */
    struct handed *sockets; /* [capacity], `count` of them used */
    uint32_t count, capacity;
    uint64_t numbered;
    bool sharing;
};

int handover_open(struct handover **out, struct problem *problem)
{
    struct handover *handover = calloc(1, sizeof *handover);
    if (handover == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the table of sockets");
    pthread_mutex_init(&handover->mutex, NULL);
    *out = handover;
    return 0;
}

void handover_close(struct handover *handover)
{
    if (handover == NULL)
        return;
    pthread_mutex_destroy(&handover->mutex);
    free(handover->sockets);
    free(handover);
}

static bool bound_to(int fd, struct sockaddr_storage *out)
{
    socklen_t bytes = sizeof *out;
    memset(out, 0, sizeof *out);
    return getsockname(fd, (struct sockaddr *)out, &bytes) == 0 &&
           (out->ss_family == AF_INET || out->ss_family == AF_INET6);
}

static int option_of(int fd, int level, int name)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, level, name, &value, &bytes) == 0 ? value : 0;
}

/* Whether IPv4 datagrams reach the socket, and IPv6 ones. */
static bool is_dual(int fd, const struct sockaddr_storage *bound)
{
    return bound->ss_family == AF_INET6 && address_is_any(bound) &&
           option_of(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0;
}

static bool kernel_has_ipv6(void)
{
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool same_port(const struct sockaddr_storage *bound, const struct address *wanted)
{
    return address_port(bound) == address_port(&wanted->storage) && address_port(bound) != 0;
}

/* "*:5004" is every address of either family. The socket unit may say otherwise. */
static bool same_address(const struct handed *socket, const struct sockaddr_storage *bound,
                         const struct address *wanted)
{
    if (!same_port(bound, wanted))
        return false;
    if (!wanted->any)
        return address_same_host(bound, &wanted->storage);
    return address_is_any(bound) &&
           (socket->adopted || is_dual(socket->fd, bound) || !kernel_has_ipv6());
}

/* Some datagrams would belong to both. */
static bool overlap(const struct handed *socket, const struct address *wanted)
{
    struct sockaddr_storage bound;
    if (!bound_to(socket->fd, &bound) || !same_port(&bound, wanted))
        return false;
    const bool wanted_dual =
        wanted->any || (wanted->storage.ss_family == AF_INET6 && address_is_any(&wanted->storage));
    const bool one_family = bound.ss_family == wanted->storage.ss_family;
    return wanted_dual || is_dual(socket->fd, &bound) ||
           (one_family && (address_is_any(&bound) || address_is_any(&wanted->storage))) ||
           address_same_host(&bound, &wanted->storage);
}

static uint32_t drops_of(int fd)
{
    uint32_t figures[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof figures;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, figures, &bytes) != 0)
        return 0;
    return figures[SK_MEMINFO_DROPS];
}

/* Mutex held. False: no memory, and the socket is unshared. */
static bool add(struct handover *h, const struct handed *handed)
{
    if (h->count == h->capacity) {
        const uint32_t capacity = h->capacity > 0 ? 2 * h->capacity : FIRST_CAPACITY;
        struct handed *sockets = realloc(h->sockets, capacity * sizeof *sockets);
        if (sockets == NULL)
            return false;
        h->sockets = sockets;
        h->capacity = capacity;
    }
    h->sockets[h->count++] = *handed;
    return true;
}

static bool is_udp_socket(int fd)
{
    struct sockaddr_storage address;
    int type = 0;
    socklen_t bytes = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_DGRAM &&
           bound_to(fd, &address);
}

bool handover_kept(const char *name)
{
    const size_t length = strlen(KEPT_NAME);
    return strncmp(name, KEPT_NAME, length) == 0 && (name[length] == '\0' || name[length] == '-');
}

bool handover_adopt(struct handover *h, int fd, const char *name)
{
    if (!is_udp_socket(fd))
        return false;
    const bool kept = handover_kept(name);
    struct handed handed = {.fd = fd, .adopted = !kept, .kept = kept};
    handed.joined = kept && sscanf(name, KEPT_NAME "-%u", &handed.interface) == 1;
    pthread_mutex_lock(&h->mutex);
    handed.socket = ++h->numbered;
    const bool added = add(h, &handed);
    pthread_mutex_unlock(&h->mutex);
    return added;
}

/* Mutex held. Whether the socket has joined its group on another interface. */
static bool joined_elsewhere(const struct handover *h, uint64_t socket, unsigned interface)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->sockets[i].socket == socket && h->sockets[i].joined &&
            h->sockets[i].interface != interface)
            return true;
    return false;
}

void handover_joined(struct handover *h, int fd, unsigned interface)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd) {
            h->sockets[i].joined = true;
            h->sockets[i].interface = interface;
        }
    }
    pthread_mutex_unlock(&h->mutex);
}

int handover_take(struct handover *h, const struct address *address, unsigned interface)
{
    int fd = -1;
    if (h == NULL)
        return fd;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->count && fd < 0; i++) {
        struct handed *socket = &h->sockets[i];
        struct sockaddr_storage bound;
        if ((!socket->adopted && !socket->kept && !h->sharing) || !bound_to(socket->fd, &bound) ||
            !same_address(socket, &bound, address) ||
            joined_elsewhere(h, socket->socket, interface))
            continue;
        if (socket->kept) { /* the source is its owner from here on */
            fd = socket->fd;
            socket->kept = false;
            socket->drops_before = drops_of(fd);
            continue;
        }
        fd = fcntl(socket->fd, F_DUPFD_CLOEXEC, 3);
        if (fd >= 0) {
            socket->taken = true;
            add(h,
                &(struct handed){.fd = fd, .drops_before = drops_of(fd), .socket = socket->socket});
        }
    }
    pthread_mutex_unlock(&h->mutex);
    return fd;
}

bool handover_overlaps(struct handover *h, const struct address *address)
{
    bool found = false;
    if (h == NULL)
        return false;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; h->sharing && i < h->count && !found; i++)
        found = !h->sockets[i].adopted && !h->sockets[i].kept && overlap(&h->sockets[i], address);
    pthread_mutex_unlock(&h->mutex);
    return found;
}

/* Mutex held. Lets the address be bound beside the overlapping sockets of this process, or no
 * longer. Linux asks both sides for that, and asks them only when one binds. */
static void permit(const struct handover *h, const struct address *address, bool running,
                   bool permits)
{
    for (uint32_t i = 0; i < h->count; i++) {
        const struct handed *socket = &h->sockets[i];
        struct sockaddr_storage bound;
        if (socket->adopted || (!socket->kept && !running) || !overlap(socket, address) ||
            !bound_to(socket->fd, &bound))
            continue;
        const int on = permits || address_is_group(&bound); /* groups are open to others */
        setsockopt(socket->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
}

/* Mutex held. */
static void close_kept(struct handover *h, const struct address *address)
{
    for (uint32_t i = h->count; i-- > 0;) {
        const struct handed socket = h->sockets[i];
        if (!socket.kept || !overlap(&socket, address))
            continue;
        h->sockets[i] = h->sockets[--h->count];
        close(socket.fd);
    }
}

int handover_bind(struct handover *h, int fd, const struct address *address, bool running)
{
    const int on = 1, off = address->multicast;
    if (h == NULL)
        return bind(fd, (const struct sockaddr *)&address->storage, address->bytes);
    pthread_mutex_lock(&h->mutex);
    permit(h, address, running, true);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const int failed = bind(fd, (const struct sockaddr *)&address->storage, address->bytes);
    const int reason = errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off);
    permit(h, address, running, false);
    if (failed == 0)
        close_kept(h, address);
    pthread_mutex_unlock(&h->mutex);
    errno = reason;
    return failed;
}

void handover_register(struct handover *h, int fd)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mutex);
    add(h, &(struct handed){.fd = fd, .socket = ++h->numbered});
    pthread_mutex_unlock(&h->mutex);
}

void handover_share(struct handover *h, bool share)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mutex);
    h->sharing = share;
    pthread_mutex_unlock(&h->mutex);
}

static void forget(struct handover *h, int fd)
{
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd && !h->sockets[i].adopted) {
            h->sockets[i] = h->sockets[--h->count];
            break;
        }
    }
    pthread_mutex_unlock(&h->mutex);
}

void handover_release(struct handover *h, int fd)
{
    if (h != NULL)
        forget(h, fd);
    close(fd);
}

bool handover_pass_drops(struct handover *h, int fd, uint32_t drops)
{
    uint64_t socket = 0;
    bool passed = false;
    if (h == NULL)
        return false;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd)
            socket = h->sockets[i].socket;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct handed *other = &h->sockets[i];
        if (other->socket != socket || other->fd == fd || other->adopted)
            continue;
        other->drops_before = drops;
        passed = true;
    }
    pthread_mutex_unlock(&h->mutex);
    return passed;
}

uint32_t handover_drops_before(struct handover *h, int fd)
{
    uint32_t drops = 0;
    if (h == NULL)
        return drops;
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd)
            drops = h->sockets[i].drops_before;
    }
    pthread_mutex_unlock(&h->mutex);
    return drops;
}

void handover_drop_unused(struct handover *h)
{
    pthread_mutex_lock(&h->mutex);
    for (uint32_t i = h->count; i-- > 0;) {
        const struct handed socket = h->sockets[i];
        struct sockaddr_storage bound;
        char text[ADDRESS_TEXT];
        if (socket.taken || (!socket.adopted && !socket.kept) || !bound_to(socket.fd, &bound))
            continue;
        if (socket.adopted) {
            log_warning("the socket %s came from systemd, but no stream has this address: correct "
                        "`address` in the configuration or ListenDatagram= in the socket unit",
                        address_text(&bound, text));
            continue;
        }
        log_info("the socket %s of the daemon before is closed: no stream has this address now",
                 address_text(&bound, text));
        h->sockets[i] = h->sockets[--h->count];
        close(socket.fd);
    }
    pthread_mutex_unlock(&h->mutex);
}

/* Mutex held. Whether systemd's socket unit holds this socket already. */
static bool of_a_unit(const struct handover *h, uint64_t socket)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->sockets[i].socket == socket && h->sockets[i].adopted)
            return true;
    return false;
}

int handover_next(struct handover *h, uint32_t *at, char name[HANDOVER_NAME])
{
    int fd = -1;
    pthread_mutex_lock(&h->mutex);
    while (fd < 0 && *at < h->count) {
        const struct handed *socket = &h->sockets[(*at)++];
        if (of_a_unit(h, socket->socket))
            continue;
        fd = socket->fd;
        if (socket->joined)
            snprintf(name, HANDOVER_NAME, KEPT_NAME "-%u", socket->interface);
        else
            snprintf(name, HANDOVER_NAME, KEPT_NAME);
    }
    pthread_mutex_unlock(&h->mutex);
    return fd;
}
