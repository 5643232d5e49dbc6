/*
 * IP networks as people write them ("192.0.2.7", "10.0.0.0/8", "2001:db8::/32", "any"), and whether
 * an address lies in one. IPv4 counts as IPv4-mapped IPv6 (::ffff:a.b.c.d), so that one comparison
 * serves sockets of both families.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_CORE_NETWORK_H
#define CONVOLVD_CORE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NETWORK_TEXT = 56 }; /* bytes of a printed network, with its end */

/* All addresses whose first `bits` bits are those of `address`. */
struct network {
    uint8_t address[16];
    unsigned bits; /* 0 ("any") … 128 */
};

/* Reads a numeric address, one with "/BITS" (at most 32 or 128), or "any". Returns 0 or
 * ERROR_ADDRESS. */
int network_parse(const char *text, struct network *network);

/* The network of `bits` leading bits around an address of family AF_INET (at most 32; more count
 * as 32) or AF_INET6. */
void network_of(const struct sockaddr_storage *address, unsigned bits, struct network *network);

/* Prints what network_parse reads: "10.0.0.0/8", "192.0.2.7", "any". Returns `text`. */
const char *network_text(const struct network *network, char text[NETWORK_TEXT]);

bool network_equal(const struct network *a, const struct network *b);

/* `address` is of family AF_INET or AF_INET6; its port does not matter. */
bool network_contains(const struct network *network, const struct sockaddr_storage *address);

#endif
