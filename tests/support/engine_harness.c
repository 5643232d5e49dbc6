/*
 * The engine's test harness; engine_harness.h describes it. The test's only thread takes the part
 * of the daemon's loop: it submits batches and waits on an eventfd for their completion.
 */
#include "tests/support/engine_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/planner.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "signal/reference.h"
#include "tests/support/engine_seams.h"

/* One engine at a time rings here. */
static int bell = -1;

static void wake(void *context)
{
    (void)context;
    doorbell_ring(bell);
}

static struct engine *open_engine(struct engine_options options)
{
    const char *device = getenv("CONVOLVD_TEST_DEVICE"), *shape = getenv("CONVOLVD_TEST_SHAPE");
    if (shape != NULL && strcmp(shape, "gpu") == 0)
        engine_seams.gpu_shape = true;
    bell = doorbell_open();
    assert_true(bell >= 0);
    options.device = device != NULL ? device : "cpu";
    options.guards = true;
    options.kernels_dir = getenv("CONVOLVD_TEST_KERNELS");
    options.wake = wake;
    struct engine *engine = NULL;
    struct problem problem = {0};
    if (engine_open(&options, &engine, &problem) < 0)
        fail_msg("%s", problem.text);
    return engine;
}

struct engine *harness_engine(void)
{
    return open_engine((struct engine_options){0});
}

struct engine *harness_small_engine(void)
{
    engine_seams.items = 16;
    return open_engine((struct engine_options){
        .batches = 2,
        .input_bytes = 1 << 20,
        .spectrum_bytes = 1 << 20,
        .state_bytes = 1 << 20,
        .batch_output_floats = 1 << 13,
    });
}

void harness_engine_close(struct engine *engine)
{
    struct problem problem = {0};
    if (engine_check_guards(engine, &problem) < 0)
        fail_msg("%s", problem.text);
    engine_close(engine);
    close(bell);
    bell = -1;
}

static bool said(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0';
}

bool harness_every_shape(void)
{
    return said("CONVOLVD_TEST_LONG");
}

bool harness_sanitized(void)
{
    return said("CONVOLVD_SANITIZED");
}

bool harness_runs(const struct engine *engine, const char *variant)
{
    const bool gpu = engine_device(engine)->gpu || engine_seams.gpu_shape;
    if (strcmp(variant, "staged") == 0) /* takes N >= 8192; test_engine_fused has shapes for it */
        return false;
    if (strcmp(variant, "fused") == 0)
        return gpu;
    return !gpu || strcmp(variant, "lanes") != 0;
}

void harness_hold_driver(const struct plan *plan, bool hold)
{
    if (hold)
        pthread_mutex_lock(&plan->planner->workers);
    else
        pthread_mutex_unlock(&plan->planner->workers);
}

struct batch *harness_wait_any(struct engine *engine)
{
    struct batch *batch;
    while ((batch = engine_completed(engine)) == NULL) {
        if (!doorbell_rung_within(bell, 60 * NS_PER_SECOND))
            fail_msg("no batch completed within a minute");
        doorbell_wait(bell);
    }
    return batch;
}

struct batch *harness_wait(struct engine *engine)
{
    struct batch *batch = harness_wait_any(engine);
    if (batch->status != BATCH_OK)
        fail_msg("the device failed a batch");
    return batch;
}

void harness_set_cost(struct plan *plan, int64_t block_ns)
{
    atomic_store(&plan->cost_base_ns, 0);
    atomic_store(&plan->cost_block_ps, block_ns * 1000);
}

void harness_set_launch_cost(struct plan *plan, int64_t launch_ns)
{
    atomic_store(&plan->cost_base_ns, launch_ns);
}

/* ---- signals and filters ----------------------------------------------------------------- */

static struct test_signal *signal_create(const char *format, uint32_t inputs, uint64_t frames)
{
    struct test_signal *signal = calloc(1, sizeof *signal);
    assert_int_equal(sample_format_parse(format, &signal->format), 0);
    signal->inputs = inputs;
    signal->frames = frames;
    signal->bytes = calloc(frames * inputs, signal->format.bytes);
    signal->values = calloc(frames * inputs, sizeof *signal->values);
    signal->scales = calloc(inputs, sizeof *signal->scales);
    for (uint32_t c = 0; c < inputs; c++)
        signal->scales[c].full_scale = 1;
    return signal;
}

