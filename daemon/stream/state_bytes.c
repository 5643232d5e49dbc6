/*
 * The bytes of a stream's state: see resume.h. One walk lists the fields for counting, writing and
 * reading; `sound` then holds what was read against everything a stream keeps true.
 *
 *     magic │ version │ length │ fields │ frames │ presence bits │ CRC-32C of all before
 *
 * All numbers little-endian. Pure functions, any thread.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/codec.h"
#include "stream/packet.h"
#include "stream/resume.h"
#include "wire/crc32c.h"

static const uint32_t magic = 0x54535643; /* "CVST" */

enum { HEADER_BYTES = 16, CHECKSUM_BYTES = 4 };

/* Frame and timeline numbers beyond this are no stream's. */
static const uint64_t number_max = UINT64_C(1) << 60;
/* Likewise monotonic times, in nanoseconds, and those of the wall clock (until 2116). Sums of the
 * few that resuming adds overflow nothing. */
static const int64_t monotonic_max = CLOCK_FAR_NS, realtime_max = INT64_C(1) << 62;
/* All that a refused packet can leave for the next one to carry out. */
static const uint32_t begin_flags_all = PACKET_DISCONTINUITY | PACKET_RECORD;

/* ---- fields -------------------------------------------------------------------------------- */

static void walk_format(struct codec *c, struct sample_format *format)
{
    codec_u8(c, &format->kind);
    codec_u8(c, &format->bytes);
    codec_u8(c, &format->bits);
    codec_bool(c, &format->big_endian);
    codec_bool(c, &format->left);
}

static void walk_plan(struct codec *c, struct plan_pin *plan)
{
    uint32_t *const fields[] = {
        &plan->hop,     &plan->fft,      &plan->partitions,     &plan->vector,
        &plan->items,   &plan->decimate, &plan->decimate_phase, &plan->taps_longest,
        &plan->history, &plan->outputs,  &plan->output_floats,
    };
    codec_text(c, plan->variant, sizeof plan->variant);
    codec_text(c, plan->device, sizeof plan->device);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        codec_u32(c, fields[i]);
}

