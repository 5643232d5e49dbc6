/*
 * Resuming a stream: see resume.h. Takes the state out of a quiet stream, and puts one into a
 * stream just opened.
 *
 * The epoch lies at the same kind of position as a first epoch: frame n at FIRST_POSITION + n,
 * rounded to blocks. So positions go on as if the stream had never done anything else, and every
 * frame before those carried over is absent, as before an epoch.
 */
#include "stream/resume.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "stream/gaps.h"
#include "stream/ports.h"
#include "stream/presence.h"
#include "stream/ring_size.h"
#include "stream/state.h"

/* ---- the plan ------------------------------------------------------------------------------ */

void plan_pin_of(const struct plan_info *info, const struct device_info *device,
                 struct plan_pin *pin)
{
    *pin = (struct plan_pin){
        .hop = info->hop,
        .fft = info->fft,
        .partitions = info->partitions,
        .vector = info->vector,
        .items = info->items,
        .decimate = info->decimate,
        .decimate_phase = info->decimate_phase,
        .taps_longest = info->taps_longest,
        .history = ring_history_of(info),
        .outputs = info->outputs,
        .output_floats = info->output_floats,
    };
    snprintf(pin->variant, sizeof pin->variant, "%s", info->variant);
    snprintf(pin->device, sizeof pin->device, "%.127s, %.60s", device->name, device->driver);
}

void plan_pin_apply(const struct plan_pin *pin, struct plan_spec *spec)
{
    spec->variant = pin->variant;
    spec->fft = pin->fft;
    spec->vector = pin->vector;
    spec->items = pin->items;
    spec->hop = pin->hop;
    spec->hop_free = false;
}

/* The same results to the last bit. */
static bool same_plan(const struct plan_pin *a, const struct plan_pin *b)
{
    return strcmp(a->variant, b->variant) == 0 && strcmp(a->device, b->device) == 0 &&
           a->fft == b->fft && a->partitions == b->partitions && a->vector == b->vector &&
           a->items == b->items;
}

/* ---- taking -------------------------------------------------------------------------------- */

void stream_hold(struct stream *s, bool held)
{
    s->held = held;
}

bool stream_quiet(const struct stream *s)
{
    if (s->flight_first != s->flight_next || gaps_raw_is_due(s))
        return false;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        const struct epoch *e = epoch_at((struct stream *)s, i);
        if (e->ended && e->submitted < e->output_end)
            return false;
    }
    return true;
}

/* The marks are ring positions; the state has frames of the epoch. */
static void take_partial(const struct stream *s, const struct epoch *e, struct ranges *out)
{
    const uint64_t next = e->base + e->submitted;
    for (uint32_t i = 0; i < s->partial_output.count; i++) {
        const struct invalid_range *range = &s->partial_output.list[i];
        const uint64_t from = range->from > next ? range->from : next;
        if (range->until > from)
            ranges_add(out, from - e->base, range->until - e->base, range->cause);
    }
}

static void take_epoch(const struct stream *s, const struct epoch *e, struct stream_state *state)
{
    state->epoch = (struct state_epoch){
        .number = e->number,
        .record = e->record,
        .source_origin = e->source_origin,
        .timeline_base = e->timeline_base,
        .head = e->head,
        .settled = e->settled,
        .next = e->submitted,
        .output_end = e->output_end,
        .raw_next = s->has_raw ? e->raw_delivered : e->settled,
        .flush_until = e->flush_until,
        .cleared_frame = e->cleared_frame,
        .taps_from = e->taps_from,
        .absent_until = e->absent_until > e->base ? e->absent_until - e->base : 0,
        .nonfinite_until = s->nonfinite_until > e->base ? s->nonfinite_until - e->base : 0,
        .ended = e->ended,
        .announced = e->announced,
        .end_told = e->end_told,
        .capture_known = e->capture_known,
        .capture_frame = e->capture_frame,
        .capture_rate_hz = e->capture_rate_hz,
        .capture_ns = e->capture_ns,
        .capture_error_ns = e->capture_error_ns,
        .before = e->before,
        .clock = (uint32_t)e->clock,
    };
    state->invalid = e->invalid;
    state->raw_invalid = *raw_invalid_of((struct stream *)s, e);
    for (uint32_t i = 0; i < s->sheds.count; i++)
        if (s->sheds.runs[i].epoch == e->number)
            state->sheds[state->shed_count++] = s->sheds.runs[i].range;
    for (uint32_t i = 0; i < GAPS_MAX; i++)
        if (s->gaps[i].epoch == e->number && s->gaps[i].from < s->gaps[i].until)
            state->gaps[state->gap_count++] = (struct state_gap){s->gaps[i].from, s->gaps[i].until};
    if (e->ended)
        return;
    for (uint32_t i = s->hole_first; i != s->hole_next; i++) {
        const struct hole *hole = &s->holes[i % HOLES_MAX];
        state->holes[state->hole_count++] =
            (struct state_hole){hole->from,           hole->until,        hole->seen_ns,
                                hole->debts.overload, hole->debts.socket, hole->debts.capture};
    }
    state->lost = s->lost_upstream;
    take_partial(s, e, &state->partial_output);
    for (uint32_t i = s->unsent_first; i != s->unsent_next; i++)
        state->unsent[state->unsent_count++] =
            (struct state_gap){s->unsent[i % UNSENT_MAX].from, s->unsent[i % UNSENT_MAX].until};
    const uint64_t start = block_start(s, e->submitted);
    uint64_t from = start > s->history ? start - s->history : 0;
    from = state->epoch.raw_next < from ? state->epoch.raw_next : from;
    state->from = from;
    state->until = e->head;
    state->ring = s->ring;
    state->position = e->base + from;
}

