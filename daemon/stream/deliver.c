/*
 * Deliver: completed batches become results, in frame order, with capture time, invalid
 * ranges, delay and stage latencies, and go to every port of the stream. Owns the last ledger:
 * every output frame is out, waiting, submitted or shed under a name.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#include "stream/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"

int64_t stream_capture_ns(const struct stream *s, const struct epoch *e, double frame,
                          enum clock_source *clock, int64_t *error_ns)
{
    *clock = e->clock;
    if (e->capture_known) {
        *error_ns = e->capture_error_ns;
        return e->capture_ns +
               (int64_t)llround((frame - (double)e->capture_frame) * 1e9 / e->capture_rate_hz);
    }
    *error_ns = clock_line_error_ns(&s->line);
    return clock_line_time_ns(&s->line, (double)e->source_origin + frame) + s->offset_ns;
}

/* ---- what the first pass saw ------------------------------------------------------------- */

static void add_report(struct channel_levels *levels, const struct block_report *report, int sign)
{
    levels->frames += (uint64_t)((int64_t)report->present * sign);
    levels->sum += sign * (double)report->sum;
    levels->sum_squares += sign * (double)report->sum_squares;
    levels->nonfinite += (uint64_t)((int64_t)report->nonfinite * sign);
    if (report->peak > levels->peak)
        levels->peak = report->peak;
}

static void take_reports(struct stream *s, const struct flight *flight,
                         const struct block_report *reports)
{
    uint32_t channels = s->options.channels;
    /* The block was computed once before, when only its first part had come. */
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
    for (uint32_t block = flight->reported; block < flight->blocks; block++) {
        uint64_t start = (flight->first_block + block) * s->hop;
        for (uint32_t channel = 0; channel < channels; channel++) {
            const struct block_report *report = &reports[(size_t)block * channels + channel];
            add_report(&s->levels[channel], report, 1);
            if (s->options.converter)
                s->levels[channel].overload += report->overload;
            if (report->nonfinite == 0)
                continue;
            ranges_add(&flight->epoch->invalid, start + report->nonfinite_first,
                       start + report->nonfinite_last + s->taps_longest, INVALID_NONFINITE);
            uint64_t after = flight->epoch->base + start + report->nonfinite_last + 1;
            s->nonfinite_until = after > s->nonfinite_until ? after : s->nonfinite_until;
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

/* ---- raw input --------------------------------------------------------------------------- */

void stream_deliver_raw(struct stream *s, struct epoch *e, uint64_t until)
{
    while (e->raw_delivered < until) {
        uint64_t slot = (e->base + e->raw_delivered) & (s->ring->frames - 1);
        uint64_t frames = until - e->raw_delivered;
        if (frames > s->ring->frames - slot)
            frames = s->ring->frames - slot;
        struct invalid_range gaps[RESULT_RANGES_MAX];
        struct result result = {
            .epoch = e->number,
            .record = e->record,
            .first_frame = e->raw_delivered,
            .timeline_frame = e->timeline_base + e->raw_delivered,
            .frames = (uint32_t)frames,
            .channels = s->options.channels,
            .flags = RESULT_RAW | (e->raw_delivered == 0 ? RESULT_EPOCH_START : 0) |
                     (e->ended && until == e->head ? RESULT_EPOCH_END : 0),
            .raw = s->ring->bytes + slot * s->ring->frame_bytes,
            .rate_hz = s->options.rate_hz,
            .invalid = gaps,
            .first_receive_ns = s->last_receive_ns,
            .last_receive_ns = s->last_receive_ns,
            .delivered_ns = clock_monotonic_ns(),
        };
        result.capture_ns = stream_capture_ns(s, e, (double)e->raw_delivered, &result.clock,
                                              &result.clock_error_ns);
        /* The filter's settling and the reach of its taps are no fault of the raw input. */
        struct invalid_range clipped[RESULT_RANGES_MAX];
        uint32_t count =
            ranges_clip(&e->invalid, e->raw_delivered, until, clipped, RESULT_RANGES_MAX);
        for (uint32_t i = 0; i < count; i++) {
            enum invalid_cause cause = clipped[i].cause;
            if (cause == INVALID_NETWORK || cause == INVALID_SOCKET || cause == INVALID_LATE ||
                cause == INVALID_OVERLOAD)
                gaps[result.invalid_count++] = clipped[i];
        }
        for (int i = 0; i < s->port_count; i++) {
            if (s->ports[i].raw)
                s->ports[i].put(s->ports[i].context, &result);
        }
        e->raw_delivered += frames;
    }
}

/* ---- results ----------------------------------------------------------------------------- */

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

/* The range in output frames; false when it holds none that is kept. */
static bool range_of_kept(const struct stream *s, struct invalid_range *range)
{
    range->from = decimation_output(&s->kept, range->from);
    range->until = decimation_output(&s->kept, range->until);
    return range->from < range->until;
}

static uint32_t flag_invalid(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                             struct invalid_range *ranges)
{
    uint32_t found = ranges_clip(&e->invalid, from, until, ranges, RESULT_RANGES_MAX);
    uint64_t by_cause[INVALID_CAUSES] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct invalid_range range = ranges[i];
        if (!range_of_kept(s, &range))
            continue;
        ranges[count++] = range;
        by_cause[range.cause] += range.until - range.from;
    }
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        s->stats.invalid[cause] += by_cause[cause];
    s->stats.invalid_frames += ranges_union(ranges, count);
    return count;
}

/* Applies the delay: frame n of the aligned output is output frame n + delay. Returns frames to
 * leave out. */
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
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        ranges[i].from = ranges[i].from > shift ? ranges[i].from - shift : 0;
        ranges[i].until = ranges[i].until > shift ? ranges[i].until - shift : 0;
    }
    return skip;
}

