/* Taps: see tap.h. */
#include "control/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { GROUP_CHANNELS = 128 }; /* of one record of minima and maxima */

struct receiver {
    struct tap_viewer viewer;
    bool frames; /* it gets single frames */
};

struct tap {
    struct tap_options options;
    struct receiver *receivers;
    uint32_t receiver_count;
    bool minmax;             /* somebody wants them */
    double *factor, *offset; /* [channels] */
    uint32_t frames_per_point, points_max;
    bool begun;
    uint64_t epoch, next_frame; /* the run before ended there */
    bool skipped;               /* something since then was not looked at */

    /* the point being gathered */
    float *low, *high; /* [channels], normalised */
    uint32_t causes;
    bool empty;
    struct watch_head point; /* of its first frame */

    /* the points gathered: [points][channels][2], values */
    float *points;
    uint32_t point_causes[TAP_POINTS_MAX];
    uint32_t count;
    struct watch_head head; /* of the first of them */
};

uint32_t tap_frames_per_point(double rate_hz)
{
    uint32_t frames = 1;
    while (frames < 1u << 24 && rate_hz / (2.0 * frames) >= 500)
        frames *= 2;
    return frames;
}

/* ---- life ---------------------------------------------------------------------------------- */

int tap_open(const struct tap_options *options, struct tap **out)
{
    struct tap *tap = calloc(1, sizeof *tap);
    const size_t channels = options->channels;
    if (tap == NULL)
        return ERROR_MEMORY;
    tap->options = *options;
    tap->frames_per_point = tap_frames_per_point(options->rate_hz);
    const uint32_t group = channels < GROUP_CHANNELS ? (uint32_t)channels : GROUP_CHANNELS;
    tap->points_max = WATCH_FLOATS_MAX / (2 * group);
    if (tap->points_max > TAP_POINTS_MAX)
        tap->points_max = TAP_POINTS_MAX;
    tap->factor = calloc(channels, sizeof *tap->factor);
    tap->offset = calloc(channels, sizeof *tap->offset);
    tap->low = calloc(channels, sizeof *tap->low);
    tap->high = calloc(channels, sizeof *tap->high);
    tap->points = calloc(2 * channels * tap->points_max, sizeof *tap->points);
    tap->empty = true;
    if (tap->factor == NULL || tap->offset == NULL || tap->low == NULL || tap->high == NULL ||
        tap->points == NULL) {
        tap_close(tap);
        return ERROR_MEMORY;
    }
    memcpy(tap->factor, options->factor, channels * sizeof *tap->factor);
    memcpy(tap->offset, options->offset, channels * sizeof *tap->offset);
    snprintf(tap->head.stream, sizeof tap->head.stream, "%s", options->stream);
    *out = tap;
    return 0;
}

void tap_close(struct tap *tap)
{
    if (tap == NULL)
        return;
    free(tap->factor);
    free(tap->offset);
    free(tap->low);
    free(tap->high);
    free(tap->points);
    free(tap->receivers);
    free(tap);
}

int tap_add(struct tap *tap, const struct tap_viewer *viewer)
{
    const size_t count = tap->receiver_count + 1;
    struct receiver *grown = realloc(tap->receivers, count * sizeof *grown);
    if (grown == NULL)
        return ERROR_MEMORY;
    tap->receivers = grown;
    struct receiver *receiver = &grown[tap->receiver_count++];
    *receiver = (struct receiver){.viewer = *viewer, .frames = true};
    receiver->viewer.list_count = 0;
    for (uint32_t i = 0; i < viewer->list_count; i++)
        if (viewer->list[i] < tap->options.channels)
            receiver->viewer.list[receiver->viewer.list_count++] = viewer->list[i];
    tap->minmax = tap->minmax || viewer->minmax;
    return 0;
}

uint32_t tap_samples(const struct tap *tap)
{
    uint32_t samples = tap->minmax ? tap->options.channels : 0;
    for (uint32_t i = 0; i < tap->receiver_count; i++)
        samples += tap->receivers[i].viewer.list_count;
    return samples > 0 ? samples : 1;
}

/* ---- heads and ranges ---------------------------------------------------------------------- */

static uint32_t side_flag(const struct tap *tap)
{
    return tap->options.input ? WATCH_INPUT : 0;
}

/* The head of a record whose first frame is frame `at` of the run. */
static struct watch_head head_at(struct tap *tap, const struct tap_run *run, uint32_t at)
{
    struct watch_head head = {
        .epoch = run->epoch,
        .record = run->record,
        .first_frame = run->first_frame + at,
        .latency_ns = run->latency_ns,
        .rate_hz = tap->options.rate_hz,
        .flags = side_flag(tap) | (at == 0 ? run->flags & WATCH_BEGINS : 0) |
                 (tap->skipped ? WATCH_SKIPPED : 0),
    };
    memcpy(head.stream, tap->head.stream, sizeof head.stream);
    if (run->capture_ns != 0)
        head.capture_ns =
            run->capture_ns + (int64_t)llround((double)at / tap->options.rate_hz * 1e9);
    return head;
}

