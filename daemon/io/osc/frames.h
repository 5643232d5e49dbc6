/*
 * OSC frames: OSC packets in a TCP stream, each behind a 32-bit big-endian length (OSC 1.0), or
 * between END bytes (OSC 1.1, SLIP of RFC 1055). The first byte of the stream tells which: a length
 * below 16 MiB begins with 0, SLIP with END or with the packet itself, '/' or '#'.
 *
 * Takes bytes in any portions; the memory is the caller's and does not grow. No socket, no clock;
 * loop thread.
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

/* Takes bytes and delivers every packet that they complete. Returns 0; or ERROR_LIMIT (a packet is
 * longer than the buffer) or ERROR_FORMAT (neither framing), after which the connection cannot
 * continue. */
int osc_frames_feed(struct osc_frames *frames, const uint8_t *data, size_t bytes,
                    void (*packet)(void *context, const uint8_t *data, size_t bytes),
                    void *context);

/* Whether an incomplete packet is in the buffer. */
bool osc_frames_partial(const struct osc_frames *frames);

/* Frames a packet into `out`; returns its bytes, 0 when they do not fit. */
size_t osc_frames_wrap(enum osc_framing framing, const uint8_t *data, size_t bytes, uint8_t *out,
                       size_t capacity);

#endif
