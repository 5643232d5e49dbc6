/*
 * A column: up to 64 consecutive frames of one channel as bits of a word, bit i for frame i. What
 * the detector of hits asks of them, in a few operations for all frames at once.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_COLUMN_H
#define CONVOLVD_ANALYSIS_COLUMN_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum { COLUMN_FRAMES = 64 };

/* Frames [from, until) of a column, until ≤ COLUMN_FRAMES. */
static inline uint64_t column_mask(uint32_t from, uint32_t until)
{
    if (from >= until)
        return 0;
    assert(until <= COLUMN_FRAMES);
    return ~(uint64_t)0 << from & ~(uint64_t)0 >> (COLUMN_FRAMES - until);
}

static inline uint32_t column_lowest(uint64_t bits, uint32_t none)
{
    return bits != 0 ? (uint32_t)__builtin_ctzll(bits) : none;
}

/* The highest of bits that are not all 0. */
static inline uint32_t column_highest(uint64_t bits)
{
    return COLUMN_FRAMES - 1 - (uint32_t)__builtin_clzll(bits);
}

/* One bit of each of 64 bytes that are 0 or 1; byte k of a word becomes bit k. */
static inline uint64_t column_gather(const uint8_t bytes[COLUMN_FRAMES])
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < COLUMN_FRAMES; i += 8) {
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; k++)
            word |= (uint64_t)bytes[i + k] << (8 * k);
        bits |= (word * 0x0102040810204080u >> 56) << i;
    }
    return bits;
}

/* Of the frames in `spending`, those before which, since the last one in either mask or since the
 * beginning of `all` with *armed, a frame in `arming` lies. The masks are subsets of `all`, which
 * is one run of bits. *armed becomes that behind it.
 *
 * The bits between two events are a run of ones in `quiet`; adding a one at its beginning carries
 * to the event behind it. */
static inline uint64_t column_counts(uint64_t spending, uint64_t arming, uint64_t all, bool *armed)
{
    const uint64_t events = spending | arming, quiet = all & ~events, begin = all & (~all + 1);
    const uint64_t set = (arming << 1 | (*armed ? begin : 0)) & all;
    const uint64_t reached = (set & events) | (((set & quiet) + quiet) & ~quiet);
    if (events != 0)
        *armed = (arming >> column_highest(events) & 1) != 0;
    return spending & reached;
}

/* Samples above that no other one of this column precedes by HDT or less. */
static inline uint64_t column_starts(uint64_t above, uint64_t hdt)
{
    const uint64_t reach = hdt < COLUMN_FRAMES ? hdt : COLUMN_FRAMES - 1;
    /* Each bit, smeared over the 1 … `done` frames behind it. */
    uint64_t behind = above << 1, done = 1;
    if (reach == 0)
        return above;
    while (done < reach) {
        const uint64_t step = done < reach - done ? done : reach - done;
        behind |= behind << step;
        done += step;
    }
    return above & ~behind;
}

#endif