/* What is invalid of frames [from, until) of the run, as causes. */
static uint32_t causes_of(const struct tap_run *run, uint32_t from, uint32_t until)
{
    uint32_t causes = 0;
    for (uint32_t i = 0; i < run->range_count; i++)
        if (run->ranges[i].from < until && run->ranges[i].until > from)
            causes |= run->ranges[i].causes;
    return causes;
}

/* From frame `at` on: whether it is absent, and up to where, at most `until`, the next are as it
 * is. */
static bool absent_at(const struct tap_run *run, uint32_t at, uint32_t *until)
{
    for (uint32_t i = 0; i < run->range_count; i++) {
        const struct tap_range *range = &run->ranges[i];
        if (!range->absent || range->until <= at)
            continue;
        if (range->from <= at) {
            *until = range->until < *until ? range->until : *until;
            return true;
        }
        *until = range->from < *until ? range->from : *until;
    }
    return false;
}

static struct extract samples_at(const struct tap_run *run, uint32_t at)
{
    struct extract samples = run->samples;
    samples.bytes += (size_t)at * samples.stride;
    return samples;
}

/* ---- minima and maxima --------------------------------------------------------------------- */

/* Runs of points with the same causes; past the last that fits, one range covers the rest. */
static uint32_t ranges_of_points(const struct tap *tap, struct watch_range *ranges)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < tap->count; p++) {
        const uint32_t causes = tap->point_causes[p];
        struct watch_range *last = count > 0 ? &ranges[count - 1] : NULL;
        if (causes == 0)
            continue;
        const bool joins = last != NULL && last->from + last->points == p;
        if (joins && last->causes == causes) {
            last->points++;
        } else if (count < WATCH_RANGES_MAX) {
            ranges[count++] = (struct watch_range){p, 1, causes, 0};
        } else {
            last->points = p + 1 - last->from;
            last->causes |= causes;
        }
    }
    return count;
}

static void write_points(const struct tap *tap, const struct tap_viewer *viewer,
                         struct watch_head head, const struct watch_range *ranges)
{
    const uint32_t channels = tap->options.channels;
    head.request = viewer->request;
    for (uint32_t first = 0; first < channels; first += GROUP_CHANNELS) {
        const uint32_t left = channels - first;
        head.first_channel = first;
        head.channels = left < GROUP_CHANNELS ? left : GROUP_CHANNELS;
        float *out = watch_writer_begin(viewer->writer);
        for (uint32_t p = 0; p < tap->count; p++)
            memcpy(out + 2 * (size_t)p * head.channels,
                   tap->points + 2 * ((size_t)p * channels + first),
                   2 * head.channels * sizeof *out);
        watch_writer_end(viewer->writer, &head, ranges);
    }
}

void tap_flush(struct tap *tap)
{
    struct watch_range ranges[WATCH_RANGES_MAX];
    if (tap->count == 0)
        return;
    struct watch_head head = tap->head;
    head.kind = WATCH_MINMAX;
    head.points = tap->count;
    head.frames_per_point = tap->frames_per_point;
    head.range_count = ranges_of_points(tap, ranges);
    for (uint32_t i = 0; i < tap->receiver_count; i++)
        if (tap->receivers[i].viewer.minmax)
            write_points(tap, &tap->receivers[i].viewer, head, ranges);
    tap->count = 0;
}

static void begin_point(struct tap *tap)
{
    for (uint32_t c = 0; c < tap->options.channels; c++) {
        tap->low[c] = INFINITY;
        tap->high[c] = -INFINITY;
    }
    tap->causes = 0;
    tap->empty = false;
}

/* The point is whole: its values join those gathered. */
static void end_point(struct tap *tap)
{
    const uint32_t channels = tap->options.channels;
    float *out = tap->points + 2 * (size_t)tap->count * channels;
    for (uint32_t c = 0; c < channels; c++) {
        out[2 * c] = (float)((double)tap->low[c] * tap->factor[c] - tap->offset[c]);
        out[2 * c + 1] = (float)((double)tap->high[c] * tap->factor[c] - tap->offset[c]);
    }
    if (tap->count == 0)
        tap->head = tap->point;
    tap->point_causes[tap->count++] = tap->causes;
    tap->empty = true;
    if (tap->count == tap->points_max)
        tap_flush(tap);
}

/* Frames [from, until) of the run, all of one point. */
static void gather(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until)
{
    tap->causes |= causes_of(run, from, until);
    while (from < until) {
        uint32_t end = until;
        if (absent_at(run, from, &end)) {
            for (uint32_t c = 0; c < tap->options.channels; c++) {
                tap->low[c] = fminf(tap->low[c], 0);
                tap->high[c] = fmaxf(tap->high[c], 0);
            }
        } else {
            const struct extract samples = samples_at(run, from);
            extract_minmax(&samples, end - from, tap->low, tap->high);
        }
        from = end;
    }
}

