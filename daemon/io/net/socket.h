/*
 * Sockets: addresses as users write them, and UDP sockets made ready for a source or a sink:
 * resolved, bound or connected, joined to their group, with buffers as large as the kernel
 * grants. What was not granted is said once, with the command that mends it.
 *
 * Worker threads (resolving may wait for a name server); the functions keep no state.
 */
#ifndef CONVOLVD_IO_NET_SOCKET_H
#define CONVOLVD_IO_NET_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"

enum { SOCKET_TEXT = 80 };

struct socket_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
    bool any; /* "*:port" */
    bool multicast;
};

/*
 * "192.0.2.1:5004", "[2001:db8::1]:5004", "[fe80::1%eth0]:5004", "host.example:5004",
 * "239.1.2.3:5004", "[ff15::1]:5004"; to bind to: "*:5004" or ":5004" (every address, IPv6 and
 * IPv4). ERROR_ADDRESS with what to write instead.
 */
int socket_resolve(const char *text, bool to_bind, struct socket_address *out,
                   struct problem *problem);

/* The host alone ("192.0.2.1", "2001:db8::1", a name): for `allow`. */
int socket_resolve_host(const char *text, struct sockaddr_storage *out, struct problem *problem);

/* Same host, whatever the port; ::ffff:a.b.c.d is a.b.c.d. */
bool socket_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* "192.0.2.1:5004" or "[2001:db8::1]:5004". Returns `text`. */
const char *socket_text(const struct sockaddr_storage *address, char text[SOCKET_TEXT]);

struct socket_receive_options {
    const char *stream; /* for messages */
    const char *address;
    const char *interface; /* for groups: a name or an address of it; NULL: the kernel's choice */
    uint64_t buffer_bytes;
    double bytes_per_second; /* of the stream, to say what the buffer holds; 0: unknown */
};

/*
 * A bound, non-blocking socket with kernel receive times (SO_TIMESTAMPNS) and the count of
 * drops (SO_RXQ_OVFL). *granted_bytes is the receive buffer in the user's terms: half of what
 * the kernel reports, which counts its own bookkeeping too. A socket that is bound to the address
 * already, systemd's or that of a stream to be replaced, is read on (handover.h). Close it with
 * handover_close.
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
int socket_open_send(const struct socket_send_options *options, int *fd, struct socket_address *to,
                     struct problem *problem);

/* The local port, 0 when there is none. */
uint16_t socket_port(int fd);

#endif
