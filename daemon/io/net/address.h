/*
 * Addresses: reads them as users write them, prints and compares them. IPv4 and IPv6; an
 * IPv4-mapped address (::ffff:a.b.c.d) is the same host as a.b.c.d.
 *
 * No state. address_resolve and address_resolve_host may wait for a name server: worker threads.
 * The other functions are pure: any thread.
 */
#ifndef CONVOLVD_IO_NET_ADDRESS_H
#define CONVOLVD_IO_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"

enum { ADDRESS_TEXT = 80 }; /* bytes of a printed address, with its end */

struct address {
    struct sockaddr_storage storage; /* AF_INET or AF_INET6 */
    socklen_t bytes;                 /* of storage in use */
    bool any;                        /* "*:port": every address of this machine */
    bool multicast;
};

/* The address as one of its family, AF_INET or AF_INET6. */
static inline const struct sockaddr_in *address_v4(const struct sockaddr_storage *address)
{
    return (const struct sockaddr_in *)(const void *)address;
}

static inline const struct sockaddr_in6 *address_v6(const struct sockaddr_storage *address)
{
    return (const struct sockaddr_in6 *)(const void *)address;
}

/*
 * Resolves "192.0.2.1:5004", "[2001:db8::1]:5004", "[fe80::1%eth0]:5004", "host.example:5004",
 * "239.1.2.3:5004" or "[ff15::1]:5004"; with `to_bind` also "*:5004" and ":5004", which stand for
 * every address of both families. Returns 0, or ERROR_ADDRESS with a sentence that says what to
 * write instead.
 */
int address_resolve(const char *text, bool to_bind, struct address *out, struct problem *problem);

/* Resolves a host without its port ("192.0.2.1", "2001:db8::1", a name); a port that is written
 * nevertheless is ignored. Returns 0 or ERROR_ADDRESS. */
int address_resolve_host(const char *text, struct sockaddr_storage *out, struct problem *problem);

/* Whether both are of one host, whatever their ports. */
bool address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether it stands for every address of the machine (0.0.0.0 or ::). */
bool address_is_any(const struct sockaddr_storage *address);

/* Whether it is a multicast group. */
bool address_is_group(const struct sockaddr_storage *address);

/* The port, in the byte order of this machine. */
uint16_t address_port(const struct sockaddr_storage *address);
void address_set_port(struct sockaddr_storage *address, uint16_t port);

/* Prints "192.0.2.1:5004" or "[2001:db8::1]:5004" into `text` and returns it. */
const char *address_text(const struct sockaddr_storage *address, char text[ADDRESS_TEXT]);

#endif