void signal_decode(struct test_signal *signal)
{
    for (uint64_t n = 0; n < signal->frames; n++)
        for (uint32_t c = 0; c < signal->inputs; c++) {
            const struct channel_scale *scale = &signal->scales[c];
            const double code = sample_decode(
                &signal->format, signal->bytes + (n * signal->inputs + c) * signal->format.bytes);
            double value = code * scale->full_scale / pow(10, scale->gain_db / 20) - scale->offset;
            /* beyond 2^50 (plan/input_limit.h) no plan takes a sample */
            if (!(fabs(value) <= 0x1p50) || (signal->absent != NULL && signal->absent[n]))
                value = 0;
            signal->values[c * signal->frames + n] = value;
        }
}

struct test_signal *signal_noise(const char *format, uint32_t inputs, uint64_t frames,
                                 uint64_t seed)
{
    struct test_signal *signal = signal_create(format, inputs, frames);
    struct random_state random = {seed};
    for (uint64_t i = 0; i < frames * inputs; i++)
        sample_encode(&signal->format, 1.9 * random_unit(&random) - 0.95,
                      signal->bytes + i * signal->format.bytes);
    signal_decode(signal);
    return signal;
}

struct test_signal *signal_from(uint32_t inputs, uint64_t frames,
                                double (*value)(uint32_t input, uint64_t frame))
{
    struct test_signal *signal = signal_create("f32le", inputs, frames);
    for (uint64_t n = 0; n < frames; n++)
        for (uint32_t c = 0; c < inputs; c++)
            sample_encode(&signal->format, value(c, n), signal->bytes + (n * inputs + c) * 4);
    signal_decode(signal);
    return signal;
}

void signal_absent(struct test_signal *signal, uint64_t from, uint64_t until)
{
    if (signal->absent == NULL)
        signal->absent = calloc(signal->frames, 1);
    memset(signal->absent + from, 1, until - from);
    signal_decode(signal);
}

void signal_free(struct test_signal *signal)
{
    free(signal->bytes);
    free(signal->values);
    free(signal->absent);
    free(signal->scales);
    free(signal);
}

struct taps *taps_noise(uint32_t count, bool complex_taps, uint64_t seed)
{
    struct taps *taps = NULL;
    struct problem problem;
    struct random_state random = {seed};
    assert_int_equal(taps_create(count, complex_taps, &taps, &problem), 0);
    const double scale = 1 / sqrt(count);
    for (uint32_t k = 0; k < count; k++) {
        taps->re[k] = scale * random_normal(&random);
        if (complex_taps)
            taps->im[k] = scale * random_normal(&random);
    }
    return taps;
}

/* ---- plans ------------------------------------------------------------------------------- */

void test_plan_diagonal(struct test_plan *plan, const struct test_signal *signal, uint32_t hop,
                        uint32_t taps, bool complex_taps, enum output_form form)
{
    memset(plan, 0, sizeof *plan);
    assert_true(signal->inputs <= TEST_CHANNELS_MAX);
    for (uint32_t c = 0; c < signal->inputs; c++) {
        plan->taps[c] = taps_noise(taps, complex_taps, 1000 + c);
        plan->edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
        plan->outputs[c] = form;
    }
    plan->spec = (struct plan_spec){
        .taps_count = signal->inputs,
        .edge_count = signal->inputs,
        .outputs_count = signal->inputs,
        .hop = hop,
        .blocks_max = 8,
    };
}

void test_plan_bind(struct test_plan *plan, const struct test_signal *signal)
{
    struct plan_spec *spec = &plan->spec;
    spec->inputs = signal->inputs;
    spec->format = signal->format;
    memcpy(plan->scales, signal->scales, signal->inputs * sizeof plan->scales[0]);
    spec->scales = plan->scales;
    spec->taps = (const struct taps *const *)plan->taps;
    spec->edges = plan->edges;
    spec->outputs = plan->outputs;
}