static void take_change(const struct stream *s, struct state_change *change)
{
    if (s->next.plan == NULL)
        return;
    *change = (struct state_change){
        .pending = true,
        .begun = s->change_begun,
        .forgets = s->change_forgets,
        .how = (uint32_t)s->next.how,
        .fade_frames = s->next.fade_frames,
        .epoch = s->change_epoch,
        .frame = s->next.frame,
    };
}

void stream_state_take(const struct stream *s, struct stream_state *state)
{
    assert(stream_quiet(s));
    assert((int)HOLES_MAX == (int)STATE_HOLES_MAX && (int)GAPS_MAX == (int)STATE_GAPS_MAX &&
           (int)UNSENT_MAX == (int)STATE_UNSENT_MAX);
    memset(state, 0, sizeof *state);
    state->rate_hz = s->options.rate_hz;
    state->channels = s->options.channels;
    state->frame_bytes = s->options.frame_bytes;
    state->format = s->options.format;
    state->records = s->options.records;
    state->align = s->options.align;
    state->tail = s->options.tail;
    plan_pin_of(plan_info(s->plan), engine_device(s->engine), &state->plan);
    state->plan.taps_longest = s->taps_longest;
    state->plan.history = s->history;
    memcpy(state->filters, s->filters, sizeof state->filters);
    state->epochs = s->stats.epochs;
    state->record_count = s->stats.records;
    state->stats = s->stats;
    memcpy(state->levels, s->levels, s->options.channels * sizeof *s->levels);
    const struct epoch *e = epoch_newest((struct stream *)s);
    state->begun = e != NULL;
    if (e != NULL)
        take_epoch(s, e, state);
    take_change(s, &state->change);
    state->socket_debt = s->debts.socket;
    state->overload_debt = s->debts.overload;
    state->capture_debt = s->debts.capture;
    state->partial_valid = s->partial_valid;
    state->partial_block = s->partial_block;
    if (s->partial_valid)
        memcpy(state->partial, s->partial, s->options.channels * sizeof *s->partial);
    state->begin_flags = s->begin_flags;
    state->packet_frames = s->packet_frames;
    state->last_receive_ns = s->last_receive_ns;
    state->offset_ns = clock_offset_ns();
    state->clock = s->clock;
    state->clock_step = s->clock_step;
}

void stream_leave(struct stream *s)
{
    assert(stream_quiet(s));
    struct epoch *e = epoch_open(s);
    if (e == NULL)
        return;
    s->stats.timeline_out -= s->stats.waiting; /* they are the other stream's */
    s->stats.waiting = 0;
    s->hole_first = s->hole_next;
    e->ended = e->end_told = true;
    e->output_end = e->submitted;
    e->raw_delivered = e->head; /* the rest is the other stream's too */
}

/* ---- whether it fits ------------------------------------------------------------------------ */

static bool same_format(const struct sample_format *a, const struct sample_format *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && a->bits == b->bits &&
           a->big_endian == b->big_endian && a->left == b->left;
}

