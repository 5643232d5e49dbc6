/*
 * Deliver: completed batches become results, in frame order, with capture time, invalid ranges,
 * delay and stage latencies, and go to every port of the stream. Owns the output ledger: every
 * output frame is out, waiting, submitted, or shed under a name.
 *
 * Defines stream_complete and stream_flushed (stream.h). Loop thread; nothing here allocates, locks
 * or logs.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "stream/change.h"
#include "stream/epochs.h"
#include "stream/full_scale.h"
#include "stream/ports.h"
#include "stream/room.h"
#include "stream/state.h"
#include "stream/watch.h"

/* Blocks of fewer output frames than this are handed on together. */
enum { RESULT_FRAMES_MIN = 256 };

/* ---- reports of the first pass ------------------------------------------------------------- */

static void add_report(struct channel_levels *levels, const struct block_report *report, int sign)
{
    levels->frames += (uint64_t)((int64_t)report->present * sign);
    levels->sum += sign * (double)report->sum;
    levels->sum_squares += sign * (double)report->sum_squares;
    levels->nonfinite += (uint64_t)((int64_t)report->nonfinite * sign);
    if (report->peak > levels->peak)
        levels->peak = report->peak;
}

/* Samples of a flight that are read again to find which of them were not finite, at most. */
enum { RESCAN_SAMPLES = 1 << 17, RESCAN_RANGES = 32 };

/* Flags the results that depend on a block's samples that were not finite. The report has the first
 * and the last of them. Where finite samples between them leave valid results, the block is read
 * again, as long as *budget lasts; beyond it all frames from the first to the last count. */
static void flag_nonfinite(struct stream *s, struct epoch *e, const struct batch_item *item,
                           uint64_t start, uint32_t channel, const struct block_report *report,
                           uint32_t *budget)
{
    const uint64_t base = e->base + start, taps = s->taps_longest;
    const uint64_t first = base + report->nonfinite_first, last = base + report->nonfinite_last;
    struct ring_range ranges[RESCAN_RANGES] = {{first, last + 1}};
    uint32_t count = 1;
    if (last - first > taps && last - first < *budget) {
        *budget -= (uint32_t)(last - first);
        count = engine_nonfinite(item->plan, item->ring, channel, first, last + 1, taps, ranges,
                                 RESCAN_RANGES);
    }
    for (uint32_t i = 0; i < count; i++)
        ranges_add(&e->invalid, ranges[i].from - e->base, ranges[i].until - 1 - e->base + taps,
                   INVALID_NONFINITE);
    s->nonfinite_until = last + 1 > s->nonfinite_until ? last + 1 : s->nonfinite_until;
}

/* Adds the reports of a flight's blocks to the levels. A block that idle flush submits in part is
 * computed and reported again when it is whole: the first report is subtracted then. */
static void take_reports(struct stream *s, const struct flight *flight,
                         const struct batch_item *item)
{
    const struct block_report *reports = item->reports;
    uint32_t budget = RESCAN_SAMPLES;
    uint32_t channels = s->options.channels;
    bool again = s->partial_valid && flight->from % s->hop != 0 &&
                 s->partial_block == flight->first_block && !flight->reported;
    if (again) {
        for (uint32_t channel = 0; channel < channels; channel++) {
            add_report(&s->levels[channel], &s->partial[channel], -1);
            if (s->options.converter)
                s->levels[channel].overload -= s->partial[channel].overload;
        }
    }
    s->partial_valid = false;
    const int64_t now_ns = clock_monotonic_ns();
    for (uint32_t block = flight->reported; block < flight->blocks; block++) {
        uint64_t start = (flight->first_block + block) * s->hop;
        for (uint32_t channel = 0; channel < channels; channel++) {
            const struct block_report *report = &reports[(size_t)block * channels + channel];
            add_report(&s->levels[channel], report, 1);
            recent_add(s->recent, channel,
                       &(struct recent_block){report->present, (double)report->sum_squares,
                                              (double)report->peak},
                       now_ns);
            if (s->options.converter)
                s->levels[channel].overload += report->overload;
            s->peak_most = fmax(s->peak_most, (double)report->peak);
            if (report->nonfinite > 0)
                flag_nonfinite(s, flight->epoch, item, start, channel, report, &budget);
        }
    }
    uint64_t last_block = flight->first_block + flight->blocks - 1;
    if (flight->until < (last_block + 1) * s->hop) {
        memcpy(s->partial, &reports[(size_t)(flight->blocks - 1) * channels],
               channels * sizeof *reports);
        s->partial_block = last_block;
        s->partial_valid = true;
    }
}