/* The item's samples from frame `place` of it on: floats, or bytes as the plan gives them. A
 * cross-fade's mix is always in floats. */
static void point_at_samples(struct result *result, const struct batch_item *item, uint64_t place)
{
    const struct plan_info *info = plan_info(item->plan);
    if (result_format_native(&info->results)) {
        result->samples = item->samples + place * result->channels;
        return;
    }
    result->wire = (const uint8_t *)item->samples + place * result->channels * info->sample_bytes;
    result->wire_format = info->results;
}

/* What was clipped of frames [from, until): whole blocks, as far as they were written. */
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

static void hand_on(struct stream *s, const struct flight *flight, const struct batch *batch,
                    const struct batch_item *item, uint64_t from, uint64_t until,
                    const int64_t *stage_ns, int64_t first_ns, int64_t last_ns)
{
    struct epoch *e = flight->epoch;
    uint64_t first = decimation_output(&s->kept, from),
             kept = decimation_output(&s->kept, until) - first;
    uint64_t item_first = decimation_output(&s->kept, flight->first_block * s->hop);
    struct invalid_range ranges[RESULT_RANGES_MAX + 1];
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
        .taps_longest = flight->taps_longest,
        .taps_from = decimation_output(&s->kept, flight->taps_from),
        .invalid = ranges,
        .invalid_count = flag_invalid(s, e, from, until, ranges),
        .first_receive_ns = first_ns,
        .last_receive_ns = last_ns,
        .delivered_ns = clock_monotonic_ns(),
    };
    point_at_samples(&result, item, first - item_first);
    uint64_t left_out = s->options.align ? align(&result, ranges) : 0;
    s->stats.submitted -= until - from;
    s->stats.shed[SHED_DECIMATED] += until - from - kept;
    s->stats.shed[SHED_ALIGNED] += left_out;
    s->stats.out += kept - left_out;
    e->delivered = until;
    if (left_out == kept) {
        if (e->ended)
            stream_deliver_end(s, e);
        return;
    }
    if (e->shed_pending && e->shed_until <= from) {
        /* Frames that were shed stand before this result: it tells why they are missing. */
        struct invalid_range shed = {e->shed_from, e->shed_until, e->shed_cause};
        uint64_t shift = s->options.align ? (uint64_t)result.delay_frames : 0;
        if (range_of_kept(s, &shed) && shed.until > shift) {
            shed.from = shed.from > shift ? shed.from - shift : 0;
            shed.until -= shift;
            ranges[result.invalid_count++] = shed;
        }
        e->shed_pending = false;
    }
    /* Aligned or not, the frame answers the input at this instant; only aligned times take the
     * delay off. */
    double frame = (double)decimation_input(&s->kept, first + left_out);
    if (s->options.align)
        frame -= flight->delay_frames + s->options.upstream_delay_frames;
    result.capture_ns = stream_capture_ns(s, e, frame, &result.clock, &result.clock_error_ns);
    memcpy(result.stage_ns, stage_ns, sizeof result.stage_ns);
    result.stage_ns[STAGE_EGRESS] = result.delivered_ns - batch->completed_ns;
    e->announced = true;
    for (int i = 0; i < s->port_count; i++) {
        if (!s->ports[i].raw)
            s->ports[i].put(s->ports[i].context, &result);
    }
}

