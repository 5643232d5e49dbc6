/*
 * What streams and sinks share: hosts that mean the same place, RTP payload types that are
 * taken, and the message about a name that nobody defined.
 */
#include "config/internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* RFC 3551's static types that a user could meet; 96 … 127 are dynamic. */
void check_payload_type(struct build *build, struct raw_section *section, enum schema_id id,
                        const struct sample_format *format, double rate_hz, uint32_t channels)
{
    const struct value *value = value_of(section, id);
    if (value == NULL)
        return;
    struct config_place place = place_of(section, id);
    int type = (int)value->integer;
    if (type == 10 || type == 11) {
        uint32_t wanted = type == 10 ? 2 : 1;
        bool is_l16 = format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->big_endian;
        if (!is_l16 || rate_hz != 44100 || channels != wanted)
            config_error(
                build->errors, place,
                "payload type %d means L16 with %u channel%s at 44.1 kHz (RFC 3551); write "
                "one of 96 … 127 for other formats",
                type, wanted, wanted == 1 ? "" : "s");
    } else if (type >= 72 && type <= 76) {
        config_error(build->errors, place,
                     "payload type %d collides with RTCP packets (RFC 3551); write one of 96 … 127",
                     type);
    } else if (type < 35) {
        config_error(
            build->errors, place,
            "payload type %d belongs to another encoding (RFC 3551); write one of 96 … 127", type);
    }
}

struct endpoint {
    int family; /* AF_INET, AF_INET6, or 0 for a name */
    unsigned char bytes[16];
    bool any; /* every own address */
};

static struct endpoint endpoint_of(const struct value *address)
{
    struct endpoint endpoint = {0};
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)address->host_length, address->host);
    if (inet_pton(AF_INET, host, endpoint.bytes) == 1)
        endpoint.family = AF_INET;
    else if (inet_pton(AF_INET6, host, endpoint.bytes) == 1)
        endpoint.family = AF_INET6;
    static const unsigned char zeros[16];
    endpoint.any = strcmp(host, "*") == 0 ||
                   (endpoint.family != 0 && memcmp(endpoint.bytes, zeros, sizeof zeros) == 0);
    return endpoint;
}

bool same_host(const struct value *a, const struct value *b, bool any_covers)
{
    struct endpoint x = endpoint_of(a), y = endpoint_of(b);
    if (any_covers && (x.any || y.any))
        return true;
    if (x.family != 0 || y.family != 0)
        return x.family == y.family && memcmp(x.bytes, y.bytes, sizeof x.bytes) == 0;
    return a->host_length == b->host_length && strncasecmp(a->host, b->host, a->host_length) == 0;
}

void report_unknown(struct build *build, struct config_place place, const struct raw_section *user,
                    enum section_kind kind, const char *name)
{
    bool filters = kind == SECTION_FILTER;
    struct raw_section *const *sections = filters ? build->filter_sections : build->stream_sections;
    uint32_t count = filters ? build->config->filter_count : build->config->stream_count;
    const char *word = schema_sections[kind].word, *nearest = NULL;
    unsigned best = (unsigned)strlen(name) / 3 + 2; /* further away it is another name */
    for (uint32_t i = 0; i < count; i++) {
        unsigned distance = schema_distance(name, sections[i]->name);
        if (distance < best) {
            best = distance;
            nearest = sections[i]->name;
        }
    }
    if (nearest != NULL)
        config_error(build->errors, place,
                     "%s %s names a %s %s that nobody defined; write %s, or add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, word, name, nearest, word, name);
    else
        config_error(build->errors, place,
                     "%s %s names a %s %s that nobody defined; add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, word, name, word, name);
}
