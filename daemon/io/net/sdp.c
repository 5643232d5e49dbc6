/* SDP: see sdp.h. Worker threads. */
#include "io/net/sdp.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/replace_file.h"

const char *sdp_encoding_name(const struct sample_format *format)
{
    if (format->bits != 8u * format->bytes || (format->bytes > 1 && !format->big_endian))
        return NULL;
    if (format->kind == SAMPLE_FLOAT)
        return "f32be";
    if (format->kind != SAMPLE_SIGNED)
        return NULL;
    static const char *const names[] = {NULL, NULL, "L16", "L24", "s32be"};
    return names[format->bytes];
}

struct text {
    char *bytes;
    size_t used;
};

/* Appends a line. SDP_BYTES holds all of them: each is short and their number is fixed. */
static void __attribute__((format(printf, 2, 3))) line(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = SDP_BYTES - text->used;
    int length = vsnprintf(text->bytes + text->used, room - 2, format, arguments);
    va_end(arguments);
    text->used += (size_t)length < room - 2 ? (size_t)length : room - 3;
    text->used += (size_t)snprintf(text->bytes + text->used, 3, "\r\n");
}

/* "IP4 192.0.2.1" */
static const char *connection(const struct sockaddr_storage *address, char text[64])
{
    bool v6 = address->ss_family == AF_INET6;
    const void *number =
        v6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
           : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    snprintf(text, 64, "IP%c ", v6 ? '6' : '4');
    inet_ntop(address->ss_family, number, text + 4, 60);
    return text;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through struct text */
size_t sdp_build(const struct sdp_media *media, char out[SDP_BYTES])
{
    struct text text = {out, 0};
    char from[64], host[64], name[128], group[16] = "";
    const struct sockaddr_storage *to = &media->to.storage;
    unsigned port = ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port);
    snprintf(name, sizeof name, "%s", media->name);
    for (char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ')
            *c = ' ';
    }
    if (media->to.multicast && to->ss_family == AF_INET)
        snprintf(group, sizeof group, "/%u", media->ttl > 0 ? media->ttl : 1);

    line(&text, "v=0");
    line(&text, "o=- %llu 1 IN %s", (unsigned long long)media->session,
         connection(&media->from, from));
    line(&text, "s=%s", name[0] != '\0' ? name : "-");
    line(&text, "c=IN %s%s", connection(to, host), group);
    line(&text, "t=0 0");
    line(&text, "a=tool:convolvd " CONVOLVD_VERSION);
    line(&text, "m=audio %u RTP/AVP %u", port, media->payload_type);
    line(&text, "a=rtpmap:%u %s/%.0f/%u", media->payload_type, sdp_encoding_name(&media->format),
         fmax(1.0, nearbyint(media->rate_hz)), media->channels);
    line(&text, "a=recvonly");
    line(&text, "a=ptime:%.6g", media->packet_frames / media->rate_hz * 1e3);
    line(&text, "a=ssrc:%u cname:convolvd@%s", media->ssrc, from + 4);
    line(&text, "a=extmap:1 urn:ietf:params:rtp-hdrext:ntp-64");
    line(&text, "a=extmap:2 urn:x-convolvd:stages");
    line(&text, "a=extmap:3 urn:x-convolvd:quality");
    line(&text, "a=extmap:4 urn:x-convolvd:place");
    line(&text, "a=extmap:5 urn:x-convolvd:invalid");
    line(&text, "a=extmap:6 urn:x-convolvd:decimation");
    line(&text, "a=x-convolvd-rate:%.17g", media->rate_hz);
    line(&text, "a=x-convolvd-full-scale:%.17g", media->full_scale);
    line(&text, "a=x-convolvd-delay:%.17g", media->delay_frames);
    line(&text, "a=x-convolvd-decimation:%u", media->decimate > 1 ? media->decimate : 1);
    return text.used;
}

int sdp_write(const struct sdp_media *media, const char *path, struct problem *problem)
{
    char text[SDP_BYTES];
    struct problem reason;
    sdp_build(media, text);
    if (replace_file_text(path, text, &reason) == 0)
        return 0;
    return problem_set(problem, ERROR_NO_FILE,
                       "the SDP file %.360s; make its directory writable, set `sdp` to another "
                       "path, or write sdp = none",
                       reason.text);
}
