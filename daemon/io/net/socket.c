/* Sockets: see socket.h. Worker threads; stateless. */
#include "io/net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "io/net/handover.h"

uint16_t socket_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return 0;
    return address_port(&address);
}

/* ---- interfaces -------------------------------------------------------------------------- */

/* The index of the interface that has this address; 0: none. */
static unsigned interface_of(const struct sockaddr_storage *address)
{
    struct ifaddrs *all = NULL;
    unsigned index = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (struct ifaddrs *one = all; one != NULL && index == 0; one = one->ifa_next) {
        int family = one->ifa_addr != NULL ? one->ifa_addr->sa_family : AF_UNSPEC;
        if ((family == AF_INET || family == AF_INET6) &&
            address_same_host(address, (const void *)one->ifa_addr))
            index = if_nametoindex(one->ifa_name);
    }
    freeifaddrs(all);
    return index;
}

/* Finds an interface by its name, or by an address that it has. */
static int find_interface(const char *text, unsigned *index, struct problem *problem)
{
    struct sockaddr_storage address;
    struct in6_addr number;
    bool is_number =
        inet_pton(AF_INET, text, &number) == 1 || inet_pton(AF_INET6, text, &number) == 1;
    *index = if_nametoindex(text);
    if (*index == 0 && is_number && address_resolve_host(text, &address, NULL) == 0)
        *index = interface_of(&address);
    if (*index == 0)
        return problem_set(problem, ERROR_ABSENT,
                           "this machine has no network interface '%.40s': `ip -br addr` lists "
                           "those it has",
                           text);
    return 0;
}

/* ---- options ----------------------------------------------------------------------------- */

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

static uint64_t clamp_bytes(uint64_t bytes)
{
    return bytes < 1 << 30 ? bytes : 1 << 30; /* the kernel takes an int, and doubles it */
}

static uint64_t buffer_of(int fd, int plain)
{
    int granted = 0;
    socklen_t size = sizeof granted;
    getsockopt(fd, SOL_SOCKET, plain, &granted, &size);
    return (uint64_t)granted / 2;
}

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Sets a buffer as large as the kernel grants (with CAP_NET_ADMIN beyond its limit) and returns its
 * size. */
static uint64_t set_buffer(int fd, int force, int plain, uint64_t bytes)
{
    int value = (int)clamp_bytes(bytes);
    if (set_option(fd, SOL_SOCKET, force, value) != 0)
        set_option(fd, SOL_SOCKET, plain, value);
    return buffer_of(fd, plain);
}

static void report_buffer(const struct socket_receive_options *options, uint64_t granted)
{
    double mib = (double)granted / 1048576;
    char holds[64] = "";
    if (options->bytes_per_second > 0)
        snprintf(holds, sizeof holds, ", which holds %.3g ms at this rate",
                 (double)granted / options->bytes_per_second * 1e3);
    if (granted < clamp_bytes(options->buffer_bytes))
        log_warning(
            "stream %s: receive buffer: %.3g MiB granted of %.3g MiB%s; raise the limit with "
            "sysctl -w net.core.rmem_max=%llu",
            options->stream, mib, (double)options->buffer_bytes / 1048576, holds,
            (unsigned long long)clamp_bytes(options->buffer_bytes));
    else
        log_info("stream %s: receive buffer: %.3g MiB%s", options->stream, mib, holds);
}

static int join(int fd, const struct address *address, unsigned interface)
{
    if (address->storage.ss_family == AF_INET) {
        struct ip_mreqn request = {.imr_multiaddr = address_v4(&address->storage)->sin_addr,
                                   .imr_ifindex = (int)interface};
        /* Deliver datagrams of this group only, not of groups that other programs joined. */
        set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
        return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    }
    struct ipv6_mreq request = {.ipv6mr_multiaddr = address_v6(&address->storage)->sin6_addr,
                                .ipv6mr_interface = interface};
    set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
}

/* ---- sockets ----------------------------------------------------------------------------- */

