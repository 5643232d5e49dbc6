/*
 * SDP: the description of an RTP result stream (RFC 8866) in a file that ffplay, gst-launch and
 * convolv-tap open. One media line; rtpmap names:
 *
 *     L16, L24         RFC 3551, RFC 3190
 *     s32be, f32be     32-bit integer and IEEE 754 float, big-endian: names of our own, for
 *                      which no RTP payload format is registered
 *
 * with extmap lines for the header extensions of wire/rtp.h and, for programs that know them,
 *
 *     a=x-convolvd-rate:RATE          the exact rate, where rtpmap has a whole number
 *     a=x-convolvd-full-scale:VALUE   value of the integer code 2^(bits-1), in the unit
 *     a=x-convolvd-delay:FRAMES       delay of the filters, in frames at this rate
 *     a=x-convolvd-decimation:D       frames at the source's rate for one here
 *
 * Worker threads; pure functions except sdp_write.
 */
#ifndef CONVOLVD_IO_NET_SDP_H
#define CONVOLVD_IO_NET_SDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "io/net/socket.h"
#include "wire/format.h"

enum { SDP_BYTES = 2048 };

struct sdp_media {
    const char *name;             /* of the session */
    struct sockaddr_storage from; /* the address of this machine */
    struct address to;
    uint32_t ttl; /* of a group, 0: 1 */
    uint32_t payload_type;
    struct sample_format format;
    double rate_hz;
    uint32_t decimate; /* frames at the source's rate for one here, at least 1 */
    uint32_t channels;
    uint32_t packet_frames; /* the most in one packet */
    uint32_t ssrc;
    uint64_t session; /* unique for this run of the daemon */
    double full_scale, delay_frames;
};

/* "L16", "L24", "s32be" or "f32be"; NULL for a format that RTP does not carry here. */
const char *sdp_encoding_name(const struct sample_format *format);

/* Returns the length, below SDP_BYTES. */
size_t sdp_build(const struct sdp_media *media, char text[SDP_BYTES]);

/* Builds the description and replaces the file at `path` with it (core/replace_file.h). Returns 0
 * or ERROR_NO_FILE. */
int sdp_write(const struct sdp_media *media, const char *path, struct problem *problem);

#endif
