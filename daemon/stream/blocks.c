/*
 * Blocks: from the ring into batches. Says what is ready, fills a batch with it, and sheds whole
 * blocks when a live source outruns the device. exchange.c says which plan computes them.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#include "stream/internal.h"

#include <assert.h>
#include <stddef.h>

#include "core/clock.h"

/* Work that may wait (files, generators as fast as possible) goes after all live work. */
static const int64_t patient_ns = INT64_C(3600) * NS_PER_SECOND;

static uint64_t block_start(const struct stream *s, uint64_t frame)
{
    return frame / s->hop * s->hop;
}

/* Output frames of the epoch that may be submitted now: up to this one. */
static uint64_t ready_until(const struct stream *s, const struct epoch *e)
{
    if (e->ended)
        return e->output_end;
    uint64_t whole = block_start(s, e->settled);
    return whole > e->flush_until ? whole : e->flush_until;
}

/* The oldest epoch with output left to submit; NULL when there is none. */
static struct epoch *epoch_with_work(const struct stream *s)
{
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at((struct stream *)s, i);
        if (e->submitted < ready_until(s, e))
            return e;
        if (!e->ended)
            return NULL;
    }
    return NULL;
}

uint64_t stream_low(const struct stream *s)
{
    if (s->flight_first != s->flight_next)
        return s->flights[s->flight_first % FLIGHTS_MAX].low;
    if (s->epoch_first == s->epoch_next)
        return s->cleared_until > s->history ? s->cleared_until - s->history : 0;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        const struct epoch *e = epoch_at((struct stream *)s, i);
        if (!e->ended || e->submitted < e->output_end)
            return e->base + block_start(s, e->submitted) - s->history;
    }
    const struct epoch *last = epoch_at((struct stream *)s, s->epoch_next - 1);
    return last->base + block_start(s, last->output_end) - s->history;
}

void stream_shed(struct stream *s, struct epoch *e, uint64_t from, uint64_t until, enum shed why,
                 enum invalid_cause cause)
{
    s->stats.shed[why] += until - from;
    if (!e->shed_pending || e->shed_until != from) {
        e->shed_pending = true;
        e->shed_from = from;
        e->shed_cause = cause;
    }
    e->shed_until = until;
}

bool stream_make_room(struct stream *s, uint64_t until)
{
    uint64_t low = stream_low(s);
    if (low + s->ring->frames >= until)
        return true;
    if (!s->options.live || until > s->cleared_until + s->ring->frames)
        return false;
    /* Down to half a ring of what has come, so that the latency comes back as well; a gap that has
     * to fit makes no more room than it needs. */
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
            stream_shed(s, e, e->submitted, shed_until, SHED_OVERLOAD, INVALID_OVERLOAD);
            e->submitted = shed_until;
            s->partial_valid = false;
            if (!e->ended)
                stream_give_up_until(s, e, shed_until);
        }
        if (!e->ended || e->submitted < e->output_end)
            break;
    }
    stream_retire_epochs(s);
    /* What is in flight still reads its part of the ring. */
    return stream_low(s) + s->ring->frames >= until;
}

/* ---- ready work -------------------------------------------------------------------------- */

static uint64_t ports_room(const struct stream *s)
{
    uint64_t room = UINT64_MAX;
    if (s->options.live || !s->has_room)
        return room;
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].room == NULL || s->ports[i].raw) /* raw input: see stream_room */
            continue;
        uint64_t frames = s->ports[i].room(s->ports[i].context);
        room = frames < room ? frames : room;
    }
    /* Ports count kept frames; what is in flight will arrive there too. */
    room = decimation_span(s->kept.factor, room);
    return room > s->stats.submitted ? room - s->stats.submitted : 0;
}

