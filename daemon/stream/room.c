/* Room in the input ring: see room.h. */
#include "stream/room.h"

#include "stream/epochs.h"
#include "stream/gaps.h"
#include "stream/ports.h"
#include "stream/state.h"

void room_shed(struct stream *s, struct epoch *e, uint64_t from, uint64_t until, enum shed why,
               enum invalid_cause cause)
{
    s->stats.shed[why] += until - from;
    sheds_add(&s->sheds, e->number, (struct invalid_range){from, until, cause});
}

bool room_make(struct stream *s, uint64_t until)
{
    uint64_t low = epochs_low(s);
    if (low + s->ring->frames >= until)
        return true;
    if (!s->options.live || until > s->cleared_until + s->ring->frames)
        return false;
    /* Shed until half the ring is free of received frames, so that the latency recovers as well; a
     * gap that has to fit makes no more room than it needs. */
    uint64_t target = until - s->ring->frames;
    if (target + s->ring->frames / 2 < s->cleared_until)
        target = s->cleared_until - s->ring->frames / 2;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        uint64_t end = e->ended ? e->output_end : block_start(s, e->head);
        uint64_t wanted = target + s->history > e->base ? target + s->history - e->base : 0;
        uint64_t shed_until = block_start(s, wanted + s->hop - 1);
        if (shed_until > end)
            shed_until = end;
        if (shed_until > e->submitted) {
            s->stats.waiting -= shed_until - e->submitted;
            room_shed(s, e, e->submitted, shed_until, s->halted ? SHED_DEVICE : SHED_OVERLOAD,
                      s->halted ? INVALID_DEVICE : INVALID_OVERLOAD);
            e->submitted = shed_until;
            s->partial_valid = false;
            if (!e->ended) {
                gaps_give_up_until(s, e, shed_until);
                if (s->has_raw) /* before their slots are taken */
                    ports_put_raw(s, e, e->settled);
            }
        }
        if (!e->ended || e->submitted < e->output_end)
            break;
    }
    ports_put_ends(s);
    epochs_retire(s);
    /* What is in flight still reads its part of the ring. */
    return epochs_low(s) + s->ring->frames >= until;
}
