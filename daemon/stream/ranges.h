/*
 * The invalid ranges of one epoch's output, kept until the output has passed them. The list is
 * bounded: when it is full, the two ranges of one cause with the smallest distance become one,
 * which flags more frames, never fewer. Never allocates; one owner.
 */
#ifndef CONVOLVD_STREAM_RANGES_H
#define CONVOLVD_STREAM_RANGES_H

#include <stdint.h>

#include "stream/packet.h"

enum { RANGES_MAX = 192 };

struct ranges {
    uint32_t count;
    struct invalid_range list[RANGES_MAX];
};

/* Adds [from, until) and joins ranges of the same cause that touch it; ignores an empty range. */
void ranges_add(struct ranges *ranges, uint64_t from, uint64_t until, enum invalid_cause cause);

/* Takes [from, until) out of the ranges of that cause. A range cut in two needs room for one more.
 */
void ranges_remove(struct ranges *ranges, uint64_t from, uint64_t until, enum invalid_cause cause);

/* Removes the ranges that lie wholly before `frame`. */
void ranges_drop_before(struct ranges *ranges, uint64_t frame);

/* Copies the parts inside [from, until) to out[capacity], capacity ≥ 1, and returns how many. When
 * there are more, the last one covers the rest with cause INVALID_UPSTREAM. */
uint32_t ranges_clip(const struct ranges *ranges, uint64_t from, uint64_t until,
                     struct invalid_range *out, uint32_t capacity);

/* How many frames lie in at least one of the clipped ranges. Sorts `clipped` by `from`. */
uint64_t ranges_union(struct invalid_range *clipped, uint32_t count);

#endif
