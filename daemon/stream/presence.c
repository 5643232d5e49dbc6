/* Presence bits, 32 in a word: see presence.h. */
#include "stream/presence.h"

#include "stream/state.h"

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

uint64_t presence_find(const struct stream *s, uint64_t from, uint64_t until, bool present)
{
    uint32_t mask = s->ring->frames - 1;
    while (from < until) {
        uint32_t slot = (uint32_t)(from & mask);
        uint32_t word = s->ring->present[slot / 32];
        word = (present ? word : ~word) >> (slot % 32);
        if (word != 0) {
            uint64_t found = from + (uint64_t)__builtin_ctz(word);
            return found < until ? found : until;
        }
        from += 32 - slot % 32;
    }
    return until;
}

void presence_clear_until(struct stream *s, uint64_t until)
{
    if (until > s->cleared_until) {
        presence_mark(s, s->cleared_until, until, false);
        s->cleared_until = until;
    }
}
