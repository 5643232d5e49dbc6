/* Options of datagram sources: see network_options.h. */
#include "io/net/network_options.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "io/net/allowed.h"

enum { UDP_PAYLOAD_MAX = 65507 /* IPv4; a datagram must hold a frame at least */ };

const struct option_choice network_receive[] = {
    {"auto", RECEIVE_AUTO}, {"recvmmsg", RECEIVE_RECVMMSG}, {"gro", RECEIVE_GRO}, {NULL, 0}};

/* ---- addresses --------------------------------------------------------------------------- */

struct endpoint {
    int family; /* AF_INET, AF_INET6, or 0 for a name */
    unsigned char bytes[16];
    bool any; /* every own address */
};

static struct endpoint endpoint_of(const struct option_address *address)
{
    struct endpoint endpoint = {0};
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)address->host_bytes, address->host);
    if (inet_pton(AF_INET, host, endpoint.bytes) == 1)
        endpoint.family = AF_INET;
    else if (inet_pton(AF_INET6, host, endpoint.bytes) == 1)
        endpoint.family = AF_INET6;
    static const unsigned char zeros[16];
    endpoint.any = strcmp(host, "*") == 0 ||
                   (endpoint.family != 0 && memcmp(endpoint.bytes, zeros, sizeof zeros) == 0);
    return endpoint;
}

bool network_same_place(const char *a, const char *b, bool any_covers)
{
    const struct option_address first = option_address(a), second = option_address(b);
    if (first.port != second.port)
        return false;
    struct endpoint x = endpoint_of(&first), y = endpoint_of(&second);
    if (any_covers && (x.any || y.any))
        return true;
    if (x.family != 0 || y.family != 0)
        return x.family == y.family && memcmp(x.bytes, y.bytes, sizeof x.bytes) == 0;
    return first.host_bytes == second.host_bytes &&
           strncasecmp(first.host, second.host, first.host_bytes) == 0;
}

/* Whether it is an address of this machine. A name counts as one only when it is localhost. */
static bool is_own(const struct endpoint *endpoint, const struct option_address *address)
{
    static const unsigned char loopback6[16] = {[15] = 1};
    struct ifaddrs *all = NULL;
    if (endpoint->family == 0)
        return address->host_bytes == 9 && strncasecmp(address->host, "localhost", 9) == 0;
    if (endpoint->family == AF_INET ? endpoint->bytes[0] == 127
                                    : memcmp(endpoint->bytes, loopback6, 16) == 0)
        return true;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *each = all; each != NULL && !found; each = each->ifa_next) {
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != endpoint->family)
            continue;
        const uint8_t *bytes =
            (const uint8_t *)each->ifa_addr + (endpoint->family == AF_INET
                                                   ? offsetof(struct sockaddr_in, sin_addr)
                                                   : offsetof(struct sockaddr_in6, sin6_addr));
        found = memcmp(bytes, endpoint->bytes, endpoint->family == AF_INET ? 4 : 16) == 0;
    }
    freeifaddrs(all);
    return found;
}

bool network_reaches(const char *to, const char *bound)
{
    if (network_same_place(to, bound, false))
        return true;
    const struct option_address first = option_address(to), second = option_address(bound);
    const struct endpoint x = endpoint_of(&first), y = endpoint_of(&second);
    return first.port == second.port && y.any && is_own(&x, &first);
}

bool network_is_group(const char *text)
{
    const struct option_address address = option_address(text);
    struct endpoint endpoint = endpoint_of(&address);
    return (endpoint.family == AF_INET && endpoint.bytes[0] >> 4 == 0xe) ||
           (endpoint.family == AF_INET6 && endpoint.bytes[0] == 0xff);
}

void network_check_group(const struct option_check *check, const char *address,
                         const char *interface, const char *does)
{
    if (interface == NULL && network_is_group(address))
        option_warning(check, "address",
                       "`address = %s` is a multicast group, and no `interface` is written: the "
                       "kernel %s it by the interface of its default route, which need not be the "
                       "one to the rig; write interface = NAME, as `ip -br address` lists them",
                       address, does);
}

/* ---- payload types ----------------------------------------------------------------------- */

/* RFC 3551's static types that a user could meet; 96 … 127 are dynamic. */
void network_check_payload_type(const struct option_check *check, uint32_t payload_type,
                                const struct sample_format *format, double rate_hz,
                                uint32_t channels)
{
    const char *key = "payload type";
    if (payload_type == 10 || payload_type == 11) {
        uint32_t wanted = payload_type == 10 ? 2 : 1;
        bool is_l16 = format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->big_endian;
        if (!is_l16 || rate_hz != 44100 || channels != wanted)
            option_error(check, key,
                         "payload type %u means L16 with %u channel%s at 44.1 kHz (RFC 3551); "
                         "write one of 96 … 127 for other formats",
                         payload_type, wanted, wanted == 1 ? "" : "s");
    } else if (payload_type >= 72 && payload_type <= 76) {
        option_error(check, key,
                     "payload type %u collides with RTCP packets (RFC 3551); write one of 96 … 127",
                     payload_type);
    } else if (payload_type < 35) {
        option_error(
            check, key,
            "payload type %u belongs to another encoding (RFC 3551); write one of 96 … 127",
            payload_type);
    }
}

