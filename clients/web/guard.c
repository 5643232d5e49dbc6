/* The guard: see guard.h. */
#include "guard.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A host and its port, taken apart. */
struct authority {
    char name[GUARD_TEXT_MAX]; /* without the brackets of IPv6 */
    bool bracketed;
    uint16_t port;
};

/* 1 … 65535, digits only. */
static bool read_port(const char *text, uint16_t *port)
{
    char *end;
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 5)
        return false;
    const unsigned long value = strtoul(text, &end, 10);
    *port = (uint16_t)value;
    return *end == '\0' && value >= 1 && value <= 65535;
}

/* NAME, NAME:PORT, [IPv6] or [IPv6]:PORT. */
static bool take_apart(const char *text, uint16_t default_port, struct authority *authority)
{
    const size_t length = strnlen(text, GUARD_TEXT_MAX);
    const char *name = text, *end;
    if (length == 0 || length == GUARD_TEXT_MAX)
        return false;
    authority->bracketed = text[0] == '[';
    if (authority->bracketed) {
        name = text + 1;
        end = strchr(name, ']');
        if (end == NULL)
            return false;
    } else {
        end = name + strcspn(name, ":");
    }
    if (end == name)
        return false;
    memcpy(authority->name, name, (size_t)(end - name));
    authority->name[end - name] = '\0';
    end += authority->bracketed;
    authority->port = default_port;
    return *end == '\0' || (*end == ':' && read_port(end + 1, &authority->port));
}

static bool is_address(const struct authority *authority)
{
    struct in6_addr six;
    struct in_addr four;
    return authority->bracketed ? inet_pton(AF_INET6, authority->name, &six) == 1
                                : inet_pton(AF_INET, authority->name, &four) == 1;
}

static uint16_t scheme_port(const struct guard *guard)
{
    return guard->tls ? 443 : 80;
}

static bool same(const struct authority *a, const struct authority *b)
{
    return a->port == b->port && a->bracketed == b->bracketed && strcasecmp(a->name, b->name) == 0;
}

bool guard_host(const struct guard *guard, const char *host)
{
    struct authority given, listed;
    if (!take_apart(host, scheme_port(guard), &given))
        return false;
    if (given.port == guard->port &&
        (is_address(&given) || strcasecmp(given.name, "localhost") == 0))
        return true;
    for (unsigned i = 0; i < guard->host_count; i++) {
        /* Listed without a port: with ours, or with none, as behind a proxy. */
        const bool bare = take_apart(guard->hosts[i], guard->port, &listed);
        if (bare && same(&given, &listed))
            return true;
        if (take_apart(guard->hosts[i], scheme_port(guard), &listed) && same(&given, &listed))
            return true;
    }
    return false;
}

bool guard_origin(const struct guard *guard, const char *host, const char *origin)
{
    struct authority from, to;
    uint16_t port;
    /* https: our own, or that of a proxy in front of us. */
    if (strncmp(origin, "https://", 8) == 0) {
        port = 443;
        origin += 8;
    } else if (!guard->tls && strncmp(origin, "http://", 7) == 0) {
        port = 80;
        origin += 7;
    } else {
        return false;
    }
    return guard_host(guard, host) && take_apart(origin, port, &from) &&
           take_apart(host, port, &to) && same(&from, &to);
}

bool guard_loopback(const char *address)
{
    struct in6_addr six;
    struct in_addr four;
    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address, &six) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}
