/*
 * Sockets: opens UDP sockets for sources and sinks: resolves the address, binds or connects, joins
 * a multicast group, and asks for buffers as large as the kernel grants. Where it grants less, one
 * warning names the command that raises the limit.
 *
 * No state. Worker threads: resolving may wait for a name server.
 */
#ifndef CONVOLVD_IO_NET_SOCKET_H
#define CONVOLVD_IO_NET_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/net/address.h"

struct handover;

struct socket_receive_options {
    const char *stream; /* for messages */
    const char *address;
    const char *interface; /* for groups: a name or an address of it; NULL: the kernel's choice */
    uint64_t buffer_bytes;
    double bytes_per_second;   /* of the stream, to say what the buffer holds; 0: unknown */
    struct handover *handover; /* where bound sockets may be found; NULL: nowhere */
};

/* A socket whose address the socket of a running source overlaps, which its source replaces: it is
 * bound when that one is about to stop. */
struct socket_pending {
    bool pending;
    struct address address;
    unsigned interface;
};

/*
 * Opens a bound, non-blocking socket with kernel receive times (SO_TIMESTAMPNS) and the count of
 * drops (SO_RXQ_OVFL); close it with handover_release. Where `handover` has a socket bound to the
 * address already (from systemd, or of a stream that a reload replaces), the source reads on from
 * that one. *granted_bytes is the receive buffer in the user's terms: half of what the kernel
 * reports, which includes its own bookkeeping. *pending says whether the socket still is to be
 * bound (socket_bind_pending); NULL: a socket that would be is refused. Returns 0, ERROR_ABSENT
 * when the interface or the address may come later, ERROR_ADDRESS or ERROR_SYSTEM.
 */
int socket_open_receive(const struct socket_receive_options *options, int *fd,
                        uint64_t *granted_bytes, struct socket_pending *pending,
                        struct problem *problem);
/* Binds the socket beside those that it replaces, and joins its group. A failure leaves those as
 * they are. Asks no name server and does not wait: loop thread. Returns as above. */
int socket_bind_pending(int fd, const struct socket_receive_options *options,
                        struct socket_pending *pending, struct problem *problem);

struct socket_send_options {
    const char *sink; /* for messages */
    const char *address;
    const char *interface; /* for groups */
    uint32_t ttl;          /* 0: the kernel's choice */
    uint64_t buffer_bytes; /* 0: the kernel's choice */
    uint16_t port;         /* to send from, where it is free or of this user's daemon; 0: any */
};

/* Opens a connected, non-blocking socket; close it with close(2). `to`: where it sends. Returns 0,
 * ERROR_ADDRESS, ERROR_ARGUMENT or ERROR_SYSTEM; or ERROR_ABSENT with a socket that is not
 * connected, because the interface or the route may come later. */
int socket_open_send(const struct socket_send_options *options, int *fd, struct address *to,
                     struct problem *problem);
/* Connects that socket once more. Any thread: it asks no name server. */
int socket_connect_send(int fd, const struct socket_send_options *options, const struct address *to,
                        struct problem *problem);

/* The number of the interface on which the socket of these options depends: the one named, the one
 * that the kernel chooses for the group, or the one that has the address; 0: there is none now, or
 * the socket is open to all. *group: it joins a multicast group. Worker threads. */
unsigned socket_interface(const struct socket_receive_options *options, bool *group);
/* Joins the group again on interface `index`, after the one of number `before` was removed. Returns
 * 0, ERROR_ABSENT or ERROR_ADDRESS. Worker threads. */
int socket_rejoin(int fd, const struct socket_receive_options *options, unsigned before,
                  unsigned index, struct problem *problem);
/* Leaves the group on interface `index`: nothing is received until socket_rejoin. As above. */
int socket_leave(int fd, const struct socket_receive_options *options, unsigned index,
                 struct problem *problem);

/* The local port, 0 when there is none. */
uint16_t socket_port(int fd);

#endif
