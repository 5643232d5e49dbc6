/*
 * Flat line: for how many frames in a row all codes of one channel were equal. It compares bytes as
 * they came over the wire, so it knows neither scale nor format, and a channel of floats counts
 * too.
 *
 * A channel that lives costs two comparisons, whatever the number of frames: the last code is
 * looked at before those between.
 *
 * Pure: the caller brings frames that were received, in order; frames that were not are left out.
 * One thread.
 */
#ifndef CONVOLVD_ALARM_FLAT_H
#define CONVOLVD_ALARM_FLAT_H

#include <stdbool.h>
#include <stdint.h>

enum { FLAT_CODE_BYTES = 8 };

/* Starts zeroed. */
struct flat {
    uint64_t frames; /* that the code has lasted; 0: nothing seen yet */
    uint8_t code[FLAT_CODE_BYTES];
};

/* `frames` codes (at least 1) of `bytes` (at most FLAT_CODE_BYTES) each, `stride` bytes apart.
 * False: they are not all equal to those before, and the count starts at the last of them. */
bool flat_read(struct flat *flat, const uint8_t *codes, uint32_t bytes, uint32_t stride,
               uint64_t frames);

/* The same with only `samples` (at least 2) of the frames, evenly spread, the last one among them:
 * true means that they may be equal. Counts nothing. */
bool flat_may_be(const struct flat *flat, const uint8_t *codes, uint32_t bytes, uint32_t stride,
                 uint64_t frames, uint32_t samples);

#endif
