/*
 * The life and the figures of a stream: opening, closing, counters (stream.h). What runs per packet
 * is in ingest.c, per batch in blocks.c, per result in deliver.c.
 *
 * stream_open and stream_close run on a worker thread, the rest on the loop.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "stream/epochs.h"
#include "stream/input_ring.h"
#include "stream/full_scale.h"
#include "stream/ports.h"
#include "stream/ring_size.h"
#include "stream/state.h"

int stream_open(struct engine *engine, const struct stream_options *options, struct plan *plan,
                struct stream **out, struct problem *problem)
{
    const struct plan_info *info = plan_info(plan);
    assert(info->inputs == options->channels);
    struct stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->name);
    s->options = *options;
    snprintf(s->name, sizeof s->name, "%s", options->name);
    s->options.name = s->name;
    if (options->filters != NULL)
        snprintf(s->filters, sizeof s->filters, "%s", options->filters);
    s->options.filters = s->filters;
    s->engine = engine;
    s->plan = plan;
    s->hop = info->hop;
    s->taps_longest = info->taps_longest;
    s->delay_frames = options->delay_frames;
    s->output_channels = info->output_floats;
    s->kept = (struct decimation){info->decimate, info->decimate_phase};
    s->period_ns = (double)s->hop * 1e9 / options->rate_hz;
    s->deadline_ns = options->deadline_ns;
    if (s->deadline_ns == 0)
        s->deadline_ns = s->period_ns > 1e6 ? (int64_t)s->period_ns : NS_PER_MS;
    const struct ring_need need = ring_need_of(options, info);
    struct stream_ring made;
    int error = input_ring_make(engine, options, info, options->ring_frames_min, &made, problem);
    if (error != 0)
        goto free_stream;
    s->patience_ns = ring_patience_ns(&need, options->ring_frames_min, made.ring->frames);
    s->ring = made.ring;
    s->times = made.times;
    s->times_mask = made.times_mask;
    s->jump_max = made.jump_max;
    s->history = made.history;
    s->cleared_until = s->fresh_until = FIRST_POSITION; /* the device has the silence before */
    s->levels = calloc(options->channels, sizeof *s->levels);
    s->partial = calloc(options->channels, sizeof *s->partial);
    s->recent = recent_open(options->channels);
    error = options->full_scale ? full_scale_open(options->channels, &options->format,
                                                  options->scales, &s->full_scale)
                                : 0;
    if (s->levels == NULL || s->partial == NULL || s->recent == NULL || error != 0) {
        error = problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->name);
        goto free_arrays;
    }
    source_clock_reset(&s->clock, options->rate_hz);
    *out = s;
    return 0;

free_arrays:
    full_scale_close(s->full_scale);
    recent_close(s->recent);
    free(s->partial);
    free(s->levels);
    input_ring_close(&made);
free_stream:
    free(s);
    return error;
}

void stream_close(struct stream *s)
{
    if (s == NULL)
        return;
    assert(s->flight_first == s->flight_next);
    full_scale_close(s->full_scale);
    recent_close(s->recent);
    free(s->partial);
    free(s->levels);
    free(s->times);
    engine_ring_close(s->engine, s->ring);
    stream_ring_free(s->old_ring);
    free(s);
}

bool stream_drained(const struct stream *s)
{
    /* What only prepares blocks has no frames, and is in flight all the same. */
    return s->stats.waiting == 0 && s->stats.submitted == 0 && s->flight_first == s->flight_next &&
           ports_raw_behind(s) == NULL;
}

/* ---- numbers that outlive a stream --------------------------------------------------------- */

void stream_numbers(const struct stream *s, struct stream_numbers *numbers)
{
    const struct epoch *e = epoch_newest((struct stream *)s);
    *numbers = s->before;
    numbers->epochs = s->stats.epochs;
    numbers->records = s->stats.records;
    if (e == NULL)
        return;
    const uint64_t tail = s->options.tail ? s->taps_longest - 1 : 0;
    numbers->timeline = e->timeline_base + (e->ended ? e->output_end : e->head + tail);
    numbers->anchor = e->timeline_base + e->head;
    numbers->anchor_realtime_ns = s->last_receive_ns + s->offset_ns;
}

void stream_continue(struct stream *s, const struct stream_numbers *numbers)
{
    assert(s->epoch_first == s->epoch_next);
    s->before = *numbers;
    s->stats.epochs = numbers->epochs;
    s->stats.records = numbers->records;
}

bool stream_is_ahead(const struct stream *s, int64_t now_ns)
{
    return overload_ahead(&s->share, (int64_t)s->period_ns, now_ns);
}

double stream_block_period_ns(const struct stream *s)
{
    return s->period_ns;
}

double stream_load(const struct stream *s, int64_t now_ns)
{
    return overload_load(&s->share, now_ns);
}

bool stream_is_live(const struct stream *s)
{
    return s->options.live;
}

uint8_t stream_priority(const struct stream *s)
{
    return s->options.priority;
}

void stream_set_priority(struct stream *s, uint8_t priority)
{
    s->options.priority = priority;
}

const char *stream_name(const struct stream *s)
{
    return s->name;
}

void stream_stats(const struct stream *s, struct stream_stats *stats)
{
    *stats = s->stats;
    const struct epoch *e = epoch_newest((struct stream *)s);
    stats->last_frame = e != NULL && e->head > 0 ? e->head - 1 : 0;
    stats->last_frame_ns = s->last_receive_ns;
    stats->rate_hz = s->options.rate_hz;
    /* The clock of a source that waits is the stream itself: it measures nothing. */
    stats->rate_known =
        s->options.live && clock_line_rate(&s->clock.line, &stats->rate_hz, &stats->rate_ppm);
    stats->jitter_ns = s->clock.line.jitter_ns;
    stats->clock_step = s->clock_step;
    stats->packet_frames = s->packet_frames;
    stats->priority = s->options.priority;
    stats->load = s->load;
    uint64_t used = e != NULL ? e->base + e->head - epochs_low(s) : 0;
    /* History does not count: it is always there. */
    used = used > s->history ? used - s->history : 0;
    stats->fill = (double)used / (double)s->ring->frames;
    stats->delay_frames = output_delay_frames(s, s->delay_frames);
    stats->channels = s->options.channels;
    stats->levels = s->levels;
    stats->recent = s->recent;
    stats->stages = s->stages;
    stats->total = &s->total;
}

void stream_reset_held(struct stream *s)
{
    recent_reset(s->recent);
    s->stats.load_worst = 0;
    for (int stage = 0; stage < STAGES; stage++)
        histogram_reset(&s->stages[stage]);
    histogram_reset(&s->total);
}