int64_t stream_ready_deadline_ns(const struct stream *s)
{
    const struct epoch *e = epoch_with_work(s);
    if (e == NULL || s->flight_next - s->flight_first == FLIGHTS_MAX)
        return INT64_MAX;
    if (s->has_room && !s->options.live) {
        uint64_t due = ready_until(s, e) - e->submitted;
        uint64_t wanted = due < s->hop ? due : s->hop;
        if (ports_room(s) < wanted)
            return INT64_MAX;
    }
    int64_t ready_ns = block_times_of((struct stream *)s, e, e->submitted / s->hop)->ready_ns;
    return ready_ns + s->deadline_ns + (s->options.live ? 0 : patient_ns);
}

/* J that fits time, memory and the ports: 0 when not even one block does. */
static uint32_t blocks_to_take(const struct stream *s, const struct batch *batch,
                               uint64_t frames_due, int64_t budget_ns, bool first)
{
    uint32_t blocks = engine_batch_room(s->engine, batch, s->plan);
    uint64_t due = (frames_due + s->hop - 1) / s->hop;
    if (blocks > due)
        blocks = (uint32_t)due;
    uint64_t room = ports_room(s);
    if (room < frames_due && blocks > room / s->hop)
        blocks = (uint32_t)(room / s->hop);
    while (blocks > 1) {
        int64_t cost_ns = plan_cost_ns(s->plan, blocks);
        if (cost_ns <= budget_ns)
            break;
        uint32_t fewer = (uint32_t)((double)blocks * (double)budget_ns / (double)cost_ns);
        blocks = fewer < 1 ? 1 : fewer < blocks ? fewer : blocks - 1;
    }
    if (blocks == 1 && !first && plan_cost_ns(s->plan, 1) > budget_ns)
        return 0;
    return blocks;
}

/* ---- filling a batch --------------------------------------------------------------------- */

/* The block in which the exchange falls: each plan writes its frames of the same samples. */
static bool add_exchange(struct stream *s, struct batch *batch, const struct batch_item *item,
                         uint32_t exchange)
{
    if (batch->count > 0)
        return false; /* in an empty batch there is room for both */
    struct batch_item before = *item;
    before.owner = NULL; /* the results are delivered with the second item */
    before.write_until = exchange;
    if (before.write_from > exchange) /* alignment leaves out all of it */
        before.write_from = exchange;
    struct batch_item after = *item;
    after.plan = s->next.plan;
    if (after.write_from < exchange)
        after.write_from = exchange;
    after.fresh_from = after.fresh_until;
    after.share_previous = true;
    int error = engine_batch_add(s->engine, batch, &before);
    if (error == 0)
        error = engine_batch_add(s->engine, batch, &after);
    assert(error == 0);
    return error == 0;
}

/* Blocks of a cross-fade: each plan writes samples of its own, which are mixed on completion. */
static bool add_mixing(struct stream *s, struct batch *batch, const struct batch_item *item)
{
    struct batch_item old = *item, new = *item;
    exchange_fade_plans(s, &old.plan, &new.plan);
    old.owner = NULL; /* the results are delivered with the second item */
    new.fresh_from = new.fresh_until;
    int error = engine_batch_add(s->engine, batch, &old);
    if (error == 0)
        error = engine_batch_add(s->engine, batch, &new);
    assert(error == 0);
    return error == 0;
}

/* J for both plans of a cross-fade; 0: they need a batch of their own. */
static uint32_t blocks_to_mix(const struct stream *s, const struct batch *batch, uint32_t blocks)
{
    struct plan *old, *new;
    if (batch->count > 0)
        return 0;
    exchange_fade_plans(s, &old, &new);
    uint32_t room = engine_batch_room(s->engine, batch, old),
             other = engine_batch_room(s->engine, batch, new);
    room = (room < other ? room : other) / 2;
    room = room > 0 ? room : 1; /* whoever asked for the fade has seen that a batch holds both */
    return blocks < room ? blocks : room;
}