static void walk_stats(struct codec *c, struct stream_stats *stats)
{
    uint64_t *const fields[] = {
        &stats->timeline_in,     &stats->received,       &stats->awaited,
        &stats->timeline_out,    &stats->waiting,        &stats->out,
        &stats->invalid_frames,  &stats->blocks,         &stats->batches,
        &stats->deadline_misses, &stats->batches_failed, &stats->carried,
        &stats->overlap,         &stats->late_parts,
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        codec_u64(c, fields[i]);
    for (int cause = 0; cause < INVALID_CAUSES; cause++) {
        codec_u64(c, &stats->gap[cause]);
        codec_u64(c, &stats->invalid[cause]);
    }
    for (int why = 0; why < SHEDS; why++)
        codec_u64(c, &stats->shed[why]);
    codec_i64(c, &stats->last_gap_realtime_ns);
}

static void walk_levels(struct codec *c, struct channel_levels *levels)
{
    codec_u64(c, &levels->frames);
    codec_f64(c, &levels->sum);
    codec_f64(c, &levels->sum_squares);
    codec_f64(c, &levels->peak);
    codec_u64(c, &levels->overload);
    codec_u64(c, &levels->nonfinite);
}

static void walk_report(struct codec *c, struct block_report *report)
{
    double sum = report->sum, squares = report->sum_squares, peak = report->peak;
    codec_f64(c, &sum);
    codec_f64(c, &squares);
    codec_f64(c, &peak);
    report->sum = (float)sum;
    report->sum_squares = (float)squares;
    report->peak = (float)peak;
    codec_u32(c, &report->overload);
    codec_u32(c, &report->nonfinite);
    codec_u32(c, &report->nonfinite_first);
    codec_u32(c, &report->nonfinite_last);
    codec_u32(c, &report->present);
}

static void walk_epoch(struct codec *c, struct state_epoch *e)
{
    uint64_t *const fields[] = {
        &e->number,        &e->record,    &e->source_origin, &e->timeline_base,   &e->head,
        &e->settled,       &e->next,      &e->output_end,    &e->raw_next,        &e->flush_until,
        &e->cleared_frame, &e->taps_from, &e->absent_until,  &e->nonfinite_until, &e->capture_frame,
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        codec_u64(c, fields[i]);
    codec_bool(c, &e->ended);
    codec_bool(c, &e->announced);
    codec_bool(c, &e->end_told);
    codec_bool(c, &e->capture_known);
    codec_u32(c, &e->clock);
    codec_f64(c, &e->capture_rate_hz);
    codec_i64(c, &e->capture_ns);
    codec_i64(c, &e->capture_error_ns);
}

static void walk_slot(struct codec *c, struct clock_slot *slot)
{
    codec_u64(c, &slot->frame);
    codec_f64(c, &slot->residual_ns);
    codec_f64(c, &slot->spread_ns);
}

static void walk_line(struct codec *c, struct clock_line *line)
{
    uint32_t count = (uint32_t)line->count;
    codec_f64(c, &line->rate_hz);
    codec_u64(c, &line->frame0);
    codec_i64(c, &line->time0_ns);
    codec_bool(c, &line->started);
    codec_u32(c, &count);
    line->count = count <= CLOCK_LINE_SLOTS ? (int)count : 0;
    c->failed = c->failed || count > CLOCK_LINE_SLOTS;
    for (int i = 0; i < line->count; i++)
        walk_slot(c, &line->slots[i]);
    walk_slot(c, &line->open);
    walk_slot(c, &line->newest);
    codec_i64(c, &line->open_until_ns);
    codec_i64(c, &line->slot_ns);
    codec_f64(c, &line->slope);
    codec_f64(c, &line->intercept_ns);
    codec_f64(c, &line->bound_ns);
    codec_f64(c, &line->jitter_ns);
    codec_f64(c, &line->packet_ns);
    codec_u64(c, &line->receipts);
    codec_i64(c, &line->last_ns);
}

static void walk_step(struct codec *c, struct clock_step *step)
{
    codec_u64(c, &step->frame);
    codec_i64(c, &step->step_ns);
    codec_u64(c, &step->until);
    codec_i64(c, &step->width_ns);
}

static void walk_clock(struct codec *c, struct source_clock *clock)
{
    walk_line(c, &clock->line);
    codec_bool(c, &clock->suspects);
    codec_bool(c, &clock->left_out);
    if (clock->suspects)
        walk_line(c, &clock->next);
    walk_step(c, &clock->suspected);
    walk_step(c, &clock->newest);
    codec_u64(c, &clock->pasts);
    for (int i = 0; i < SOURCE_CLOCK_PAST; i++) {
        struct past_line *past = &clock->past[i];
        walk_step(c, &past->step);
        codec_f64(c, &past->rate_hz);
        codec_i64(c, &past->time_ns);
        codec_i64(c, &past->error_ns);
    }
}

static void walk_before(struct codec *c, struct capture_before *before)
{
    codec_u64(c, &before->from);
    codec_u64(c, &before->until);
    codec_u64(c, &before->frame);
    codec_f64(c, &before->rate_hz);
    codec_i64(c, &before->capture_ns);
    codec_i64(c, &before->error_ns);
    codec_i64(c, &before->step_ns);
}

/* A count of at most `most`; more fails, and counts as none. */
static void walk_count(struct codec *c, uint32_t *count, uint32_t most)
{
    codec_u32(c, count);
    if (*count > most) {
        c->failed = true;
        *count = 0;
    }
}

static void walk_range(struct codec *c, struct invalid_range *range)
{
    uint32_t cause = (uint32_t)range->cause;
    codec_u64(c, &range->from);
    codec_u64(c, &range->until);
    codec_u32(c, &cause);
    c->failed = c->failed || cause >= INVALID_CAUSES;
    range->cause = cause < INVALID_CAUSES ? (enum invalid_cause)cause : 0;
}

static void walk_lists(struct codec *c, struct stream_state *s)
{
    struct ranges *const lists[] = {&s->invalid, &s->raw_invalid, &s->lost, &s->partial_output};
    for (size_t list = 0; list < sizeof lists / sizeof lists[0]; list++) {
        walk_count(c, &lists[list]->count, RANGES_MAX);
        for (uint32_t i = 0; i < lists[list]->count; i++)
            walk_range(c, &lists[list]->list[i]);
    }
    walk_count(c, &s->shed_count, SHEDS_MAX);
    for (uint32_t i = 0; i < s->shed_count; i++)
        walk_range(c, &s->sheds[i]);
    walk_count(c, &s->hole_count, STATE_HOLES_MAX);
    for (uint32_t i = 0; i < s->hole_count; i++) {
        codec_u64(c, &s->holes[i].from);
        codec_u64(c, &s->holes[i].until);
        codec_i64(c, &s->holes[i].seen_ns);
        codec_u64(c, &s->holes[i].overload_debt);
        codec_u64(c, &s->holes[i].socket_debt);
        codec_u64(c, &s->holes[i].capture_debt);
    }
    walk_count(c, &s->gap_count, STATE_GAPS_MAX);
    for (uint32_t i = 0; i < s->gap_count; i++) {
        codec_u64(c, &s->gaps[i].from);
        codec_u64(c, &s->gaps[i].until);
    }
    walk_count(c, &s->unsent_count, STATE_UNSENT_MAX);
    for (uint32_t i = 0; i < s->unsent_count; i++) {
        codec_u64(c, &s->unsent[i].from);
        codec_u64(c, &s->unsent[i].until);
    }
}

static void walk_change(struct codec *c, struct state_change *change)
{
    codec_bool(c, &change->pending);
    codec_bool(c, &change->begun);
    codec_bool(c, &change->forgets);
    codec_u32(c, &change->how);
    codec_u32(c, &change->fade_frames);
    codec_u64(c, &change->epoch);
    codec_u64(c, &change->frame);
}

/* ---- frames -------------------------------------------------------------------------------- */

static size_t presence_bytes(const struct stream_state *s)
{
    return (size_t)((s->until - s->from + 7) / 8);
}

static void write_frames(struct codec *c, const struct stream_state *s)
{
    const struct ring *ring = s->ring;
    uint64_t frames = s->until - s->from;
    const uint64_t slot = s->position & (ring->frames - 1);
    uint64_t first = ring->frames - slot < frames ? ring->frames - slot : frames;
    const uint8_t *span = ring->bytes + slot * ring->frame_bytes;
    codec_span(c, &span, first * ring->frame_bytes);
    span = ring->bytes;
    codec_span(c, &span, (frames - first) * ring->frame_bytes);
    for (uint64_t i = 0; i < frames; i += 8) {
        uint8_t bits = 0;
        for (uint64_t k = i; k < frames && k < i + 8; k++) {
            const uint64_t at = (s->position + k) & (ring->frames - 1);
            bits |= (uint8_t)((ring->present[at / 32] >> at % 32 & 1) << (k - i));
        }
        codec_u8(c, &bits);
    }
}

static void walk_frames(struct codec *c, struct stream_state *s)
{
    codec_u64(c, &s->from);
    codec_u64(c, &s->until);
    if (s->until < s->from || s->until > number_max ||
        s->until - s->from > STREAM_STATE_BYTES_MAX / (s->frame_bytes > 0 ? s->frame_bytes : 1)) {
        c->failed = true;
        s->until = s->from = 0;
    }
    if (codec_reads(c) || s->ring == NULL) {
        codec_span(c, &s->bytes, (size_t)(s->until - s->from) * s->frame_bytes);
        codec_span(c, &s->present, presence_bytes(s));
    } else if (c->to == NULL) {
        c->at += (size_t)(s->until - s->from) * s->frame_bytes + presence_bytes(s);
    } else if (s->until > s->from) {
        write_frames(c, s);
    }
}

static void walk(struct codec *c, struct stream_state *s)
{
    codec_f64(c, &s->rate_hz);
    walk_count(c, &s->channels, CHANNELS_MAX);
    codec_u32(c, &s->frame_bytes);
    walk_format(c, &s->format);
    codec_bool(c, &s->records);
    codec_bool(c, &s->align);
    codec_bool(c, &s->tail);
    walk_plan(c, &s->plan);
    codec_text(c, s->filters, sizeof s->filters);
    codec_u64(c, &s->epochs);
    codec_u64(c, &s->record_count);
    walk_stats(c, &s->stats);
    for (uint32_t i = 0; i < s->channels; i++)
        walk_levels(c, &s->levels[i]);
    codec_bool(c, &s->begun);
    walk_epoch(c, &s->epoch);
    walk_change(c, &s->change);
    walk_lists(c, s);
    codec_u64(c, &s->socket_debt);
    codec_u64(c, &s->overload_debt);
    codec_u64(c, &s->capture_debt);
    codec_bool(c, &s->partial_valid);
    codec_u64(c, &s->partial_block);
    for (uint32_t i = 0; s->partial_valid && i < s->channels; i++)
        walk_report(c, &s->partial[i]);
    codec_u32(c, &s->begin_flags);
    codec_u32(c, &s->packet_frames);
    codec_i64(c, &s->last_receive_ns);
    codec_i64(c, &s->offset_ns);
    walk_clock(c, &s->clock);
    walk_before(c, &s->epoch.before);
    codec_u64(c, &s->clock_step.count);
    codec_u64(c, &s->clock_step.epoch);
    codec_u64(c, &s->clock_step.frame);
    codec_i64(c, &s->clock_step.step_ns);
    walk_frames(c, s);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* The walk changes nothing while it counts or writes. */
static struct stream_state *unchanged(const struct stream_state *state)
{
    return (struct stream_state *)state;
}

size_t stream_state_bytes(const struct stream_state *state)
{
    struct codec c = codec_counter();
    walk(&c, unchanged(state));
    const size_t bytes = HEADER_BYTES + c.at + CHECKSUM_BYTES;
    return c.failed || bytes > STREAM_STATE_BYTES_MAX ? 0 : bytes;
}

void stream_state_write(const struct stream_state *state, uint8_t *bytes)
{
    uint64_t total = stream_state_bytes(state);
    uint32_t mark = magic, version = STREAM_STATE_VERSION;
    assert(total > 0);
    struct codec c = codec_writer(bytes, (size_t)total);
    codec_u32(&c, &mark);
    codec_u32(&c, &version);
    codec_u64(&c, &total);
    walk(&c, unchanged(state));
    uint32_t sum = crc32c(0, bytes, c.at);
    codec_u32(&c, &sum);
    assert(!c.failed && c.at == total);
}

/* ---- reading ------------------------------------------------------------------------------- */

static uint64_t absent_from(const struct stream_state *s, uint64_t frame)
{
    uint64_t absent = 0;
    for (uint64_t i = frame > s->from ? frame - s->from : 0; i < s->until - s->from; i++)
        absent += !(s->present[i / 8] >> i % 8 & 1);
    return absent;
}

/* Every number in range, so that no sum of a few of them overflows. */
static bool in_range(const struct stream_state *s)
{
    const struct state_epoch *e = &s->epoch;
    const uint64_t numbers[] = {
        s->epochs,
        s->record_count,
        e->number,
        e->record,
        e->source_origin / 4,
        e->timeline_base,
        e->head,
        e->output_end,
        e->taps_from,
        e->absent_until,
        e->nonfinite_until,
        e->flush_until,
        e->cleared_frame,
        e->capture_frame,
        s->change.frame,
        s->partial_block,

        s->stats.timeline_in,
        s->stats.timeline_out,
        s->socket_debt,
        s->overload_debt,
        s->capture_debt,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] > number_max)
            return false;
    return s->last_receive_ns <= monotonic_max && s->last_receive_ns >= -monotonic_max &&
           s->offset_ns >= 0 && s->offset_ns <= realtime_max && e->capture_ns <= realtime_max &&
           e->capture_ns >= -realtime_max && e->capture_error_ns >= 0 &&
           e->capture_error_ns <= realtime_max && s->stats.last_gap_realtime_ns >= 0 &&
           s->stats.last_gap_realtime_ns <= realtime_max;
}

/* Far beyond any converter. */
static const double rate_max_hz = 1e15;

static bool before_holds(const struct capture_before *before)
{
    return before->until == 0 ||
           (before->rate_hz > 0 && before->rate_hz < rate_max_hz && before->until <= number_max &&
            before->frame <= number_max && before->capture_ns <= realtime_max &&
            before->capture_ns >= -realtime_max && before->error_ns >= 0 &&
            before->error_ns <= realtime_max && before->step_ns <= realtime_max &&
            before->step_ns >= -realtime_max);
}

/* What a block handed out in part reported is taken off again: no more than a block holds. */
static bool partial_holds(const struct stream_state *s)
{
    for (uint32_t i = 0; s->partial_valid && i < s->channels; i++) {
        const struct block_report *report = &s->partial[i];
        if (report->present > s->plan.hop || report->overload > s->plan.hop ||
            report->nonfinite > s->plan.hop)
            return false;
    }
    return true;
}

static bool ranges_hold(const struct invalid_range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].from >= ranges[i].until || ranges[i].until > 2 * number_max)
            return false;
    return true;
}