/* ---- checks ------------------------------------------------------------------------------ */

void ingest_options_check(const struct option_check *check, const struct source_options *options,
                          bool numbered)
{
    const struct ingest_options *own = options->own;
    if (numbered && options->reorder_ns > own->max_misorder_ns) {
        char reorder[40], misorder[40];
        const struct option_value *first = check->written(check->context, "reorder");
        const struct option_value *second = check->written(check->context, "max misorder");
        const char *awaited =
            first != NULL ? first->text
                          : quantity_print(DIMENSION_TIME, (double)options->reorder_ns / 1e9,
                                           reorder, sizeof reorder);
        option_error(check, "reorder",
                     "`reorder = %s` awaits packets that `max misorder = %s` takes for a restarted "
                     "sender; write max misorder = %s or more",
                     awaited,
                     second != NULL
                         ? second->text
                         : quantity_print(DIMENSION_TIME, (double)own->max_misorder_ns / 1e9,
                                          misorder, sizeof misorder),
                     awaited);
    }
    const double bytes_per_second = options->rate_hz * options->frame_bytes;
    if (own->byte_limit > 0 && (double)own->byte_limit < bytes_per_second)
        option_error(check, "byte limit",
                     "`byte limit` allows %llu bytes a second, and the samples of the stream are "
                     "%.0f; write more, with room for headers and a clock that is fast",
                     (unsigned long long)own->byte_limit, bytes_per_second);
    for (unsigned i = 0; i < own->allow.count; i++)
        if (!allowed_word(own->allow.values[i].text))
            option_error(check, "allow",
                         "`allow`: `%s` is not a numeric address; write the sender's IPv4 or IPv6 "
                         "address without a port, a network such as 10.0.0.0/8, own or any",
                         own->allow.values[i].text);
}

void network_check(const struct option_check *check, const struct source_options *options,
                   bool numbered)
{
    struct network_options *own = options->own;
    own->ingest.interface = own->interface;
    key_file_check(check, own->ingest.key);
    if (options->mode == MODE_DIRECT)
        option_error(check, "mode",
                     "`mode = direct` runs in a sound card's callback; write source = portaudio, "
                     "or mode = continuous");
    ingest_options_check(check, options, numbered);
    network_check_group(check, own->address, own->interface, "joins");
    if (options->frame_bytes > UDP_PAYLOAD_MAX - 12)
        option_error(check, "channels",
                     "one frame of %u channels has %u bytes, more than a datagram holds; write "
                     "fewer channels or a narrower format",
                     options->channels, options->frame_bytes);
}

const struct network_options *network_options_of(const struct source_section *section)
{
    return section->driver != NULL && section->driver->describe == network_describe
               ? section->options->own
               : NULL;
}

/* Two sources on one address: the later one is at fault. */
void network_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct source_section *section = &all->sources[self];
    const char *address = network_options_of(section)->address;
    if (address == NULL || option_address(address).port == 0)
        return;
    for (uint32_t i = 0; i < self; i++) {
        const struct network_options *other = network_options_of(&all->sources[i]);
        if (other == NULL || other->address == NULL ||
            !network_same_place(address, other->address, true))
            continue;
        option_error(&section->check, "address",
                     "streams %s and %s are both bound to `%s`; write another port for one of them",
                     all->sources[i].check.section, section->check.section, address);
        return;
    }
}

const char *network_describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct network_options *own = options->own;
    snprintf(text, bytes, " on %s", own->address);
    return text;
}

void network_report(const struct source_options *options, FILE *out)
{
    const struct network_options *own = options->own;
    const double bytes_per_second = options->rate_hz * options->frame_bytes;
    char text[48], senders[512];
    struct allowed allowed;
    if (allowed_make(&own->ingest.allow, own->interface, &allowed, NULL) == 0) {
        fprintf(out, "  senders          %s%s\n", allowed_print(&allowed, senders, sizeof senders),
                own->ingest.allow.count == 0 ? " (this machine and its networks: no `allow`)" : "");
        allowed_free(&allowed);
    }
    if (own->ingest.key != NULL)
        fprintf(out, "  tags             demanded, made with %s\n", own->ingest.key);
    fprintf(out, "  receive buffer   %s at this rate, if the kernel grants it\n",
            quantity_print(DIMENSION_TIME, (double)own->receive_buffer_bytes / bytes_per_second,
                           text, sizeof text));
}
