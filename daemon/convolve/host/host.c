/*
 * The host convolver: what host.h promises, built from host_lanes.h.
 *
 * Outputs are cut into components (a complex output has two), components into groups of one
 * vector's lanes. A group's result is a sum of layers: the k-th layer holds the k-th edge of each
 * lane, a vector of inputs (a feed) times a vector of filters. Feeds are shared by all layers that
 * hear the same inputs in the same lanes; in the common case, an edge a channel, feed, layer and
 * group are one, and its window goes there and back in a single walk.
 *
 *     feed:  frames before | frames now --> z --forward--> line (slots)      one a block of B
 *     group: sum of layers (line x spectra) --back--> z --> out
 *
 * Memory is made in create (host/build.c) and only read or overwritten after that.
 */
#include "convolve/host/object.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "core/clock.h"

/* ---- the processor's state ---------------------------------------------------------------------
 */

/* Denormal numbers take a hundred times as long; far below the error bound, they are zero here. */
#ifdef __x86_64__
enum { FLUSH_DENORMALS = 0x8040 }; /* flush to zero, denormals are zero */

static unsigned arithmetic_begin(void)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH_DENORMALS);
    return before;
}

static void arithmetic_end(unsigned before)
{
    _mm_setcsr(before);
}
#else
static unsigned arithmetic_begin(void)
{
    return 0; /* such processors do not slow down */
}

static void arithmetic_end(unsigned before)
{
    (void)before;
}
#endif

/* ---- executing ---------------------------------------------------------------------------------
 */

void host_convolver_reset(struct host_convolver *convolver)
{
    const uint64_t width = convolver->lanes->width;
    const uint64_t block_bytes = convolver->info.block_frames * width * sizeof(float);
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->before, 0, block_bytes);
        memset(feed->line, 0, convolver->slots * convolver->fft_plan.q * 2 * width * sizeof(float));
    }
    convolver->slot = convolver->filled = 0;
    convolver->nonfinite = 0;
}

/* The window of N frames that ends with the block: N - 2B zeros, the block before, this one as far
 * as it has come, zeros. */
static void fill_window(const struct host_convolver *convolver, const struct feed *feed)
{
    const uint32_t block = convolver->info.block_frames, q = convolver->fft_plan.q;
    const uint32_t before = 2 * q - 2 * block, now = before + block;
    float *z = convolver->z;
    convolver->lanes->window(z, q, 0, before, NULL);
    convolver->lanes->window(z, q, before, now, feed->before);
    convolver->lanes->window(z, q, now, now + convolver->filled, feed->now);
    convolver->lanes->window(z, q, now + convolver->filled, 2 * q, NULL);
}

static void walk(const struct host_convolver *convolver, struct feed *feed,
                 const struct group *group)
{
    const struct host_walk walk = {
        .fft_plan = &convolver->fft_plan,
        .z = convolver->z,
        .line = feed != NULL ? feed->line : NULL,
        .slot = convolver->slot,
        .slots = convolver->slots,
        .layers = group != NULL ? group->layers : NULL,
        .layer_count = group != NULL ? group->layer_count : 0,
    };
    convolver->lanes->walk(&walk);
}

/* Frames [from, filled) of the block; they lie in the imaginary parts. */
static void write_frames(const struct host_convolver *convolver, const struct group *group,
                         uint32_t from, float *out)
{
    const size_t width = convolver->lanes->width, stride = convolver->info.output_floats;
    const uint32_t q = convolver->fft_plan.q;
    const float *lanes =
        convolver->z + (2 * (size_t)(q - convolver->info.block_frames + from) + 1) * width;
    for (uint32_t t = from; t < convolver->filled; t++, lanes += 2 * width, out += stride)
        host_target_write(&group->target, lanes, out);
}

static void take_frames(struct host_convolver *convolver, const float *in, uint32_t frames)
{
    const size_t width = convolver->lanes->width;
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->bad, 0, sizeof feed->bad);
        convolver->lanes->load(&(struct host_feed_load){
            .in = in,
            .frames = frames,
            .stride = convolver->info.inputs,
            .inputs = feed->inputs,
            .count = feed->count,
            .neighbours = feed->neighbours,
            .lanes = feed->now + convolver->filled * width,
            .bad = feed->bad,
        });
        for (uint32_t l = 0; l < feed->count; l++)
            convolver->nonfinite += feed->counts[l] ? feed->bad[l] : 0;
    }
    convolver->filled += frames;
}