void test_plan_prepare(struct engine *engine, struct test_plan *plan,
                       const struct test_signal *signal)
{
    test_plan_bind(plan, signal);
    struct problem problem = {0};
    if (plan_prepare(engine, &plan->spec, &plan->plan, &problem) < 0)
        fail_msg("%s", problem.text);
}

void test_plan_free(struct test_plan *plan)
{
    plan_close(plan->plan);
    for (uint32_t t = 0; t < plan->spec.taps_count; t++)
        taps_free(plan->taps[t]);
    memset(plan, 0, sizeof *plan);
}

/* ---- running ----------------------------------------------------------------------------- */

static void ring_put(struct ring *ring, uint64_t offset, const struct test_signal *signal,
                     uint64_t from, uint64_t until)
{
    for (uint64_t n = from; n < until; n++) {
        const uint64_t slot = (offset + n) & (ring->frames - 1);
        const uint32_t bit = 1u << (slot % 32);
        if (signal->absent != NULL && signal->absent[n]) {
            memset(ring->bytes + slot * ring->frame_bytes, 0xEE, ring->frame_bytes);
            ring->present[slot / 32] &= ~bit;
        } else {
            memcpy(ring->bytes + slot * ring->frame_bytes, signal->bytes + n * ring->frame_bytes,
                   ring->frame_bytes);
            ring->present[slot / 32] |= bit;
        }
    }
}

/* The stream that shares every batch with the one under test. */
struct neighbour {
    const struct test_plan *plan;
    const struct test_signal *signal;
    struct ring *ring; /* NULL: there is none */
    uint64_t position;
};

static struct ring *open_ring(struct engine *engine, uint64_t frames,
                              const struct test_signal *signal)
{
    struct ring *ring = NULL;
    struct problem problem = {0};
    if (engine_ring_open(engine, frames, signal->inputs * signal->format.bytes, &ring, &problem) <
        0)
        fail_msg("%s", problem.text);
    return ring;
}

static struct neighbour neighbour_open(struct engine *engine, const struct run_options *options)
{
    struct neighbour neighbour = {.plan = options->neighbour, .signal = options->neighbour_signal};
    if (neighbour.plan != NULL) {
        neighbour.ring = open_ring(engine, neighbour.signal->frames, neighbour.signal);
        ring_put(neighbour.ring, 0, neighbour.signal, 0, neighbour.signal->frames);
    }
    return neighbour;
}

