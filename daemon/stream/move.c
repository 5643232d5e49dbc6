/* Moving a stream to another device: see move.h. */
#include "stream/move.h"

#include <assert.h>
#include <stdlib.h>

#include "stream/change.h"
#include "stream/epochs.h"
#include "stream/input_ring.h"
#include "stream/ports.h"
#include "stream/ring_size.h"
#include "stream/room.h"
#include "stream/state.h"
#include "stream/watch.h"

/* ---- worker thread ------------------------------------------------------------------------- */

int stream_ring_like(struct engine *engine, const struct ring_like *like, const struct plan *plan,
                     struct stream_ring **out, struct problem *problem)
{
    const struct plan_info *info = plan_info(plan);
    const struct ring_need need = ring_need_of(&like->options, info);
    const bool longer = need.history > like->history;
    const uint64_t frames =
        longer ? ring_size_grown(&need, like->frames, like->history) : like->frames;
    struct stream_ring *made = malloc(sizeof *made);
    if (made == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    int error = input_ring_make(engine, &like->options, info, frames, made, problem);
    if (error != 0) {
        free(made);
        return error;
    }
    made->history = longer ? need.history : like->history;
    *out = made;
    return 0;
}

/* ---- loop thread --------------------------------------------------------------------------- */

static bool change_under_way(const struct stream *s)
{
    bool under_way = s->next.plan != NULL;
    for (uint32_t i = s->flight_first; i != s->flight_next; i++) {
        const struct flight *flight = &s->flights[i % FLIGHTS_MAX];
        under_way = under_way || flight->retiring != NULL || flight->mixed;
    }
    return under_way;
}

/* Marks the flights that are computed again elsewhere: those from which on no block has been shed
 * since. Earlier ones would bring the shed blocks back. */
static void mark_repeated(struct stream *s)
{
    const struct epoch *of = NULL;
    uint64_t from = 0;
    for (uint32_t i = s->flight_next; i != s->flight_first; i--) {
        struct flight *flight = &s->flights[(i - 1) % FLIGHTS_MAX];
        if (flight->epoch != of)
            from = flight->epoch->submitted;
        of = flight->epoch;
        flight->repeated = flight->blocks > 0 && flight->until == from;
        if (flight->repeated)
            from = flight->from;
    }
}

static void forget_flight(struct stream *s, const struct flight *flight, bool shed)
{
    struct epoch *e = flight->epoch;
    const uint64_t frames = flight->until - flight->from;
    if (flight->blocks == 0)
        return;
    s->stats.submitted -= frames;
    if (shed || !flight->repeated) {
        room_shed(s, e, flight->from, flight->until, SHED_DEVICE, INVALID_DEVICE);
        e->delivered = flight->until;
        s->partial_valid = false;
    } else {
        s->stats.waiting += frames;
        e->submitted = flight->from < e->submitted ? flight->from : e->submitted;
    }
}

/* Returns the plan that the flights were the last to use; NULL: none. */
static struct plan *forget_flights(struct stream *s, bool shed)
{
    struct plan *retiring = NULL;
    mark_repeated(s);
    for (uint32_t i = s->flight_first; i != s->flight_next; i++) {
        const struct flight *flight = &s->flights[i % FLIGHTS_MAX];
        if (flight->retiring != NULL)
            retiring = flight->retiring;
        forget_flight(s, flight, shed);
        s->stats.batches_failed++;
    }
    s->flight_first = s->flight_next;
    return retiring;
}

void stream_doubt(struct stream *s, uint64_t from, struct doubted *doubted)
{
    *doubted = (struct doubted){.position = from};
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        struct invalid_range range = {from > e->base ? from - e->base : 0, e->delivered,
                                      INVALID_UNCERTAIN};
        if (range.from >= range.until)
            continue;
        doubted->position = e->base + range.until;
        sheds_add(&s->sheds, e->number, range);
        if (!ports_range_of_kept(s, &range))
            continue;
        if (doubted->frames == 0) {
            doubted->first_epoch = e->number;
            doubted->from = range.from;
        }
        doubted->last_epoch = e->number;
        doubted->until = range.until;
        doubted->frames += range.until - range.from;
        s->stats.invalid[INVALID_UNCERTAIN] += range.until - range.from;
        s->stats.invalid_frames += range.until - range.from;
    }
}

void stream_halt(struct stream *s)
{
    struct plan *retiring = forget_flights(s, change_under_way(s));
    stream_forget_shown(s, NULL);
    s->halted = true;
    s->paused = false;
    if (s->next.plan == NULL && retiring != NULL)
        s->next.retired(s->next.context, retiring);
    change_when_halted(s);
    ports_put_ends(s);
    epochs_retire(s);
}

bool stream_halted(const struct stream *s)
{
    return s->halted;
}

void stream_give_up(struct stream *s)
{
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        if (!e->ended || e->submitted >= e->output_end)
            continue;
        s->stats.waiting -= e->output_end - e->submitted;
        room_shed(s, e, e->submitted, e->output_end, SHED_DEVICE, INVALID_DEVICE);
        e->submitted = e->delivered = e->output_end;
    }
    ports_put_ends(s);
    epochs_retire(s);
}

bool stream_changing(const struct stream *s)
{
    return s->next.plan != NULL;
}

void stream_pause(struct stream *s, bool paused)
{
    s->paused = paused;
}

bool stream_can_move(const struct stream *s)
{
    return s->flight_first == s->flight_next && s->next.plan == NULL && s->old_ring == NULL;
}

void stream_move(struct stream *s, const struct stream_home *to, struct stream_home *from)
{
    assert(s->flight_first == s->flight_next && s->next.plan == NULL);
    stream_ring_free(stream_ring_replaced(s)); /* of a change that the loss cut short */
    input_ring_take(s, to->ring, epochs_low(s));
    *from = (struct stream_home){s->engine, s->plan, stream_ring_replaced(s)};
    s->engine = to->engine;
    s->plan = to->plan;
    s->taps_longest = plan_info(s->plan)->taps_longest;
    s->halted = s->paused = false;
}
