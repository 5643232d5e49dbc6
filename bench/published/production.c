/*
 * convolvd on the papers' work, see production.h.
 */
#include "bench/published/production.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convolve/check/prepare.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/random.h"
#include "signal/reference.h"

enum { REPETITIONS_MAX = 25, IN_FLIGHT = 4 };

struct rig {
    const struct production_shape *shape;
    struct engine *engine;
    struct ring *rings[PRODUCTION_STREAMS];
    uint32_t streams;
    struct plan *plan;
    struct taps *filters[PRODUCTION_FILTERS];
    uint32_t filter_count;
    uint64_t position;
    int doorbell;
    bool polls;
};

static void wake(void *context)
{
    const struct rig *rig = context;
    doorbell_ring(rig->doorbell);
}

static int open_engine(struct rig *rig, const struct production_options *options,
                       struct problem *problem)
{
    const struct production_shape *shape = rig->shape;
    const uint64_t frames = (uint64_t)shape->blocks * shape->hop;
    const uint64_t fft = shape->fft != 0 ? shape->fft : 4ull * (shape->hop + shape->taps);
    const uint64_t output_floats = frames * shape->channels * rig->streams;
    /* A ring is rounded up to a power of two. */
    const uint64_t input_bytes =
        2 * (frames + 4 * fft) * shape->channels * sizeof(float) * rig->streams;
    const struct engine_options engine_options = {
        .device = options->device,
        .cpu_threads = options->cpu_threads,
        .cache_dir = options->cache_dir,
        .batches = IN_FLIGHT,
        .input_bytes = input_bytes < 64 << 20 ? 64 << 20 : input_bytes,
        .batch_output_floats = output_floats < 1 << 20 ? 1 << 20 : output_floats,
        .wake = wake,
        .wake_context = rig,
    };
    return engine_open(&engine_options, &rig->engine, problem);
}

static int make_filters(struct rig *rig, struct random_state *random, struct problem *problem)
{
    const struct production_shape *shape = rig->shape;
    rig->filter_count = shape->channels < PRODUCTION_FILTERS ? shape->channels : PRODUCTION_FILTERS;
    for (uint32_t f = 0; f < rig->filter_count; f++) {
        const int error = taps_create(shape->taps, false, &rig->filters[f], problem);
        if (error != 0)
            return error;
        for (uint32_t s = 0; s < shape->taps; s++)
            rig->filters[f]->re[s] = 2 * random_unit(random) - 1;
    }
    return 0;
}

static int make_plan(struct rig *rig, const char *variant, struct problem *problem)
{
    const uint32_t channels = rig->shape->channels;
    struct channel_scale *scales = calloc(channels, sizeof *scales);
    struct edge *edges = calloc(channels, sizeof *edges);
    enum output_form *outputs = calloc(channels, sizeof *outputs);
    int error = problem_set(problem, ERROR_MEMORY, "out of memory for %u channels", channels);
    if (scales != NULL && edges != NULL && outputs != NULL) {
        for (uint32_t c = 0; c < channels; c++) {
            scales[c] = (struct channel_scale){.full_scale = 1};
            edges[c] =
                (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)(c % rig->filter_count), 1};
            outputs[c] = OUTPUT_REAL;
        }
        struct plan_spec spec = {
            .inputs = channels,
            .scales = scales,
            .taps = (const struct taps *const *)rig->filters,
            .taps_count = rig->filter_count,
            .edges = edges,
            .edge_count = channels,
            .outputs = outputs,
            .outputs_count = channels,
            .hop = rig->shape->hop,
            .blocks_max = rig->shape->blocks,
            .fft = rig->shape->fft,
            .variant = variant,
        };
        error = sample_format_parse("f32le", &spec.format);
        if (error == 0)
            error = plan_prepare(rig->engine, &spec, &rig->plan, problem);
    }
    free(scales);
    free(edges);
    free(outputs);
    return error;
}