/* Adds the neighbour's next block to the batch; after its last block comes its first again. */
static void neighbour_add(struct engine *engine, struct batch *batch, struct neighbour *neighbour)
{
    if (neighbour->ring == NULL)
        return;
    const uint32_t hop = plan_info(neighbour->plan->plan)->hop;
    const struct batch_item item = {
        .plan = neighbour->plan->plan,
        .ring = neighbour->ring,
        .position = neighbour->position,
        .epoch_block = neighbour->position / hop,
        .blocks = 1,
        .write_until = hop,
        .fresh_until = neighbour->signal->frames,
        .absent = true,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    neighbour->position += hop;
    if (neighbour->position + hop > neighbour->signal->frames)
        neighbour->position = 0;
}

/* Submits the batch, waits for it and copies the results of its last item to `block`. */
static void run_batch(struct engine *engine, struct batch *batch, uint64_t block,
                      const struct plan_info *info, struct test_run *run)
{
    engine_submit(engine, batch);
    struct batch *done = harness_wait(engine);
    assert_ptr_equal(done, batch);
    const struct batch_item *ours = &done->items[done->count - 1];
    memcpy(run->samples + block * info->hop * info->output_floats, ours->samples,
           (uint64_t)ours->blocks * info->hop * info->output_floats * sizeof(float));
    memcpy(run->reports + block * info->inputs, ours->reports,
           (uint64_t)ours->blocks * info->inputs * sizeof *run->reports);
    engine_batch_release(engine, done);
}

/* The same plan once more, to the last bit. */
static struct plan *prepare_equal(struct engine *engine, const struct test_plan *plan)
{
    const struct plan_info *info = plan_info(plan->plan);
    struct plan_spec spec = plan->spec;
    struct plan *equal = NULL;
    struct problem problem = {0};
    spec.variant = info->variant;
    spec.fft = info->fft;
    spec.vector = info->vector;
    spec.items = info->items;
    spec.hop = info->hop;
    spec.hop_free = false;
    if (plan_prepare(engine, &spec, &equal, &problem) < 0)
        fail_msg("%s", problem.text);
    return equal;
}

struct test_run run_plan(struct engine *engine, struct test_plan *plan,
                         const struct test_signal *signal, const struct run_options *options)
{
    const struct plan_info *info = plan_info(plan->plan);
    struct plan *equal = options->moves ? prepare_equal(engine, plan) : NULL;
    struct plan *computes = plan->plan, *waits = equal;
    const uint32_t hop = info->hop;
    struct test_run run = {.blocks = signal->frames / hop};
    run.frames = run.blocks * hop;
    run.samples = calloc(run.frames * info->output_floats + 1, sizeof(float));
    run.reports = calloc(run.blocks * info->inputs + 1, sizeof *run.reports);

    const uint64_t reach = info->history_frames + 2 * (uint64_t)plan->spec.blocks_max * hop + 64;
    struct ring *ring = open_ring(engine, reach, signal);
    struct neighbour neighbour = neighbour_open(engine, options);
    struct random_state random = {options->seed};
    uint64_t block = 0, turn = 0;
    while (block < run.blocks) {
        uint32_t blocks = options->blocks != 0 ? options->blocks
                                               : 1 + random_below(&random, plan->spec.blocks_max);
        struct batch *batch = engine_batch_take(engine);
        assert_non_null(batch);
        if (options->moves && turn++ % 16 == 1) {
            struct plan *const moved_to = waits;
            waits = computes;
            computes = moved_to;
        }
        const uint32_t room = engine_batch_room(engine, batch, computes);
        blocks = blocks > room ? room : blocks;
        if (blocks > run.blocks - block)
            blocks = (uint32_t)(run.blocks - block);
        ring_put(ring, options->ring_offset, signal, block * hop, (block + blocks) * hop);
        neighbour_add(engine, batch, &neighbour);
        const uint64_t position = options->ring_offset + block * hop;
        const struct batch_item item = {
            .plan = computes,
            .ring = ring,
            .position = position,
            .epoch_block = block,
            .blocks = blocks,
            .write_until = blocks * hop,
            .fresh_from = position,
            .fresh_until = position + (uint64_t)blocks * hop,
            .absent = signal->absent != NULL || block * hop < info->history_frames + hop,
        };
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        run_batch(engine, batch, block, info, &run);
        block += blocks;
    }
    engine_ring_close(engine, ring);
    engine_ring_close(engine, neighbour.ring);
    plan_close(equal);
    return run;
}

void test_run_free(struct test_run *run)
{
    free(run->samples);
    free(run->reports);
}

/* By double FFTs, themselves held against direct dot products at random frames. */
static void convolve_and_check(const double *x, uint64_t frames, const double *h, uint32_t taps,
                               double *y)
{
    struct random_state random = {frames + taps};
    double size = 0;
    assert_int_equal(reference_convolve(x, frames, h, taps, y), 0);
    for (uint64_t n = 0; n < frames; n++)
        size = fmax(size, fabs(y[n]));
    for (int i = 0; i < 6; i++) {
        const uint64_t n = random_below(&random, (uint32_t)frames);
        const double direct = reference_dot(x, frames, h, taps, n);
        if (!(fabs(y[n] - direct) <= 1e-11 * size))
            fail_msg("the reference is wrong at frame %llu: %.17g, by its definition %.17g",
                     (unsigned long long)n, y[n], direct);
    }
}

/* y of one output over the whole signal, in double: re, and im when the form has one. */
static void want_output(const struct test_plan *plan, const struct test_signal *signal,
                        uint32_t output, uint64_t from, uint64_t until, double *re, double *im,
                        double *x2, double *x_max)
{
    const struct plan_spec *spec = &plan->spec;
    memset(re, 0, (until - from) * sizeof *re);
    memset(im, 0, (until - from) * sizeof *im);
    *x2 = *x_max = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        if (edge->output != output)
            continue;
        const struct taps *taps = plan->taps[edge->taps];
        /* Only the frames the range can see, so that the bound is the block's own. */
        const uint64_t first = from >= taps->count - 1 ? from - (taps->count - 1) : 0,
                       frames = until - first;
        const double *x = signal->values + edge->input * signal->frames + first;
        double *y = calloc(frames + taps->count, sizeof *y);
        for (int part = 0; part < (taps->im != NULL ? 2 : 1); part++) {
            const double *h = part == 0 ? taps->re : taps->im;
            if ((double)frames * taps->count < 1 << 22)
                reference_convolve_direct(x, frames, h, taps->count, y);
            else
                convolve_and_check(x, frames, h, taps->count, y);
            for (uint64_t n = from; n < until; n++)
                (part == 0 ? re : im)[n - from] += (double)edge->gain * y[n - first];
        }
        free(y);
        double squares = 0, most = 0;
        for (uint64_t n = 0; n < frames; n++) {
            squares += x[n] * x[n];
            most = fmax(most, fabs(x[n]));
        }
        const double gain =
            fabs((double)edge->gain) * taps_peak_response(taps->re, taps->im, taps->count);
        *x2 += gain * sqrt(squares);
        *x_max += gain * most;
    }
}

