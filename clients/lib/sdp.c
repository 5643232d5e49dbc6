/*
 * Reads the SDP file of a result stream (RFC 8866), as far as a receiver needs it:
 *
 *     c=IN IP4 239.1.2.3/8            group or host, IP4 or IP6
 *     m=audio 5004 RTP/AVP 96         port and payload types (also 5004/1, RTP/AVPF); the first
 *                                     audio section counts, whatever sections are around it
 *     a=rtpmap:96 L24/48000/4         format, rate, channels (1 when left out); not needed
 *                                     for the static types 10 and 11
 *     a=x-convolvd-full-scale:10      value of full scale of an integer format
 *     a=x-convolvd-rate:5000000.5     the exact rate
 *
 * It skips lines that it does not know. The file may hold any bytes: each line is copied into a
 * bounded buffer before it is parsed. Pure functions, any thread.
 */
#include "convolv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "wire/format.h"

enum { LINE_BYTES = 256, FILE_BYTES_MAX = 64 << 10, PAYLOADS_MAX = 32 };

enum section { SESSION, CHOSEN, OTHER };

/* A payload type of the m= line. */
struct payload {
    unsigned type;
    char name[LINE_BYTES]; /* encoding; empty: not known yet */
    double rate_hz;
    uint32_t channels;
};

struct sdp {
    enum section section;
    bool chosen; /* an audio section was there */
    char host[LINE_BYTES];
    bool v6;
    unsigned port;
    struct payload payloads[PAYLOADS_MAX]; /* in the order of preference */
    unsigned payload_count;
    double rate_hz; /* exact; 0: the payload's */
    double full_scale;
};

/* RFC 3551 section 6: the static types of linear samples need no a=rtpmap. */
static struct payload payload_of(unsigned type)
{
    struct payload payload = {.type = type};
    if (type == 10 || type == 11) {
        snprintf(payload.name, sizeof payload.name, "L16");
        payload.rate_hz = 44100;
        payload.channels = type == 10 ? 2 : 1;
    }
    return payload;
}

/* Of the session, unless the chosen section has its own. */
static void connection_line(struct sdp *sdp, const char *value)
{
    char family[8], host[LINE_BYTES];
    if (sdp->section == OTHER || sscanf(value, "IN %7s %255[^/ ]", family, host) != 2)
        return;
    sdp->v6 = strcmp(family, "IP6") == 0;
    memcpy(sdp->host, host, sizeof host);
}

/* "audio 5004/1 RTP/AVP 96 97": the first audio section that is not rejected (port 0). */
static void media_line(struct sdp *sdp, const char *value)
{
    char media[16], profile[32];
    unsigned port, type;
    int used = 0;
    sdp->section = OTHER;
    if (sdp->chosen || sscanf(value, "%15s %u%n", media, &port, &used) != 2 ||
        strcmp(media, "audio") != 0 || port < 1 || port > 65535)
        return;
    value += used;
    if (*value == '/') /* how many ports */
        value += strcspn(value, " ");
    if (sscanf(value, " %31s%n", profile, &used) != 1 ||
        (strcmp(profile, "RTP/AVP") != 0 && strcmp(profile, "RTP/AVPF") != 0))
        return;
    sdp->section = CHOSEN;
    sdp->chosen = true;
    sdp->port = port;
    for (value += used;
         sdp->payload_count < PAYLOADS_MAX && sscanf(value, " %u%n", &type, &used) == 1;
         value += used)
        if (type <= 127)
            sdp->payloads[sdp->payload_count++] = payload_of(type);
}

static void map_line(struct sdp *sdp, unsigned type, const char *name, double rate_hz,
                     unsigned channels)
{
    for (unsigned i = 0; i < sdp->payload_count; i++) {
        struct payload *payload = &sdp->payloads[i];
        if (payload->type != type)
            continue;
        snprintf(payload->name, sizeof payload->name, "%s", name);
        payload->rate_hz = rate_hz;
        payload->channels = channels;
    }
}

