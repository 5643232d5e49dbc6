/* Received input: see received.h. */
#include "stream/received.h"

#include "stream/presence.h"
#include "stream/state.h"

uint64_t received_end(const struct stream *s)
{
    const struct epoch *e = epoch_newest((struct stream *)s);
    const uint64_t end = e != NULL ? e->base + e->head : 0;
    return end < s->cleared_until ? end : s->cleared_until;
}

uint64_t received_begin(const struct stream *s)
{
    const uint64_t end = received_end(s), half = s->ring->frames / 2;
    return end > FIRST_POSITION + half ? end - half : FIRST_POSITION;
}

bool received_run(const struct stream *s, uint64_t from, struct received_run *run)
{
    const uint64_t begin = received_begin(s), end = received_end(s);
    from = presence_find(s, from > begin ? from : begin, end, true);
    if (from >= end)
        return false;
    const uint64_t slot = from & (s->ring->frames - 1), to_wrap = s->ring->frames - slot;
    uint64_t until = presence_find(s, from, end, false);
    if (until - from > to_wrap)
        until = from + to_wrap;
    *run = (struct received_run){.position = from,
                                 .count = until - from,
                                 .bytes = s->ring->bytes + slot * s->ring->frame_bytes};
    return true;
}
