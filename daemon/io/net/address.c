/* Addresses: see address.h. */
#include "io/net/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool address_is_group(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return IN_MULTICAST(ntohl(address_v4(address)->sin_addr.s_addr));
    return IN6_IS_ADDR_MULTICAST(&address_v6(address)->sin6_addr);
}

static int address_problem(const char *text, struct problem *problem)
{
    return problem_set(problem, ERROR_ADDRESS,
                       "'%.80s' is not an address and a port: write HOST:PORT, such as "
                       "127.0.0.1:5004, [::1]:5004, 239.1.2.3:5004 or, to receive on every "
                       "address, *:5004",
                       text);
}

/* Splits HOST:PORT, without the brackets of IPv6. */
static bool split(const char *text, char host[256], char port[6])
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return false;
    size_t host_bytes = (size_t)(colon - text), port_bytes = strlen(colon + 1);
    if (port_bytes == 0 || port_bytes > 5 || strspn(colon + 1, "0123456789") != port_bytes ||
        atoi(colon + 1) > 65535)
        return false;
    memcpy(port, colon + 1, port_bytes + 1);
    if (host_bytes >= 2 && text[0] == '[' && text[host_bytes - 1] == ']') {
        text++;
        host_bytes -= 2;
    } else if (memchr(text, ':', host_bytes) != NULL) {
        return false; /* IPv6 without brackets: its port would be ambiguous */
    }
    if (host_bytes > 255)
        return false;
    memcpy(host, text, host_bytes);
    host[host_bytes] = '\0';
    return true;
}

static int resolve(const char *host, const char *port, int flags, struct sockaddr_storage *out,
                   socklen_t *bytes, struct problem *problem)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM, .ai_flags = flags};
    struct addrinfo *found;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0)
        return problem_set(problem, ERROR_ADDRESS,
                           "'%.80s' could not be resolved (%s): check its spelling, or write the "
                           "address in numbers",
                           host, failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
    memset(out, 0, sizeof *out);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int address_resolve(const char *text, bool to_bind, struct address *out, struct problem *problem)
{
    char host[256], port[6];
    if (!split(text, host, port))
        return address_problem(text, problem);
    memset(out, 0, sizeof *out);
    if (host[0] == '\0' || strcmp(host, "*") == 0) {
        if (!to_bind)
            return problem_set(problem, ERROR_ADDRESS,
                               "'%.80s' names no receiver: write its address, such as "
                               "192.0.2.1:5004, or a group such as 239.1.2.3:5004",
                               text);
        struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_ANY_INIT,
                                   .sin6_port = htons((uint16_t)atoi(port))};
        memcpy(&out->storage, &any, sizeof any);
        out->bytes = sizeof any;
        out->any = true;
        return 0;
    }
    if (!to_bind && atoi(port) == 0)
        return address_problem(text, problem);
    int error = resolve(host, port, AI_NUMERICSERV, &out->storage, &out->bytes, problem);
    if (error == 0)
        out->multicast = address_is_group(&out->storage);
    return error;
}

int address_resolve_host(const char *text, struct sockaddr_storage *out, struct problem *problem)
{
    char host[256], port[6];
    socklen_t bytes;
    if (strlen(text) >= sizeof host)
        return address_problem(text, problem);
    struct in6_addr v6;
    bool has_port = inet_pton(AF_INET6, text, &v6) != 1 && split(text, host, port);
    return resolve(has_port ? host : text, NULL, 0, out, &bytes, problem);
}

/* The four bytes of IPv4, mapped or not; NULL for IPv6. */
static const uint8_t *v4_bytes(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return (const uint8_t *)&address_v4(address)->sin_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address_v6(address)->sin6_addr))
        return address_v6(address)->sin6_addr.s6_addr + 12;
    return NULL;
}

bool address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const uint8_t *a4 = v4_bytes(a), *b4 = v4_bytes(b);
    if (a4 != NULL || b4 != NULL)
        return a4 != NULL && b4 != NULL && memcmp(a4, b4, 4) == 0;
    return memcmp(&address_v6(a)->sin6_addr, &address_v6(b)->sin6_addr, sizeof(struct in6_addr)) ==
           0;
}

/* sin_port and sin6_port lie at the same offset, so that one access serves both families. */
static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
              "the ports of both families share an offset");

uint16_t address_port(const struct sockaddr_storage *address)
{
    return ntohs(address_v6(address)->sin6_port);
}

void address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

bool address_is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return address_v4(address)->sin_addr.s_addr == 0;
    return IN6_IS_ADDR_UNSPECIFIED(&address_v6(address)->sin6_addr);
}

const char *address_text(const struct sockaddr_storage *address, char text[ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    const uint8_t *v4 = v4_bytes(address);
    if (v4 != NULL)
        snprintf(text, ADDRESS_TEXT, "%u.%u.%u.%u:%u", v4[0], v4[1], v4[2], v4[3],
                 address_port(address));
    else
        snprintf(text, ADDRESS_TEXT, "[%s]:%u",
                 inet_ntop(AF_INET6, &address_v6(address)->sin6_addr, host, sizeof host),
                 address_port(address));
    return text;
}
