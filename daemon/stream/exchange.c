/*
 * Exchange: another plan takes the place of the one in use at one frame of an epoch, for all
 * channels at once; hard, cross-faded, or with cleared history. A plan that needs more history
 * than the input ring holds brings a larger ring.
 *
 *     frame          x                 x + F
 *     hard    ── old │ new ──────────────────
 *     fade    ── old │ (1 - w) old + w new │ new ──     w = (1 - cos π (i + ½) / F) / 2, i = n - x
 *     clear   ── old │ new, frames before x are silence ──
 *
 * A frame's mix depends on its number alone, never on blocks or batches. What the exchange makes
 * invalid is flagged `filter change`: frame x, the frames of a fade, and those for which the new
 * plan has no true history.
 *
 * A larger ring is taken at once when the exchange is asked for, with all that the old one still
 * holds; positions stay, so everything else goes on. Presence bits are cleared only while nothing
 * is in flight.
 *
 * Loop thread, but what is made on a worker (stream_ring_prepare, stream_ring_free).
 */
#include "stream/internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/power.h"

/* ---- rings: worker thread ---------------------------------------------------------------- */

/* Of a ring, for the longest gap: 1 s of 16 channels at 1 MHz and 32 bits. */
enum { GAP_BYTES_MAX = 64 << 20 };

/* Frames the ring must hold: history, reorder window, everything in flight, the silence between two
 * epochs, and half a second or eight blocks of waiting. */
static uint64_t ring_frames(const struct stream_options *options, const struct plan_info *info)
{
    double rate = options->rate_hz;
    uint64_t reorder = (uint64_t)ceil((double)options->reorder_ns * rate / 1e9);
    uint64_t in_flight = (uint64_t)(options->batches_in_flight + 1) * info->hop;
    uint64_t waiting = (uint64_t)ceil(0.5 * rate);
    if (waiting < 8 * (uint64_t)info->hop)
        waiting = 8 * (uint64_t)info->hop;
    /* A gap is convolved as silence, so the ring has to hold it; in memory of at most this size. */
    uint64_t gap = (uint64_t)ceil((double)options->max_gap_ns * rate / 1e9);
    if (gap > GAP_BYTES_MAX / options->frame_bytes)
        gap = GAP_BYTES_MAX / options->frame_bytes;
    uint64_t silence = 2 * (uint64_t)info->history_frames + 4 * (uint64_t)info->hop;
    return info->history_frames + 2 * reorder + in_flight + silence + waiting + gap;
}

uint32_t stream_history_of(const struct plan_info *info)
{
    return info->history_frames > info->taps_longest ? info->history_frames : info->taps_longest;
}

int stream_ring_make(struct engine *engine, const struct stream_options *options,
                     const struct plan_info *info, uint64_t frames_min, struct stream_ring *out,
                     struct problem *problem)
{
    *out = (struct stream_ring){.engine = engine, .history = stream_history_of(info)};
    uint64_t frames = frames_min > 0 ? frames_min : ring_frames(options, info);
    int error = engine_ring_open(engine, frames, options->frame_bytes, &out->ring, problem);
    if (error != 0)
        return problem_prefix(problem, error, "stream %s", options->name);
    /* A gap may fill what the ring holds beside the history, the reorder window and what is in
     * flight; a longer one is a discontinuity. */
    uint64_t size = out->ring->frames;
    uint64_t kept = out->history + (uint64_t)(options->batches_in_flight + 4) * info->hop +
                    (uint64_t)ceil(2e-9 * (double)options->reorder_ns * options->rate_hz);
    out->jump_max = size > 2 * kept ? size - kept : size / 2;
    const uint64_t blocks = power_of_two_from(4, size / info->hop + 4);
    out->times_mask = blocks - 1;
    out->times = calloc(blocks, sizeof *out->times);
    if (out->times != NULL)
        return 0;
    engine_ring_close(engine, out->ring);
    return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->name);
}

