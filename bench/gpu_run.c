/* One shape of bench_gpu: see gpu_run.h. */
#include "bench/gpu_run.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/random.h"

enum { HOP_MOST = 1 << 19, CHECKED_FRAMES = 64 };

/* ---- the engine -------------------------------------------------------------------------- */

void bench_wake(void *context)
{
    doorbell_ring(*(const int *)context);
}

int bench_open(struct bench *bench, struct node_setting node, struct problem *problem)
{
    const struct engine_options options = {
        .device = bench->device,
        .kernels_dir = bench->kernels,
        .input_bytes = bench->bytes + bench->bytes / 4,
        .state_bytes = UINT64_C(1) << 30,
        .batch_output_floats = bench->bytes / sizeof(float),
        .node = node,
        .wake = bench_wake,
        .wake_context = &bench->bell,
    };
    bench->bell = doorbell_open();
    return engine_open(&options, &bench->engine, problem);
}

struct batch *bench_wait(struct bench *bench)
{
    struct batch *batch;
    while ((batch = engine_completed(bench->engine)) == NULL) {
        if (clock_monotonic_ns() < engine_poll_until_ns(bench->engine))
            continue; /* as the scheduler of the daemon */
        if (!doorbell_rung_within(bench->bell, 60 * NS_PER_SECOND)) {
            fprintf(stderr, "no batch completed within a minute\n");
            exit(1);
        }
        doorbell_wait(bench->bell);
    }
    if (batch->status != BATCH_OK) {
        fprintf(stderr, "the device failed a batch\n");
        exit(1);
    }
    return batch;
}

/* ---- a shape ----------------------------------------------------------------------------- */

bool run_parse_formats(struct run *run)
{
    char in[16] = "";
    const size_t length = strcspn(run->format_name, "/");
    snprintf(in, sizeof in, "%.*s", (int)length, run->format_name);
    const char *out = run->format_name[length] == '/' ? run->format_name + length + 1 : NULL;
    if (out != NULL) {
        if (sample_format_parse(out, &run->results.format) < 0)
            return false;
        run->results.factor = run->results.format.kind == SAMPLE_FLOAT ? 1 : 1.0 / 16;
    }
    return sample_format_parse(in, &run->format) == 0;
}

int run_open(struct bench *bench, struct run *run, struct problem *problem)
{
    const uint32_t fft = 2 * run->points;
    assert(run->points >= 32 && run->channels > 0 && run->format.bytes > 0);
    /* short filters, so that what a window reads is nearly all new; whole sectors of memory */
    if (run->hop == 0)
        run->hop = fft - (fft < 256 ? 8 : fft < 1024 ? fft / 32 : 32);
    if (run->hop > HOP_MOST)
        run->hop = HOP_MOST;
    run->taps_count = fft - run->hop < TAPS_MAX ? fft - run->hop + 1 : TAPS_MAX;
    run->filters = run->filters > 0 ? run->filters : 1;
    run->decimate = run->decimate > 0 ? run->decimate : 1;
    run->outputs = run->channels * run->filters;
    assert(run->hop % run->decimate == 0 && run->outputs <= OUTPUTS_MOST);
    struct random_state random = {run->points};
    int error = 0;
    for (uint32_t o = 0; error == 0 && o < run->outputs; o++) {
        error = taps_create(run->taps_count, false, &run->taps[o], problem);
        for (uint32_t k = 0; error == 0 && k < run->taps_count; k++)
            run->taps[o]->re[k] = random_normal(&random) / sqrt(run->taps_count);
    }
    struct channel_scale *scales = calloc(run->channels, sizeof *scales);
    struct edge *edges = calloc(run->outputs, sizeof *edges);
    enum output_form *forms = calloc(run->outputs, sizeof *forms);
    for (uint32_t c = 0; c < run->channels; c++)
        scales[c].full_scale = 1;
    for (uint32_t o = 0; o < run->outputs; o++) {
        edges[o] = (struct edge){(uint16_t)(o / run->filters), (uint16_t)o, (uint16_t)o, 1};
        forms[o] = OUTPUT_REAL;
    }
    const uint32_t kept = (run->outputs + run->decimate - 1) / run->decimate;
    const uint32_t wider = run->channels > kept ? run->channels : kept;
    const uint64_t most = bench->bytes / sizeof(float) / wider / run->hop;
    run->blocks = most < 4096 ? (uint32_t)most : 4096;
    const struct plan_spec spec = {
        .inputs = run->channels,
        .format = run->format,
        .scales = scales,
        .taps = (const struct taps *const *)run->taps,
        .taps_count = run->outputs,
        .edges = edges,
        .edge_count = run->outputs,
        .outputs = forms,
        .outputs_count = run->outputs,
        .results = run->results,
        .hop = run->hop,
        .decimate = run->decimate,
        .blocks_max = run->blocks,
        .fft = fft,
        .variant = bench->variant,
    };
    if (error == 0)
        error = plan_prepare(bench->engine, &spec, &run->plan, problem);
    free(scales);
    free(edges);
    free(forms);
    const uint32_t frame_bytes = run->channels * run->format.bytes;
    uint64_t frames = 1;
    while (frames * 2 * wider * sizeof(float) <= bench->bytes)
        frames *= 2;
    if (error == 0)
        error = engine_ring_open(bench->engine, frames, frame_bytes, &run->ring, problem);
    if (error < 0)
        return error;
    const uint64_t usable = run->ring->frames - fft;
    run->items = (uint32_t)(usable / ((uint64_t)run->hop * run->blocks));
    if (run->items == 0) {
        run->items = 1;
        run->blocks = (uint32_t)(usable / run->hop);
    }
    run->items = run->items < BATCH_ITEMS_MAX ? run->items : BATCH_ITEMS_MAX;
    run->batch_blocks = (uint64_t)run->items * run->blocks;
    /* noise in pieces of a MiB, each begun anew at another place of the first */
    uint8_t *bytes = run->ring->bytes;
    const uint64_t size = (uint64_t)run->ring->frames * frame_bytes;
    const uint64_t piece = size < 1u << 20 ? size : 1u << 20;
    assert(piece > 0);
    for (uint64_t i = 0; i < piece; i += run->format.bytes)
        sample_encode(&run->format, 1.9 * random_unit(&random) - 0.95, bytes + i);
    for (uint64_t at = piece; at + piece <= size; at += piece) {
        const uint64_t turn = at / piece % 61 * 32 * frame_bytes % piece;
        memcpy(bytes + at, bytes + turn, piece - turn);
        memcpy(bytes + at + piece - turn, bytes, turn);
    }
    memset(run->ring->present, 0xff, run->ring->frames / 8);
    return 0;
}

