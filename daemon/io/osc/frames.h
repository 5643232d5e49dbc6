/*
 * Packets of OSC in a TCP stream: behind a 32-bit big-endian length (OSC 1.0), or between END bytes
 * (OSC 1.1, SLIP of RFC 1055). Which of the two is told by the first byte: a length below 16 MiB
 * begins with 0, SLIP with END or with the packet itself, '/' or '#'.
 *
 * Bytes go in as they come; memory is the caller's and never grows. Loop thread; pure state.
 */
#ifndef CONVOLVD_IO_OSC_FRAMES_H
#define CONVOLVD_IO_OSC_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum osc_framing { OSC_FRAMING_UNKNOWN, OSC_FRAMING_LENGTH, OSC_FRAMING_SLIP };

struct osc_frames {
    uint8_t *buffer; /* [capacity], 4 bytes more than the largest packet */
    size_t capacity, used;
    enum osc_framing framing;
    bool escaped;
};

/* Takes the bytes and hands over every packet completed by them. ERROR_LIMIT: a packet is longer
 * than allowed, ERROR_FORMAT: no framing of OSC; either way the connection is of no use any more.
 */
int osc_frames_feed(struct osc_frames *frames, const uint8_t *data, size_t bytes,
                    void (*packet)(void *context, const uint8_t *data, size_t bytes),
                    void *context);

/* Bytes of a packet that is not complete. */
bool osc_frames_partial(const struct osc_frames *frames);

/* The packet framed into `out`; returns the bytes, 0 when they do not fit. */
size_t osc_frames_wrap(enum osc_framing framing, const uint8_t *data, size_t bytes, uint8_t *out,
                       size_t capacity);

#endif
