/*
 * Sockets: addresses as users write them, and UDP sockets made ready for a source or a sink:
 * resolved, bound or connected, joined to their group, with buffers as large as the kernel
 * grants. What was not granted is said once, with the command that mends it.
 *
 * Worker threads (resolving may wait for a name server); the functions keep no state.
 */
#ifndef CONVOLVD_IO_NET_SOCKET_H
#define CONVOLVD_IO_NET_SOCKET_H

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

/*
 * A bound, non-blocking socket with kernel receive times (SO_TIMESTAMPNS) and the count of
 * drops (SO_RXQ_OVFL). *granted_bytes is the receive buffer in the user's terms: half of what
 * the kernel reports, which counts its own bookkeeping too. A socket that is bound to the address
 * already, systemd's or that of a stream to be replaced, is read on (handover.h). Close it with
 * handover_release.
 */
int socket_open_receive(const struct socket_receive_options *options, int *fd,
                        uint64_t *granted_bytes, struct problem *problem);

struct socket_send_options {
    const char *sink; /* for messages */
    const char *address;
    const char *interface; /* for groups */
    uint32_t ttl;          /* 0: the kernel's choice */
    uint64_t buffer_bytes; /* 0: the kernel's choice */
};

/* A connected, non-blocking socket. */
int socket_open_send(const struct socket_send_options *options, int *fd, struct address *to,
                     struct problem *problem);

/* The local port, 0 when there is none. */
uint16_t socket_port(int fd);

#endif
