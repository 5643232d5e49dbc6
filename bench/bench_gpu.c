/*
 * The engine on a GPU with its data resident in device memory, beside the device's own copy and
 * the peer programs there are (bench/cufft_peer.cu, bench/peers/peer_vkfft.cc), in the same run.
 *
 * A row is one shape: points Q of the transform (N = 2Q frames), channels, sample format. A ring
 * of --mib MiB of noise is uploaded once and checked against the definition in double; from then
 * on no sample crosses the bus (`resident`). All else is as the engine runs: batches of up to 64
 * items, as many in flight as the device's queue takes, on the engine's queues. The contestants
 * take turns (ours, copy, peer, ours …); a figure is the median of its repetitions with quartiles,
 * a ratio the median of the ratios of neighbours.
 *
 *     share    bytes of new samples in + bytes of frames out over time / the same for
 *              clEnqueueCopyBuffer (bytes read + written)
 *     peer     time of the peer for one window (cuFFT's three passes, VkFFT's one) / ours
 *     duplex   host to host, both ways at once, beside pinned copies both ways at once (--latency);
 *              ours from the first completed batch to the last, so that both ways are busy in it
 *     latency  64 channels, one block of 1024: submit → completion seen, resident and with copies
 *
 * One thread plays the loop. The bars are those of bench/bars.csv: make bench-check.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/peer_program.h"
#include "convolve/check/prepare.h"
#include "convolve/engine.h"
#include "convolve/slot.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "core/random.h"
#include "device/opencl.h"

enum {
    LIST_MAX = 24,
    HOP_MOST = 1 << 19,
    CHECKED_FRAMES = 64,
    LATENCY_RUNS = 400,
    CHANNELS_MOST = 256,
    PEERS_MOST = 3
};

/* ---- resident data ----------------------------------------------------------------------- */

/* Whether samples and results stay on the device: the linker puts these wrappers in the place of
 * the engine's copies (BENCH_WRAPS in the Makefile). May change between batches. */
static bool resident;

cl_int __real_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any);
cl_int __wrap_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any);
cl_int __wrap_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any)
{
    return resident ? CL_SUCCESS : __real_mirror_copy_fresh(engine, queue, batch, any);
}

cl_int __real_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot);
cl_int __wrap_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot);
cl_int __wrap_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot)
{
    return resident ? CL_SUCCESS : __real_mirror_copy_results(engine, queue, slot);
}

/* ---- shapes ------------------------------------------------------------------------------ */

struct list {
    uint32_t count;
    uint32_t values[LIST_MAX];
};

struct copier {
    cl_context context;
    cl_command_queue queue;
    cl_mem from, to;
    uint64_t bytes;
};

struct bench {
    const char *device, *variant, *csv, *command;
    struct list points, channels;
    const char *formats[LIST_MAX];
    uint32_t format_count;
    uint64_t bytes;
    uint32_t repetitions;
    int64_t repetition_ns;
    bool latency;
    int bell;
    struct engine *engine;
    struct copier copier;
    struct peer_program peers[PEERS_MOST];
    uint32_t peer_count;
    FILE *results;
    int wrong;
};

/* One shape while it is measured. */
struct run {
    struct sample_format format;
    struct result_format results; /* all zero: floats */
    const char *format_name;      /* "s16le"; "s16le/s16be": results in a format too */
    uint32_t points, channels, hop, taps_count;
    struct plan *plan;
    struct ring *ring;
    uint32_t blocks;                  /* of an item */
    uint32_t items;                   /* of a batch */
    uint64_t batch_blocks;            /* of a channel */
    struct taps *taps[CHANNELS_MOST]; /* a filter of its own for every channel */
};

static void wake(void *context)
{
    doorbell_ring(*(const int *)context);
}

static struct batch *wait_batch(struct bench *bench)
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

/* ---- the copy ---------------------------------------------------------------------------- */