int stream_ring_prepare(const struct stream *s, const struct plan *plan, struct stream_ring **out,
                        struct problem *problem)
{
    const struct plan_info *info = plan_info(plan);
    struct stream_ring made;
    *out = NULL;
    uint32_t history = stream_history_of(info);
    if (history <= s->history)
        return 0;
    /* History before a block, and twice between two epochs. */
    uint64_t frames = s->options.ring_frames_min > 0
                          ? s->options.ring_frames_min + 3 * (uint64_t)(history - s->history)
                          : 0;
    int error = stream_ring_make(s->engine, &s->options, info, frames, &made, problem);
    if (error != 0)
        return error;
    *out = malloc(sizeof **out);
    if (*out == NULL) {
        free(made.times);
        engine_ring_close(s->engine, made.ring);
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", s->name);
    }
    **out = made;
    return 0;
}

void stream_ring_free(struct stream_ring *ring)
{
    if (ring == NULL)
        return;
    engine_ring_close(ring->engine, ring->ring);
    free(ring->times);
    free(ring);
}

/* ---- a larger ring takes over ------------------------------------------------------------ */

/* All that is still there: bytes and bits of [from, until), `from` at a whole word of bits. */
static void copy_ring(const struct ring *old, struct ring *new, uint64_t from, uint64_t until)
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

/* `ring` leaves with what was in use. */
static void take_ring(struct stream *s, struct stream_ring *ring, uint64_t reach_from)
{
    struct stream_ring old = {s->engine, s->ring, s->times, s->times_mask, s->jump_max, s->history};
    uint64_t low = stream_low(s);
    uint64_t from = (reach_from < low ? reach_from : low) / 32 * 32;
    uint64_t held = s->cleared_until > old.ring->frames ? s->cleared_until - old.ring->frames : 0;
    if (from < held)
        from = (held + 31) / 32 * 32;
    if (from < s->cleared_until)
        copy_ring(old.ring, ring->ring, from, s->cleared_until);
    s->fresh_until = from < s->fresh_until ? from : s->fresh_until;
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

struct stream_ring *stream_ring_replaced(struct stream *s)
{
    struct stream_ring *ring = s->old_ring;
    s->old_ring = NULL;
    return ring;
}

/* ---- asked for --------------------------------------------------------------------------- */

uint64_t stream_next_frame(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    return e != NULL ? e->submitted : 0;
}

static void take_next_plan(struct stream *s);

/* A stream that stands still need not wait for its next block. */
static void take_at_once(struct stream *s, struct epoch *e)
{
    uint64_t until;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        const struct epoch *before = epoch_at(s, i);
        if (before->ended && before->submitted < before->output_end)
            return;
    }
    if (e != NULL)
        exchange_follow(s, e, &until);
    else if (s->next.frame == 0 && s->flight_first == s->flight_next)
        take_next_plan(s); /* the next epoch has no history yet */
}

/* A cross-fade mixes floats: where the plans give others, it needs two that do. */
static bool mixes_floats(const struct stream_change *x)
{
    const struct plan *old = x->raw_old, *new = x->raw_new != NULL ? x->raw_new : x->plan;
    return x->how != CHANGE_FADE ||
           (result_format_native(&plan_info(new)->results) &&
            (old == NULL || result_format_native(&plan_info(old)->results)));
}

static bool is_alike(const struct stream *s, const struct stream_change *x)
{
    const struct plan_info *now = plan_info(s->plan);
    const struct plan_info *next = plan_info(x->plan);
    return next->hop == now->hop && next->inputs == now->inputs &&
           next->output_floats == now->output_floats &&
           (result_format_equal(&next->results, &now->results) ||
            result_format_native(&next->results) || result_format_native(&now->results)) &&
           next->decimate == now->decimate && next->decimate_phase == now->decimate_phase &&
           mixes_floats(x) &&
           stream_history_of(next) <= (x->ring != NULL ? x->ring->history : s->history);
}