static int open_socket(struct address *address, int *fd, struct problem *problem)
{
    int type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    *fd = socket(address->storage.ss_family, type, 0);
    if (*fd < 0 && address->any) { /* a kernel without IPv6 */
        struct sockaddr_in any = {.sin_family = AF_INET,
                                  .sin_port = address_v6(&address->storage)->sin6_port};
        memset(&address->storage, 0, sizeof address->storage);
        memcpy(&address->storage, &any, sizeof any);
        address->bytes = sizeof any;
        *fd = socket(AF_INET, type, 0);
    }
    if (*fd < 0)
        return problem_set(problem, ERROR_SYSTEM, "no UDP socket could be made: %s",
                           strerror(errno));
    return 0;
}

static void leave(int fd, const struct address *address, unsigned interface)
{
    if (address->storage.ss_family == AF_INET) {
        struct ip_mreqn request = {.imr_multiaddr = address_v4(&address->storage)->sin_addr,
                                   .imr_ifindex = (int)interface};
        setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request, sizeof request);
        return;
    }
    struct ipv6_mreq request = {.ipv6mr_multiaddr = address_v6(&address->storage)->sin6_addr,
                                .ipv6mr_interface = interface};
    setsockopt(fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &request, sizeof request);
}

static int bind_problem(const struct address *address, struct problem *problem)
{
    char text[ADDRESS_TEXT];
    int reason = errno;
    address_text(&address->storage, text);
    switch (reason) {
    case EADDRINUSE:
        return problem_set(problem, ERROR_ADDRESS,
                           "%s is in use by another program: choose another port for `address`, "
                           "or stop that program (`ss -ulpn` shows it)",
                           text);
    case EADDRNOTAVAIL:
    case ENODEV:
        return problem_set(problem, ERROR_ABSENT,
                           "this machine does not have the address of %s: write one of its own "
                           "(`ip -br addr` lists them) or *:PORT",
                           text);
    case EACCES:
        return problem_set(problem, ERROR_ADDRESS,
                           "%s needs a privilege: choose a port of 1024 or above", text);
    default:
        return problem_set(problem, ERROR_ADDRESS, "%s could not be bound: %s", text,
                           strerror(reason));
    }
}

static int group_problem(const struct address *address, const char *interface,
                         struct problem *problem)
{
    char text[ADDRESS_TEXT];
    int reason = errno;
    address_text(&address->storage, text);
    bool absent = reason == ENODEV || reason == EADDRNOTAVAIL || reason == ENETUNREACH;
    return problem_set(problem, absent ? ERROR_ABSENT : ERROR_ADDRESS,
                       "the group %s could not be used%s%.40s: %s; set `interface` to one that "
                       "carries multicast (`ip -br link` lists them)",
                       text, interface != NULL ? " on " : "", interface != NULL ? interface : "",
                       strerror(reason));
}

/* `handed`: the socket is bound already, by systemd or by the stream that this one replaces. */
static int prepare_receive(int fd, bool handed, struct address *address, unsigned interface,
                           struct problem *problem)
{
    if (!handed && address->any && address->storage.ss_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (address->multicast) {
        /* Several programs of one machine may listen to one group. */
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&address->storage;
        if (address->storage.ss_family == AF_INET6 && v6->sin6_scope_id == 0)
            v6->sin6_scope_id = interface;
    }
    /* Before bind, so that the first datagram already has its time stamp. */
    if (set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1) != 0 ||
        set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1) != 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "this kernel lacks SO_TIMESTAMPNS or SO_RXQ_OVFL: %s", strerror(errno));
    return 0;
}