static bool copier_open(struct copier *copier, uint64_t bytes)
{
    cl_platform_id platforms[8];
    cl_uint count = 0;
    cl_device_id device = NULL;
    clGetPlatformIDs(8, platforms, &count);
    for (cl_uint i = 0; i < count && device == NULL; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL) != CL_SUCCESS)
            device = NULL;
    for (cl_uint i = 0; i < count && device == NULL; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) != CL_SUCCESS)
            device = NULL;
    if (device == NULL)
        return false;
    cl_int code;
    copier->bytes = bytes;
    copier->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (copier->context == NULL)
        return false;
    copier->queue = clCreateCommandQueue(copier->context, device, 0, &code);
    copier->from = clCreateBuffer(copier->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    copier->to = clCreateBuffer(copier->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    const cl_uint pattern = 0x3f800000u;
    return copier->queue != NULL && copier->from != NULL && copier->to != NULL &&
           clEnqueueFillBuffer(copier->queue, copier->from, &pattern, sizeof pattern, 0, bytes, 0,
                               NULL, NULL) == CL_SUCCESS &&
           clFinish(copier->queue) == CL_SUCCESS;
}

/* Bytes read and written a second. */
static double copier_run(struct copier *copier, int64_t for_ns)
{
    const int64_t from_ns = clock_monotonic_ns();
    int64_t until_ns = from_ns;
    double bytes = 0;
    while (until_ns - from_ns < for_ns) {
        for (int i = 0; i < 8; i++)
            clEnqueueCopyBuffer(copier->queue, copier->from, copier->to, 0, 0, copier->bytes, 0,
                                NULL, NULL);
        clFinish(copier->queue);
        bytes += 8.0 * 2 * (double)copier->bytes;
        until_ns = clock_monotonic_ns();
    }
    return bytes / (double)(until_ns - from_ns) * 1e9;
}

/* ---- one shape --------------------------------------------------------------------------- */

static int run_open(struct bench *bench, struct run *run, struct problem *problem)
{
    const uint32_t fft = 2 * run->points;
    assert(run->points >= 32 && run->channels > 0 && run->format.bytes > 0);
    /* short filters, so that what a window reads is nearly all new; whole sectors of memory */
    if (run->hop == 0)
        run->hop = fft - (fft < 256 ? 8 : fft < 1024 ? fft / 32 : 32);
    if (run->hop > HOP_MOST)
        run->hop = HOP_MOST;
    run->taps_count = fft - run->hop < TAPS_MAX ? fft - run->hop + 1 : TAPS_MAX;
    struct random_state random = {run->points};
    int error = 0;
    for (uint32_t c = 0; error == 0 && c < run->channels; c++) {
        error = taps_create(run->taps_count, false, &run->taps[c], problem);
        for (uint32_t k = 0; error == 0 && k < run->taps_count; k++)
            run->taps[c]->re[k] = random_normal(&random) / sqrt(run->taps_count);
    }
    struct channel_scale *scales = calloc(run->channels, sizeof *scales);
    struct edge *edges = calloc(run->channels, sizeof *edges);
    enum output_form *forms = calloc(run->channels, sizeof *forms);
    for (uint32_t c = 0; c < run->channels; c++) {
        scales[c].full_scale = 1;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
        forms[c] = OUTPUT_REAL;
    }
    const uint64_t most = bench->bytes / sizeof(float) / run->channels / run->hop;
    run->blocks = most < 4096 ? (uint32_t)most : 4096;
    const struct plan_spec spec = {
        .inputs = run->channels,
        .format = run->format,
        .scales = scales,
        .taps = (const struct taps *const *)run->taps,
        .taps_count = run->channels,
        .edges = edges,
        .edge_count = run->channels,
        .outputs = forms,
        .outputs_count = run->channels,
        .results = run->results,
        .hop = run->hop,
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
    while (frames * 2 * run->channels * sizeof(float) <= bench->bytes)
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

static void run_close(struct bench *bench, struct run *run)
{
    engine_ring_close(bench->engine, run->ring);
    plan_close(run->plan);
    for (uint32_t c = 0; c < run->channels; c++)
        taps_free(run->taps[c]);
}

/* `fresh`: each item brings its frames along, the first the history before them, too. */
static struct batch *run_batch(struct bench *bench, const struct run *run, bool fresh)
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

static uint32_t result_bytes(const struct run *run)
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

/* "IN" or "IN/OUT"; false: no such format. Results have room for what filters make of the noise. */
static bool parse_formats(struct run *run)
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

/* Relative error of frames drawn at random from the batch, against the definition in double. */
static double check(const struct run *run, const struct batch *batch)
{
    struct random_state random = {4711};
    double error = 0, size = 0;
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const struct batch_item *item = &batch->items[random_below(&random, batch->count)];
        const uint64_t n = random_below(&random, (uint32_t)(run->blocks * run->hop));
        const uint32_t c = random_below(&random, run->channels);
        double want = 0;
        for (uint32_t k = 0; k < run->taps_count; k++) {
            const uint64_t frame = item->position + n - k;
            want += run->taps[c]->re[k] *
                    sample_decode(&run->format, run->ring->bytes + (frame * run->channels + c) *
                                                                       run->format.bytes);
        }
        const double got = result_value(run, item, n * run->channels + c, want);
        error += (got - want) * (got - want);
        size += want * want;
    }
    return sqrt(error / size);
}

/* Seconds of a batch, `in_flight` of them at once (0: as many as the device's queue takes) for so
 * long, from the first completed one to the last. */
static double run_timed(struct bench *bench, const struct run *run, uint32_t in_flight,
                        int64_t for_ns)
{
    int64_t first_ns = 0, last_ns = 0;
    uint32_t submitted = 0, completed = 0;
    const int64_t begin_ns = clock_monotonic_ns();
    do {
        while ((in_flight > 0 ? submitted - completed < in_flight
                              : engine_takes_batch(bench->engine)) &&
               (submitted < 4 || clock_monotonic_ns() - begin_ns < for_ns)) {
            engine_submit(bench->engine, run_batch(bench, run, !resident));
            submitted++;
        }
        struct batch *batch = wait_batch(bench);
        completed++;
        first_ns = completed == 1 ? batch->completed_ns : first_ns;
        last_ns = batch->completed_ns;
        engine_batch_release(bench->engine, batch);
    } while (completed < submitted);
    return (double)(last_ns - first_ns) * 1e-9 / (completed - 1);
}

/* While the data are resident. */
static double run_resident(struct bench *bench, const struct run *run)
{
    return run_timed(bench, run, 0, bench->repetition_ns);
}

static void result(struct bench *bench, const char *what, const char *shape, double ours,
                   double peer, const struct series *ratio, const char *unit, double error)
{
    const struct spread spread = series_spread(ratio);
    printf("%-22s %-26s ours %9.4g  peer %9.4g %-9s %7.3f (%.3f…%.3f) error %.2g\n", what, shape,
           ours, peer, unit, spread.median, spread.q1, spread.q3, error);
    fflush(stdout);
    if (bench->results != NULL)
        fprintf(bench->results, "%s,%s,%.6g,%.6g,%.4f,,%s,%.4f,%.4f…%.4f,%.3g,%s\n", what, shape,
                ours, peer, spread.median, unit, spread.median, spread.q1, spread.q3, error,
                bench->command);
}

static void measure(struct bench *bench, struct run *run)
{
    struct problem problem = {0};
    resident = false; /* the plan's self-test copies */
    if (run_open(bench, run, &problem) < 0) {
        printf("Q = %u, %u channels, %s: %s\n", run->points, run->channels, run->format_name,
               problem.text);
        run_close(bench, run);
        return;
    }
    if (!result_format_equal(&plan_info(run->plan)->results, &run->results)) {
        printf("Q = %u, %u channels, %s: %s gives floats; left out\n", run->points, run->channels,
               run->format_name, plan_info(run->plan)->variant);
        run_close(bench, run);
        return;
    }
    engine_submit(bench->engine, run_batch(bench, run, true));
    struct batch *batch = wait_batch(bench);
    const double error = check(run, batch);
    engine_batch_release(bench->engine, batch);
    resident = true;
    bench->wrong += !(error < 5e-6);
    run_resident(bench, run);

    const double samples = (double)run->batch_blocks * run->hop * run->channels;
    const double bytes = samples * (run->format.bytes + result_bytes(run));
    const double windows = (double)run->batch_blocks * run->channels;
    struct series ours = {0}, copy = {0}, share = {0}, peer[PEERS_MOST] = {0},
                  gain[PEERS_MOST] = {0};
    double peer_error = 0;
    for (uint32_t i = 0; i < bench->repetitions; i++) {
        const double seconds = run_resident(bench, run);
        series_add(&ours, seconds);
        series_add(&copy, copier_run(&bench->copier, bench->repetition_ns));
        series_add(&share, bytes / seconds / copy.values[i]);
        for (uint32_t p = 0; p < bench->peer_count; p++) {
            const double theirs =
                peer_program_run(&bench->peers[p], run->points, bench->repetition_ns, &peer_error);
            if (theirs == 0 || peer_error > 1e-5)
                continue;
            series_add(&peer[p], theirs);
            series_add(&gain[p], theirs / (seconds / windows));
        }
    }
    char shape[80];
    snprintf(shape, sizeof shape, "%s Q=%u %uch %s", plan_info(run->plan)->variant, run->points,
             run->channels, run->format_name);
    const double seconds = series_spread(&ours).median;
    result(bench, "gpu share of copy", shape, bytes / seconds * 1e-9,
           series_spread(&copy).median * 1e-9, &share, "GB/s", error);
    for (uint32_t p = 0; p < bench->peer_count; p++) {
        const struct peer_program *program = &bench->peers[p];
        const int first =
            (int)strcspn(program->name, "_"); /* VkFFT_CUDA: one bar for both of its ways */
        char what[64], with[160];
        if (peer[p].count < bench->repetitions) {
            printf("%s at Q = %u: no figure: %s\n", program->name, run->points, program->said);
            continue;
        }
        snprintf(what, sizeof what, "gpu against %.*s", first, program->name);
        snprintf(with, sizeof with, "%s%s%s", shape, program->name[first] == '_' ? " " : "",
                 program->name + first + (program->name[first] == '_'));
        result(bench, what, with, seconds / windows * 1e9, series_spread(&peer[p]).median * 1e9,
               &gain[p], "ns/window", error);
        if (program->said[0] != '\0')
            printf("%22s %s\n", program->name, program->said);
    }
    run_close(bench, run);
}

/* ---- host to host ------------------------------------------------------------------------ */

enum { DUPLEX_MIB = 64, DUPLEX_IN_FLIGHT = 4, DUPLEX_COPIES = 8 };

/* Pinned memory on the host and as much on the device, copied both ways at once. */
struct duplex {
    cl_command_queue queues[2];
    cl_mem device[2], pinned[2];
    void *host[2];
};

static bool duplex_open(const struct copier *copier, struct duplex *duplex)
{
    const size_t bytes = (size_t)DUPLEX_MIB << 20;
    cl_device_id device;
    cl_int code;
    if (clGetCommandQueueInfo(copier->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL) !=
        CL_SUCCESS)
        return false;
    for (int i = 0; i < 2; i++) {
        duplex->queues[i] = clCreateCommandQueue(copier->context, device, 0, &code);
        duplex->device[i] = clCreateBuffer(copier->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        duplex->pinned[i] = clCreateBuffer(
            copier->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
        if (duplex->queues[i] == NULL || duplex->device[i] == NULL || duplex->pinned[i] == NULL)
            return false;
        duplex->host[i] =
            clEnqueueMapBuffer(duplex->queues[i], duplex->pinned[i], CL_TRUE,
                               CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &code);
        if (duplex->host[i] == NULL)
            return false;
        memset(duplex->host[i], 0, bytes);
    }
    return true;
}

/* Bytes a second, both ways together. */
static double duplex_run(const struct duplex *duplex)
{
    const size_t bytes = (size_t)DUPLEX_MIB << 20;
    const int64_t from_ns = clock_monotonic_ns();
    for (int k = 0; k < DUPLEX_COPIES; k++) {
        clEnqueueWriteBuffer(duplex->queues[0], duplex->device[0], CL_FALSE, 0, bytes,
                             duplex->host[0], 0, NULL, NULL);
        clEnqueueReadBuffer(duplex->queues[1], duplex->device[1], CL_FALSE, 0, bytes,
                            duplex->host[1], 0, NULL, NULL);
        clFlush(duplex->queues[0]);
        clFlush(duplex->queues[1]);
    }
    clFinish(duplex->queues[0]);
    clFinish(duplex->queues[1]);
    return 2.0 * DUPLEX_COPIES * (double)bytes / ((double)(clock_monotonic_ns() - from_ns) * 1e-9);
}

/* Bytes a second, new frames in and results out. */
static double crossing_run(struct bench *bench, const struct run *run)
{
    const double seconds = run_timed(bench, run, DUPLEX_IN_FLIGHT, 4 * bench->repetition_ns);
    const double samples = (double)run->batch_blocks * run->hop * run->channels;
    return samples * (run->format.bytes + sizeof(float)) / seconds;
}

static void measure_duplex(struct bench *bench)
{
    struct duplex duplex = {0};
    struct run run = {.format_name = "f32le", .points = 1024, .channels = 16};
    struct problem problem = {0};
    const uint64_t bytes = bench->bytes;
    if (!duplex_open(&bench->copier, &duplex)) {
        fprintf(stderr, "no pinned memory for copies both ways\n");
        return;
    }
    sample_format_parse(run.format_name, &run.format);
    resident = false;
    bench->bytes = (uint64_t)DUPLEX_MIB << 20;
    if (run_open(bench, &run, &problem) < 0) {
        fprintf(stderr, "%s\n", problem.text);
        exit(1);
    }
    engine_submit(bench->engine, run_batch(bench, &run, true));
    struct batch *batch = wait_batch(bench);
    const double error = check(&run, batch);
    engine_batch_release(bench->engine, batch);
    bench->wrong += !(error <= 1e-6);
    struct series ours = {0}, copies = {0}, share = {0};
    for (uint32_t i = 0; i <= bench->repetitions; i++) {
        const double own = crossing_run(bench, &run), copied = duplex_run(&duplex);
        if (i == 0)
            continue; /* both warm up */
        series_add(&ours, own);
        series_add(&copies, copied);
        series_add(&share, own / copied);
    }
    result(bench, "gpu share of duplex", "Q=1024 16ch f32le host to host",
           series_spread(&ours).median * 1e-9, series_spread(&copies).median * 1e-9, &share, "GB/s",
           error);
    run_close(bench, &run);
    bench->bytes = bytes;
}

/* ---- latency ----------------------------------------------------------------------------- */

static void measure_latency(struct bench *bench)
{
    struct run run = {.format_name = "f32le", .points = 1024, .channels = 64, .hop = 1024};
    struct problem problem = {0};
    sample_format_parse("f32le", &run.format);
    const uint64_t bytes = bench->bytes;
    resident = false;
    if (bench->bytes > UINT64_C(64) << 20)
        bench->bytes = UINT64_C(64) << 20;
    const int error = run_open(bench, &run, &problem);
    bench->bytes = bytes;
    if (error < 0) {
        printf("latency: %s\n", problem.text);
        run_close(bench, &run);
        return;
    }
    const struct batch_item item = {
        .plan = run.plan,
        .ring = run.ring,
        .position = 4096,
        .epoch_block = 1000,
        .blocks = 1,
        .write_until = run.hop,
    };
    for (int copies = 0; copies < 2; copies++) {
        struct series took = {0}, stages[3] = {0};
        resident = copies == 0;
        for (uint32_t i = 0; i < LATENCY_RUNS; i++) {
            struct batch *batch = engine_batch_take(bench->engine);
            struct batch_item one = item;
            if (copies) {
                one.fresh_from = one.position;
                one.fresh_until = one.position + run.hop;
            }
            engine_batch_add(bench->engine, batch, &one);
            const int64_t from_ns = clock_monotonic_ns();
            engine_submit(bench->engine, batch);
            batch = wait_batch(bench);
            const int64_t until_ns = clock_monotonic_ns();
            if (i >= LATENCY_RUNS / 10) {
                series_add(&took, (double)(until_ns - from_ns) * 1e-3);
                series_add(&stages[0], (double)(batch->started_ns - from_ns) * 1e-3);
                series_add(&stages[1], (double)(batch->completed_ns - batch->started_ns) * 1e-3);
                series_add(&stages[2], (double)(until_ns - batch->completed_ns) * 1e-3);
            }
            engine_batch_release(bench->engine, batch);
            usleep(1000); /* idle in between, as a stream is */
        }
        const double bar = copies ? 80 : 60;
        printf("to the device thread %.1f, device %.1f, to the loop %.1f us (medians)\n",
               series_spread(&stages[0]).median, series_spread(&stages[1]).median,
               series_spread(&stages[2]).median);
        result(bench, "gpu latency", copies ? "64ch block with copies" : "64ch block resident",
               series_spread(&took).median, bar, &took, "us", 0);
    }
    run_close(bench, &run);
}

/* ---- the program ------------------------------------------------------------------------- */

static void parse_list(struct list *list, char *text)
{
    list->count = 0;
    for (char *word = strtok(text, ","); word != NULL && list->count < LIST_MAX;
         word = strtok(NULL, ","))
        list->values[list->count++] = (uint32_t)strtoul(word, NULL, 10);
}

static const char *const usage =
    "usage: bench_gpu [--device gpu] [--variant NAME] [--points 64,…,8192] [--channels 1,16]\n"
    "                 [--formats f32le,s16le,s16le/s16le] [--mib 1024] [--repetitions 7] [--ms "
    "40]\n"
    "                 [--peer [NAME=]PROGRAM]… [--latency] [--csv FILE]\n";

static int parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},      {"variant", required_argument, NULL, 'v'},
        {"points", required_argument, NULL, 'q'},      {"channels", required_argument, NULL, 'c'},
        {"formats", required_argument, NULL, 'f'},     {"mib", required_argument, NULL, 'm'},
        {"repetitions", required_argument, NULL, 'r'}, {"ms", required_argument, NULL, 't'},
        {"peer", required_argument, NULL, 'p'},        {"latency", no_argument, NULL, 'l'},
        {"csv", required_argument, NULL, 'o'},         {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            bench->device = optarg;
            break;
        case 'v':
            bench->variant = optarg;
            break;
        case 'q':
            parse_list(&bench->points, optarg);
            break;
        case 'c':
            parse_list(&bench->channels, optarg);
            break;
        case 'f':
            bench->format_count = 0;
            for (char *word = strtok(optarg, ","); word != NULL && bench->format_count < LIST_MAX;
                 word = strtok(NULL, ","))
                bench->formats[bench->format_count++] = word;
            break;
        case 'm':
            bench->bytes = strtoull(optarg, NULL, 10) << 20;
            break;
        case 'r':
            bench->repetitions = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            bench->repetition_ns = (int64_t)strtoul(optarg, NULL, 10) * NS_PER_MS;
            break;
        case 'p':
            if (bench->peer_count < PEERS_MOST &&
                peer_program_start(&bench->peers[bench->peer_count], optarg) == 0)
                bench->peer_count++;
            else
                fprintf(stderr, "%s does not start: left out\n", optarg);
            break;
        case 'l':
            bench->latency = true;
            break;
        case 'o':
            bench->csv = optarg;
            break;
        default:
            fputs(usage, stderr);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    char command[512] = "bench_gpu";
    for (int i = 1, length = 9; i < argc; i++)
        length += snprintf(command + length, sizeof command - (size_t)length, " %s", argv[i]);
    for (char *comma = command; (comma = strchr(comma, ',')) != NULL;)
        *comma = ' '; /* a field of a CSV line */
    struct bench bench = {
        .device = "gpu",
        .points = {8, {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
        .channels = {2, {1, 16}},
        .formats = {"f32le", "s16le", "s16le/s16le"},
        .format_count = 3,
        .bytes = UINT64_C(1) << 30,
        .repetitions = 7,
        .repetition_ns = 40 * NS_PER_MS,
        .command = command,
    };
    if (parse(&bench, argc, argv) < 0)
        return 2;
    if (bench.csv != NULL &&
        (bench.results = results_open(
             bench.csv, "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command")) ==
            NULL) {
        fprintf(stderr, "%s: %s\n", bench.csv, strerror(errno));
        return 1;
    }
    bench.bell = doorbell_open();
    const struct engine_options options = {
        .device = bench.device,
        .input_bytes = bench.bytes + bench.bytes / 4,
        .state_bytes = UINT64_C(1) << 30,
        .batch_output_floats = bench.bytes / sizeof(float),
        .wake = wake,
        .wake_context = &bench.bell,
    };
    struct problem problem = {0};
    if (!copier_open(&bench.copier, bench.bytes) ||
        engine_open(&options, &bench.engine, &problem) < 0) {
        fprintf(stderr, "%s\n", problem.text[0] != '\0' ? problem.text : "no OpenCL device");
        return 1;
    }
    const struct device_info *info = engine_device(bench.engine);
    printf("%s, driver %s\n", info->name, info->driver);
    for (uint32_t f = 0; f < bench.format_count; f++)
        for (uint32_t c = 0; c < bench.channels.count; c++)
            for (uint32_t q = 0; q < bench.points.count; q++) {
                struct run run = {.format_name = bench.formats[f],
                                  .points = bench.points.values[q],
                                  .channels = bench.channels.values[c]};
                if (parse_formats(&run))
                    measure(&bench, &run);
            }
    if (bench.latency) {
        measure_latency(&bench);
        measure_duplex(&bench);
    }
    engine_close(bench.engine);
    for (uint32_t p = 0; p < bench.peer_count; p++)
        peer_program_stop(&bench.peers[p]);
    if (bench.results != NULL)
        fclose(bench.results);
    if (bench.wrong > 0)
        fprintf(stderr, "%d shapes gave WRONG results\n", bench.wrong);
    return bench.wrong > 0;
}