static bool change_fits(const struct state_change *was, const struct stream_change *change,
                        uint32_t history)
{
    if (!was->pending)
        return change == NULL;
    return change != NULL && change->plan != NULL && change->ring == NULL &&
           ring_history_of(plan_info(change->plan)) <= history &&
           (uint32_t)change->how == was->how && change->fade_frames == was->fade_frames &&
           change->frame == was->frame;
}

/* NULL, or why the state is of another stream. */
static const char *misfit(const struct stream *s, const struct stream_state *state,
                          const struct stream_change *change)
{
    const struct stream_options *o = &s->options;
    const struct plan_info *info = plan_info(s->plan);
    if (state->rate_hz != o->rate_hz || state->channels != o->channels ||
        state->frame_bytes != o->frame_bytes || !same_format(&state->format, &o->format))
        return "its rate, channels or format differ";
    if (state->records != o->records || state->align != o->align || state->tail != o->tail)
        return "its mode, `align` or `tail` differ";
    if (strcmp(state->filters, s->filters) != 0)
        return "its filters, gains or calibration differ";
    if (state->plan.hop != info->hop || state->plan.decimate != info->decimate ||
        state->plan.decimate_phase != info->decimate_phase ||
        state->plan.output_floats != info->output_floats)
        return "its blocks, outputs or decimation differ";
    /* A state of another plan may lack history that this one reads; one of a change about to end
     * may have more than it needs. */
    if (!state->change.pending && state->plan.taps_longest != info->taps_longest)
        return "its filters have another length";
    if (state->begun && !state->epoch.ended) {
        const uint64_t start = block_start(s, state->epoch.next);
        const uint64_t least = start > s->history ? start - s->history : 0;
        if (state->from > least)
            return "it holds less history than the plan reads";
        if (state->until - (state->from < least ? state->from : least) + s->hop > s->ring->frames)
            return "the input ring is too small for its frames";
    }
    return change_fits(&state->change, change, s->history) ? NULL
                                                           : "a change of filters was pending";
}

/* ---- resuming ------------------------------------------------------------------------------ */

/* Into the ring at `position`, where nothing lies yet. */
static void put_frames(struct stream *s, const struct stream_state *state, uint64_t position)
{
    const uint64_t frames = state->until - state->from;
    const uint32_t mask = s->ring->frames - 1;
    for (uint64_t i = 0; i < frames;) {
        const uint64_t slot = (position + i) & mask;
        const uint64_t run =
            s->ring->frames - slot < frames - i ? s->ring->frames - slot : frames - i;
        memcpy(s->ring->bytes + slot * s->ring->frame_bytes,
               state->bytes + i * s->ring->frame_bytes, run * s->ring->frame_bytes);
        i += run;
    }
    for (uint64_t i = 0; i < frames;) {
        const bool present = state->present[i / 8] >> i % 8 & 1;
        uint64_t end = i + 1;
        while (end < frames && (state->present[end / 8] >> end % 8 & 1) == present)
            end++;
        presence_mark(s, position + i, position + end, present);
        i = end;
    }
}

