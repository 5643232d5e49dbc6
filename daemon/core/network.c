/* IP networks: see network.h. */
#include "core/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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

bool network_contains(const struct network *network, const struct sockaddr_storage *address)
{
    uint8_t bytes[16];
    if (address->ss_family == AF_INET6)
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    else
        map_v4(&((const struct sockaddr_in *)(const void *)address)->sin_addr, bytes);
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(network->address, bytes, whole) != 0)
        return false;
    return rest == 0 || (network->address[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}