/* Points lie on the grid of frame numbers. */
static void put_minmax(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t end)
{
    for (uint32_t at = from; at < end;) {
        const uint64_t frame = run->first_frame + at;
        const uint32_t left = tap->frames_per_point - (uint32_t)(frame % tap->frames_per_point);
        const uint32_t until = end - at < left ? end : at + left;
        if (tap->empty) {
            begin_point(tap);
            tap->point = head_at(tap, run, at);
            const uint64_t before = frame % tap->frames_per_point;
            tap->point.first_frame -= before;
            if (tap->point.capture_ns != 0)
                tap->point.capture_ns -=
                    (int64_t)llround((double)before / tap->options.rate_hz * 1e9);
            tap->skipped = false;
        }
        gather(tap, run, at, until);
        if (until - at == left)
            end_point(tap);
        at = until;
    }
}

/* ---- frames -------------------------------------------------------------------------------- */

static uint32_t ranges_of_frames(const struct tap_run *run, uint32_t from, uint32_t until,
                                 struct watch_range *ranges)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < run->range_count; i++) {
        const struct tap_range *range = &run->ranges[i];
        const uint32_t first = range->from > from ? range->from : from;
        const uint32_t last = range->until < until ? range->until : until;
        if (first < last)
            ranges[count++] = (struct watch_range){first - from, last - first, range->causes, 0};
    }
    return count;
}

static void scale(const struct tap *tap, const struct tap_viewer *viewer, float *values,
                  uint32_t frames)
{
    const uint32_t count = viewer->list_count;
    for (uint32_t n = 0; n < frames; n++, values += count) {
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t c = viewer->list[i];
            values[i] = (float)((double)values[i] * tap->factor[c] - tap->offset[c]);
        }
    }
}

/* Consecutive channels of the list: a record names the first one only. */
static void put_frames(struct tap *tap, const struct tap_viewer *viewer, const struct tap_run *run,
                       uint32_t first, uint32_t end)
{
    const uint32_t count = viewer->list_count, room = WATCH_FLOATS_MAX / count;
    struct watch_range ranges[WATCH_RANGES_MAX];
    for (uint32_t at = first, until; at < end; at = until) {
        until = end - at < room ? end : at + room;
        float *out = watch_writer_begin(viewer->writer);
        for (uint32_t from = at; from < until;) {
            uint32_t same = until;
            float *values = out + (size_t)(from - at) * count;
            if (absent_at(run, from, &same)) {
                memset(values, 0, (size_t)(same - from) * count * sizeof *values);
            } else {
                const struct extract samples = samples_at(run, from);
                extract_channels(&samples, same - from, viewer->list, count, values);
                scale(tap, viewer, values, same - from);
            }
            from = same;
        }
        struct watch_head head = head_at(tap, run, at);
        head.kind = WATCH_FRAMES;
        head.points = until - at;
        head.frames_per_point = 1;
        head.first_channel = 0; /* of the list */
        head.channels = count;
        head.request = viewer->request;
        if (until == run->frames)
            head.flags |= run->flags & WATCH_ENDS;
        head.range_count = ranges_of_frames(run, at, until, ranges);
        watch_writer_end(viewer->writer, &head, ranges);
    }
}

/* ---- runs ---------------------------------------------------------------------------------- */

bool tap_allow(struct tap *tap, uint32_t frames, double *bytes)
{
    bool all = true;
    for (uint32_t i = 0; i < tap->receiver_count; i++) {
        struct receiver *receiver = &tap->receivers[i];
        const double needed = (double)sizeof(float) * frames * receiver->viewer.list_count;
        receiver->frames = needed <= *bytes;
        *bytes -= receiver->frames ? needed : 0;
        all = all && receiver->frames;
    }
    return all;
}

void tap_put(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until)
{
    const bool joins =
        tap->begun && run->epoch == tap->epoch && run->first_frame + from == tap->next_frame;
    if (!joins) {
        tap_flush(tap);
        tap->empty = true; /* a point begun before has no end */
    }
    tap->begun = true;
    tap->epoch = run->epoch;
    tap->next_frame = run->first_frame + until;
    for (uint32_t i = 0; i < tap->receiver_count; i++)
        if (tap->receivers[i].frames && tap->receivers[i].viewer.list_count > 0)
            put_frames(tap, &tap->receivers[i].viewer, run, from, until);
    if (tap->minmax)
        put_minmax(tap, run, from, until);
    else
        tap->skipped = false;
}

void tap_skip(struct tap *tap)
{
    tap_flush(tap);
    tap->empty = true;
    tap->begun = false;
    tap->skipped = true;
}
