/*
 * Reads the SDP file of a result stream (RFC 8866), as far as a receiver needs it:
 *
 *     c=IN IP4 239.1.2.3/8            group or host, IP4 or IP6
 *     m=audio 5004 RTP/AVP 96         port and payload type
 *     a=rtpmap:96 L24/48000/4         format, rate, channels (1 when left out)
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

enum { LINE_BYTES = 256, FILE_BYTES_MAX = 64 << 10 };

struct sdp {
    char host[LINE_BYTES];
    bool v6;
    unsigned port;
    int payload_type; /* -1: no m= line yet */
    bool mapped;
    char name[LINE_BYTES]; /* encoding of the rtpmap line */
    double rate_hz;
    uint32_t channels;
    double full_scale;
};

static void connection_line(struct sdp *sdp, const char *value)
{
    char family[8], host[LINE_BYTES];
    if (sscanf(value, "IN %7s %255[^/ ]", family, host) != 2)
        return;
    sdp->v6 = strcmp(family, "IP6") == 0;
    memcpy(sdp->host, host, sizeof host);
}

static void media_line(struct sdp *sdp, const char *value)
{
    char media[16], profile[32];
    unsigned port, payload_type;
    if (sdp->payload_type >= 0 ||
        sscanf(value, "%15s %u %31s %u", media, &port, profile, &payload_type) != 4)
        return;
    if (strcmp(profile, "RTP/AVP") != 0 || port < 1 || port > 65535 || payload_type > 127)
        return;
    sdp->port = port;
    sdp->payload_type = (int)payload_type;
}

static void attribute_line(struct sdp *sdp, const char *value)
{
    unsigned payload_type, channels = 1;
    double number, rate_hz;
    char name[LINE_BYTES];
    int found =
        sscanf(value, "rtpmap:%u %255[^/]/%lf/%u", &payload_type, name, &rate_hz, &channels);
    if (found >= 3 && (int)payload_type == sdp->payload_type) {
        sdp->mapped = true;
        memcpy(sdp->name, name, sizeof name);
        if (sdp->rate_hz == 0)
            sdp->rate_hz = rate_hz;
        sdp->channels = channels;
    } else if (sscanf(value, "x-convolvd-full-scale:%lf", &number) == 1) {
        sdp->full_scale = number;
    } else if (sscanf(value, "x-convolvd-rate:%lf", &number) == 1) {
        sdp->rate_hz = number;
    }
}

int convolv_sdp_parse(const char *text, size_t bytes, struct convolv_receiver_options *options,
                      struct convolv_problem *problem)
{
    static const struct {
        char type;
        void (*read)(struct sdp *sdp, const char *value);
    } lines[] = {{'c', connection_line}, {'m', media_line}, {'a', attribute_line}};
    struct sdp sdp = {.payload_type = -1, .channels = 1, .full_scale = 1};

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

    if (sdp.payload_type < 0 || !sdp.mapped || sdp.host[0] == '\0')
        return convolv__problem(
            problem, CONVOLV_ERROR_FORMAT,
            "not the SDP of an RTP stream: it needs c=IN IP4 …, m=audio PORT RTP/AVP TYPE "
            "and a=rtpmap:TYPE FORMAT/RATE/CHANNELS");
    struct sample_format format;
    if (sample_format_parse(sdp.name, &format) != 0 || strlen(sdp.name) >= sizeof options->format)
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT, "the SDP's format '%s' is not known",
                                sdp.name);
    if (!(sdp.rate_hz > 0) || sdp.channels < 1 || sdp.channels > CONVOLV_CHANNELS_MAX ||
        !(sdp.full_scale > 0))
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT,
                                "the SDP's rate, channels or full scale are out of range");
    if (strlen(sdp.host) + sizeof "[]:65535" > sizeof options->address)
        return convolv__problem(problem, CONVOLV_ERROR_FORMAT, "the SDP's address is too long");
    snprintf(options->address, sizeof options->address, sdp.v6 ? "[%.110s]:%u" : "%.110s:%u",
             sdp.host, sdp.port);
    snprintf(options->format, sizeof options->format, "%.15s", sdp.name);
    options->channels = sdp.channels;
    options->rate_hz = sdp.rate_hz;
    options->full_scale = sdp.full_scale;
    options->payload_type = sdp.payload_type;
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