/* Lists in order, and within the epoch. */
static bool lists_hold(const struct stream_state *s)
{
    const struct state_epoch *e = &s->epoch;
    if (!ranges_hold(s->invalid.list, s->invalid.count) ||
        !ranges_hold(s->raw_invalid.list, s->raw_invalid.count) ||
        !ranges_hold(s->lost.list, s->lost.count) || !ranges_hold(s->sheds, s->shed_count) ||
        !ranges_hold(s->partial_output.list, s->partial_output.count))
        return false;
    for (uint32_t i = 1; i < s->shed_count; i++)
        if (s->sheds[i].from < s->sheds[i - 1].until)
            return false;
    uint64_t from = 0;
    for (uint32_t i = 0; i < s->hole_count; from = s->holes[i++].until)
        if (s->holes[i].from < from || s->holes[i].until <= s->holes[i].from ||
            s->holes[i].until > e->head || s->holes[i].seen_ns > monotonic_max ||
            s->holes[i].seen_ns < -monotonic_max || s->holes[i].overload_debt > number_max ||
            s->holes[i].socket_debt > number_max || s->holes[i].capture_debt > number_max)
            return false;
    for (uint32_t i = 0; i < s->gap_count; i++)
        if (s->gaps[i].until < s->gaps[i].from || s->gaps[i].until > e->head)
            return false;
    for (uint32_t i = 0; i < s->unsent_count; i++)
        if (s->unsent[i].from >= s->unsent[i].until || s->unsent[i].until > 2 * number_max)
            return false;
    return true;
}

