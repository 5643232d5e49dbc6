/*
 * A stream's life and figures: see stream.h. What runs per packet is in ingest.c, per batch
 * in blocks.c, per result in deliver.c.
 */
#include "stream/internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"

/* Of a ring, for the longest gap: 1 s of 16 channels at 1 MHz and 32 bits. */
enum { GAP_BYTES_MAX = 64 << 20 };

/* Frames the ring must hold: history, reorder window, everything in flight, the silence between two
 * epochs, and half a second or eight blocks of waiting. */
static uint64_t ring_frames(const struct stream_options *options, const struct plan_info *info)
{
    if (options->ring_frames_min > 0)
        return options->ring_frames_min;
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
    s->engine = engine;
    s->plan = plan;
    s->hop = info->hop;
    s->history = info->history_frames > info->taps_longest ? info->history_frames
                                                           : info->taps_longest;
    s->taps_longest = info->taps_longest;
    s->delay_frames = options->delay_frames;
    s->output_channels = info->output_floats;
    s->decimate = info->decimate > 1 ? info->decimate : 1;
    s->phase = info->decimate_phase;
    s->period_ns = (double)s->hop * 1e9 / options->rate_hz;
    s->deadline_ns = options->deadline_ns;
    if (s->deadline_ns == 0)
        s->deadline_ns = s->period_ns > 1e6 ? (int64_t)s->period_ns : NS_PER_MS;
    int error = engine_ring_open(engine, ring_frames(options, info), options->frame_bytes, &s->ring,
                                 problem);
    if (error != 0) {
        problem_prefix(problem, error, "stream %s", options->name);
        goto free_stream;
    }
    /* A gap may fill what the ring holds beside the history, the reorder window and what is in flight; a longer
     * one is a discontinuity. */
    uint64_t kept = s->history + (uint64_t)(options->batches_in_flight + 4) * s->hop +
                    (uint64_t)ceil(2e-9 * (double)options->reorder_ns * options->rate_hz);
    s->jump_max = s->ring->frames > 2 * kept ? s->ring->frames - kept : s->ring->frames / 2;
    uint64_t blocks = 4;
    while (blocks < s->ring->frames / s->hop + 4)
        blocks *= 2;
    s->times_mask = blocks - 1;
    s->times = calloc(blocks, sizeof *s->times);
    s->levels = calloc(options->channels, sizeof *s->levels);
    s->partial = calloc(options->channels, sizeof *s->partial);
    if (s->times == NULL || s->levels == NULL || s->partial == NULL) {
        error = problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->name);
        goto free_arrays;
    }
    clock_line_reset(&s->line, options->rate_hz);
    *out = s;
    return 0;

free_arrays:
    free(s->partial);
    free(s->levels);
    free(s->times);
    engine_ring_close(engine, s->ring);
free_stream:
    free(s);
    return error;
}

void stream_close(struct stream *s)
{
    if (s == NULL)
        return;
    assert(s->flight_first == s->flight_next);
    free(s->partial);
    free(s->levels);
    free(s->times);
    engine_ring_close(s->engine, s->ring);
    free(s);
}

int stream_add_port(struct stream *s, const struct result_port *port)
{
    if (s->port_count == PORTS_MAX)
        return ERROR_FULL;
    s->ports[s->port_count++] = *port;
    s->has_raw = s->has_raw || port->raw;
    s->has_room = s->has_room || port->room != NULL;
    return 0;
}

void stream_remove_port(struct stream *s, const void *context)
{
    int kept = 0;
    s->has_room = false;
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].context == context && !s->ports[i].raw)
            continue;
        s->has_room = s->has_room || s->ports[i].room != NULL;
        s->ports[kept++] = s->ports[i];
    }
    s->port_count = kept;
}

bool stream_drained(const struct stream *s)
{
    return s->stats.waiting == 0 && s->stats.submitted == 0;
}

double stream_block_period_ns(const struct stream *s)
{
    return s->period_ns;
}

bool stream_is_live(const struct stream *s)
{
    return s->options.live;
}

const char *stream_name(const struct stream *s)
{
    return s->name;
}

void stream_stats(const struct stream *s, struct stream_stats *stats)
{
    *stats = s->stats;
    const struct epoch *e =
        s->epoch_first == s->epoch_next ? NULL : &s->epochs[(s->epoch_next - 1) % EPOCHS_MAX];
    stats->last_frame = e != NULL && e->head > 0 ? e->head - 1 : 0;
    stats->last_frame_ns = s->last_receive_ns;
    stats->rate_hz = s->options.rate_hz;
    /* A source that waits comes at our speed, not at a clock's. */
    stats->rate_known =
        s->options.live && clock_line_rate(&s->line, &stats->rate_hz, &stats->rate_ppm);
    stats->jitter_ns = s->line.jitter_ns;
    stats->load = s->load;
    uint64_t used = e != NULL ? e->base + e->head - stream_low(s) : 0;
    /* What only waits to be overwritten does not count: history is always there. */
    used = used > s->history ? used - s->history : 0;
    stats->fill = (double)used / (double)s->ring->frames;
    stats->delay_frames = (s->delay_frames + s->options.upstream_delay_frames) / s->decimate;
    stats->channels = s->options.channels;
    stats->levels = s->levels;
    stats->stages = s->stages;
    stats->total = &s->total;
}
