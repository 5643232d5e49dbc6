/*
 * What an fk filter costs on a device: for arrays of M sensors, each output the sum over all inputs
 * (M² edges), the highest rate at which the engine keeps up, and how long one block takes. Says
 * where the filter stops being real-time; docs/fk.md quotes it.
 *
 * One thread beside the engine's own. Run it on an idle machine.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/diagonal.h"
#include "bench/measure.h"
#include "convolve/check/prepare.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/random.h"
#include "filter/fk.h"

enum { IN_FLIGHT = 2, BLOCKS = 8, BATCHES_MIN = 6, BATCHES_MAX = 400 };

static const int64_t effort_ns = 600000000;

struct bench {
    struct engine *engine;
    int doorbell;
};

struct array {
    struct fk_spec fk;
    struct taps **sets;
    uint32_t set_count;
    struct edge *edges;
    enum output_form *outputs;
    struct channel_scale *scales;
    struct plan *plan;
    struct ring *ring;
};

static void array_close(struct bench *bench, struct array *array)
{
    plan_close(array->plan);
    engine_ring_close(bench->engine, array->ring);
    taps_sets_free(array->sets, array->set_count);
    free(array->edges);
    free(array->outputs);
    free(array->scales);
}

static int array_open(struct bench *bench, struct array *array, uint32_t channels, uint32_t hop,
                      struct problem *problem)
{
    memset(array, 0, sizeof *array);
    array->fk = (struct fk_spec){.channels = channels,
                                 .spacing_m = 5e-3,
                                 .velocity_low = 1600,
                                 .velocity_high = 5000,
                                 .low_hz = 40e3,
                                 .high_hz = 150e3,
                                 .taper = 0.5,
                                 .taps = 255};
    array->edges = calloc((size_t)channels * channels, sizeof *array->edges);
    array->outputs = calloc(channels, sizeof *array->outputs);
    array->scales = calloc(channels, sizeof *array->scales);
    if (array->edges == NULL || array->outputs == NULL || array->scales == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for %u channels", channels);
    int error = fk_make(&array->fk, 1e6, &array->sets, &array->set_count, problem);
    if (error != 0)
        return error;
    for (uint32_t m = 0; m < channels; m++) {
        array->scales[m].full_scale = 1;
        for (uint32_t n = 0; n < channels; n++)
            array->edges[m * channels + n] =
                (struct edge){(uint16_t)n, (uint16_t)m, (uint16_t)fk_set(channels, n, m), 1};
    }
    struct plan_spec spec = {
        .inputs = channels,
        .scales = array->scales,
        .taps = (const struct taps *const *)array->sets,
        .taps_count = array->set_count,
        .edges = array->edges,
        .edge_count = channels * channels,
        .outputs = array->outputs,
        .outputs_count = channels,
        .hop = hop,
        .blocks_max = BLOCKS,
    };
    sample_format_parse("s16le", &spec.format);
    error = plan_prepare(bench->engine, &spec, &array->plan, problem);
    if (error != 0)
        return error;
    const uint64_t frames = plan_info(array->plan)->history_frames + 8ull * BLOCKS * hop;
    error = engine_ring_open(bench->engine, frames, channels * 2, &array->ring, problem);
    if (error != 0)
        return error;
    struct random_state random = {7};
    for (uint64_t i = 0; i < (uint64_t)array->ring->frames * channels; i++)
        ((int16_t *)(void *)array->ring->bytes)[i] = (int16_t)random_below(&random, 65536);
    memset(array->ring->present, 0xff, array->ring->frames / 8);
    return 0;
}

static void submit(struct bench *bench, const struct array *array, uint64_t *position,
                   uint32_t blocks)
{
    const uint32_t hop = plan_info(array->plan)->hop;
    struct batch *batch = engine_batch_take(bench->engine);
    const struct batch_item item = {
        .plan = array->plan,
        .ring = array->ring,
        .position = *position,
        .epoch_block = *position / hop,
        .blocks = blocks,
        .write_until = blocks * hop,
        .fresh_from = *position,
        .fresh_until = *position + (uint64_t)blocks * hop,
    };
    if (batch == NULL || engine_batch_add(bench->engine, batch, &item) != 0) {
        fprintf(stderr, "bench_fk: the batch does not fit\n");
        exit(1);
    }
    *position += (uint64_t)blocks * hop;
    engine_submit(bench->engine, batch);
}

/* Frames a second with two batches of `blocks` in flight; `latency` gets what each took [us]. */
static double pump(struct bench *bench, const struct array *array, uint64_t *position,
                   uint32_t blocks, uint32_t in_flight, struct series *latency)
{
    const int64_t from_ns = clock_monotonic_ns();
    uint32_t submitted = 0, completed = 0, wanted = BATCHES_MAX;
    while (completed < wanted) {
        for (; submitted < wanted && submitted - completed < in_flight; submitted++)
            submit(bench, array, position, blocks);
        struct batch *batch = wait_for_batch(bench->doorbell, bench->engine);
        if (batch == NULL || batch->status != BATCH_OK) {
            fprintf(stderr, "bench_fk: the device failed\n");
            exit(1);
        }
        series_add(latency, (double)(batch->completed_ns - batch->submitted_ns) * 1e-3);
        engine_batch_release(bench->engine, batch);
        completed++;
        if (completed >= BATCHES_MIN && clock_monotonic_ns() - from_ns > effort_ns)
            wanted = submitted;
    }
    const double seconds = (double)(clock_monotonic_ns() - from_ns) * 1e-9;
    return (double)completed * blocks * plan_info(array->plan)->hop / seconds;
}

