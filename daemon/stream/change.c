/* Changing the plan of a running stream: see change.h. */
#include "stream/change.h"

#include <math.h>
#include <stdio.h>

#include "stream/epochs.h"
#include "stream/gaps.h"
#include "stream/input_ring.h"
#include "stream/presence.h"
#include "stream/ring_size.h"
#include "stream/state.h"

/* ---- the request --------------------------------------------------------------------------- */

uint64_t stream_next_frame(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    return e != NULL ? e->submitted : 0;
}

uint64_t stream_next_epoch(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    return e != NULL ? e->number : s->stats.epochs;
}

static void take_next_plan(struct stream *s);

/* Results carry the filters' hash, and who asked for them. */
static void take_names(struct stream *s)
{
    s->taps_hash = s->next.taps_hash;
    s->taps_who = s->next.taps_who;
}

/* Takes the new plan at once where its frame is the next to submit, so that a stream without input
 * does not hold a change back until its next block. */
static void take_at_once(struct stream *s, struct epoch *e)
{
    uint64_t until;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        const struct epoch *before = epoch_at(s, i);
        if (before->ended && before->submitted < before->output_end)
            return;
    }
    if (e != NULL)
        change_follow(s, e, &until);
    else if (s->next.frame == 0 && s->flight_first == s->flight_next) {
        take_names(s);
        take_next_plan(s); /* the next epoch has no history yet */
    }
}

/* A cross-fade mixes floats: where the plans in use encode their results, it needs two that do not.
 */
static bool mixes_floats(const struct stream_change *x)
{
    const struct plan *old = x->raw_old, *new = x->raw_new != NULL ? x->raw_new : x->plan;
    return x->how != CHANGE_FADE ||
           (result_format_native(&plan_info(new)->results) &&
            (old == NULL || result_format_native(&plan_info(old)->results)));
}

/* True when blocks, inputs, outputs and kept frames stay, and the ring holds the history. */
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
           ring_history_of(next) <= (x->ring != NULL ? x->ring->history : s->history);
}

int stream_change(struct stream *s, const struct stream_change *change)
{
    /* An old ring without a pending change is that of one that was cancelled. */
    if (s->next.plan != NULL || (s->old_ring != NULL && change->ring != NULL) ||
        (!change->later && change->frame < stream_next_frame(s)) || !is_alike(s, change) ||
        (change->raw_old == NULL) != (change->raw_new == NULL))
        return ERROR_ARGUMENT;
    for (uint32_t i = s->flight_first; i != s->flight_next; i++)
        if (s->flights[i % FLIGHTS_MAX].retiring != NULL) /* the change before is not through */
            return ERROR_ARGUMENT;
    struct epoch *e = epoch_open(s);
    s->next = *change;
    s->change_epoch = change->later ? UINT64_MAX : stream_next_epoch(s);
    s->change_begun = s->change_prepared = false;
    s->change_forgets = change->how == CHANGE_CLEAR || change->ring != NULL || change->since > 0;
    if (change->ring != NULL) {
        input_ring_take(s, change->ring, input_ring_reach(s, change->ring->history));
        s->next.ring = NULL;
    }
    if (!change->later)
        take_at_once(s, e);
    return 0;
}

void stream_change_place(struct stream *s, uint64_t frame, uint64_t faded, uint64_t since)
{
    if (s->next.plan == NULL || !s->next.later || s->change_begun)
        return;
    s->change_epoch = s->stats.epochs; /* which begins now */
    s->next.frame = frame;
    s->next.since = since;
    s->next.faded = faded < s->next.fade_frames ? (uint32_t)faded : s->next.fade_frames;
    s->change_forgets = s->change_forgets || since > 0;
}

void stream_change_hurry(struct stream *s)
{
    if (s->next.plan == NULL)
        return;
    s->change_epoch = s->next.frame = 0;
    s->next.how = CHANGE_HARD;
    s->change_forgets = false;
    take_names(s);
    take_next_plan(s);
}

int stream_change_cancel(struct stream *s)
{
    if (s->next.plan == NULL || s->change_begun || s->change_prepared)
        return ERROR_ARGUMENT;
    s->next.plan = NULL;
    return 0;
}

/* ---- its frame is reached ------------------------------------------------------------------ */

/* Flags frames from `at` on that the new plan computes from absent input: each absent run reaches
 * as far as the taps. */
static void flag_reach(struct stream *s, struct epoch *e, uint64_t at, uint32_t taps)
{
    uint64_t position = e->base + at, settled = e->base + (e->settled > at ? e->settled : at);
    uint64_t from = position - (taps - 1);
    uint64_t held = s->cleared_until > s->ring->frames ? s->cleared_until - s->ring->frames : 0;
    if (from < held) /* the ring has overwritten what lies below */
        ranges_add(&e->invalid, at, held - e->base + taps - 1, INVALID_FILTER_CHANGE);
    from = from < held ? held : from;
    while ((from = presence_find(s, from, settled, false)) < settled) {
        uint64_t until = presence_find(s, from, settled, true);
        uint64_t reach = until + taps - 1 - e->base;
        ranges_add(&e->invalid, from > position ? from - e->base : at, reach,
                   INVALID_FILTER_CHANGE);
        from = until;
    }
    if (s->nonfinite_until + taps > position + 1)
        ranges_add(&e->invalid, at, s->nonfinite_until + taps - 1 - e->base, INVALID_NONFINITE);
}

