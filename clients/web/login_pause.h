/*
 * Pauses after wrong logins: the decision whether a wrong login is answered "wrong" or "too many".
 * Each address has a pause of its own, so that one client's attempts do not change another client's
 * answers, and a global bound holds for all addresses together.
 *
 * Only wrong logins are asked for: a valid token is never refused, because behind a proxy all
 * clients share one address. Tokens have 256 random bits, so trying cannot succeed: the pause
 * bounds the noise of a client that tries in a loop.
 *
 * Bounded: LOGIN_ADDRESSES addresses; the one that failed longest ago makes space. Pure, one
 * thread.
 */
#ifndef CONVOLV_WEB_LOGIN_PAUSE_H
#define CONVOLV_WEB_LOGIN_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOGIN_ADDRESSES = 64,
    LOGIN_PAUSE_MS = 200, /* between two wrong logins of one address */
    LOGIN_BURST = 50,     /* wrong logins of all addresses at once, refilled within … */
    LOGIN_REFILL_MS = 1000,
};

/* The first 64 bits of an IPv6 address, since one host may use all of the others; an IPv4 address
 * as ::ffff:0:0/96 has it. */
struct login_address {
    uint8_t bytes[16];
};

struct login_pauses {
    struct {
        struct login_address address;
        int64_t wrong_ns; /* when its last counted login was refused */
        bool used;
    } rows[LOGIN_ADDRESSES];
    unsigned spent; /* of LOGIN_BURST */
    int64_t refilled_ns;
};

/* The key of a peer: 4 bytes of IPv4 or 16 of IPv6, in network order; anything else gives one
 * common key. */
struct login_address login_address(const uint8_t *bytes, unsigned count);

/* A login with a wrong token from this address. True: it is the first within the pause, and counts.
 * False: too many have come from this address, or from all addresses together. */
bool login_pauses_wrong(struct login_pauses *pauses, const struct login_address *address,
                        int64_t now_ns);

#endif