static void measure(struct bench *bench, uint32_t channels, uint32_t hop)
{
    struct array array;
    struct problem problem = {0};
    if (array_open(bench, &array, channels, hop, &problem) != 0) {
        printf("%8u %8u   %s\n", channels, hop, problem.text);
        array_close(bench, &array);
        return;
    }
    struct series *latency = calloc(2, sizeof *latency);
    uint64_t position = 0;
    if (latency != NULL) {
        pump(bench, &array, &position, 1, 1, &latency[0]);
        const double rate = pump(bench, &array, &position, BLOCKS, IN_FLIGHT, &latency[1]);
        printf("%8u %8u %8u %10u %14.0f %14.2f %12.0f   %s, N = %u\n", channels, hop,
               channels * channels, array.fk.taps, rate, rate * channels * 1e-6,
               series_spread(&latency[0]).median, plan_info(array.plan)->variant,
               plan_info(array.plan)->fft);
        fflush(stdout);
    }
    free(latency);
    array_close(bench, &array);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"threads", required_argument, NULL, 't'},
                                            {NULL, 0, NULL, 0}};
    struct bench bench = {.doorbell = doorbell_open()};
    struct engine_options engine = {.device = "cpu",
                                    .batch_output_floats = 8u << 20,
                                    .wake = ring_bell,
                                    .wake_context = &bench.doorbell};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'd') {
            engine.device = optarg;
        } else if (option == 't') {
            engine.cpu_threads = (int)strtol(optarg, NULL, 10);
        } else {
            fprintf(stderr, "usage: bench_fk [--device NAME] [--threads N]\n");
            return 1;
        }
    }
    struct problem problem;
    if (bench.doorbell < 0 || engine_open(&engine, &bench.engine, &problem) != 0) {
        fprintf(stderr, "bench_fk: %s\n", bench.doorbell < 0 ? strerror(errno) : problem.text);
        return 1;
    }
    printf("fk filters on %s\n%8s %8s %8s %10s %14s %14s %12s\n", engine_device(bench.engine)->name,
           "channels", "block", "edges", "taps", "frames/s", "Msamples/s", "block [us]");
    static const uint32_t channels[] = {16, 24, 32, 48, 64}, hops[] = {1024, 4096};
    for (size_t h = 0; h < sizeof hops / sizeof hops[0]; h++)
        for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++)
            measure(&bench, channels[c], hops[h]);
    engine_close(bench.engine);
    close(bench.doorbell);
    return 0;
}
