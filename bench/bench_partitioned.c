/*
 * Long filters at short blocks, through engine.h alone:
 *
 *     growth     cost of a sample as taps grow at blocks of 256 frames, beside zita-convolver's
 *                non-uniform partitions (bench/peers/peer_zita.cc), in turns: ours, zita, ours,
 * zita. Both are measured as processor time of the whole process, because zita-convolver computes
 * its longer partitions in threads of its own. real time  64 channels, each with a long filter of
 * its own, blocks of 64 frames at 48 kHz: the wall-clock time of a block over its duration. A batch
 * is submitted when the one before it is complete, as for a live stream.
 *
 * Figures are medians with quartiles. Beside every speed stands the error against the definition
 * in double at random frames; a row out of the bound is marked WRONG and the program fails.
 *
 * One thread plays the loop.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/diagonal.h"
#include "bench/measure.h"
#include "bench/peer_program.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"

enum {
    SIZES_MOST = 16,
    GROWTH_CHANNELS = 16,
    GROWTH_BLOCK = 256,
    GROWTH_BATCH = 8, /* blocks of a batch; one alone is shown beside */
    LIVE_CHANNELS = 64,
    LIVE_BLOCK = 64,
    LIVE_RATE_HZ = 48000,
};

static const double error_bound = 1e-6;

struct bench {
    const char *device, *variant, *programs, *csv, *command;
    uint32_t threads, taps[SIZES_MOST], taps_count;
    bool growth, live, quick;
    int bell;
    struct engine *engine;
    struct random_state noise;
    FILE *results;
    struct peer_program zita;
    uint32_t wrong, failed;
};

/* One shape, and where its stream is: runs continue each other. */
struct run {
    struct bench *bench;
    struct diagonal work;
    uint64_t position; /* of the next block */
    bool uploaded;
    double error;
};

static double processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

/* ---- ours -------------------------------------------------------------------------------- */

/* `blocks` blocks as one batch, waited for; NULL when the device failed or was silent. */
static struct batch *run_batch(struct run *run, uint32_t blocks)
{
    struct bench *bench = run->bench;
    struct batch *batch = engine_batch_take(bench->engine);
    const struct batch_item item = {
        .plan = run->work.plan,
        .ring = run->work.ring,
        .position = run->position,
        .epoch_block = run->position / run->work.hop,
        .blocks = blocks,
        .write_until = blocks * run->work.hop,
        .fresh_from = run->uploaded ? run->position : 0,
        .fresh_until = run->position + (uint64_t)blocks * run->work.hop,
    };
    if (batch == NULL || engine_batch_add(bench->engine, batch, &item) < 0)
        return NULL;
    run->uploaded = true;
    run->position += (uint64_t)blocks * run->work.hop;
    engine_submit(bench->engine, batch);
    batch = wait_for_batch(bench->bell, bench->engine);
    if (batch == NULL)
        return NULL;
    if (batch->status != BATCH_OK) {
        engine_batch_release(bench->engine, batch);
        return NULL;
    }
    return batch;
}

static bool run_once(struct run *run, uint32_t blocks)
{
    struct batch *batch = run_batch(run, blocks);
    if (batch == NULL)
        return false;
    measure_use(batch->items[0].samples);
    engine_batch_release(run->bench->engine, batch);
    return true;
}

static int run_open(struct run *run, struct problem *problem)
{
    struct bench *bench = run->bench;
    run->work.ring_blocks = 4 * run->work.blocks;
    run->work.variant = bench->variant;
    const int error = diagonal_open(bench->engine, &run->work, &bench->noise, problem);
    if (error < 0)
        return error;
    run->position = 2ull * run->work.ring->frames; /* all of the history is there */
    struct batch *batch = run_batch(run, run->work.blocks);
    if (batch == NULL)
        return problem_set(problem, ERROR_DEVICE, "the device failed a batch");
    run->error = diagonal_error(&run->work, &batch->items[0], &bench->noise);
    bench->wrong += !(run->error <= error_bound);
    engine_batch_release(bench->engine, batch);
    return 0;
}

/* Nanoseconds of processor time a sample; 0 when it has ended. */
static double peer_cost(struct bench *bench, uint32_t taps, int64_t for_ns, double *error)
{
    return peer_program_ask(&bench->zita, error, "%d %d %u %lld", GROWTH_CHANNELS, GROWTH_BLOCK,
                            taps, (long long)for_ns);
}

/* ---- rows -------------------------------------------------------------------------------- */

static void write_row(struct bench *bench, const char *what, const char *shape, double ours,
                      double peer, const struct series *ratio, const char *bar, const char *unit,
                      double error)
{
    const struct spread spread = series_spread(ratio);
    printf("%-36s %-46s %9.4g %9.4g %-12s %6.3f [%.3f %.3f] %s error %.1e%s\n", what, shape, ours,
           peer, unit, spread.median, spread.q1, spread.q3, bar, error,
           error <= error_bound ? "" : " WRONG");
    fflush(stdout);
    bars_write(bench->results, &(struct bar_row){what, shape, ours, peer, spread, bar, unit, error,
                                                 bench->command});
}