void run_close(struct bench *bench, struct run *run)
{
    engine_ring_close(bench->engine, run->ring);
    plan_close(run->plan);
    for (uint32_t o = 0; o < run->outputs; o++)
        taps_free(run->taps[o]);
}

/* ---- batches ----------------------------------------------------------------------------- */

struct batch *run_batch(struct bench *bench, const struct run *run, bool fresh)
{
    struct batch *batch = engine_batch_take(bench->engine);
    const uint64_t history = 2 * (uint64_t)run->points - run->hop;
    for (uint32_t i = 0; batch != NULL && i < run->items; i++) {
        const uint64_t frames = (uint64_t)run->blocks * run->hop;
        const struct batch_item item = {
            .plan = run->plan,
            .ring = run->ring,
            .position = history + i * frames,
            .epoch_block = 100000 + i * run->blocks,
            .blocks = run->blocks,
            .write_until = (uint32_t)frames,
            .fresh_from = fresh && i > 0 ? history + i * frames : 0,
            .fresh_until = fresh ? history + (i + 1) * frames : 0,
        };
        if (engine_batch_add(bench->engine, batch, &item) < 0) {
            fprintf(stderr, "a batch of %u items of %u blocks does not fit; lower --mib\n",
                    run->items, run->blocks);
            exit(1);
        }
    }
    return batch;
}

uint32_t run_result_bytes(const struct run *run)
{
    return result_format_native(&run->results) ? (uint32_t)sizeof(float)
                                               : run->results.format.bytes;
}

/* A result, without what rounding to a code explains. */
static double result_value(const struct run *run, const struct batch_item *item, uint64_t at,
                           double want)
{
    if (result_format_native(&run->results))
        return (double)item->samples[at];
    const struct sample_format *format = &run->results.format;
    const double code = ldexp(1 / run->results.factor, 1 - (int)format->bits);
    const double value =
        sample_decode(format, (const uint8_t *)item->samples + at * format->bytes) /
        run->results.factor;
    return format->kind != SAMPLE_FLOAT && fabs(value - want) <= 0.5 * code + 1e-5 ? want : value;
}

double run_samples_in(const struct run *run)
{
    return (double)run->batch_blocks * run->hop * run->channels;
}

double run_samples_out(const struct run *run)
{
    const uint64_t kept = run->batch_blocks * (run->hop / run->decimate);
    return (double)kept * run->outputs;
}

/* Relative error of frames drawn at random from the batch, against the definition in double. */
static double check(const struct run *run, const struct batch *batch)
{
    struct random_state random = {4711};
    double error = 0, size = 0;
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const struct batch_item *item = &batch->items[random_below(&random, batch->count)];
        const uint64_t n = random_below(&random, run->blocks * run->hop / run->decimate);
        const uint32_t o = random_below(&random, run->outputs), c = o / run->filters;
        double want = 0;
        for (uint32_t k = 0; k < run->taps_count; k++) {
            const uint64_t frame = item->position + n * run->decimate - k;
            want += run->taps[o]->re[k] *
                    sample_decode(&run->format, run->ring->bytes + (frame * run->channels + c) *
                                                                       run->format.bytes);
        }
        const double got = result_value(run, item, n * run->outputs + o, want);
        error += (got - want) * (got - want);
        size += want * want;
    }
    return sqrt(error / size);
}

double run_check(struct bench *bench, const struct run *run)
{
    engine_submit(bench->engine, run_batch(bench, run, true));
    struct batch *batch = bench_wait(bench);
    const double error = check(run, batch);
    engine_batch_release(bench->engine, batch);
    return error;
}

double run_timed(struct bench *bench, const struct run *run, uint32_t in_flight, int64_t for_ns)
{
    int64_t first_ns = 0, last_ns = 0;
    uint32_t submitted = 0, completed = 0;
    const int64_t begin_ns = clock_monotonic_ns();
    do {
        while ((in_flight > 0 ? submitted - completed < in_flight
                              : engine_takes_batch(bench->engine)) &&
               (submitted < 4 || clock_monotonic_ns() - begin_ns < for_ns)) {
            engine_submit(bench->engine, run_batch(bench, run, !gpu_resident));
            submitted++;
        }
        struct batch *batch = bench_wait(bench);
        completed++;
        first_ns = completed == 1 ? batch->completed_ns : first_ns;
        last_ns = batch->completed_ns;
        engine_batch_release(bench->engine, batch);
    } while (completed < submitted);
    return (double)(last_ns - first_ns) * 1e-9 / (completed - 1);
}