static int fill_ring(struct rig *rig, struct ring **ring, struct random_state *random,
                     struct problem *problem)
{
    const struct production_shape *shape = rig->shape;
    const struct plan_info *info = plan_info(rig->plan);
    const uint64_t frames = (uint64_t)shape->blocks * shape->hop + info->history_frames;
    const int error = engine_ring_open(rig->engine, frames, shape->channels * 4, ring, problem);
    if (error != 0)
        return error;
    float *samples = (float *)(void *)(*ring)->bytes;
    for (uint64_t i = 0; i < (uint64_t)(*ring)->frames * shape->channels; i++)
        samples[i] = (float)(2 * random_unit(random) - 1);
    memset((*ring)->present, 0xff, (*ring)->frames / 8);
    rig->position = info->history_frames + shape->hop - 1;
    rig->position -= rig->position % shape->hop;
    return 0;
}

/* Submits one batch; every sample of it counts as new, `first`: its history too. */
static bool submit(struct rig *rig, bool first)
{
    const struct production_shape *shape = rig->shape;
    const uint32_t frames = shape->blocks * shape->hop;
    struct batch *batch = engine_batch_take(rig->engine);
    struct batch_item item = {
        .plan = rig->plan,
        .position = rig->position,
        .epoch_block = rig->position / shape->hop,
        .blocks = shape->blocks,
        .write_until = frames,
        .fresh_from = first ? 0 : rig->position,
        .fresh_until = rig->position + frames,
    };
    for (uint32_t s = 0; s < rig->streams; s++) {
        item.ring = rig->rings[s];
        if (batch == NULL || engine_batch_add(rig->engine, batch, &item) != 0)
            return false;
    }
    engine_submit(rig->engine, batch);
    return true;
}

static struct batch *wait_for_batch(const struct rig *rig)
{
    struct batch *completed;
    while ((completed = engine_completed(rig->engine)) == NULL)
        if (!rig->polls)
            doorbell_wait(rig->doorbell);
    return completed;
}

/* One batch, waited for. NULL when the device failed. */
static struct batch *run(struct rig *rig, bool first, double *took_ns)
{
    const int64_t from_ns = clock_monotonic_ns();
    if (!submit(rig, first))
        return NULL;
    struct batch *completed = wait_for_batch(rig);
    *took_ns = (double)(clock_monotonic_ns() - from_ns);
    return completed;
}

/* A batch's share of the time while as many are in flight as the engine has, for so long. */
static int run_steadily(struct rig *rig, int64_t limit_ns, double *share_ns,
                        struct problem *problem)
{
    const int64_t from_ns = clock_monotonic_ns();
    uint64_t submitted = 0, completed = 0;
    bool good = true;
    while (good && submitted < IN_FLIGHT)
        good = submit(rig, false) && ++submitted > 0;
    while (completed < submitted) {
        struct batch *batch = wait_for_batch(rig);
        good = good && batch->status == BATCH_OK;
        engine_batch_release(rig->engine, batch);
        completed++;
        if (good && clock_monotonic_ns() - from_ns < limit_ns)
            good = submit(rig, false) && ++submitted > 0;
    }
    *share_ns = (double)(clock_monotonic_ns() - from_ns) / (double)completed;
    return good ? 0 : problem_set(problem, ERROR_DEVICE, "the batch failed");
}

static double input_at(const struct rig *rig, uint64_t position, uint32_t channel)
{
    const float *samples = (const float *)(const void *)rig->rings[0]->bytes;
    return (
        double)samples[(position & (rig->rings[0]->frames - 1)) * rig->shape->channels + channel];
}

/* The block in the middle of the first and the last channel against the definition. */
static double block_error(const struct rig *rig, const struct batch *batch)
{
    const struct production_shape *shape = rig->shape;
    double e2 = 0, want2 = 0;
    const uint32_t step = shape->hop > 256 ? shape->hop / 256 : 1;
    for (uint32_t c = 0; c<shape->channels; c += shape->channels> 1 ? shape->channels - 1 : 1)
        for (uint32_t f = 0; f < shape->hop; f += step) {
            const uint64_t frame = (uint64_t)(shape->blocks / 2) * shape->hop + f;
            const struct taps *taps = rig->filters[c % rig->filter_count];
            double want = 0;
            for (uint32_t s = 0; s < taps->count; s++)
                want += taps->re[s] * input_at(rig, rig->position + frame - s, c);
            const double got = (double)batch->items[0].samples[frame * shape->channels + c];
            e2 += (got - want) * (got - want);
            want2 += want * want;
        }
    return sqrt(e2 / want2);
}