static void finish_block(struct host_convolver *convolver)
{
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        float *before = feed->before;
        feed->before = feed->now;
        feed->now = before;
    }
    convolver->filled = 0;
    convolver->slot = convolver->slot + 1 < convolver->slots ? convolver->slot + 1 : 0;
}

/* Frames within one block. */
static void execute(struct host_convolver *convolver, const float *in, float *out, uint32_t frames)
{
    const uint32_t from = convolver->filled;
    take_frames(convolver, in, frames);
    /* Feeds with several listeners first; a group's own goes there and back with it. */
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        if (feed->owned)
            continue;
        fill_window(convolver, feed);
        walk(convolver, feed, NULL);
    }
    for (uint32_t g = 0; g < convolver->group_count; g++) {
        const struct group *group = &convolver->groups[g];
        if (group->own != NULL)
            fill_window(convolver, group->own);
        if (group->layer_count > 0)
            walk(convolver, group->own, group);
        else
            memset(convolver->z, 0,
                   2 * (size_t)convolver->fft_plan.q * convolver->lanes->width * sizeof(float));
        write_frames(convolver, group, from, out);
    }
    if (convolver->filled == convolver->info.block_frames)
        finish_block(convolver);
}

void host_convolver_execute(struct host_convolver *convolver, const float *in, float *out,
                            uint32_t frames)
{
    const unsigned before = arithmetic_begin();
    while (frames > 0) {
        const uint32_t left = convolver->info.block_frames - convolver->filled;
        const uint32_t now = frames < left ? frames : left;
        execute(convolver, in, out, now);
        in += (size_t)now * convolver->info.inputs;
        out += (size_t)now * convolver->info.output_floats;
        frames -= now;
    }
    arithmetic_end(before);
}

uint64_t host_convolver_nonfinite(const struct host_convolver *convolver)
{
    return convolver->nonfinite;
}

const struct host_convolver_info *host_convolver_info(const struct host_convolver *convolver)
{
    return &convolver->info;
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

enum {
    MEASURE_CALLS_MIN = 64,
    MEASURE_CALLS_MAX = 4096,
    MEASURE_NS = 500 * 1000 * 1000,
    OTHER_WORK_BYTES = 16 << 20, /* more than a core's own caches hold */
    LINE_BYTES = 64,
};

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* This thread's. Some sandboxes count it in ticks: 0 then stands for a short time. */
static int64_t processor_ns(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

void host_convolver_measure(struct host_convolver *convolver, struct host_convolver_times *times)
{
    *times = (struct host_convolver_times){0};
    const struct host_convolver_info *info = &convolver->info;
    const size_t in_floats = (size_t)info->block_frames * info->inputs;
    float *in = malloc(in_floats * sizeof *in);
    float *out = malloc((size_t)info->block_frames * info->output_floats * sizeof *out);
    uint8_t *other = calloc(1, OTHER_WORK_BYTES);
    int64_t *each_ns = malloc(MEASURE_CALLS_MAX * sizeof *each_ns);
    if (in != NULL && out != NULL && other != NULL && each_ns != NULL) {
        uint32_t noise = 1;
        for (size_t i = 0; i < in_floats; i++) {
            noise = noise * 1664525u + 1013904223u;
            in[i] = (float)(noise >> 8) / (float)(1 << 23) - 1;
        }
        const int64_t until_ns = clock_monotonic_ns() + MEASURE_NS;
        while (times->calls < MEASURE_CALLS_MIN ||
               (times->calls < MEASURE_CALLS_MAX && clock_monotonic_ns() < until_ns)) {
            if (times->calls % 3 == 2)
                for (size_t i = 0; i < OTHER_WORK_BYTES; i += LINE_BYTES)
                    ((volatile uint8_t *)other)[i]++;
            const int64_t from_ns = clock_monotonic_ns(), used_from_ns = processor_ns();
            host_convolver_execute(convolver, in, out, info->block_frames);
            const int64_t used_ns = processor_ns() - used_from_ns;
            const int64_t took_ns = clock_monotonic_ns() - from_ns;
            if (took_ns > times->longest_ns)
                times->longest_ns = took_ns;
            each_ns[times->calls++] = used_ns > 0 && used_ns < took_ns ? used_ns : took_ns;
        }
        qsort(each_ns, times->calls, sizeof *each_ns, compare_times);
        times->median_ns = each_ns[times->calls / 2];
        times->worst_ns = each_ns[times->calls - 1];
    } else {
        times->median_ns = times->worst_ns = times->longest_ns =
            INT64_MAX; /* without memory nothing is fast enough */
    }
    free(in);
    free(out);
    free(other);
    free(each_ns);
    host_convolver_reset(convolver);
}