static int bind_receive(int fd, const struct socket_receive_options *options,
                        const struct address *address, struct socket_pending *pending,
                        struct problem *problem)
{
    if (bind(fd, (const struct sockaddr *)&address->storage, address->bytes) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return bind_problem(address, problem);
    if (pending != NULL && handover_overlaps(options->handover, address)) {
        pending->pending = true;
        return 0;
    }
    errno = EADDRINUSE; /* or the daemon before has left a socket there */
    if (options->handover == NULL || handover_bind(options->handover, fd, address, false) != 0)
        return bind_problem(address, problem);
    return 0;
}

/* `handed`: perhaps the previous owner has joined it. */
static int join_receive(int fd, bool handed, const struct socket_receive_options *options,
                        const struct address *address, unsigned interface, struct problem *problem)
{
    if (!address->multicast)
        return 0;
    if (join(fd, address, interface) != 0 && !(handed && errno == EADDRINUSE))
        return group_problem(address, options->interface, problem);
    return 0;
}

static void enter_receive(int fd, const struct socket_receive_options *options,
                          const struct address *address, unsigned interface)
{
    handover_register(options->handover, fd);
    if (address->multicast)
        handover_joined(options->handover, fd, interface);
}

int socket_bind_pending(int fd, const struct socket_receive_options *options,
                        struct socket_pending *pending, struct problem *problem)
{
    int error = 0;
    if (!pending->pending)
        return 0;
    if (handover_bind(options->handover, fd, &pending->address, true) != 0)
        error = bind_problem(&pending->address, problem);
    if (error == 0)
        error = join_receive(fd, false, options, &pending->address, pending->interface, problem);
    if (error != 0)
        return error;
    pending->pending = false;
    enter_receive(fd, options, &pending->address, pending->interface);
    return 0;
}

int socket_open_receive(const struct socket_receive_options *options, int *fd,
                        uint64_t *granted_bytes, struct socket_pending *pending,
                        struct problem *problem)
{
    struct address address;
    if (pending != NULL)
        *pending = (struct socket_pending){.pending = false};
    int error = address_resolve(options->address, true, &address, problem);
    if (error != 0)
        return error;
    unsigned interface = 0;
    *fd = -1;
    if (options->interface != NULL &&
        (error = find_interface(options->interface, &interface, problem)) != 0)
        return error;
    *fd = handover_take(options->handover, &address, interface);
    bool handed = *fd >= 0;
    if (!handed && (error = open_socket(&address, fd, problem)) != 0)
        return error;
    if (handed)
        set_nonblocking(*fd);
    *granted_bytes = handed ? buffer_of(*fd, SO_RCVBUF) : 0;
    if (*granted_bytes < clamp_bytes(options->buffer_bytes))
        *granted_bytes = set_buffer(*fd, SO_RCVBUFFORCE, SO_RCVBUF, options->buffer_bytes);
    error = prepare_receive(*fd, handed, &address, interface, problem);
    if (error == 0 && !handed)
        error = bind_receive(*fd, options, &address, pending, problem);
    const bool waits = error == 0 && pending != NULL && pending->pending;
    if (error == 0 && !waits)
        error = join_receive(*fd, handed, options, &address, interface, problem);
    if (error != 0) {
        handover_release(options->handover, *fd);
        *fd = -1;
        return error;
    }
    if (handed) {
        log_info("stream %s: reading on from a socket that was bound before", options->stream);
        if (address.multicast)
            handover_joined(options->handover, *fd, interface);
    } else if (waits) {
        pending->address = address;
        pending->interface = interface;
    } else {
        enter_receive(*fd, options, &address, interface);
    }
    report_buffer(options, *granted_bytes);
    return 0;
}

/* The interface through which the kernel reaches the address; 0: there is no way. */
static unsigned routed_interface(const struct address *to)
{
    struct sockaddr_storage from = {0};
    socklen_t bytes = sizeof from;
    unsigned index = 0;
    int fd = socket(to->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct address any_port = *to;
    if (address_port(&any_port.storage) == 0)
        address_set_port(&any_port.storage, 1);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&any_port.storage, any_port.bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&from, &bytes) == 0)
        index = interface_of(&from);
    if (fd >= 0)
        close(fd);
    return index;
}

unsigned socket_interface(const struct socket_receive_options *options, bool *group)
{
    struct address address;
    unsigned index = 0;
    *group = false;
    if (address_resolve(options->address, true, &address, NULL) != 0)
        return 0;
    *group = address.multicast;
    if (options->interface != NULL)
        return find_interface(options->interface, &index, NULL) == 0 ? index : 0;
    if (address.multicast)
        return routed_interface(&address);
    return address.any || address_is_any(&address.storage) ? 0 : interface_of(&address.storage);
}

