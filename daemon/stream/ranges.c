/* Ranges: see ranges.h. */
#include "stream/ranges.h"

#include <string.h>

static void remove_at(struct ranges *ranges, uint32_t index)
{
    ranges->count--;
    memmove(&ranges->list[index], &ranges->list[index + 1],
            (ranges->count - index) * sizeof ranges->list[0]);
}

/* Makes room by joining the two ranges of one cause with the smallest distance. */
static void join_closest(struct ranges *ranges)
{
    uint32_t best_a = 0;
    uint32_t best_b = 0;
    uint64_t best_distance = UINT64_MAX;
    for (uint32_t a = 0; a < ranges->count; a++) {
        for (uint32_t b = a + 1; b < ranges->count; b++) {
            const struct invalid_range *x = &ranges->list[a];
            const struct invalid_range *y = &ranges->list[b];
            if (x->cause != y->cause)
                continue;
            uint64_t distance = x->from < y->from ? y->from - x->until : x->from - y->until;
            if (distance < best_distance) {
                best_distance = distance;
                best_a = a;
                best_b = b;
            }
        }
    }
    struct invalid_range *into = &ranges->list[best_a];
    const struct invalid_range *from = &ranges->list[best_b];
    if (from->from < into->from)
        into->from = from->from;
    if (from->until > into->until)
        into->until = from->until;
    remove_at(ranges, best_b);
}

void ranges_add(struct ranges *ranges, uint64_t from, uint64_t until, enum invalid_cause cause)
{
    if (from >= until)
        return;
    for (uint32_t i = 0; i < ranges->count;) {
        const struct invalid_range *old = &ranges->list[i];
        if (old->cause == cause && old->from <= until && from <= old->until) {
            if (old->from < from)
                from = old->from;
            if (old->until > until)
                until = old->until;
            remove_at(ranges, i);
        } else {
            i++;
        }
    }
    /* More ranges than causes means that some cause has two to join. */
    if (ranges->count == RANGES_MAX)
        join_closest(ranges);
    ranges->list[ranges->count++] = (struct invalid_range){from, until, cause};
}

void ranges_remove(struct ranges *ranges, uint64_t from, uint64_t until, enum invalid_cause cause)
{
    for (uint32_t i = 0; i < ranges->count;) {
        const struct invalid_range old = ranges->list[i];
        if (old.cause != cause || old.until <= from || until <= old.from) {
            i++;
            continue;
        }
        remove_at(ranges, i);
        ranges_add(ranges, old.from, from, cause);
        ranges_add(ranges, until, old.until, cause);
        i = 0; /* what was added lies outside of [from, until) */
    }
}

void ranges_drop_before(struct ranges *ranges, uint64_t frame)
{
    for (uint32_t i = 0; i < ranges->count;) {
        if (ranges->list[i].until <= frame)
            remove_at(ranges, i);
        else
            i++;
    }
}

uint32_t ranges_clip(const struct ranges *ranges, uint64_t from, uint64_t until,
                     struct invalid_range *out, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        struct invalid_range part = ranges->list[i];
        if (part.from < from)
            part.from = from;
        if (part.until > until)
            part.until = until;
        if (part.from >= part.until)
            continue;
        if (count < capacity) {
            out[count++] = part;
            continue;
        }
        struct invalid_range *last = &out[capacity - 1];
        if (part.from < last->from)
            last->from = part.from;
        if (part.until > last->until)
            last->until = part.until;
        last->cause = INVALID_UPSTREAM;
    }
    return count;
}

uint64_t ranges_union(struct invalid_range *clipped, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct invalid_range moving = clipped[i];
        uint32_t j = i;
        for (; j > 0 && clipped[j - 1].from > moving.from; j--)
            clipped[j] = clipped[j - 1];
        clipped[j] = moving;
    }
    uint64_t frames = 0;
    uint64_t reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t from = clipped[i].from > reach ? clipped[i].from : reach;
        if (clipped[i].until > from) {
            frames += clipped[i].until - from;
            reach = clipped[i].until;
        }
    }
    return frames;
}
