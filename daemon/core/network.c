/* IP networks: see network.h. */
#include "core/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static void map_v4(const struct in_addr *v4, uint8_t mapped[16])
{
    memset(mapped, 0, 10);
    mapped[10] = mapped[11] = 0xff;
    memcpy(mapped + 12, v4, 4);
}

int network_parse(const char *text, struct network *network)
{
    char host[INET6_ADDRSTRLEN];
    *network = (struct network){0};
    if (strcmp(text, "any") == 0)
        return 0;
    size_t length = strcspn(text, "/");
    if (length >= sizeof host)
        return ERROR_ADDRESS;
    memcpy(host, text, length);
    host[length] = '\0';
    struct in_addr v4;
    bool is_v4 = inet_pton(AF_INET, host, &v4) == 1;
    if (is_v4)
        map_v4(&v4, network->address);
    else if (inet_pton(AF_INET6, host, network->address) != 1)
        return ERROR_ADDRESS;
    unsigned most = is_v4 ? 32 : 128, bits = most;
    if (text[length] == '/') {
        char *end;
        unsigned long written = strtoul(text + length + 1, &end, 10);
        if (end == text + length + 1 || *end != '\0' || written > most)
            return ERROR_ADDRESS;
        bits = (unsigned)written;
    }
    network->bits = bits + 128 - most;
    return 0;
}

/* The 16 bytes of an address. */
static void map(const struct sockaddr_storage *address, uint8_t bytes[16])
{
    if (address->ss_family == AF_INET6)
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    else
        map_v4(&((const struct sockaddr_in *)(const void *)address)->sin_addr, bytes);
}

void network_of(const struct sockaddr_storage *address, unsigned bits, struct network *network)
{
    const unsigned most = address->ss_family == AF_INET6 ? 128 : 32;
    map(address, network->address);
    network->bits = (bits < most ? bits : most) + 128 - most;
    for (unsigned bit = network->bits; bit < 128; bit++)
        network->address[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

static bool is_v4(const struct network *network)
{
    static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
    return network->bits >= 96 && memcmp(network->address, mapped, sizeof mapped) == 0;
}

const char *network_text(const struct network *network, char text[NETWORK_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    bool v4 = is_v4(network);
    unsigned bits = network->bits - (v4 ? 96 : 0), most = v4 ? 32 : 128;
    if (network->bits == 0)
        snprintf(text, NETWORK_TEXT, "any");
    else if (inet_ntop(v4 ? AF_INET : AF_INET6, network->address + (v4 ? 12 : 0), host,
                       sizeof host) == NULL)
        text[0] = '\0';
    else if (bits == most)
        snprintf(text, NETWORK_TEXT, "%s", host);
    else
        snprintf(text, NETWORK_TEXT, "%s/%u", host, bits);
    return text;
}

bool network_equal(const struct network *a, const struct network *b)
{
    return a->bits == b->bits && memcmp(a->address, b->address, sizeof a->address) == 0;
}

bool network_contains(const struct network *network, const struct sockaddr_storage *address)
{
    uint8_t bytes[16];
    map(address, bytes);
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(network->address, bytes, whole) != 0)
        return false;
    return rest == 0 || (network->address[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}