int socket_rejoin(int fd, const struct socket_receive_options *options, unsigned before,
                  unsigned index, struct problem *problem)
{
    struct address address;
    int error = address_resolve(options->address, true, &address, problem);
    if (error != 0)
        return error;
    leave(fd, &address, before); /* the socket still has it, the interface does not */
    int bound = 0;
    socklen_t bytes = sizeof bound;
    /* bind to a group of link-local scope has bound the socket to the interface, too */
    if (getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &bound, &bytes) == 0 && bound != 0 &&
        set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index) != 0)
        return group_problem(&address, options->interface, problem);
    if (join(fd, &address, index) != 0 && errno != EADDRINUSE)
        return group_problem(&address, options->interface, problem);
    return 0;
}

int socket_leave(int fd, const struct socket_receive_options *options, unsigned index,
                 struct problem *problem)
{
    struct address address;
    int error = address_resolve(options->address, true, &address, problem);
    if (error == 0 && address.multicast)
        leave(fd, &address, index);
    return error;
}

int socket_connect_send(int fd, const struct socket_send_options *options, const struct address *to,
                        struct problem *problem)
{
    bool v6 = to->storage.ss_family == AF_INET6;
    int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    unsigned interface = 0;
    int error = 0;
    if (options->interface != NULL)
        error = find_interface(options->interface, &interface, problem);
    if (error != 0)
        return error;
    if (to->multicast && interface != 0) {
        struct ip_mreqn request = {.imr_ifindex = (int)interface};
        int failed = v6 ? set_option(fd, level, IPV6_MULTICAST_IF, (int)interface)
                        : setsockopt(fd, level, IP_MULTICAST_IF, &request, sizeof request);
        if (failed != 0)
            return group_problem(to, options->interface, problem);
    }
    if (options->ttl > 0) {
        int name = to->multicast ? (v6 ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL)
                                 : (v6 ? IPV6_UNICAST_HOPS : IP_TTL);
        if (set_option(fd, level, name, (int)options->ttl) != 0)
            return problem_set(problem, ERROR_ARGUMENT,
                               "a `ttl` of %u is not possible: write 1 "
                               "to 255",
                               options->ttl);
    }
    if (options->buffer_bytes > 0)
        set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options->buffer_bytes);
    if (connect(fd, (const struct sockaddr *)&to->storage, to->bytes) != 0) {
        char text[ADDRESS_TEXT];
        int reason = errno;
        bool absent = reason == ENETUNREACH || reason == EHOSTUNREACH || reason == ENODEV ||
                      reason == EADDRNOTAVAIL || reason == ENETDOWN;
        return problem_set(problem, absent ? ERROR_ABSENT : ERROR_ADDRESS,
                           "there is no way to %s: %s; check the address%s",
                           address_text(&to->storage, text), strerror(reason),
                           to->multicast ? ", or set `interface`" : " and the routes (`ip route`)");
    }
    return 0;
}

/* The port of the sink before, which may still have it: receivers know a sender by its port, too.
 * Where it cannot be had the kernel chooses another. */
static void bind_port(int fd, const struct address *to, uint16_t port)
{
    struct sockaddr_storage any = {.ss_family = to->storage.ss_family}; /* of every interface */
    if (port == 0)
        return;
    set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    address_set_port(&any, port);
    if (bind(fd, (const struct sockaddr *)&any, to->bytes) != 0)
        log_debug("port %u cannot be sent from any more: %s", port, strerror(errno));
}

int socket_open_send(const struct socket_send_options *options, int *fd, struct address *to,
                     struct problem *problem)
{
    int error = address_resolve(options->address, false, to, problem);
    if (error != 0 || (error = open_socket(to, fd, problem)) != 0)
        return error;
    bind_port(*fd, to, options->port);
    error = socket_connect_send(*fd, options, to, problem);
    /* Another sink of this user may take its place before it is closed. Not earlier: else the
     * kernel could choose a port that such a socket has. */
    set_option(*fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (error != 0 && error != ERROR_ABSENT) {
        close(*fd);
        *fd = -1;
    }
    return error;
}