/* Processor time a sample of batches of `blocks`, for about `for_ns`; 0 when the device failed. */
static double own_cost(struct run *run, uint32_t blocks, int64_t for_ns)
{
    const double from_ns = processor_ns();
    double until_ns;
    uint64_t done = 0;
    do {
        if (!run_once(run, blocks))
            return 0;
        done += blocks;
        until_ns = processor_ns();
    } while (until_ns - from_ns < (double)for_ns);
    return (until_ns - from_ns) / ((double)done * run->work.hop * run->work.channels);
}

static bool growth_row(struct bench *bench, struct run *run)
{
    const int64_t for_ns = (bench->quick ? 40 : 150) * NS_PER_MS;
    const uint32_t repetitions = bench->quick ? 3 : 9;
    struct series batched = {0}, single = {0}, zita = {0}, ratio = {0}, ratio_single = {0};
    double error = 0;
    for (uint32_t i = 0; i <= repetitions; i++) {
        const double ours = own_cost(run, run->work.blocks, for_ns);
        const double alone = own_cost(run, 1, for_ns);
        const double theirs = peer_cost(bench, run->work.taps_count, for_ns, &error);
        if (ours == 0 || alone == 0 || theirs == 0)
            return false;
        if (i == 0)
            continue; /* all warm up */
        series_add(&batched, ours);
        series_add(&single, alone);
        series_add(&zita, theirs);
        series_add(&ratio, ours / theirs);
        series_add(&ratio_single, alone / theirs);
    }
    char shape[80];
    const double peer = series_spread(&zita).median;
    const double worst = run->error > error ? run->error : error;
    snprintf(shape, sizeof shape, "S=%u L=%u %uch %s", run->work.taps_count, run->work.hop,
             run->work.channels, plan_info(run->work.plan)->variant);
    write_row(bench, "cpu growth against zita", shape, series_spread(&batched).median, peer, &ratio,
              "<=1.5", "ns/sample", worst);
    write_row(bench, "cpu growth against zita block by block", shape, series_spread(&single).median,
              peer, &ratio_single, "", "ns/sample", worst);
    return true;
}

static void growth(struct bench *bench)
{
    char program[4096];
    snprintf(program, sizeof program, "%s/peer_zita_partitions", bench->programs);
    if (peer_program_open(&bench->zita, "zita-convolver", program) != 0) {
        printf("growth is left out: zita-convolver (libzita-convolver-dev) was not there when the "
               "benches were built\n");
        return;
    }
    for (uint32_t i = 0; i < bench->taps_count; i++) {
        struct problem problem = {.text = "the peer or the device failed"};
        struct run run = {.bench = bench,
                          .work = {.channels = GROWTH_CHANNELS,
                                   .taps_count = bench->taps[i],
                                   .hop = GROWTH_BLOCK,
                                   .blocks = GROWTH_BATCH}};
        if (run_open(&run, &problem) < 0 || !growth_row(bench, &run)) {
            printf("cpu growth S=%u: %s\n", bench->taps[i], problem.text);
            bench->failed++;
        }
        diagonal_close(bench->engine, &run.work);
    }
}

static bool live_row(struct bench *bench, struct run *run, uint32_t blocks)
{
    const double period_us = 1e6 * LIVE_BLOCK / LIVE_RATE_HZ * blocks;
    const uint32_t runs = (bench->quick ? 400 : 2000) / blocks;
    struct series took = {0}, share = {0};
    for (uint32_t i = 0; i < runs + runs / 10; i++) {
        const int64_t from_ns = clock_monotonic_ns();
        if (!run_once(run, blocks))
            return false;
        if (i < runs / 10)
            continue; /* warm up */
        series_add(&took, (double)(clock_monotonic_ns() - from_ns) * 1e-3);
        series_add(&share, took.values[took.count - 1] / period_us);
    }
    const bool gpu = engine_device(bench->engine)->gpu;
    char shape[96], threads[24] = "";
    if (!gpu)
        snprintf(threads, sizeof threads, " %ut", bench->threads);
    snprintf(shape, sizeof shape, "S=%u L=%u %uch %u block%s%s %s", run->work.taps_count,
             run->work.hop, run->work.channels, blocks, blocks == 1 ? "" : "s", threads,
             plan_info(run->work.plan)->variant);
    write_row(bench, gpu ? "gpu real time" : "cpu real time", shape, series_spread(&took).median,
              period_us, &share, gpu ? "<=0.3" : "<=1", "us", run->error);
    return true;
}

