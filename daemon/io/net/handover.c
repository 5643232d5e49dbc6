/* Handed sockets: see handover.h. */
#include "io/net/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/log.h"

/* Streams at most, twice over while one takes the place of another, and systemd's. */
enum { SOCKETS_MAX = 1024 };

static struct handed {
    int fd;       /* valid in the first `count` */
    bool adopted; /* systemd's: stays open */
    bool taken;   /* some source reads it, too */
    uint32_t drops_before;
} sockets[SOCKETS_MAX];
static int count;
static bool sharing;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool bound_to(int fd, struct sockaddr_storage *out)
{
    socklen_t bytes = sizeof *out;
    memset(out, 0, sizeof *out);
    return getsockname(fd, (struct sockaddr *)out, &bytes) == 0 &&
           (out->ss_family == AF_INET || out->ss_family == AF_INET6);
}

static bool any_host(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == 0;
    return IN6_IS_ADDR_UNSPECIFIED(
        &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
    /* At the same place in both families. */
    return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
}

/* "*:5004" is every address of either family. */
static bool same_address(const struct sockaddr_storage *bound, const struct socket_address *wanted)
{
    if (port_of(bound) != port_of(&wanted->storage) || port_of(bound) == 0)
        return false;
    return wanted->any ? any_host(bound) : socket_same_host(bound, &wanted->storage);
}

static uint32_t drops_of(int fd)
{
    uint32_t figures[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof figures;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, figures, &bytes) != 0)
        return 0;
    return figures[SK_MEMINFO_DROPS];
}

/* With the mutex. Without room a socket is simply not shared. */
static void add(int fd, bool adopted, uint32_t drops_before)
{
    if (count < SOCKETS_MAX)
        sockets[count++] =
            (struct handed){.fd = fd, .adopted = adopted, .drops_before = drops_before};
}

int handover_adopt(void)
{
    int passed = sd_listen_fds(1), adopted = 0;
    if (passed < 0)
        log_warning("sockets from systemd cannot be read (%s); streams bind their own",
                    strerror(-passed));
    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + passed; fd++) {
        struct sockaddr_storage address;
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_DGRAM, -1) <= 0 || !bound_to(fd, &address)) {
            log_warning("descriptor %d from systemd is no UDP socket and is not used; write "
                        "ListenDatagram=HOST:PORT in the socket unit",
                        fd);
            continue;
        }
        pthread_mutex_lock(&mutex);
        add(fd, true, 0);
        pthread_mutex_unlock(&mutex);
        adopted++;
    }
    return adopted;
}

int handover_take(const struct socket_address *address)
{
    int fd = -1;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < count && fd < 0; i++) {
        struct sockaddr_storage bound;
        if ((!sockets[i].adopted && !sharing) || !bound_to(sockets[i].fd, &bound) ||
            !same_address(&bound, address))
            continue;
        fd = fcntl(sockets[i].fd, F_DUPFD_CLOEXEC, 3);
        if (fd >= 0) {
            sockets[i].taken = true;
            add(fd, false, drops_of(fd));
        }
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

void handover_register(int fd)
{
    pthread_mutex_lock(&mutex);
    add(fd, false, 0);
    pthread_mutex_unlock(&mutex);
}

void handover_share(bool share)
{
    pthread_mutex_lock(&mutex);
    sharing = share;
    pthread_mutex_unlock(&mutex);
}

void handover_close(int fd)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < count; i++) {
        if (sockets[i].fd == fd && !sockets[i].adopted) {
            sockets[i] = sockets[--count];
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
    close(fd);
}

uint32_t handover_drops_before(int fd)
{
    uint32_t drops = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < count; i++) {
        if (sockets[i].fd == fd)
            drops = sockets[i].drops_before;
    }
    pthread_mutex_unlock(&mutex);
    return drops;
}

void handover_warn_unused(void)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < count; i++) {
        struct sockaddr_storage bound;
        char text[SOCKET_TEXT];
        if (sockets[i].adopted && !sockets[i].taken && bound_to(sockets[i].fd, &bound))
            log_warning("the socket %s came from systemd, but no stream has this address: correct "
                        "`address` in the configuration or ListenDatagram= in the socket unit",
                        socket_text(&bound, text));
    }
    pthread_mutex_unlock(&mutex);
}
