/*
 * Extracts of interleaved samples in any sample format: the minimum and maximum of every channel,
 * and single channels as they are. Integers that fill their bytes and floats are compared a
 * register at a time (of 24 and 32 bits where the processor has SSE 4.1); the others go through
 * sample_decode_block.
 *
 * Values are normalised codes (wire/format.h) as floats; what is no number counts as 0. Pure
 * functions, any thread.
 */
#ifndef CONVOLVD_SIGNAL_EXTRACT_H
#define CONVOLVD_SIGNAL_EXTRACT_H

#include <stddef.h>
#include <stdint.h>

#include "wire/format.h"

/* Frames lie `stride` bytes apart and begin with the samples of `channels` channels. */
struct extract {
    struct sample_format format;
    const uint8_t *bytes;
    size_t stride;
    uint32_t channels;
};

/* low[c] and high[c], c < channels, become the least and the greatest of themselves and of channel
 * c's samples in `frames` frames. */
void extract_minmax(const struct extract *from, size_t frames, float *low, float *high);

/* out[frame][i] = the sample of channel list[i] < channels. */
void extract_channels(const struct extract *from, size_t frames, const uint16_t *list,
                      uint32_t count, float *out);

#endif