static void attribute_line(struct sdp *sdp, const char *value)
{
    unsigned type, channels = 1;
    double number, rate_hz;
    char name[LINE_BYTES];
    if (sdp->section != CHOSEN)
        return;
    if (sscanf(value, "rtpmap:%u %255[^/]/%lf/%u", &type, name, &rate_hz, &channels) >= 3)
        map_line(sdp, type, name, rate_hz, channels);
    else if (sscanf(value, "x-convolvd-full-scale:%lf", &number) == 1)
        sdp->full_scale = number;
    else if (sscanf(value, "x-convolvd-rate:%lf", &number) == 1)
        sdp->rate_hz = number;
}

/* Names of encodings are compared without regard to case (RFC 8866 section 6.6). */
static bool format_of(struct payload *payload, struct sample_format *format)
{
    if (payload->name[0] == 'l')
        payload->name[0] = 'L';
    return sample_format_parse(payload->name, format) == 0;
}

/* The first payload type whose format is known, or the first one; NULL: there is none. */
static struct payload *choose(struct sdp *sdp)
{
    struct sample_format format;
    for (unsigned i = 0; i < sdp->payload_count; i++)
        if (format_of(&sdp->payloads[i], &format))
            return &sdp->payloads[i];
    return sdp->payload_count > 0 ? &sdp->payloads[0] : NULL;
}

int convolv_sdp_parse(const char *text, size_t bytes, struct convolv_receiver_options *options,
                      struct convolv_problem *problem)
{
    static const struct {
        char type;
        void (*read)(struct sdp *sdp, const char *value);
    } lines[] = {{'c', connection_line}, {'m', media_line}, {'a', attribute_line}};
    struct sdp sdp = {.full_scale = 1};

    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end != NULL ? (size_t)(end - (text + at)) : bytes - at;
        char line[LINE_BYTES];
        if (length < sizeof line) {
            memcpy(line, text + at, length);
            line[length] = '\0';
            line[strcspn(line, "\r")] = '\0';
            for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
                if (line[0] == lines[i].type && line[1] == '=')
                    lines[i].read(&sdp, line + 2);
        }
        at += length + 1;
    }

    struct payload *payload = choose(&sdp);
    if (payload == NULL || payload->name[0] == '\0' || sdp.host[0] == '\0')
        return convolv__problem(
            problem, CONVOLV_ERROR_FORMAT,
            "not the SDP of an RTP stream: it needs c=IN IP4 …, m=audio PORT RTP/AVP TYPE "
            "and a=rtpmap:TYPE FORMAT/RATE/CHANNELS");
    const double rate_hz = sdp.rate_hz != 0 ? sdp.rate_hz : payload->rate_hz;
    struct sample_format format;
    if (!format_of(payload, &format) || strlen(payload->name) >= sizeof options->format)
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT, "the SDP's format '%s' is not known",
                                payload->name);
    if (!(rate_hz > 0) || payload->channels < 1 || payload->channels > CONVOLV_CHANNELS_MAX ||
        !(sdp.full_scale > 0))
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT,
                                "the SDP's rate, channels or full scale are out of range");
    if (strlen(sdp.host) + sizeof "[]:65535" > sizeof options->address)
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT, "the SDP's address is too long");
    snprintf(options->address, sizeof options->address, sdp.v6 ? "[%.110s]:%u" : "%.110s:%u",
             sdp.host, sdp.port);
    snprintf(options->format, sizeof options->format, "%.15s", payload->name);
    options->channels = payload->channels;
    options->rate_hz = rate_hz;
    options->full_scale = sdp.full_scale;
    options->payload_type = (int)payload->type;
    return CONVOLV_OK;
}

int convolv_sdp_read(const char *path, struct convolv_receiver_options *options,
                     struct convolv_problem *problem)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return convolv__problem(problem, CONVOLV_ERROR_FILE, "%s: %m", path);
    char *text = malloc(FILE_BYTES_MAX);
    size_t bytes = text != NULL ? fread(text, 1, FILE_BYTES_MAX, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    int status;
    if (text == NULL)
        status = convolv__problem(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    else if (failed)
        status = convolv__problem(problem, CONVOLV_ERROR_FILE, "%s: could not be read", path);
    else
        status = convolv_sdp_parse(text, bytes, options, problem);
    free(text);
    return status;
}
