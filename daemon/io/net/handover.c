/* Handover: see handover.h. */
#include "io/net/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/log.h"

/* The most streams there can be, twice (a reload replaces some while they run), and systemd's. */
enum { SOCKETS_MAX = 1024 };

struct handed {
    int fd;
    bool adopted; /* from systemd: stays open */
    bool taken;   /* some source reads it too */
    uint32_t drops_before;
    uint64_t socket; /* duplicates of one socket have one number */
    bool joined;     /* a multicast group, on `interface` */
    unsigned interface;
};

struct handover {
    pthread_mutex_t mutex;
    /* protected by the mutex */
    struct handed sockets[SOCKETS_MAX];
    int count;
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
    free(handover);
}

static bool bound_to(int fd, struct sockaddr_storage *out)
{
    socklen_t bytes = sizeof *out;
    memset(out, 0, sizeof *out);
    return getsockname(fd, (struct sockaddr *)out, &bytes) == 0 &&
           (out->ss_family == AF_INET || out->ss_family == AF_INET6);
}

/* "*:5004" is every address of either family. */
static bool same_address(const struct sockaddr_storage *bound, const struct address *wanted)
{
    if (address_port(bound) != address_port(&wanted->storage) || address_port(bound) == 0)
        return false;
    return wanted->any ? address_is_any(bound) : address_same_host(bound, &wanted->storage);
}

static uint32_t drops_of(int fd)
{
    uint32_t figures[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof figures;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, figures, &bytes) != 0)
        return 0;
    return figures[SK_MEMINFO_DROPS];
}

/* Mutex held. A table that is full leaves the socket unshared. */
static void add(struct handover *h, const struct handed *handed)
{
    if (h->count < SOCKETS_MAX)
        h->sockets[h->count++] = *handed;
}

int handover_adopt(struct handover *h)
{
    int passed = sd_listen_fds(1), adopted = 0;
    if (passed < 0)
        log_warning("sockets from systemd cannot be read (%s); streams bind their own",
                    strerror(-passed));
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + passed; fd++) {
        struct sockaddr_storage address;
        if (fcntl(fd, F_GET_SEALS) >= 0) /* a memory file: the service's, service/store.h */
            continue;
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_DGRAM, -1) <= 0 || !bound_to(fd, &address)) {
            log_warning("descriptor %d from systemd is no UDP socket and is not used; write "
                        "ListenDatagram=HOST:PORT in the socket unit",
                        fd);
            continue;
        }
        pthread_mutex_lock(&h->mutex);
        add(h, &(struct handed){.fd = fd, .adopted = true, .socket = ++h->numbered});
        pthread_mutex_unlock(&h->mutex);
        adopted++;
    }
    return adopted;
}

/* Mutex held. Whether the socket has joined its group on another interface. */
static bool joined_elsewhere(const struct handover *h, uint64_t socket, unsigned interface)
{
    for (int i = 0; i < h->count; i++)
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
    for (int i = 0; i < h->count; i++) {
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
    for (int i = 0; i < h->count && fd < 0; i++) {
        struct handed *socket = &h->sockets[i];
        struct sockaddr_storage bound;
        if ((!socket->adopted && !h->sharing) || !bound_to(socket->fd, &bound) ||
            !same_address(&bound, address) || joined_elsewhere(h, socket->socket, interface))
            continue;
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
    for (int i = 0; i < h->count; i++) {
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
    for (int i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd)
            socket = h->sockets[i].socket;
    }
    for (int i = 0; i < h->count; i++) {
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
    for (int i = 0; i < h->count; i++) {
        if (h->sockets[i].fd == fd)
            drops = h->sockets[i].drops_before;
    }
    pthread_mutex_unlock(&h->mutex);
    return drops;
}

void handover_warn_unused(struct handover *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mutex);
    for (int i = 0; i < h->count; i++) {
        const struct handed *socket = &h->sockets[i];
        struct sockaddr_storage bound;
        char text[ADDRESS_TEXT];
        if (socket->adopted && !socket->taken && bound_to(socket->fd, &bound))
            log_warning("the socket %s came from systemd, but no stream has this address: correct "
                        "`address` in the configuration or ListenDatagram= in the socket unit",
                        address_text(&bound, text));
    }
    pthread_mutex_unlock(&h->mutex);
}
