/*
 * The guard: which Host and Origin a request may name. A web page of somebody else, open in the
 * same browser, reaches any address that the browser reaches, loopback included. It cannot forge
 * these two headers, so they tell its requests from those of our own page:
 *
 * - Host is an IP address or a name that the administrator has listed, with our port. A name that
 * an attacker's DNS points at us (DNS rebinding) is none of them.
 * - Origin, where there is one, names the same host and port as Host.
 *
 * Pure functions, any thread. Texts come from the network: each is read up to its length only.
 */
#ifndef CONVOLV_WEB_GUARD_H
#define CONVOLV_WEB_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD_HOSTS_MAX = 64, GUARD_TEXT_MAX = 300 };

struct guard {
    uint16_t port; /* where it listens */
    bool tls;
    const char *const *hosts; /* [host_count]: NAME or NAME:PORT, besides localhost */
    unsigned host_count;
};

/* Whether this Host header may be served. */
bool guard_host(const struct guard *guard, const char *host);

/* Whether a request with this Origin, sent to this Host, comes from our own page. "null", as
 * sandboxed pages send it, does not. */
bool guard_origin(const struct guard *guard, const char *host, const char *origin);

/* Whether an address, as text, is of this machine alone: 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104. */
bool guard_loopback(const char *address);

#endif