/* The sums of stream_stats, with nothing submitted. */
static bool ledgers_hold(const struct stream_state *s)
{
    const struct stream_stats *stats = &s->stats;
    uint64_t in = stats->received + stats->awaited, out = stats->out + stats->waiting;
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        in += stats->gap[cause];
    for (int why = 0; why < SHEDS; why++)
        out += stats->shed[why];
    const struct state_epoch *e = &s->epoch;
    const uint64_t waiting = s->begun && !e->ended ? e->head - e->next : 0;
    return in == stats->timeline_in && out == stats->timeline_out && stats->waiting == waiting &&
           stats->carried == stats->received + stats->overlap + stats->late_parts;
}

static bool plan_holds(const struct plan_pin *plan)
{
    return plan->variant[0] != '\0' && plan->hop > 0 && plan->hop <= HOP_MAX &&
           plan->decimate > 0 && plan->decimate <= DECIMATE_MAX &&
           plan->decimate_phase < plan->decimate && plan->taps_longest > 0 &&
           plan->taps_longest <= TAPS_MAX && plan->history >= plan->taps_longest &&
           plan->history <= number_max && plan->outputs <= CHANNELS_MAX;
}

/* The frames that results to come read, and nothing that is not received. */
static bool frames_hold(const struct stream_state *s)
{
    const struct state_epoch *e = &s->epoch;
    if (!s->begun || e->ended)
        return s->from == s->until && s->hole_count == 0 && s->stats.awaited == 0 &&
               e->raw_next == e->head;
    const uint64_t start = e->next / s->plan.hop * s->plan.hop;
    const uint64_t least = start > s->plan.history ? start - s->plan.history : 0;
    return s->until == e->head && s->from <= least && e->settled >= s->from &&
           e->raw_next >= s->from && s->stats.awaited == absent_from(s, e->settled);
}

