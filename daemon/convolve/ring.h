/*
 * Rings: the input of a stream as the engine reads it. Plain data; LOOP writes bytes and bits, and
 * only in slots that no submitted batch reads.
 */
#ifndef CONVOLVD_CONVOLVE_RING_H
#define CONVOLVD_CONVOLVE_RING_H

#include <stdint.h>

/*
 * A ring of `frames` (a power of two) frames of wire bytes, and one presence bit a frame.
 * Ring position p (64 bits, never wraps in practice) lies at slot p mod frames. A frame whose bit
 * is 0 counts as exactly zero in every channel, whatever its bytes say: gaps, the silence before an
 * epoch and after it need no fill.
 */
struct ring {
    uint8_t *bytes;    /* frames · frame_bytes */
    uint32_t *present; /* frames / 32 words, bit (p mod frames) % 32 of word (p mod frames) / 32 */
    uint32_t frames;   /* power of two, at least 64 */
    uint32_t frame_bytes;
};

#endif