static void live(struct bench *bench)
{
    static const uint32_t batches[] = {1, 8};
    struct problem problem = {.text = "the device failed a batch"};
    struct run run = {
        .bench = bench,
        .work = {.channels = LIVE_CHANNELS,
                 .taps_count = engine_device(bench->engine)->gpu ? 1u << 20 : 1u << 16,
                 .hop = LIVE_BLOCK,
                 .blocks = batches[1]}};
    bool good = run_open(&run, &problem) == 0;
    for (size_t i = 0; good && i < sizeof batches / sizeof batches[0]; i++)
        good = live_row(bench, &run, batches[i]);
    if (!good) {
        printf("real time: %s\n", problem.text);
        bench->failed++;
    }
    diagonal_close(bench->engine, &run.work);
}

/* ---- arguments --------------------------------------------------------------------------- */

static const char usage[] =
    "usage: bench_partitioned [options]\n"
    "  --device NAME        auto, cpu, gpu, an index or a part of a name (default cpu)\n"
    "  --threads N          of the CPU device (default 1; growth counts processor time)\n"
    "  --variant NAME       default partitioned; auto: the engine's own choice\n"
    "  --growth             cost a sample beside zita-convolver\n"
    "  --real-time          64 channels at blocks of 64: 2^16 taps on a CPU, 2^20 on a GPU\n"
    "  --taps A,B,…         of growth (default 2^10, 2^12 … 2^20)\n"
    "  --programs DIR       of peer_zita_partitions\n"
    "  --csv FILE           append the table\n"
    "  --quick              fewer and shorter runs\n";

static bool taps_parse(struct bench *bench, char *text)
{
    bench->taps_count = 0;
    for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        const unsigned long value = strtoul(word, NULL, 10);
        if (value == 0 || value > TAPS_MAX || bench->taps_count == SIZES_MOST)
            return false;
        bench->taps[bench->taps_count++] = (uint32_t)value;
    }
    return bench->taps_count > 0;
}

static bool parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},   {"threads", required_argument, NULL, 't'},
        {"variant", required_argument, NULL, 'v'},  {"growth", no_argument, NULL, 'g'},
        {"real-time", no_argument, NULL, 'r'},      {"taps", required_argument, NULL, 's'},
        {"programs", required_argument, NULL, 'p'}, {"csv", required_argument, NULL, 'o'},
        {"quick", no_argument, NULL, 'q'},          {NULL, 0, NULL, 0},
    };
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'd':
            bench->device = optarg;
            break;
        case 't':
            bench->threads = (uint32_t)strtoul(optarg, NULL, 10);
            good = bench->threads > 0;
            break;
        case 'v':
            bench->variant = strcmp(optarg, "auto") == 0 ? NULL : optarg;
            break;
        case 'g':
            bench->growth = true;
            break;
        case 'r':
            bench->live = true;
            break;
        case 's':
            good = taps_parse(bench, optarg);
            break;
        case 'p':
            bench->programs = optarg;
            break;
        case 'o':
            bench->csv = optarg;
            break;
        case 'q':
            bench->quick = true;
            break;
        default:
            good = false;
        }
    return good && optind == argc && (bench->growth || bench->live);
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .device = "cpu",
        .variant = "partitioned",
        .programs = "build/gcc/bench",
        .threads = 1,
        .taps = {1u << 10, 1u << 12, 1u << 14, 1u << 16, 1u << 18, 1u << 20},
        .taps_count = 6,
        .bell = doorbell_open(),
        .noise = {20261121},
    };
    char command[512];
    measure_command(command, sizeof command, argc, argv);
    bench.command = command;
    if (!parse(&bench, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    log_set_level(LOG_LEVEL_WARNING);
    const struct engine_options options = {
        .device = bench.device,
        .cpu_threads = (int)bench.threads,
        .input_bytes = 1ull << 30,
        .spectrum_bytes = 3ull << 30,
        .state_bytes = 3ull << 30,
        .wake = ring_bell,
        .wake_context = &bench.bell,
    };
    struct problem problem;
    if (bench.bell < 0 || engine_open(&options, &bench.engine, &problem) != 0) {
        fprintf(stderr, "bench_partitioned: %s\n", bench.bell < 0 ? strerror(errno) : problem.text);
        return 1;
    }
    if (bench.csv != NULL)
        bench.results = bars_open("bench_partitioned", bench.csv);
    const struct device_info *device = engine_device(bench.engine);
    printf("\nlong filters on %s (driver %s); ours, peer, ratio [quartiles]\n", device->name,
           device->driver);
    if (bench.live)
        live(&bench);
    if (bench.growth && device->gpu)
        printf("growth is left out: it compares processors' time, and this device is a GPU\n");
    else if (bench.growth)
        growth(&bench);
    peer_program_stop(&bench.zita);
    if (bench.results != NULL)
        fclose(bench.results);
    engine_close(bench.engine);
    close(bench.bell);
    if (bench.wrong + bench.failed > 0)
        printf("\n%u rows out of the error bound, %u failed\n", bench.wrong, bench.failed);
    return bench.wrong + bench.failed > 0 ? 1 : 0;
}