/* NULL, or what no stream's state is. */
static const char *unsound(const struct stream_state *s)
{
    const struct state_epoch *e = &s->epoch;
    if (!(s->rate_hz > 0) || !isfinite(s->rate_hz) || s->channels == 0 ||
        !sample_format_valid(&s->format) || s->frame_bytes != s->channels * s->format.bytes)
        return "its signal is none";
    if (!plan_holds(&s->plan))
        return "its plan is none";
    if (!in_range(s))
        return "a number is out of range";
    if (!source_clock_holds(&s->clock) || s->clock_step.frame > number_max ||
        !before_holds(&s->epoch.before))
        return "its clock line is none";
    if (!partial_holds(s) || s->begin_flags & ~begin_flags_all)
        return "what it owes is none";
    if (e->next > e->head + (e->ended ? e->output_end : 0) || e->settled > e->head ||
        e->raw_next > e->settled || e->flush_until > e->head || e->clock >= CLOCK_SOURCES ||
        (e->ended && e->next != e->output_end) || e->timeline_base % s->plan.decimate != 0 ||
        (s->begun && e->number + 1 != s->epochs) || s->change.how > CHANGE_CLEAR ||
        (e->capture_known ? !(e->capture_rate_hz > 0) : e->capture_rate_hz != 0) ||
        !isfinite(e->capture_rate_hz) || s->clock.line.rate_hz != s->rate_hz)
        return "its epoch contradicts itself";
    if (!lists_hold(s))
        return "its gaps are not in order";
    if (!frames_hold(s))
        return "its frames are not those that its results need";
    return ledgers_hold(s) ? NULL : "its ledgers do not add up";
}