static void resume_epoch(struct stream *s, const struct stream_state *state, int64_t shift_ns)
{
    const struct state_epoch *was = &state->epoch;
    const uint64_t base = (FIRST_POSITION + s->hop - 1) / s->hop * s->hop;
    const uint64_t from = base + state->from;
    struct epoch *e = epoch_at(s, s->epoch_next++);
    *e = (struct epoch){
        .number = was->number,
        .record = was->record,
        .base = base,
        .source_origin = was->source_origin,
        .timeline_base = was->timeline_base,
        .head = was->head,
        .settled = was->settled,
        .absent_until = base + was->absent_until,
        .ended = was->ended,
        .flush_until = was->flush_until,
        .cleared_frame = was->cleared_frame,
        .output_end = was->output_end,
        .submitted = was->next,
        .delivered = was->next,
        .raw_delivered = was->raw_next,
        .announced = was->announced,
        .end_told = was->end_told,
        .taps_from = was->taps_from,
        .invalid = state->invalid,
        .capture_known = was->capture_known,
        .capture_frame = was->capture_frame,
        .capture_rate_hz = was->capture_rate_hz,
        .capture_ns = was->capture_ns,
        .capture_error_ns = was->capture_error_ns,
        .before = was->before,
        .clock = (enum clock_source)was->clock,
    };
    s->nonfinite_until = was->nonfinite_until > 0 ? base + was->nonfinite_until : 0;
    *raw_invalid_of(s, e) = state->raw_invalid;
    for (uint32_t i = 0; i < state->shed_count; i++)
        sheds_add(&s->sheds, was->number, state->sheds[i]);
    for (uint32_t i = 0; i < state->gap_count; i++)
        s->gaps[s->gap_next++ % GAPS_MAX] =
            (struct gap){was->number, state->gaps[i].from, state->gaps[i].until};
    if (was->ended) {
        s->cleared_until = s->fresh_until = base + was->head;
        return;
    }
    /* Frames before those carried over are absent for whoever reads them. */
    e->absent_until = e->absent_until > from ? e->absent_until : from;
    s->cleared_until = from;
    presence_clear_until(s, base + was->head);
    put_frames(s, state, from);
    s->fresh_until = from;
    for (uint32_t i = 0; i < state->hole_count; i++)
        s->holes[s->hole_next++ % HOLES_MAX] = (struct hole){
            state->holes[i].from,
            state->holes[i].until,
            state->holes[i].seen_ns + shift_ns,
            {state->holes[i].overload_debt, state->holes[i].socket_debt,
             state->holes[i].capture_debt},
        };
    s->lost_upstream = state->lost;
    for (uint32_t i = 0; i < state->partial_output.count; i++)
        ranges_add(&s->partial_output, base + state->partial_output.list[i].from,
                   base + state->partial_output.list[i].until, INVALID_SETTLING);
    for (uint32_t i = 0; i < state->unsent_count; i++)
        s->unsent[s->unsent_next++ % UNSENT_MAX] =
            (struct unsent){state->unsent[i].from, state->unsent[i].until};
    for (uint64_t block = was->next / s->hop; block * s->hop < was->head; block++) {
        const int64_t at_ns = state->last_receive_ns + shift_ns;
        *block_times_of(s, e, block) = (struct block_times){at_ns, at_ns, at_ns};
    }
}

/* Counters go on; what is measured anew stays. */
static void resume_stats(struct stream *s, const struct stream_state *state)
{
    s->stats = state->stats;
    s->stats.submitted = 0;
    s->stats.epochs = state->epochs;
    s->stats.records = state->record_count;
    memcpy(s->levels, state->levels, s->options.channels * sizeof *s->levels);
    s->partial_valid = state->partial_valid;
    s->partial_block = state->partial_block;
    if (state->partial_valid)
        memcpy(s->partial, state->partial, s->options.channels * sizeof *s->partial);
}

static void resume_change(struct stream *s, const struct stream_state *state,
                          const struct stream_change *change)
{
    s->next = *change;
    s->change_epoch = state->change.epoch;
    s->change_begun = state->change.begun;
    s->change_forgets = state->change.forgets;
    const uint32_t taps = plan_info(change->plan)->taps_longest;
    if (s->change_begun && taps > s->taps_longest)
        s->taps_longest = taps;
}

int stream_resume(struct stream *s, const struct stream_state *state,
                  const struct stream_change *change, struct problem *problem)
{
    assert(s->epoch_first == s->epoch_next);
    const char *why = misfit(s, state, change);
    if (why != NULL)
        return problem_set(problem, ERROR_UNSUPPORTED, "the state is of another stream: %s", why);
    const int64_t shift_ns = state->offset_ns - clock_offset_ns();
    resume_stats(s, state);
    s->debts = (struct gap_debts){.overload = state->overload_debt,
                                  .socket = state->socket_debt,
                                  .capture = state->capture_debt};
    s->begin_flags = state->begin_flags;
    s->packet_frames = state->packet_frames;
    s->last_receive_ns = state->last_receive_ns + shift_ns;
    s->offset_ns = clock_offset_ns();
    s->clock = state->clock;
    source_clock_shift(&s->clock, shift_ns);
    s->clock_step = state->clock_step;
    if (!state->begun)
        return 0;
    resume_epoch(s, state, shift_ns);
    if (change != NULL)
        resume_change(s, state, change);
    struct plan_pin pin;
    plan_pin_of(plan_info(s->plan), engine_device(s->engine), &pin);
    struct epoch *e = epoch_open(s);
    if (e != NULL && !same_plan(&pin, &state->plan))
        ranges_add(&e->invalid, e->submitted, e->submitted + 1, INVALID_DEVICE);
    return 0;
}
