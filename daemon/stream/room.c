/* Room in the input ring: see room.h. */
#include "stream/room.h"

#include "core/clock.h"
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

/* Gives up the blocks of the epoch up to output frame `until`, which no batch holds. */
static void shed_blocks(struct stream *s, struct epoch *e, uint64_t until)
{
    s->stats.waiting -= until - e->submitted;
    room_shed(s, e, e->submitted, until, s->halted ? SHED_DEVICE : SHED_OVERLOAD,
              s->halted ? INVALID_DEVICE : INVALID_OVERLOAD);
    e->submitted = until;
    s->partial_valid = false;
    if (e->ended)
        return;
    gaps_give_up_until(s, e, until);
}

bool room_make(struct stream *s, uint64_t until)
{
    uint64_t low = epochs_low(s);
    if (low + s->ring->frames >= until)
        return true;
    if (!s->options.live || until > s->cleared_until + s->ring->frames)
        return false;
    /* Raw input may be all that takes the room. */
    if (!gaps_raw_clear_below(s, until - s->ring->frames))
        return false;
    if (epochs_low(s) + s->ring->frames >= until)
        return true;
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
            shed_blocks(s, e, shed_until);
            overload_shed(&s->share, clock_monotonic_ns());
        }
        if (!e->ended || e->submitted < e->output_end)
            break;
    }
    gaps_raw_clear_below(s, until - s->ring->frames);
    ports_put_ends(s);
    epochs_retire(s);
    /* What is in flight still reads its part of the ring. */
    return epochs_low(s) + s->ring->frames >= until;
}

/* The output frames of the epoch that are overdue, from the oldest on: where they end. */
static uint64_t overdue_until(struct stream *s, const struct epoch *e, int64_t now_ns)
{
    const uint64_t end = e->ended ? e->output_end : block_start(s, e->settled);
    uint64_t until = e->submitted;
    while (until < end && block_times_of(s, e, until / s->hop)->ready_ns + s->deadline_ns < now_ns)
        until = block_start(s, until) + s->hop;
    return until <= end || until == e->submitted ? until : end;
}

void room_shed_overdue(struct stream *s, int64_t now_ns)
{
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        const uint64_t until = overdue_until(s, e, now_ns);
        if (until > e->submitted)
            shed_blocks(s, e, until);
        if (!e->ended || e->submitted < e->output_end)
            break;
    }
    overload_shed(&s->share, now_ns);
    overload_caught_up(&s->share, now_ns);
    ports_put_ends(s);
    epochs_retire(s);
}
