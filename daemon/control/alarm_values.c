/* The figures of alarms: see alarm_values.h. */
#include "control/alarm_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/histogram.h"
#include "stream/move.h"

/* ---- latency ----------------------------------------------------------------------------- */

enum { SNAPSHOTS = 3 };

/* Copies of the stream's histogram, half a window apart: what has come since the oldest covers one
 * window to one and a half. */
struct latency_window {
    struct histogram taken[SNAPSHOTS]; /* oldest first */
    int64_t taken_ns[SNAPSHOTS];
    uint32_t count;
    struct histogram grown; /* scratch */
};

/* What `now` has more than `before` in each bin; false: less in one of them. */
static bool subtract(const struct histogram *now, const struct histogram *before,
                     struct histogram *grown)
{
    bool more = now->count >= before->count;
    histogram_reset(grown);
    grown->count = now->count - before->count;
    grown->max_ns = now->max_ns;
    for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
        more = more && now->bins[bin] >= before->bins[bin];
        grown->bins[bin] = now->bins[bin] - before->bins[bin];
    }
    return more;
}

static void take_snapshot(struct latency_window *window, const struct histogram *now,
                          int64_t now_ns)
{
    if (window->count == SNAPSHOTS) {
        memmove(window->taken, window->taken + 1, (SNAPSHOTS - 1) * sizeof *window->taken);
        memmove(window->taken_ns, window->taken_ns + 1, (SNAPSHOTS - 1) * sizeof *window->taken_ns);
        window->count--;
    }
    window->taken[window->count] = *now;
    window->taken_ns[window->count++] = now_ns;
}

static double latency_value(struct latency_window *window, const struct histogram *now,
                            int64_t within_ns, int64_t now_ns)
{
    if (window->count > 0 && !subtract(now, &window->taken[0], &window->grown))
        window->count = 0; /* the counters were reset */
    if (window->count == 0 || now_ns - window->taken_ns[window->count - 1] >= within_ns / 2)
        take_snapshot(window, now, now_ns);
    if (now_ns - window->taken_ns[0] < within_ns ||
        !subtract(now, &window->taken[0], &window->grown) || window->grown.count == 0)
        return NAN;
    return (double)histogram_quantile(&window->grown, 0.99) / NS_PER_SECOND;
}

/* ---- counters ---------------------------------------------------------------------------- */

static double losses_of(const struct stream_stats *stats)
{
    double frames = 0;
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        frames += (double)stats->gap[cause];
    /* The other sheds are what the configuration asks for. */
    return frames + (double)stats->shed[SHED_OVERLOAD] + (double)stats->shed[SHED_DEVICE];
}

/* What the window of this quantity is over. */
static void read_counters(const struct alarm_reader *reader, const struct stream_stats *stats,
                          double values[WINDOW_VALUES])
{
    memset(values, 0, WINDOW_VALUES * sizeof *values);
    switch (reader->quantity) {
    case ALARM_LEVEL:
        values[0] = (double)stats->levels[reader->channel].frames;
        values[1] = stats->levels[reader->channel].sum;
        values[2] = stats->levels[reader->channel].sum_squares;
        break;
    case ALARM_OVERLOADS:
        values[0] = (double)stats->levels[reader->channel].overload;
        break;
    case ALARM_LOSSES:
        values[0] = losses_of(stats);
        break;
    case ALARM_RATE:
        values[0] = (double)stats->received;
        break;
    default: /* ALARM_MISSES */
        values[0] = (double)stats->deadline_misses;
        break;
    }
}

double alarm_level(const double growth[WINDOW_VALUES])
{
    if (!(growth[0] > 0))
        return NAN;
    const double mean = growth[1] / growth[0];
    return sqrt(fmax(0, growth[2] / growth[0] - mean * mean));
}

static double windowed(struct alarm_reader *reader, const struct stream_stats *stats,
                       int64_t now_ns)
{
    double values[WINDOW_VALUES];
    read_counters(reader, stats, values);
    const struct window_growth growth = window_read(&reader->window, values, now_ns);
    if (!growth.whole && !reader->counts_partly)
        return NAN;
    if (reader->quantity == ALARM_LEVEL)
        return alarm_level(growth.values);
    if (reader->quantity == ALARM_RATE)
        return growth.values[0] / ((double)growth.span_ns / NS_PER_SECOND);
    return growth.values[0];
}

/* ---- all --------------------------------------------------------------------------------- */

/* Since the newest frame, or since the alarm was made; a source that has ended is not silent. */
static double silence_of(const struct alarm_reader *reader, const struct pipeline *pipeline,
                         const struct stream_stats *stats, int64_t now_ns)
{
    const int64_t last_ns = stats->last_frame_ns != 0 ? stats->last_frame_ns : reader->made_ns;
    return pipeline->ended ? (double)NAN : (double)(now_ns - last_ns) / NS_PER_SECOND;
}

double alarm_reader_value(struct alarm_reader *reader, const struct pipeline *pipeline,
                          const struct stream_stats *stats, int64_t now_ns)
{
    switch (reader->quantity) {
    case ALARM_SILENCE:
        return silence_of(reader, pipeline, stats, now_ns);
    case ALARM_PPM:
        return stats->rate_known ? stats->rate_ppm : (double)NAN;
    case ALARM_LATENCY:
        return latency_value(reader->latency, stats->total, reader->within_ns, now_ns);
    case ALARM_DEVICE:
        return stream_halted(pipeline->stream) ||
               (pipeline->choice_count > 0 && pipeline->placement != pipeline->choices[0]);
    case ALARM_FLAT:
        return (double)reader->flat.frames / pipeline->stream_config->source.rate_hz;
    default:
        return windowed(reader, stats, now_ns);
    }
}

int alarm_reader_make(struct alarm_reader *reader, enum alarm_quantity quantity, int32_t channel,
                      int64_t within_ns, const struct alarm_rule *rule, int64_t now_ns)
{
    *reader =
        (struct alarm_reader){.quantity = quantity,
                              .channel = channel,
                              .counts_partly = alarm_quantity_counts(quantity) && !rule->has_below,
                              .made_ns = now_ns,
                              .within_ns = within_ns,
                              .window = {.length_ns = within_ns}};
    if (quantity != ALARM_LATENCY)
        return 0;
    reader->latency = calloc(1, sizeof *reader->latency);
    return reader->latency != NULL ? 0 : ERROR_MEMORY;
}

void alarm_reader_free(struct alarm_reader *reader)
{
    free(reader->latency);
    reader->latency = NULL;
}
