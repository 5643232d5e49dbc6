/*
 * Executes a host convolver (host/host.h) and measures how long it takes.
 *
 * For every block of B frames each feed (a vector of inputs) is transformed into a slot of its
 * delay line; each group (a vector of output components) sums delay line times filter spectra over
 * its layers and partitions and inverts the sum (host/object.h explains feeds, groups and layers):
 *
 *     feed:  previous block | current block --> z --forward--> delay line
 *     group: sum of layers (delay line x spectra) --inverse--> z --> out
 *
 * In the common case, one edge a channel, a group is the only reader of its feed, and one recursion
 * of the FFT does both steps.
 *
 * host/build.c allocates all memory; nothing here allocates except host_convolver_measure. The
 * thread that executes: any one at a time, an audio callback included.
 */
#include "convolve/host/object.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "core/clock.h"

/* ---- the processor's state --------------------------------------------------------------- */

/* Arithmetic with denormal numbers can take a hundred times as long. They lie far below the error
 * bound, so execution flushes them to zero. */
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
    return 0; /* these processors do not slow down */
}

static void arithmetic_end(unsigned before)
{
    (void)before;
}
#endif

/* ---- executing --------------------------------------------------------------------------- */

static uint64_t line_floats(const struct host_convolver *convolver)
{
    return host_leaf_at(convolver->fft_plan.q / HOST_LEAF, convolver->span, convolver->slots,
                        2 * HOST_LEAF * convolver->functions->width);
}

void host_convolver_reset(struct host_convolver *convolver)
{
    const uint64_t width = convolver->functions->width;
    const uint64_t block_bytes = convolver->info.block_frames * width * sizeof(float);
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->previous, 0, block_bytes);
        memset(feed->line, 0, line_floats(convolver) * sizeof(float));
    }
    for (uint32_t g = 0; g < convolver->group_count; g++) {
        float *ahead = convolver->groups[g].ahead;
        if (ahead != NULL)
            memset(ahead, 0,
                   convolver->info.ahead_blocks * convolver->fft_plan.q * 2 * width *
                       sizeof *ahead);
    }
    convolver->block = convolver->slot = convolver->filled = 0;
    convolver->nonfinite = 0;
}

/* The window of N frames that ends with the block: N - 2B zeros, the previous block, the frames of
 * the current one so far, zeros. */
static void fill_window(const struct host_convolver *convolver, const struct feed *feed)
{
    const uint32_t block = convolver->info.block_frames, q = convolver->fft_plan.q;
    const uint32_t previous = 2 * q - 2 * block, current = previous + block;
    float *z = convolver->z;
    convolver->functions->window(z, q, 0, previous, NULL);
    convolver->functions->window(z, q, previous, current, feed->previous);
    convolver->functions->window(z, q, current, current + convolver->filled, feed->current);
    convolver->functions->window(z, q, current + convolver->filled, 2 * q, NULL);
}

/* One recursion of the FFT: forward into `feed`, the sum of `group` back, or both (NULL: not). */
static void walk(const struct host_convolver *convolver, struct feed *feed,
                 const struct group *group)
{
    const struct host_walk walk = {
        .fft_plan = &convolver->fft_plan,
        .z = convolver->z,
        .line = feed != NULL ? feed->line : NULL,
        .slot = convolver->slot,
        .slots = convolver->slots,
        .span = convolver->span,
        .layers = group != NULL ? group->layers : NULL,
        .layer_count = group != NULL ? group->layer_count : 0,
        .ahead = group != NULL ? group->ahead : NULL,
        .ahead_blocks = convolver->info.ahead_blocks,
        .block = convolver->block,
        .complete = convolver->filled == convolver->info.block_frames,
    };
    convolver->functions->walk(&walk);
}

/* Writes frames [from, filled) of the block, which are the imaginary parts of the last points. */
static void write_frames(const struct host_convolver *convolver, const struct group *group,
                         uint32_t from, float *out)
{
    const size_t width = convolver->functions->width, stride = convolver->info.output_floats;
    const uint32_t q = convolver->fft_plan.q;
    const float *lanes =
        convolver->z + (2 * (size_t)(q - convolver->info.block_frames + from) + 1) * width;
    for (uint32_t t = from; t < convolver->filled; t++, lanes += 2 * width, out += stride)
        host_target_write(&group->target, lanes, out);
}

static void load_frames(struct host_convolver *convolver, const float *in, uint32_t frames)
{
    const size_t width = convolver->functions->width;
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->nonfinite, 0, sizeof feed->nonfinite);
        convolver->functions->load(&(struct host_feed_load){
            .in = in,
            .frames = frames,
            .stride = convolver->info.inputs,
            .inputs = feed->inputs,
            .count = feed->count,
            .contiguous = feed->contiguous,
            .lanes = feed->current + convolver->filled * width,
            .nonfinite = feed->nonfinite,
            .limit = convolver->limit,
        });
        for (uint32_t l = 0; l < feed->count; l++)
            convolver->nonfinite += feed->counts[l] ? feed->nonfinite[l] : 0;
    }
    convolver->filled += frames;
}

static void finish_block(struct host_convolver *convolver)
{
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        float *previous = feed->previous;
        feed->previous = feed->current;
        feed->current = previous;
    }
    convolver->filled = 0;
    convolver->block++;
    convolver->slot = convolver->slot + 1 < convolver->slots ? convolver->slot + 1 : 0;
}

/* Frames that end within the current block. */
static void execute(struct host_convolver *convolver, const float *in, float *out, uint32_t frames)
{
    const uint32_t from = convolver->filled;
    load_frames(convolver, in, frames);
    /* Shared feeds first; a group transforms a feed of its own together with its sum. */
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
                   2 * (size_t)convolver->fft_plan.q * convolver->functions->width * sizeof(float));
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

/* ---- measuring --------------------------------------------------------------------------- */

enum {
    MEASURE_CALLS_MIN = 64,
    MEASURE_CALLS_MAX = 4096,
    MEASURE_NS = 500 * 1000 * 1000,
    EVICT_BYTES = 16 << 20, /* more than a core's own caches hold */
    LINE_BYTES = 64,
};

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Processor time of this thread. Some sandboxes count it in ticks, so that a short time reads 0. */
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
    uint8_t *evict = calloc(1, EVICT_BYTES);
    int64_t *each_ns = malloc(MEASURE_CALLS_MAX * sizeof *each_ns);
    if (in != NULL && out != NULL && evict != NULL && each_ns != NULL) {
        uint32_t noise = 1;
        for (size_t i = 0; i < in_floats; i++) {
            noise = noise * 1664525u + 1013904223u;
            in[i] = (float)(noise >> 8) / (float)(1 << 23) - 1;
        }
        const int64_t until_ns = clock_monotonic_ns() + MEASURE_NS;
        while (times->calls < MEASURE_CALLS_MIN ||
               (times->calls < MEASURE_CALLS_MAX && clock_monotonic_ns() < until_ns)) {
            if (times->calls % 3 == 2)
                for (size_t i = 0; i < EVICT_BYTES; i += LINE_BYTES)
                    ((volatile uint8_t *)evict)[i]++;
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
    free(evict);
    free(each_ns);
    host_convolver_reset(convolver);
}