double expect_convolution(const char *label, const struct test_plan *plan,
                          const struct test_signal *signal, const struct test_run *run,
                          uint64_t from, uint64_t until)
{
    const struct plan_spec *spec = &plan->spec;
    const struct plan_info *info = plan_info(plan->plan);
    const uint64_t count = until - from;
    double *re = malloc(count * sizeof *re), *im = malloc(count * sizeof *im), worst = 0;
    assert_true(until <= run->frames);
    for (uint32_t o = 0, place = 0; o < spec->outputs_count; o++) {
        double x2, x_max;
        want_output(plan, signal, o, from, until, re, im, &x2, &x_max);
        if (spec->outputs[o] == OUTPUT_ENVELOPE)
            for (uint64_t n = 0; n < count; n++)
                re[n] = hypot(re[n], im[n]);
        const float *got = run->samples + from * info->output_floats + place;
        for (int part = 0; part < (spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1); part++) {
            struct error_bound bound;
            const bool good = error_bound_check(got + part, info->output_floats,
                                                part == 0 ? re : im, count, x2, x_max, 1, &bound);
            if (!good)
                fail_msg("%s: output %u part %d of %s (N = %u, %u partitions) misses the bound: "
                         "error %.3g of "
                         "%.3g, largest %.3g of %.3g, wanted norm %.3g",
                         label, o, part, info->variant, info->fft, info->partitions, bound.e2,
                         bound.limit2, bound.e_max, bound.limit_max, bound.want2);
            worst = fmax(worst, bound.limit2 > 0 ? bound.e2 / bound.limit2 * 1e-6 : 0);
        }
        place += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    }
    free(re);
    free(im);
    return worst;
}

void expect_any_batches(struct engine *engine, const char *label, struct test_plan *plan,
                        const struct test_signal *signal)
{
    struct test_run ones = run_plan(engine, plan, signal, &(struct run_options){.blocks = 1});
    struct test_run random = run_plan(
        engine, plan, signal,
        &(struct run_options){.seed = 3, .ring_offset = UINT64_C(0xFFFFFFF0), .moves = true});
    expect_convolution(label, plan, signal, &ones, 0, ones.frames);
    const uint64_t floats = ones.frames * plan_info(plan->plan)->output_floats;
    if (memcmp(ones.samples, random.samples, floats * sizeof(float)) != 0)
        fail_msg("%s, %u outputs: blocks one by one and in random items differ", label,
                 plan_info(plan->plan)->output_floats);
    test_run_free(&ones);
    test_run_free(&random);
}