/* ---- results ------------------------------------------------------------------------------- */

static void record_stages(struct stream *s, const struct block_times *times,
                          const struct batch *batch, int64_t *stage_ns)
{
    stage_ns[STAGE_ACCUMULATE] = times->last_ns - times->first_ns;
    stage_ns[STAGE_INGEST] = times->ready_ns - times->last_ns;
    stage_ns[STAGE_WAIT] = batch->submitted_ns - times->ready_ns;
    stage_ns[STAGE_DEVICE] = batch->completed_ns - batch->submitted_ns;
    for (int stage = 0; stage < STAGE_EGRESS; stage++) {
        if (stage_ns[stage] < 0)
            stage_ns[stage] = 0;
        histogram_record(&s->stages[stage], stage_ns[stage]);
    }
}

/* What is invalid of [from, until), in kept frames, and counts it. Returns how many ranges. */
static uint32_t flag_invalid(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                             struct invalid_range *ranges)
{
    uint32_t found = ranges_clip(&e->invalid, from, until, ranges, RESULT_RANGES_MAX);
    uint64_t by_cause[INVALID_CAUSES] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct invalid_range range = ranges[i];
        if (!ports_range_of_kept(s, &range))
            continue;
        ranges[count++] = range;
        by_cause[range.cause] += range.until - range.from;
    }
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        s->stats.invalid[cause] += by_cause[cause];
    s->stats.invalid_frames += ranges_union(ranges, count);
    return count;
}

/* Which of frames [from, until) are partial, in kept frames. */
static void flag_partial(struct stream *s, const struct epoch *e, uint64_t from, uint64_t until,
                         struct result *result)
{
    struct invalid_range found[RESULT_RANGES_MAX];
    const uint32_t count =
        ranges_clip(&s->partial_output, e->base + from, e->base + until, found, RESULT_RANGES_MAX);
    if (count == 0)
        return;
    struct invalid_range range = {UINT64_MAX, 0, INVALID_SETTLING};
    for (uint32_t i = 0; i < count; i++) {
        range.from = found[i].from < range.from ? found[i].from : range.from;
        range.until = found[i].until > range.until ? found[i].until : range.until;
    }
    range.from -= e->base;
    range.until -= e->base;
    if (!ports_range_of_kept(s, &range))
        return;
    result->partial_from = range.from;
    result->partial_until = range.until;
}

/* Applies the delay: frame n of the aligned output is output frame n + delay. Returns how many
 * leading frames are left out; when that is all of them, the result is unchanged. */
static uint64_t align(struct result *result, struct invalid_range *ranges)
{
    uint64_t shift = (uint64_t)result->delay_frames;
    uint64_t skip = result->first_frame < shift ? shift - result->first_frame : 0;
    if (skip >= result->frames)
        return result->frames;
    result->first_frame = result->first_frame + skip - shift;
    result->timeline_frame = result->timeline_frame + skip - shift;
    result->frames -= (uint32_t)skip;
    if (result->samples != NULL)
        result->samples += skip * result->channels;
    if (result->wire != NULL)
        result->wire += skip * result->channels * result->wire_format.format.bytes;
    result->aligned = true;
    result->taps_from = result->taps_from > shift ? result->taps_from - shift : 0;
    if (result->partial_until > result->partial_from) {
        const uint64_t first = result->first_frame + shift;
        result->partial_from =
            result->partial_from > first ? result->partial_from - shift : result->first_frame;
        result->partial_until =
            result->partial_until > first ? result->partial_until - shift : result->first_frame;
    }
    result->gains_from = result->gains_from > shift ? result->gains_from - shift : 0;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        ranges[i].from = ranges[i].from > shift ? ranges[i].from - shift : 0;
        ranges[i].until = ranges[i].until > shift ? ranges[i].until - shift : 0;
    }
    return skip;
}

/* Points the result at the item's samples from its kept frame `first` on: floats, or bytes in the
 * plan's format. A cross-fade's mix is always floats. */
static void point_at_samples(struct result *result, const struct batch_item *item, uint64_t first)
{
    const struct plan_info *info = plan_info(item->plan);
    if (result_format_native(&info->results)) {
        result->samples = item->samples + first * result->channels;
        return;
    }
    result->wire = (const uint8_t *)item->samples + first * result->channels * info->sample_bytes;
    result->wire_format = info->results;
}

