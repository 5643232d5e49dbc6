/*
 * Blocks: from the input ring into batches. Says which block of a stream is due and when, and fills
 * a batch with as many blocks as time, memory and ports allow. Which plan computes them is
 * change.c's decision.
 *
 * Defines the functions of stream.h that the scheduler asks. Loop thread; nothing here allocates,
 * locks or logs.
 */
#include <assert.h>
#include <stddef.h>

#include "convolve/engine.h"
#include "core/clock.h"
#include "stream/change.h"
#include "stream/ports.h"
#include "stream/presence.h"
#include "stream/room.h"
#include "stream/state.h"

/* Sources that wait (files, generators as fast as possible) come after all live work. */
static const int64_t patient_ns = INT64_C(3600) * NS_PER_SECOND;
/* What stream_fill may add at once: what is missing before a run, of two plans, and the run. */
enum { FLIGHTS_OF_A_FILL = 3 };

/* The first output frame of the epoch that may not be submitted yet. */
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

/* ---- what is due --------------------------------------------------------------------------- */

int64_t stream_ready_deadline_ns(const struct stream *s)
{
    const struct epoch *e = epoch_with_work(s);
    if (e == NULL || s->halted || s->paused || s->held ||
        FLIGHTS_MAX - (s->flight_next - s->flight_first) < FLIGHTS_OF_A_FILL)
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

bool stream_work(const struct stream *s, int64_t now_ns, struct overload_work *work)
{
    const int64_t deadline_ns = stream_ready_deadline_ns(s);
    if (deadline_ns == INT64_MAX)
        return false;
    const struct epoch *e = epoch_with_work(s);
    const uint64_t due = ready_until(s, e) - block_start(s, e->submitted);
    const uint64_t block = e->submitted / s->hop;
    const struct batch_item item = {
        .plan = s->plan,
        .ring = s->ring,
        .position = e->base + block * s->hop,
        .epoch_block = block,
        .blocks = (uint32_t)((due + s->hop - 1) / s->hop),
    };
    const uint32_t missing = engine_missing(&item);
    struct batch_item least = item;
    least.blocks = missing == 0;
    least.rebuild = missing > 0;
    *work = (struct overload_work){
        .live = s->options.live,
        .priority = s->options.priority,
        .ahead = stream_is_ahead(s, now_ns),
        .deadline_ns = deadline_ns,
        .cost_ns = engine_item_cost_ns(&item),
        .block_ns = engine_item_cost_ns(&least),
        .launch_ns = plan_cost_ns(s->plan, 0),
        .used_ns = overload_used(&s->share, now_ns),
    };
    return true;
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

/* ---- filling a batch ----------------------------------------------------------------------- */

/* Adds the block in which the change falls, at frame `change` of the block: each plan writes its
 * frames of the same samples. */
static bool add_change(struct stream *s, struct batch *batch, const struct batch_item *item,
                       uint32_t change)
{
    if (batch->count > 0)
        return false; /* only an empty batch surely has room for both */
    struct batch_item before = *item;
    before.owner = NULL; /* the results are delivered with the second item */
    before.write_until = change;
    if (before.write_from > change) /* alignment leaves out all of it */
        before.write_from = change;
    struct batch_item after = *item;
    after.plan = s->next.plan;
    if (after.write_from < change)
        after.write_from = change;
    after.fresh_from = after.fresh_until;
    after.share_previous = true;
    int error = engine_batch_add(s->engine, batch, &before);
    if (error == 0)
        error = engine_batch_add(s->engine, batch, &after);
    assert(error == 0);
    return error == 0;
}

/* Adds blocks of a cross-fade: each plan writes samples of its own, mixed on completion. */
static bool add_mixing(struct stream *s, struct batch *batch, const struct batch_item *item)
{
    struct batch_item old = *item, new = *item;
    change_fade_plans(s, &old.plan, &new.plan);
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
    change_fade_plans(s, &old, &new);
    uint32_t room = engine_batch_room(s->engine, batch, old),
             other = engine_batch_room(s->engine, batch, new);
    room = (room < other ? room : other) / 2;
    room = room > 0 ? room : 1; /* whoever requested the fade made sure that a batch holds both */
    return blocks < room ? blocks : room;
}

/* The first frame in [from, until) to write. Alignment leaves out the first frames of an epoch:
 * they are neither written nor counted as clipped. */
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

/* A run of blocks to submit. */
struct run {
    struct epoch *epoch;
    enum change_phase phase;
    uint64_t change; /* the frame up to which `phase` holds */
    bool inside;     /* the change falls inside the one block taken */
    uint64_t start;  /* first frame of the first block */
    uint32_t blocks;
    uint64_t end, until; /* first frame after the last block, and after the output taken of it */
};

/* What of the epoch's due output goes into the batch now; false: nothing. */
static bool choose_run(struct stream *s, const struct batch *batch, int64_t budget_ns, bool first,
                       struct run *run)
{
    struct epoch *e = run->epoch;
    run->phase = change_follow(s, e, &run->change);
    if (run->phase == CHANGE_WAITING)
        return false;
    uint64_t limit = ready_until(s, e);
    if (run->phase != CHANGE_INSIDE && run->change < limit)
        limit = run->change;
    run->start = block_start(s, e->submitted);
    run->blocks = blocks_to_take(s, batch, limit - run->start, budget_ns, first);
    if (run->phase == CHANGE_MIXING && run->blocks > 0)
        run->blocks = blocks_to_mix(s, batch, run->blocks);
    if (run->blocks == 0)
        return false;
    if (run->phase == CHANGE_INSIDE && run->change < run->start + (uint64_t)run->blocks * s->hop) {
        run->blocks = (uint32_t)((run->change - run->start) / s->hop);
        if (run->blocks == 0) {
            run->blocks = 1;
            run->inside = run->change < limit;
        }
    }
    run->end = run->start + (uint64_t)run->blocks * s->hop;
    run->until = run->end < limit ? run->end : limit;
    return true;
}

static struct batch_item item_of(struct stream *s, const struct run *run)
{
    const struct epoch *e = run->epoch;
    const uint64_t position = e->base + run->start, end = e->base + run->end;
    return (struct batch_item){
        .plan = s->plan,
        .ring = s->ring,
        .owner = s,
        .position = position,
        .epoch_block = run->start / s->hop,
        .blocks = run->blocks,
        .write_from = (uint32_t)(first_wanted(s, e->submitted, run->until) - run->start),
        .write_until = (uint32_t)(run->until - run->start),
        .fresh_from = s->fresh_until,
        .fresh_until = end > s->fresh_until ? end : s->fresh_until,
        .absent = position - s->history < e->absent_until || run->end > e->head,
    };
}

/* The run is in the batch: a flight for its results, and the ledger. */
static void note_flight(struct stream *s, const struct run *run, const struct batch_item *item)
{
    struct epoch *e = run->epoch;
    const bool mixed = run->phase == CHANGE_MIXING;
    s->flights[s->flight_next++ % FLIGHTS_MAX] = (struct flight){
        .epoch = e,
        .from = e->submitted,
        .until = run->until,
        .first_block = item->epoch_block,
        .blocks = run->blocks,
        .delay_frames = s->delay_frames,
        .low = item->position - s->history,
        .taps_hash = s->taps_hash,
        .taps_who = s->taps_who,
        .taps_longest = plan_info(mixed ? s->next.plan : s->plan)->taps_longest,
        .taps_from = e->taps_from,
        .gains = s->gains,
        .gains_from = e->gains_from,
        .mixed = mixed,
        .fade_frame = s->next.frame - s->next.faded, /* modulo 2^64 */
        .fade_frames = s->next.fade_frames,
        .forms = s->next.raw_old != NULL ? s->next.forms : NULL,
        .forms_count = s->next.forms_count,
        .reported = e->cleared_frame > run->start && e->cleared_frame < run->end,
    };
    /* Not every frame of the last block has come. */
    if (!e->ended && run->end > e->settled) {
        const uint64_t block = run->end - s->hop;
        const uint64_t from = block > e->submitted ? block : e->submitted;
        ranges_add(&s->partial_output, e->base + from, e->base + run->until, INVALID_SETTLING);
    }
    s->stats.waiting -= run->until - e->submitted;
    s->stats.submitted += run->until - e->submitted;
    e->submitted = run->until;
    /* A block submitted in part is transferred again from where it stopped. */
    s->fresh_until = run->until < run->end && !e->ended ? e->base + run->until : item->fresh_until;
}

/* The plans that compute the run; how many. */
static uint32_t plans_of(const struct stream *s, const struct run *run, struct plan *plans[2])
{
    plans[0] = s->plan;
    plans[1] = s->next.plan;
    if (run->phase == CHANGE_MIXING)
        change_fade_plans(s, &plans[0], &plans[1]);
    return run->phase == CHANGE_MIXING || run->inside ? 2 : 1;
}

/* Adds as many of the `missing` blocks before the item as the budget allows, without results: they
 * may take far longer than a batch may, and others would wait for all of them. Returns the device
 * time; 0: not even one fits. */
static int64_t add_missing(struct stream *s, struct batch *batch, const struct run *run,
                           struct batch_item *item, uint32_t missing, int64_t budget_ns, bool first)
{
    item->blocks = 0;
    item->rebuild = missing;
    item->write_from = item->write_until = 0;
    item->fresh_from = s->fresh_until;
    item->fresh_until =
        item->position > s->fresh_until ? item->position : s->fresh_until; /* what it reads */
    int64_t cost_ns;
    while ((cost_ns = engine_item_cost_ns(item)) > budget_ns && item->rebuild > 1) {
        const uint32_t fewer =
            (uint32_t)((double)item->rebuild * (double)budget_ns / (double)cost_ns);
        item->rebuild = fewer < 1 ? 1 : fewer < item->rebuild ? fewer : item->rebuild - 1;
    }
    presence_clear_until(s, item->position);
    if ((cost_ns > budget_ns && !first) || engine_batch_add(s->engine, batch, item) != 0)
        return 0;
    s->flights[s->flight_next++ % FLIGHTS_MAX] = (struct flight){
        .epoch = run->epoch,
        .from = run->epoch->submitted,
        .until = run->epoch->submitted,
        .low = item->position - s->history,
    };
    s->fresh_until = item->fresh_until;
    if (run->inside && item->plan == s->next.plan)
        s->change_prepared = true;
    overload_taken(&s->share, 0, cost_ns, clock_monotonic_ns());
    return cost_ns > 0 ? cost_ns : 1;
}

/* Adds what the plans of the run have to have seen before it, within the budget. *complete: nothing
 * is missing any more. Returns the device time added. */
static int64_t fill_missing(struct stream *s, struct batch *batch, const struct run *run,
                            int64_t budget_ns, bool first, bool *complete)
{
    struct plan *plans[2];
    const uint32_t count = plans_of(s, run, plans);
    int64_t taken_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct batch_item item = item_of(s, run);
        item.plan = plans[i];
        const uint32_t missing = engine_missing(&item);
        if (missing == 0)
            continue;
        if (taken_ns > 0 && taken_ns >= budget_ns) {
            *complete = false;
            break;
        }
        const int64_t cost_ns = add_missing(s, batch, run, &item, missing, budget_ns - taken_ns,
                                            first && taken_ns == 0);
        taken_ns += cost_ns;
        if (cost_ns == 0 || item.rebuild < missing) {
            *complete = false;
            break;
        }
    }
    return taken_ns;
}

/* Adds the run itself. Returns its device time; 0: it does not fit. */
static int64_t fill_run(struct stream *s, struct batch *batch, struct run *run)
{
    presence_clear_until(s, run->epoch->base + run->end);
    const struct batch_item item = item_of(s, run);
    const bool mixed = run->phase == CHANGE_MIXING;
    const int64_t before_ns = batch->cost_ns;
    const bool added = run->inside
                           ? add_change(s, batch, &item, (uint32_t)(run->change - run->start))
                       : mixed ? add_mixing(s, batch, &item)
                               : engine_batch_add(s->engine, batch, &item) == 0;
    if (!added)
        return 0;
    const int64_t cost_ns = batch->cost_ns - before_ns;
    note_flight(s, run, &item);
    overload_taken(&s->share, (int64_t)(run->blocks * s->period_ns), cost_ns, clock_monotonic_ns());
    if (run->inside)
        change_inside(s, run->epoch);
    return cost_ns > 0 ? cost_ns : 1;
}

int64_t stream_fill(struct stream *s, struct batch *batch, int64_t budget_ns, bool first)
{
    struct run run = {.epoch = epoch_with_work(s)};
    if (run.epoch == NULL || FLIGHTS_MAX - (s->flight_next - s->flight_first) < FLIGHTS_OF_A_FILL ||
        !choose_run(s, batch, budget_ns, first, &run))
        return 0;
    bool complete = true;
    const int64_t before_ns = fill_missing(s, batch, &run, budget_ns, first, &complete);
    if (!complete)
        return before_ns;
    if (before_ns > 0) { /* less is left for the run */
        if (before_ns >= budget_ns)
            return before_ns;
        run = (struct run){.epoch = run.epoch};
        if (!choose_run(s, batch, budget_ns - before_ns, false, &run))
            return before_ns;
    }
    return before_ns + fill_run(s, batch, &run);
}

/* ---- falling behind ------------------------------------------------------------------------ */

void stream_keep_up(struct stream *s, int64_t now_ns)
{
    const struct epoch *e = epoch_with_work(s);
    if (!s->options.live)
        return;
    if (e == NULL || s->halted || s->paused || s->held) {
        overload_caught_up(&s->share, now_ns);
        return;
    }
    const int64_t ready_ns = block_times_of(s, e, e->submitted / s->hop)->ready_ns;
    if (overload_gives_up(&s->share, ready_ns, ready_ns + s->deadline_ns, s->patience_ns, now_ns))
        room_shed_overdue(s, now_ns);
}

void stream_excuse(struct stream *s, int64_t now_ns)
{
    overload_caught_up(&s->share, now_ns);
}
