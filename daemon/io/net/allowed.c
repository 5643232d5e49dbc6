/* Allowed networks: see allowed.h. */
#include "io/net/allowed.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/address.h"

static const char own_word[] = "own";

bool allowed_word(const char *text)
{
    struct network network;
    return strcmp(text, own_word) == 0 || network_parse(text, &network) == 0;
}

/* Adds a network that is not there yet. */
static int add(struct allowed *allowed, const struct network *network)
{
    for (uint32_t i = 0; i < allowed->count; i++)
        if (network_equal(&allowed->list[i], network))
            return 0;
    if (allowed->count == allowed->capacity) {
        uint32_t capacity = allowed->capacity > 0 ? 2 * allowed->capacity : 8;
        struct network *list = realloc(allowed->list, capacity * sizeof *list);
        if (list == NULL)
            return ERROR_MEMORY;
        allowed->list = list;
        allowed->capacity = capacity;
    }
    allowed->list[allowed->count++] = *network;
    return 0;
}

static int add_text(struct allowed *allowed, const char *text)
{
    struct network network;
    int error = network_parse(text, &network);
    return error != 0 ? error : add(allowed, &network);
}

/* ---- own networks ------------------------------------------------------------------------ */

/* The leading bits of a netmask. */
static unsigned mask_bits(const struct sockaddr *mask)
{
    struct sockaddr_storage storage = {0};
    bool v4 = mask->sa_family == AF_INET;
    memcpy(&storage, mask, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    const uint8_t *bytes = v4 ? (const uint8_t *)&address_v4(&storage)->sin_addr
                              : address_v6(&storage)->sin6_addr.s6_addr;
    unsigned bits = 0, most = v4 ? 32 : 128;
    while (bits < most && bytes[bits / 8] >> (7 - bits % 8) & 1)
        bits++;
    return bits;
}

/* Adds an address of this machine; with `network` the network around it, and the other end of a
 * point-to-point link. */
static int add_interface(struct allowed *allowed, const struct ifaddrs *one, bool network)
{
    const struct sockaddr *address = one->ifa_addr;
    unsigned bits = network && one->ifa_netmask != NULL ? mask_bits(one->ifa_netmask) : 128;
    struct sockaddr_storage storage = {0};
    bool v4 = address->sa_family == AF_INET;
    size_t bytes = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&storage, address, bytes);
    struct network around;
    network_of(&storage, bits, &around);
    int error = add(allowed, &around);
    if (error == 0 && network && one->ifa_flags & IFF_POINTOPOINT && one->ifa_dstaddr != NULL &&
        one->ifa_dstaddr->sa_family == address->sa_family) {
        memcpy(&storage, one->ifa_dstaddr, bytes);
        network_of(&storage, 128, &around);
        error = add(allowed, &around);
    }
    return error;
}

/* Whether the interface is the one named, by its name or by an address of it. */
static bool is_named(const struct ifaddrs *all, const struct ifaddrs *one, const char *interface)
{
    struct network wanted;
    if (interface == NULL || strcmp(interface, one->ifa_name) == 0)
        return true;
    if (network_parse(interface, &wanted) != 0)
        return false;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        int family = i->ifa_addr != NULL ? i->ifa_addr->sa_family : AF_UNSPEC;
        if ((family == AF_INET || family == AF_INET6) && strcmp(i->ifa_name, one->ifa_name) == 0 &&
            network_contains(&wanted, (const void *)i->ifa_addr))
            return true;
    }
    return false;
}

static int add_own(struct allowed *allowed, const char *interface, struct problem *problem)
{
    struct ifaddrs *all = NULL;
    int error = add_text(allowed, "127.0.0.0/8");
    if (error == 0)
        error = add_text(allowed, "::1");
    if (error == 0 && getifaddrs(&all) != 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "the networks of this machine cannot be read (%s): list senders in "
                           "`allow`",
                           strerror(errno));
    for (const struct ifaddrs *one = all; one != NULL && error == 0; one = one->ifa_next) {
        int family = one->ifa_addr != NULL ? one->ifa_addr->sa_family : AF_UNSPEC;
        if ((family == AF_INET || family == AF_INET6) && !(one->ifa_flags & IFF_LOOPBACK))
            error = add_interface(allowed, one, is_named(all, one, interface));
    }
    freeifaddrs(all);
    return error;
}

/* ---- the list ---------------------------------------------------------------------------- */

int allowed_make(const struct option_values *words, const char *interface, struct allowed *out,
                 struct problem *problem)
{
    int error = 0;
    *out = (struct allowed){0};
    if (words->count == 0)
        error = add_own(out, interface, problem);
    for (unsigned i = 0; i < words->count && error == 0; i++) {
        const char *text = words->values[i].text;
        if (strcmp(text, own_word) == 0)
            error = add_own(out, interface, problem);
        else if ((error = add_text(out, text)) == ERROR_ADDRESS)
            problem_set(problem, ERROR_ADDRESS,
                        "`allow`: `%.60s` is no address; write 192.0.2.7, 10.0.0.0/8, own or any",
                        text);
    }
    if (error == ERROR_MEMORY)
        problem_set(problem, ERROR_MEMORY, "no memory for `allow`");
    if (error != 0)
        allowed_free(out);
    return error;
}

bool allowed_equal(const struct allowed *a, const struct allowed *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!network_equal(&a->list[i], &b->list[i]))
            return false;
    return true;
}

bool allowed_contains(const struct allowed *allowed, const struct sockaddr_storage *from)
{
    for (uint32_t i = 0; i < allowed->count; i++)
        if (network_contains(&allowed->list[i], from))
            return true;
    return false;
}

const char *allowed_print(const struct allowed *allowed, char *text, size_t bytes)
{
    char one[NETWORK_TEXT];
    static const char more[] = " …";
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < allowed->count; i++) {
        size_t needed = strlen(network_text(&allowed->list[i], one)) + 2;
        if (used + needed + sizeof more > bytes) {
            snprintf(text + used, bytes - used, "%s", more);
            break;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", one);
    }
    return text;
}

void allowed_free(struct allowed *allowed)
{
    free(allowed->list);
    *allowed = (struct allowed){0};
}