int stream_state_read(const uint8_t *bytes, size_t count, struct stream_state *state,
                      struct problem *problem)
{
    memset(state, 0, sizeof *state);
    uint32_t mark, version;
    uint64_t total;
    struct codec c = codec_reader(bytes, count);
    codec_u32(&c, &mark);
    codec_u32(&c, &version);
    codec_u64(&c, &total);
    if (c.failed || mark != magic)
        return problem_set(problem, ERROR_FORMAT, "this is no stream's state");
    if (version != STREAM_STATE_VERSION)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "the state has version %u, and this program reads version %d", version,
                           STREAM_STATE_VERSION);
    if (total != count || count < HEADER_BYTES + CHECKSUM_BYTES || count > STREAM_STATE_BYTES_MAX)
        return problem_set(problem, ERROR_FORMAT, "the state is cut off");
    c.bytes -= CHECKSUM_BYTES;
    struct codec tail = codec_reader(bytes + c.bytes, CHECKSUM_BYTES);
    uint32_t sum;
    codec_u32(&tail, &sum);
    if (sum != crc32c(0, bytes, c.bytes))
        return problem_set(problem, ERROR_FORMAT, "the state is damaged: its checksum differs");
    walk(&c, state);
    const char *what = c.failed || c.at != c.bytes ? "a field does not fit" : unsound(state);
    if (what != NULL)
        return problem_set(problem, ERROR_FORMAT, "the state is not one of a stream: %s", what);
    return 0;
}