/* Samples before a change that are compared with the new plan's limit, at most. */
enum { RESCAN_SAMPLES = 1 << 16, RESCAN_RANGES = 32 };

/* The new plan takes larger samples as not finite than the old one did: flags what it computes from
 * those before `at`, which the old plan has reported as finite. */
static void flag_beyond(struct stream *s, struct epoch *e, uint64_t at)
{
    const struct plan_info *info = plan_info(s->next.plan);
    const uint64_t until = e->base + at, reach = info->taps_longest - 1;
    if (s->peak_most <= info->input_limit || reach == 0)
        return;
    struct ring_range ranges[RESCAN_RANGES] = {{until - reach, until}};
    uint32_t count = 1;
    const uint64_t begin = at < reach ? e->base : until - reach;
    const bool few = (until - begin) * s->options.channels <= RESCAN_SAMPLES;
    for (uint32_t channel = 0; channel < (few ? s->options.channels : 1); channel++) {
        if (few)
            count = engine_nonfinite(s->next.plan, s->ring, channel, begin, until, 1, ranges,
                                     RESCAN_RANGES);
        for (uint32_t i = 0; i < count; i++) {
            ranges_add(&e->invalid, at, ranges[i].until + reach - e->base, INVALID_NONFINITE);
            s->nonfinite_until =
                ranges[i].until > s->nonfinite_until ? ranges[i].until : s->nonfinite_until;
        }
    }
}

/* A block's report is that of the plan which computes its last frames. Where the old plan takes
 * samples as not finite that the new one does not, those of the frames before `at` are flagged
 * here.
 */
static void flag_beyond_old(struct stream *s, struct epoch *e, uint64_t at)
{
    const uint64_t begin = e->base + at / s->hop * s->hop, until = e->base + at;
    const uint32_t reach = s->taps_longest - 1;
    struct ring_range ranges[RESCAN_RANGES];
    for (uint32_t channel = 0; channel < s->options.channels; channel++) {
        const uint32_t count = engine_nonfinite(s->plan, s->ring, channel, begin, until, reach + 1,
                                                ranges, RESCAN_RANGES);
        for (uint32_t i = 0; i < count; i++)
            ranges_add(&e->invalid, ranges[i].from - e->base, ranges[i].until + reach - e->base,
                       INVALID_NONFINITE);
    }
}

/* Makes what lies before the epoch, or with CHANGE_CLEAR before the frame itself, absent for the
 * new plan. Nothing is in flight. */
static void forget(struct stream *s, struct epoch *e, uint64_t at)
{
    if (s->has_raw) /* while it is present; it has been waited for until that is less than a block
                     */
        (void)gaps_raw_flush(s, e, at < e->head ? at : e->head);
    uint64_t since = s->next.how == CHANGE_CLEAR ? at : 0;
    since = since > s->next.since ? since : s->next.since;
    uint64_t until = e->base + since;
    uint64_t from = until - s->history - s->hop;
    if (s->cleared_until > s->ring->frames && from < s->cleared_until - s->ring->frames)
        from = s->cleared_until - s->ring->frames;
    if (from >= until)
        return;
    presence_mark(s, from, until, false);
    s->fresh_until = from < s->fresh_until ? from : s->fresh_until;
    e->absent_until = e->absent_until > until ? e->absent_until : until;
    /* A block that was whole before has been reported whole: its second part is not again. */
    if (s->next.how == CHANGE_CLEAR && e->settled >= (at / s->hop + 1) * s->hop)
        e->cleared_frame = at;
}

/* The first frame of the new plan is `at`; of_epoch: in the epoch that the request named, else the
 * new plan begins with a later epoch. */
static void begin(struct stream *s, struct epoch *e, uint64_t at, bool of_epoch)
{
    const struct plan_info *info = plan_info(s->next.plan);
    uint32_t frames = s->next.how == CHANGE_FADE ? s->next.fade_frames - s->next.faded : 1;
    if (s->change_forgets)
        forget(s, e, at);
    if (of_epoch && frames > 0)
        ranges_add(&e->invalid, at, at + frames, INVALID_FILTER_CHANGE);
    if (info->taps_longest > s->taps_longest || s->next.how == CHANGE_CLEAR || s->next.since > 0)
        flag_reach(s, e, at, info->taps_longest);
    if (info->input_limit < plan_info(s->plan)->input_limit)
        flag_beyond(s, e, at);
    else if (info->input_limit > plan_info(s->plan)->input_limit && at % s->hop != 0)
        flag_beyond_old(s, e, at);
    if (info->taps_longest > s->taps_longest)
        s->taps_longest = info->taps_longest;
    take_names(s);
    e->taps_from = at;
    if (s->next.gains != NULL) {
        s->gains = s->next.gains;
        e->gains_from = at;
    }
    s->change_begun = true;
}