/* Repeats the batch for so long; `check`: the first uploads the ring, is compared and not counted.
 */
static int repeat(struct rig *rig, int64_t limit_ns, double *least_ns, double *check,
                  struct problem *problem)
{
    int count = check != NULL ? -1 : 0;
    const int64_t until_ns = clock_monotonic_ns() + limit_ns;
    do {
        double ns;
        struct batch *batch = run(rig, count < 0, &ns);
        if (batch == NULL || batch->status != BATCH_OK)
            return problem_set(problem, ERROR_DEVICE, "the batch failed");
        if (count < 0)
            *check = block_error(rig, batch);
        else if (count == 0 || ns < *least_ns)
            *least_ns = ns;
        engine_batch_release(rig->engine, batch);
        count++;
    } while (count < 1 || (count < REPETITIONS_MAX && clock_monotonic_ns() < until_ns));
    return 0;
}

/* The least of some batches, as for the published systems. */
static int time_launches(struct rig *rig, const struct production_probes *probes, double *least_ns,
                         struct problem *problem)
{
    int error = 0;
    for (int i = 0; error == 0 && i < 3; i++) {
        double took_ns;
        probes->launches_begin();
        error = repeat(rig, 0, &took_ns, NULL, problem);
        const double ns = probes->launches_end();
        if (error == 0 && ns < 0)
            error = problem_set(problem, ERROR_DEVICE, "the device does not time its launches");
        if (i == 0 || ns < *least_ns)
            *least_ns = ns;
    }
    return error;
}

static int measure_probes(struct rig *rig, const struct production_options *options,
                          struct production_result *result, struct problem *problem)
{
    const struct production_probes *probes = options->probes;
    int error = 0;
    if (probes->set_resident != NULL) {
        probes->set_resident(true);
        error = repeat(rig, options->limit_ns, &result->resident_ns, NULL, problem);
        if (error == 0)
            error = run_steadily(rig, options->limit_ns, &result->steady_ns, problem);
    }
    if (error == 0)
        error = time_launches(rig, probes, &result->launches_ns, problem);
    if (probes->set_resident != NULL)
        probes->set_resident(false);
    return error;
}

static int measure(struct rig *rig, const struct production_options *options,
                   struct production_result *result, struct problem *problem)
{
    int error = repeat(rig, options->limit_ns, &result->total_ns, &result->error, problem);
    snprintf(result->variant, sizeof result->variant, "%s", plan_info(rig->plan)->variant);
    /* "host" has neither launches nor copies. */
    if (error == 0 && options->probes != NULL && strcmp(result->variant, "host") != 0)
        error = measure_probes(rig, options, result, problem);
    return error;
}

int production_measure(const struct production_options *options,
                       const struct production_shape *shape, struct production_result *result,
                       struct problem *problem)
{
    struct rig rig = {.shape = shape,
                      .doorbell = doorbell_open(),
                      .polls = options->polls,
                      .streams = options->streams};
    struct random_state random = {shape->hop};
    int error = open_engine(&rig, options, problem);
    if (error == 0)
        error = make_filters(&rig, &random, problem);
    if (error == 0)
        error = make_plan(&rig, options->variant, problem);
    for (uint32_t s = 0; error == 0 && s < rig.streams; s++)
        error = fill_ring(&rig, &rig.rings[s], &random, problem);
    if (error == 0)
        error = measure(&rig, options, result, problem);
    plan_close(rig.plan);
    for (uint32_t s = 0; s < rig.streams; s++)
        engine_ring_close(rig.engine, rig.rings[s]);
    engine_close(rig.engine);
    for (uint32_t f = 0; f < PRODUCTION_FILTERS; f++)
        taps_free(rig.filters[f]);
    close(rig.doorbell);
    return error;
}
