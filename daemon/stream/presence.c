/* Presence bits, 32 in a word: see presence.h. */
#include "stream/presence.h"

#include "stream/state.h"

enum { LINE_FRAMES = 512 }; /* of a cache line of bits */

void presence_mark(struct stream *s, uint64_t from, uint64_t until, bool present)
{
    uint32_t mask = s->ring->frames - 1;
    while (from < until) {
        uint32_t slot = (uint32_t)(from & mask);
        uint32_t bit = slot % 32;
        uint64_t run = 32 - bit;
        if (run > until - from)
            run = until - from;
        uint32_t bits = (run == 32 ? UINT32_MAX : ((UINT32_C(1) << run) - 1)) << bit;
        uint32_t *word = &s->ring->present[slot / 32];
        const uint32_t changed = present ? *word | bits : *word & ~bits;
        /* A batch may read other bits of this word meanwhile: whole words, in no particular order.
         */
        __atomic_store_n(word, changed, __ATOMIC_RELAXED);
        from += run;
    }
}

/* Bits of slots [slot, slot + 64), the first one lowest; slot is a multiple of 64. */
static uint64_t bits_at(const struct ring *ring, uint32_t slot)
{
    const uint32_t *words = &ring->present[slot / 32];
    return words[0] | (uint64_t)words[1] << 32;
}

/* Every bit of the slots of a cache line equals those of `like`: 0 or UINT64_MAX. */
static bool line_is(const struct ring *ring, uint32_t slot, uint64_t like)
{
    uint64_t unlike = 0;
    for (uint32_t i = 0; i < LINE_FRAMES; i += 64)
        unlike |= bits_at(ring, slot + i) ^ like;
    return unlike == 0;
}

uint64_t presence_find(const struct stream *s, uint64_t from, uint64_t until, bool present)
{
    const struct ring *ring = s->ring;
    const uint64_t like = present ? 0 : UINT64_MAX; /* what is passed over */
    while (from < until) {
        const uint32_t slot = (uint32_t)(from & (ring->frames - 1));
        if (slot % LINE_FRAMES == 0 && until - from >= LINE_FRAMES && line_is(ring, slot, like)) {
            from += LINE_FRAMES;
            continue;
        }
        const uint64_t found = (bits_at(ring, slot & ~63u) ^ like) >> (slot % 64);
        if (found != 0) {
            from += (uint64_t)__builtin_ctzll(found);
            break;
        }
        from += 64 - slot % 64;
    }
    return from < until ? from : until;
}

void presence_clear_until(struct stream *s, uint64_t until)
{
    if (until > s->cleared_until) {
        presence_mark(s, s->cleared_until, until, false);
        s->cleared_until = until;
    }
}
