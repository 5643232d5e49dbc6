/*
 * Allowed networks: whose datagrams a source accepts, as `allow` lists them: addresses, networks,
 * `any`, and `own`, which stands for this machine and the networks of its interfaces (of one, where
 * the source names one). Without a list it is `own`.
 *
 * `own` is what the interfaces have when the list is made; whoever refuses a sender makes it anew
 * (network_source.c). Making and printing: worker threads or
 * the one that builds the configuration. allowed_contains: any thread.
 */
#ifndef CONVOLVD_IO_NET_ALLOWED_H
#define CONVOLVD_IO_NET_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/network.h"
#include "core/option.h"

struct allowed {
    struct network *list;
    uint32_t count, capacity;
};

/* Whether this is a word or network that `allow` takes. */
bool allowed_word(const char *text);

/* interface: a name or an address of it; NULL: all. Returns 0, ERROR_ADDRESS, ERROR_SYSTEM or
 * ERROR_MEMORY; then there is nothing to free. */
int allowed_make(const struct option_values *words, const char *interface, struct allowed *out,
                 struct problem *problem);
bool allowed_equal(const struct allowed *a, const struct allowed *b);
bool allowed_contains(const struct allowed *allowed, const struct sockaddr_storage *from);

/* Writes "127.0.0.0/8, ::1, 192.0.2.0/24", ended by " …" where it does not fit. Returns `text`. */
const char *allowed_print(const struct allowed *allowed, char *text, size_t bytes);

void allowed_free(struct allowed *allowed);

#endif