/* Alignment leaves out what an epoch begins with: it is neither written nor counted as clipped. */
static uint64_t first_wanted(const struct stream *s, uint64_t from, uint64_t until)
{
    if (!s->options.align)
        return from;
    uint64_t shift =
        decimation_shift(s->kept.factor, s->delay_frames + s->options.upstream_delay_frames);
    uint64_t first = decimation_input(&s->kept, shift);
    first = first < until ? first : until;
    return first > from ? first : from;
}

int64_t stream_fill(struct stream *s, struct batch *batch, int64_t budget_ns, bool first)
{
    struct epoch *e = epoch_with_work(s);
    if (e == NULL || s->flight_next - s->flight_first == FLIGHTS_MAX)
        return 0;
    uint64_t change;
    enum change_phase phase = exchange_follow(s, e, &change);
    if (phase == CHANGE_WAITING)
        return 0;
    uint64_t limit = ready_until(s, e);
    if (phase != CHANGE_INSIDE && change < limit)
        limit = change;
    uint64_t block = e->submitted / s->hop;
    uint64_t start = block * s->hop;
    uint32_t blocks = blocks_to_take(s, batch, limit - start, budget_ns, first);
    if (phase == CHANGE_MIXING && blocks > 0)
        blocks = blocks_to_mix(s, batch, blocks);
    if (blocks == 0)
        return 0;
    bool inside = false; /* the exchange falls inside the one block taken */
    if (phase == CHANGE_INSIDE && change < start + (uint64_t)blocks * s->hop) {
        blocks = (uint32_t)((change - start) / s->hop);
        if (blocks == 0) {
            blocks = 1;
            inside = change < limit;
        }
    }
    uint64_t end = start + (uint64_t)blocks * s->hop;
    uint64_t until = end < limit ? end : limit;
    uint64_t position = e->base + start, wanted = first_wanted(s, e->submitted, until);
    stream_clear_until(s, e->base + end);
    struct batch_item item = {
        .plan = s->plan,
        .ring = s->ring,
        .owner = s,
        .position = position,
        .epoch_block = block,
        .blocks = blocks,
        .write_from = (uint32_t)(wanted - start),
        .write_until = (uint32_t)(until - start),
        .fresh_from = s->fresh_until,
        .fresh_until = e->base + end > s->fresh_until ? e->base + end : s->fresh_until,
        .absent = position - s->history < e->absent_until || end > e->head,
    };
    bool mixed = phase == CHANGE_MIXING;
    bool added = inside  ? add_exchange(s, batch, &item, (uint32_t)(change - start))
                 : mixed ? add_mixing(s, batch, &item)
                         : engine_batch_add(s->engine, batch, &item) == 0;
    if (!added)
        return 0;
    int64_t cost_ns = plan_cost_ns(s->plan, blocks);
    if (mixed)
        cost_ns += plan_cost_ns(s->next.plan, blocks);
    s->flights[s->flight_next++ % FLIGHTS_MAX] = (struct flight){
        .epoch = e,
        .from = e->submitted,
        .until = until,
        .first_block = block,
        .blocks = blocks,
        .delay_frames = s->delay_frames,
        .low = position - s->history,
        .taps_hash = s->taps_hash,
        .taps_longest = plan_info(mixed ? s->next.plan : s->plan)->taps_longest,
        .taps_from = e->taps_from,
        .mixed = mixed,
        .fade_frame = s->next.frame,
        .fade_frames = s->next.fade_frames,
        .forms = s->next.raw_old != NULL ? s->next.forms : NULL,
        .forms_count = s->next.forms_count,
        .reported = e->cleared_frame > start && e->cleared_frame < end,
    };
    s->stats.waiting -= until - e->submitted;
    s->stats.submitted += until - e->submitted;
    e->submitted = until;
    /* A block submitted in part is copied again from where it stopped. */
    s->fresh_until = until < end && !e->ended ? e->base + until : item.fresh_until;
    if (inside)
        exchange_inside(s, e);
    return cost_ns > 0 ? cost_ns : 1;
}