/* The old plan retires with the last item in flight that uses it. */
static void take_next_plan(struct stream *s)
{
    struct plan *old = s->plan;
    s->plan = s->next.plan;
    s->delay_frames = s->next.delay_frames;
    snprintf(s->filters, sizeof s->filters, "%s", s->next.filters != NULL ? s->next.filters : "");
    s->taps_longest = plan_info(s->plan)->taps_longest;
    s->next.plan = NULL;
    if (s->flight_first != s->flight_next)
        s->flights[(s->flight_next - 1) % FLIGHTS_MAX].retiring = old;
    else
        s->next.retired(s->next.context, old);
}

enum change_phase change_follow(struct stream *s, struct epoch *e, uint64_t *until)
{
    *until = UINT64_MAX;
    if (s->next.plan == NULL || e->number < s->change_epoch)
        return CHANGE_NONE;
    bool of_epoch = e->number == s->change_epoch;
    uint64_t at = of_epoch ? s->next.frame : 0;
    if (e->submitted < at) {
        *until = at;
        /* Two plans can write one block's samples when both write the same format. */
        bool shares =
            result_format_equal(&plan_info(s->plan)->results, &plan_info(s->next.plan)->results);
        return s->next.how == CHANGE_HARD && !s->change_forgets && shares ? CHANGE_INSIDE
                                                                          : CHANGE_NONE;
    }
    if (!s->change_begun) {
        if (s->change_forgets && (s->flight_first != s->flight_next || gaps_raw_is_due(s)))
            return CHANGE_WAITING;
        begin(s, e, e->submitted > at ? e->submitted : at, of_epoch);
    }
    const uint64_t end = at + s->next.fade_frames - s->next.faded;
    if (s->next.how == CHANGE_FADE && of_epoch && e->submitted < end) {
        *until = end;
        return CHANGE_MIXING;
    }
    take_next_plan(s);
    return CHANGE_NONE;
}

void change_inside(struct stream *s, struct epoch *e)
{
    struct flight *flight = &s->flights[(s->flight_next - 1) % FLIGHTS_MAX];
    begin(s, e, s->next.frame, true);
    flight->taps_hash = s->taps_hash;
    flight->taps_who = s->taps_who;
    flight->taps_longest = plan_info(s->next.plan)->taps_longest;
    flight->taps_from = e->taps_from;
    flight->gains = s->gains;
    flight->gains_from = e->gains_from;
    take_next_plan(s);
}

bool change_is_due(const struct stream *s)
{
    return s->halted && s->next.plan != NULL && s->change_epoch != UINT64_MAX;
}

void change_when_halted(struct stream *s)
{
    if (!change_is_due(s) || (s->change_forgets && !s->change_begun && gaps_raw_is_due(s)))
        return;
    struct epoch *e = NULL;
    for (uint64_t i = s->epoch_first; e == NULL && i < s->epoch_next; i++)
        if (!epoch_at(s, i)->ended || epoch_at(s, i)->submitted < epoch_at(s, i)->output_end)
            e = epoch_at(s, i);
    if (e != NULL && !s->change_begun)
        begin(s, e, e->submitted, true);
    take_names(s);
    if (s->next.gains != NULL)
        s->gains = s->next.gains;
    take_next_plan(s);
}

/* ---- the mix ------------------------------------------------------------------------------- */

void change_fade_plans(const struct stream *s, struct plan **old, struct plan **new)
{
    *old = s->next.raw_old != NULL ? s->next.raw_old : s->plan;
    *new = s->next.raw_new != NULL ? s->next.raw_new : s->next.plan;
}

/* Floats of a frame before envelopes are taken. */
static uint32_t raw_floats(const struct flight *flight, uint32_t channels)
{
    for (uint32_t o = 0; flight->forms != NULL && o < flight->forms_count; o++)
        channels += flight->forms[o] == OUTPUT_ENVELOPE;
    return channels;
}

/* Mixes one frame. `to` may lie in the buffer of `new`, at the same float or before it. */
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

void change_mix(const struct stream *s, const struct flight *flight, const float *old,
                float *samples)
{
    static const double pi = 3.14159265358979323846;
    uint64_t item_first = decimation_output(&s->kept, flight->first_block * s->hop);
    uint64_t until = decimation_output(&s->kept, flight->until);
    uint32_t channels = s->output_channels, raw = raw_floats(flight, channels);
    for (uint64_t kept = decimation_output(&s->kept, flight->from); kept < until; kept++) {
        uint64_t i = decimation_input(&s->kept, kept) - flight->fade_frame;
        double w = 0.5 * (1 - cos(pi * ((double)i + 0.5) / flight->fade_frames));
        uint64_t n = kept - item_first;
        mix_frame(flight, w, old + n * raw, samples + n * raw, samples + n * channels, channels);
    }
}
