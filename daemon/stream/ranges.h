/*
 * Ranges: the invalid ranges of one epoch's output, kept until the output has passed them.
 * A bounded list: when it is full the two closest neighbours of one cause become one, which
 * flags more frames, never fewer. Never allocates. One owner.
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

/* Adds [from, until); joins ranges of the same cause that touch it. Empty ranges are ignored. */
void ranges_add(struct ranges *ranges, uint64_t from, uint64_t until, enum invalid_cause cause);

/* Forgets what lies wholly before `frame`. */
void ranges_drop_before(struct ranges *ranges, uint64_t frame);

/* Copies the parts inside [from, until) to `out`; when more than `capacity` (at least 1), the last
 * one covers the rest with cause UPSTREAM. Returns the number. */
uint32_t ranges_clip(const struct ranges *ranges, uint64_t from, uint64_t until,
                     struct invalid_range *out, uint32_t capacity);

/* Frames of [from, until) that lie in at least one of the clipped ranges. Reorders `clipped` by
 * `from`. */
uint64_t ranges_union(struct invalid_range *clipped, uint32_t count);

#endif