void stream_deliver_end(struct stream *s, const struct epoch *e)
{
    /* What is still to come carries the flag itself; of an epoch that nobody has heard of nothing
     * is said. */
    if (!e->announced || e->delivered < e->output_end)
        return;
    uint64_t delivered = decimation_output(&s->kept, e->delivered);
    double delay_frames = s->delay_frames + s->options.upstream_delay_frames;
    struct result result = {
        .epoch = e->number,
        .record = e->record,
        .first_frame = delivered,
        .timeline_frame = output_timeline(s, e, delivered),
        .channels = s->output_channels,
        .flags = RESULT_EPOCH_END,
        .rate_hz = decimation_rate_hz(s->kept.factor, s->options.rate_hz),
        .delay_frames = decimation_delay_frames(s->kept.factor, delay_frames),
        .aligned = s->options.align,
        .first_receive_ns = s->last_receive_ns,
        .last_receive_ns = s->last_receive_ns,
        .delivered_ns = clock_monotonic_ns(),
    };
    double frame = (double)decimation_input(&s->kept, delivered);
    if (s->options.align) {
        uint64_t shift = (uint64_t)result.delay_frames;
        assert(delivered >= shift); /* else nothing was announced */
        result.first_frame -= shift;
        result.timeline_frame -= shift;
        frame -= delay_frames;
    }
    result.capture_ns = stream_capture_ns(s, e, frame, &result.clock, &result.clock_error_ns);
    for (int i = 0; i < s->port_count; i++) {
        if (!s->ports[i].raw)
            s->ports[i].put(s->ports[i].context, &result);
    }
    stream_flush_ports(s);
}

static void note_egress(struct stream *s, const struct batch *batch, int64_t last_ns)
{
    if (s->egress_count < EGRESS_MAX)
        s->egress[s->egress_count++] = (struct egress_mark){batch->completed_ns, last_ns};
}

/* Hands on a flight block by block, small blocks together; stages are those of the oldest block of
 * a piece. */
static void deliver_flight(struct stream *s, const struct flight *flight, const struct batch *batch,
                           const struct batch_item *item)
{
    struct epoch *e = flight->epoch;
    uint64_t piece_frames = decimation_span(s->kept.factor, RESULT_FRAMES_MIN);
    uint64_t per_piece = s->hop >= piece_frames ? 1 : piece_frames / s->hop;
    uint64_t frame = flight->from;
    while (frame < flight->until) {
        uint64_t block = frame / s->hop;
        uint64_t until = (block + per_piece) * s->hop;
        if (until > flight->until)
            until = flight->until;
        const struct block_times *oldest = block_times_of(s, e, block);
        int64_t stage_ns[STAGES] = {0};
        int64_t first_ns = oldest->first_ns;
        int64_t last_ns = oldest->last_ns;
        for (uint64_t b = block; b * s->hop < until; b++) {
            int64_t block_stage_ns[STAGES] = {0};
            const struct block_times *times = block_times_of(s, e, b);
            record_stages(s, times, batch, block_stage_ns);
            note_egress(s, batch, times->last_ns);
            if (b == block)
                memcpy(stage_ns, block_stage_ns, sizeof stage_ns);
            s->stats.blocks++;
        }
        hand_on(s, flight, batch, item, frame, until, stage_ns, first_ns, last_ns);
        frame = until;
    }
    ranges_drop_before(&e->invalid, e->delivered);
}

static void measure_load(struct stream *s, const struct flight *flight, const struct batch *batch)
{
    double blocks = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        blocks += batch->items[i].blocks;
    double share = (flight->mixed ? 2 : 1) * flight->blocks / blocks;
    double load = share * (double)(batch->completed_ns - batch->started_ns) /
                  ((double)flight->blocks * s->period_ns);
    s->load += (load - s->load) * 0.05;
    if (load > s->stats.load_worst)
        s->stats.load_worst = load;
}

void stream_complete(struct stream *s, const struct batch *batch, const struct batch_item *item)
{
    assert(s->flight_first != s->flight_next);
    struct flight flight = s->flights[s->flight_first++ % FLIGHTS_MAX];
    s->stats.batches++;
    if (batch->status == BATCH_OK) {
        take_reports(s, &flight, item->reports);
        measure_load(s, &flight, batch);
        if (flight.mixed)
            exchange_mix(s, &flight, item[-1].samples, item->samples);
        deliver_flight(s, &flight, batch, item);
    } else {
        s->stats.submitted -= flight.until - flight.from;
        stream_shed(s, flight.epoch, flight.from, flight.until, SHED_DEVICE, INVALID_DEVICE);
        flight.epoch->delivered = flight.until;
        s->partial_valid = false;
    }
    if (flight.retiring != NULL)
        s->next.retired(s->next.context, flight.retiring);
    stream_retire_epochs(s);
}

void stream_flush_ports(struct stream *s)
{
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].flush != NULL)
            s->ports[i].flush(s->ports[i].context);
    }
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

/* ---- epochs ------------------------------------------------------------------------------ */

static bool in_flight(const struct stream *s, const struct epoch *e)
{
    for (uint32_t i = s->flight_first; i != s->flight_next; i++) {
        if (s->flights[i % FLIGHTS_MAX].epoch == e)
            return true;
    }
    return false;
}

void stream_retire_epochs(struct stream *s)
{
    /* The newest stays: the next epoch's place follows from it. */
    while (s->epoch_next - s->epoch_first > 1) {
        const struct epoch *e = epoch_at(s, s->epoch_first);
        if (!e->ended || e->submitted < e->output_end || in_flight(s, e))
            return;
        s->epoch_first++;
    }
}