int stream_change(struct stream *s, const struct stream_change *exchange)
{
    if (s->next.plan != NULL || s->old_ring != NULL || exchange->frame < stream_next_frame(s) ||
        !is_alike(s, exchange) || (exchange->raw_old == NULL) != (exchange->raw_new == NULL))
        return ERROR_ARGUMENT;
    for (uint32_t i = s->flight_first; i != s->flight_next; i++)
        if (s->flights[i % FLIGHTS_MAX].retiring != NULL)
            return ERROR_ARGUMENT;
    struct epoch *e = epoch_open(s);
    s->next = *exchange;
    s->exchange_epoch = e != NULL ? e->number : s->stats.epochs;
    s->exchange_begun = false;
    s->exchange_forgets = exchange->how == CHANGE_CLEAR || exchange->ring != NULL;
    if (exchange->ring != NULL) {
        uint64_t history = exchange->ring->history;
        uint64_t at = e != NULL ? e->base + e->submitted : s->cleared_until;
        take_ring(s, exchange->ring, at - (history < at ? history : at));
        s->next.ring = NULL;
    }
    take_at_once(s, e);
    return 0;
}

/* ---- its frame has come ------------------------------------------------------------------ */

/* Frames from `at` on that the new plan computes from what is not there: each absent run reaches as
 * far as the taps. */
static void flag_reach(struct stream *s, struct epoch *e, uint64_t at, uint32_t taps)
{
    uint64_t position = e->base + at, settled = e->base + (e->settled > at ? e->settled : at);
    uint64_t from = position - (taps - 1);
    uint64_t held = s->cleared_until > s->ring->frames ? s->cleared_until - s->ring->frames : 0;
    if (from < held) /* overwritten */
        ranges_add(&e->invalid, at, held - e->base + taps - 1, INVALID_FILTER_CHANGE);
    from = from < held ? held : from;
    while ((from = stream_find(s, from, settled, false)) < settled) {
        uint64_t until = stream_find(s, from, settled, true);
        uint64_t reach = until + taps - 1 - e->base;
        ranges_add(&e->invalid, from > position ? from - e->base : at, reach,
                   INVALID_FILTER_CHANGE);
        from = until;
    }
    if (s->nonfinite_until + taps > position + 1)
        ranges_add(&e->invalid, at, s->nonfinite_until + taps - 1 - e->base, INVALID_NONFINITE);
}

/* What lies before the epoch, or before the frame itself, is silence for the new plan. Nothing is
 * in flight. */
static void forget(struct stream *s, struct epoch *e, uint64_t at)
{
    uint64_t until = e->base + (s->next.how == CHANGE_CLEAR ? at : 0);
    uint64_t from = until - s->history - s->hop;
    if (s->cleared_until > s->ring->frames && from < s->cleared_until - s->ring->frames)
        from = s->cleared_until - s->ring->frames;
    if (from >= until)
        return;
    stream_mark(s, from, until, false);
    s->fresh_until = from < s->fresh_until ? from : s->fresh_until;
    e->absent_until = e->absent_until > until ? e->absent_until : until;
    /* The part of a whole block that is left has been reported with the other. */
    if (s->next.how == CHANGE_CLEAR && e->settled >= (at / s->hop + 1) * s->hop)
        e->cleared_frame = at;
}

static void begin(struct stream *s, struct epoch *e, uint64_t at, bool of_epoch)
{
    const struct plan_info *info = plan_info(s->next.plan);
    uint32_t frames = s->next.how == CHANGE_FADE ? s->next.fade_frames : 1;
    if (s->exchange_forgets)
        forget(s, e, at);
    if (of_epoch)
        ranges_add(&e->invalid, at, at + frames, INVALID_FILTER_CHANGE);
    if (info->taps_longest > s->taps_longest || s->next.how == CHANGE_CLEAR)
        flag_reach(s, e, at, info->taps_longest);
    if (info->taps_longest > s->taps_longest)
        s->taps_longest = info->taps_longest;
    s->taps_hash = s->next.taps_hash;
    e->taps_from = at;
    s->exchange_begun = true;
}

static void take_next_plan(struct stream *s)
{
    struct plan *old = s->plan;
    s->plan = s->next.plan;
    s->delay_frames = s->next.delay_frames;
    s->taps_longest = plan_info(s->plan)->taps_longest;
    s->next.plan = NULL;
    if (s->flight_first != s->flight_next)
        s->flights[(s->flight_next - 1) % FLIGHTS_MAX].retiring = old;
    else
        s->next.retired(s->next.context, old);
}

