/* The input ring of a stream: see input_ring.h. */
#include "stream/input_ring.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/power.h"
#include "stream/epochs.h"
#include "stream/ring_size.h"
#include "stream/state.h"

/* ---- worker thread ------------------------------------------------------------------------- */

int input_ring_make(struct engine *engine, const struct stream_options *options,
                    const struct plan_info *info, uint64_t frames_min, struct stream_ring *out,
                    struct problem *problem)
{
    const struct ring_need need = ring_need_of(options, info);
    *out = (struct stream_ring){.engine = engine, .history = need.history};
    uint64_t frames = frames_min > 0 ? frames_min : ring_size_default(&need);
    int error = engine_ring_open(engine, frames, options->frame_bytes, &out->ring, problem);
    const uint64_t wanted = power_of_two_from(64, frames);
    while (error == ERROR_FULL && frames_min == 0 &&
           (frames = ring_size_smaller(&need, frames)) > 0)
        error = engine_ring_open(engine, frames, options->frame_bytes, &out->ring, problem);
    if (error == 0 && frames_min == 0 && out->ring->frames < wanted)
        log_warning("stream %s: its input ring holds %.3g ms, not %.3g ms: the input memory has no "
                    "more room; raise `input memory` in [device], or set `buffer`",
                    options->name, 1e3 * out->ring->frames / options->rate_hz,
                    1e3 * (double)wanted / options->rate_hz);
    if (error != 0)
        return problem_prefix(problem, error, "stream %s", options->name);
    out->jump_max = ring_size_gap_max(&need, out->ring->frames);
    const uint64_t blocks = power_of_two_from(4, out->ring->frames / info->hop + 4);
    out->times_mask = blocks - 1;
    out->times = calloc(blocks, sizeof *out->times);
    if (out->times != NULL)
        return 0;
    engine_ring_close(engine, out->ring);
    return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->name);
}

void input_ring_close(struct stream_ring *ring)
{
    engine_ring_close(ring->engine, ring->ring);
    free(ring->times);
}

int stream_ring_prepare(struct engine *engine, const struct ring_like *now, const struct plan *plan,
                        struct stream_ring **out, struct problem *problem)
{
    const struct plan_info *info = plan_info(plan);
    const struct ring_need need = ring_need_of(&now->options, info);
    *out = NULL;
    if (need.history <= now->history)
        return 0;
    const uint64_t least = now->options.ring_frames_min;
    const uint64_t frames = least > 0 ? ring_size_grown(&need, least, now->history) : 0;
    struct stream_ring *made = malloc(sizeof *made);
    if (made == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", now->options.name);
    int error = input_ring_make(engine, &now->options, info, frames, made, problem);
    if (error != 0) {
        free(made);
        return error;
    }
    *out = made;
    return 0;
}

void stream_ring_free(struct stream_ring *ring)
{
    if (ring == NULL)
        return;
    input_ring_close(ring);
    free(ring);
}

/* ---- loop thread --------------------------------------------------------------------------- */

struct ring_like stream_ring_now(const struct stream *s)
{
    struct ring_like like = {s->options, s->ring->frames, s->history};
    like.options.name = "";
    return like;
}

/* Copies bytes and presence bits of positions [from, until); `from` begins a word of bits. */
static void copy_positions(const struct ring *old, struct ring *new, uint64_t from, uint64_t until)
{
    while (from < until) {
        uint64_t a = from & (old->frames - 1), b = from & (new->frames - 1);
        uint64_t run = until - from;
        run = run < old->frames - a ? run : old->frames - a;
        run = run < new->frames - b ? run : new->frames - b;
        memcpy(new->bytes + b *new->frame_bytes, old->bytes + a * old->frame_bytes,
               run * old->frame_bytes);
        memcpy(&new->present[b / 32], &old->present[a / 32],
               (run + 31) / 32 * sizeof *new->present);
        from += run;
    }
}

/* The lowest position that a ring which takes the place of the one in use needs, and that this one
 * still holds; begins a word of bits. */
static uint64_t needed_from(const struct stream *s, uint64_t reach_from)
{
    uint64_t low = epochs_low(s);
    uint64_t from = (reach_from < low ? reach_from : low) / 32 * 32;
    uint64_t held = s->cleared_until > s->ring->frames ? s->cleared_until - s->ring->frames : 0;
    return from < held ? (held + 31) / 32 * 32 : from;
}

uint64_t input_ring_reach(const struct stream *s, uint64_t history)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    uint64_t at = e != NULL ? e->base + e->submitted : s->cleared_until;
    return at - (history < at ? history : at);
}

bool stream_ring_copy(struct stream *s, struct stream_ring *ring, uint64_t bytes)
{
    /* What is settled does not change any more. */
    const struct epoch *e = epoch_newest(s);
    const uint64_t settled = (e != NULL ? e->base + e->settled : s->cleared_until) / 32 * 32;
    const uint64_t from = needed_from(s, input_ring_reach(s, ring->history));
    uint64_t frames = bytes / s->ring->frame_bytes / 32 * 32;
    frames = frames > 0 ? frames : 32;
    if (ring->copied_until < from) /* nothing yet, or the stream was faster */
        ring->copied_from = ring->copied_until = from;
    if (ring->copied_until >= settled)
        return true;
    if (frames > settled - ring->copied_until)
        frames = settled - ring->copied_until;
    copy_positions(s->ring, ring->ring, ring->copied_until, ring->copied_until + frames);
    ring->copied_until += frames;
    return ring->copied_until == settled;
}

void input_ring_take(struct stream *s, struct stream_ring *ring, uint64_t reach_from)
{
    struct stream_ring old = {.engine = s->engine,
                              .ring = s->ring,
                              .times = s->times,
                              .times_mask = s->times_mask,
                              .jump_max = s->jump_max,
                              .history = s->history};
    const uint64_t from = needed_from(s, reach_from);
    const bool copied = ring->copied_from <= from && ring->copied_until > from;
    const uint64_t rest = copied ? ring->copied_until : from;
    if (rest < s->cleared_until)
        copy_positions(old.ring, ring->ring, rest, s->cleared_until);
    s->fresh_until = from < s->fresh_until ? from : s->fresh_until;
    s->held_from = from;
    s->ring = ring->ring;
    s->times = ring->times;
    s->times_mask = ring->times_mask;
    s->jump_max = ring->jump_max;
    s->history = ring->history;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        uint64_t until = e->ended ? e->output_end : e->head + s->hop;
        e->absent_until = e->absent_until > from ? e->absent_until : from;
        uint64_t first = e->base / s->hop;
        for (uint64_t block = e->delivered / s->hop; block * s->hop < until; block++)
            s->times[(first + block) & s->times_mask] = old.times[(first + block) & old.times_mask];
    }
    *ring = old;
    s->old_ring = ring;
}

uint64_t stream_held_since(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    return e != NULL && s->held_from > e->base ? s->held_from - e->base : 0;
}

struct stream_ring *stream_ring_replaced(struct stream *s)
{
    struct stream_ring *ring = s->old_ring;
    s->old_ring = NULL;
    return ring;
}