/* How many samples of frames [from, until) were clipped: of whole blocks, as far as written. */
static uint64_t saturated_of(const struct stream *s, const struct flight *flight,
                             const struct batch_item *item, uint64_t from, uint64_t until)
{
    const uint32_t outputs = plan_info(item->plan)->outputs;
    uint64_t count = item->share_previous ? saturated_of(s, flight, item - 1, from, until) : 0;
    for (uint64_t block = from / s->hop; item->saturated != NULL && block * s->hop < until; block++)
        for (uint32_t o = 0; o < outputs; o++)
            count += item->saturated[(block - flight->first_block) * outputs + o];
    return count;
}

/* Frames [from, until) of a flight that go out as one result: whole blocks, except where the flight
 * begins or ends inside one. Times are those of its oldest block. */
struct portion {
    uint64_t from, until; /* output frames at the input's rate */
    int64_t stage_ns[STAGES];
    int64_t first_ns, last_ns; /* receive times */
};

static void deliver_portion(struct stream *s, const struct flight *flight,
                            const struct batch *batch, const struct batch_item *item,
                            const struct portion *portion)
{
    struct epoch *e = flight->epoch;
    const uint64_t from = portion->from, until = portion->until;
    const uint64_t first = decimation_output(&s->kept, from);
    const uint64_t kept = decimation_output(&s->kept, until) - first;
    const uint64_t item_first = decimation_output(&s->kept, flight->first_block * s->hop);
    struct invalid_range ranges[RESULT_RANGES_MAX + SHEDS_MAX];
    struct result result = {
        .epoch = e->number,
        .record = e->record,
        .first_frame = first,
        .timeline_frame = output_timeline(s, e, first),
        .frames = (uint32_t)kept,
        .channels = s->output_channels,
        .flags = (e->announced ? 0 : RESULT_EPOCH_START) | (flight->mixed ? RESULT_MIXED : 0) |
                 (e->ended && until == e->output_end ? RESULT_EPOCH_END : 0),
        .saturated = saturated_of(s, flight, item, from, until),
        .rate_hz = decimation_rate_hz(s->kept.factor, s->options.rate_hz),
        .delay_frames = output_delay_frames(s, flight->delay_frames),
        .taps_hash = flight->taps_hash,
        .taps_who = flight->taps_who,
        .taps_longest = flight->taps_longest,
        .taps_from = decimation_output(&s->kept, flight->taps_from),
        .device = engine_device(s->engine)->name,
        .driver = engine_device(s->engine)->driver,
        .gains = flight->gains,
        .gains_from = decimation_output(&s->kept, flight->gains_from),
        .invalid = ranges,
        .invalid_count = flag_invalid(s, e, from, until, ranges),
        .first_receive_ns = portion->first_ns,
        .last_receive_ns = portion->last_ns,
        .delivered_ns = clock_monotonic_ns(),
    };
    point_at_samples(&result, item, first - item_first);
    full_scale_mark(s, e, item->reports, flight->first_block, from, until, &result);
    flag_partial(s, e, from, until, &result);
    uint64_t left_out = s->options.align ? align(&result, ranges) : 0;
    if (result.aligned)
        full_scale_align(s, &result);
    s->stats.submitted -= until - from;
    s->stats.shed[SHED_DECIMATED] += until - from - kept;
    s->stats.shed[SHED_ALIGNED] += left_out;
    s->stats.out += kept - left_out;
    e->delivered = until;
    if (left_out == kept)
        return;
    result.invalid_count += ports_take_shed(s, e, from, ranges + result.invalid_count);
    /* An output frame answers the input up to this instant, aligned or not; aligned times have the
     * delay subtracted. */
    double frame = (double)decimation_input(&s->kept, first + left_out);
    if (s->options.align)
        frame -= flight->delay_frames + s->options.upstream_delay_frames;
    result.capture_ns =
        epochs_capture_ns(s, e, frame, until - from, &result.clock, &result.clock_error_ns);
    result.clock_step = epochs_clock_step(
        s, false, result.aligned ? (uint64_t)output_delay_frames(s, flight->delay_frames) : 0);
    memcpy(result.stage_ns, portion->stage_ns, sizeof result.stage_ns);
    result.stage_ns[STAGE_EGRESS] = result.delivered_ns - batch->completed_ns;
    e->announced = true;
    e->end_told = result.flags & RESULT_EPOCH_END;
    ports_put(s, &result);
}