enum change_phase exchange_follow(struct stream *s, struct epoch *e, uint64_t *until)
{
    *until = UINT64_MAX;
    if (s->next.plan == NULL || e->number < s->exchange_epoch)
        return CHANGE_NONE;
    bool of_epoch = e->number == s->exchange_epoch;
    uint64_t at = of_epoch ? s->next.frame : 0;
    if (e->submitted < at) {
        *until = at;
        /* Two plans can share a block's samples when these are of one kind. */
        bool shares =
            result_format_equal(&plan_info(s->plan)->results, &plan_info(s->next.plan)->results);
        return s->next.how == CHANGE_HARD && !s->exchange_forgets && shares ? CHANGE_INSIDE
                                                                            : CHANGE_NONE;
    }
    if (!s->exchange_begun) {
        if (s->exchange_forgets && s->flight_first != s->flight_next)
            return CHANGE_WAITING;
        begin(s, e, e->submitted > at ? e->submitted : at, of_epoch);
    }
    if (s->next.how == CHANGE_FADE && of_epoch && e->submitted < at + s->next.fade_frames) {
        *until = at + s->next.fade_frames;
        return CHANGE_MIXING;
    }
    take_next_plan(s);
    return CHANGE_NONE;
}

void exchange_inside(struct stream *s, struct epoch *e)
{
    struct flight *flight = &s->flights[(s->flight_next - 1) % FLIGHTS_MAX];
    begin(s, e, s->next.frame, true);
    flight->taps_hash = s->taps_hash;
    flight->taps_longest = plan_info(s->next.plan)->taps_longest;
    flight->taps_from = e->taps_from;
    take_next_plan(s);
}

/* ---- the mix ----------------------------------------------------------------------------- */

void exchange_fade_plans(const struct stream *s, struct plan **old, struct plan **new)
{
    *old = s->next.raw_old != NULL ? s->next.raw_old : s->plan;
    *new = s->next.raw_new != NULL ? s->next.raw_new : s->next.plan;
}

static uint32_t raw_floats(const struct flight *flight, uint32_t channels)
{
    for (uint32_t o = 0; flight->forms != NULL && o < flight->forms_count; o++)
        channels += flight->forms[o] == OUTPUT_ENVELOPE;
    return channels;
}

/* One frame; `to` may be what `new` stands in, at the same float or before. */
static void mix_frame(const struct flight *flight, double w, const float *old, const float *new,
                      float *to, uint32_t channels)
{
    if (flight->forms == NULL) {
        for (uint32_t c = 0; c < channels; c++)
            to[c] = (float)((1 - w) * old[c] + w * new[c]);
        return;
    }
    for (uint32_t o = 0; o < flight->forms_count; o++) {
        double re = (1 - w) * *old++ + w * *new ++;
        if (flight->forms[o] == OUTPUT_REAL) {
            *to++ = (float)re;
            continue;
        }
        double im = (1 - w) * *old++ + w * *new ++;
        if (flight->forms[o] == OUTPUT_ENVELOPE) {
            *to++ = (float)sqrt(re * re + im * im);
        } else {
            *to++ = (float)re;
            *to++ = (float)im;
        }
    }
}

void exchange_mix(const struct stream *s, const struct flight *flight, const float *old,
                  float *samples)
{
    static const double pi = 3.14159265358979323846;
    uint64_t item_first = decimation_output(&s->kept, flight->first_block * s->hop);
    uint64_t until = decimation_output(&s->kept, flight->until);
    uint32_t channels = s->output_channels, raw = raw_floats(flight, channels);
    for (uint64_t kept = decimation_output(&s->kept, flight->from); kept < until; kept++) {
        uint64_t i = decimation_input(&s->kept, kept) - flight->fade_frame;
        double w = 0.5 * (1 - cos(pi * ((double)i + 0.5) / flight->fade_frames));
        uint64_t place = kept - item_first;
        mix_frame(flight, w, old + place * raw, samples + place * raw, samples + place * channels,
                  channels);
    }
}