static void note_egress(struct stream *s, const struct batch *batch, int64_t last_ns)
{
    if (s->egress_count < EGRESS_MAX)
        s->egress[s->egress_count++] = (struct egress_mark){batch->completed_ns, last_ns};
}

/* Delivers a flight block by block, small blocks together. */
static void deliver_flight(struct stream *s, const struct flight *flight, const struct batch *batch,
                           const struct batch_item *item)
{
    struct epoch *e = flight->epoch;
    const uint64_t least = decimation_span(s->kept.factor, RESULT_FRAMES_MIN);
    const uint64_t together = s->hop >= least ? 1 : least / s->hop;
    for (uint64_t frame = flight->from; frame < flight->until;) {
        const uint64_t block = frame / s->hop, end = (block + together) * s->hop;
        const struct block_times *oldest = block_times_of(s, e, block);
        struct portion portion = {
            .from = frame,
            .until = end < flight->until ? end : flight->until,
            .first_ns = oldest->first_ns,
            .last_ns = oldest->last_ns,
        };
        for (uint64_t b = block; b * s->hop < portion.until; b++) {
            const struct block_times *times = block_times_of(s, e, b);
            int64_t stage_ns[STAGES] = {0};
            record_stages(s, times, batch, b == block ? portion.stage_ns : stage_ns);
            note_egress(s, batch, times->last_ns);
            s->stats.blocks++;
        }
        deliver_portion(s, flight, batch, item, &portion);
        frame = portion.until;
    }
    ranges_drop_before(&e->invalid, e->delivered);
    ranges_drop_before(&s->partial_output, e->base + e->delivered);
}

/* ---- completed batches --------------------------------------------------------------------- */

/* The share of the stream's real time that the device spends on it, smoothed over batches. */
static void measure_load(struct stream *s, const struct flight *flight, const struct batch *batch)
{
    double blocks = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        blocks += batch->items[i].blocks + batch->items[i].rebuild;
    double share = (flight->mixed ? 2 : 1) * flight->blocks / blocks;
    const int64_t taken_ns = batch->completed_ns - batch->started_ns - batch->overtaken_ns;
    double load = share * (double)taken_ns / ((double)flight->blocks * s->period_ns);
    s->load += (load - s->load) * 0.05;
    if (load > s->stats.load_worst)
        s->stats.load_worst = load;
}

void stream_complete(struct stream *s, const struct batch *batch, const struct batch_item *item)
{
    assert(s->flight_first != s->flight_next);
    s->completing = batch;
    struct flight flight = s->flights[s->flight_first++ % FLIGHTS_MAX];
    if (flight.blocks == 0) { /* it has no results */
        s->stats.batches += batch->status == BATCH_OK;
        s->stats.batches_failed += batch->status != BATCH_OK;
    } else if (batch->status == BATCH_OK) {
        s->stats.batches++;
        take_reports(s, &flight, item);
        measure_load(s, &flight, batch);
        if (s->inspect != NULL && !flight.mixed && !item->share_previous)
            s->inspect(s->inspect_context, item);
        if (s->watch != NULL)
            watch_flight(s, &flight, item);
        if (flight.mixed)
            change_mix(s, &flight, item[-1].samples, item->samples);
        deliver_flight(s, &flight, batch, item);
    } else {
        s->stats.batches_failed++;
        s->stats.submitted -= flight.until - flight.from;
        room_shed(s, flight.epoch, flight.from, flight.until, SHED_DEVICE, INVALID_DEVICE);
        flight.epoch->delivered = flight.until;
        s->partial_valid = false;
    }
    if (flight.retiring != NULL)
        s->next.retired(s->next.context, flight.retiring);
    ports_put_ends(s);
    epochs_retire(s);
    s->completing = NULL;
}

void stream_flushed(struct stream *s, int64_t now_ns)
{
    for (uint32_t i = 0; i < s->egress_count; i++) {
        const struct egress_mark *mark = &s->egress[i];
        histogram_record(&s->stages[STAGE_EGRESS], now_ns - mark->completed_ns);
        histogram_record(&s->total, now_ns - mark->last_receive_ns);
        if (now_ns - mark->last_receive_ns > s->deadline_ns)
            s->stats.deadline_misses++;
    }
    s->egress_count = 0;
}
