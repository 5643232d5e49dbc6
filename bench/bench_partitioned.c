/*
 * Long filters at short blocks, through engine.h alone:
 *
 *     growth      what a sample costs as taps grow at blocks of 256 frames, beside zita-convolver's
 *                 non-uniform partitions (bench/peers/peer_zita_partitions.cc), in turns: ours,
 *                 zita, ours, zita … Both are told in processor time of the whole process, because
 *                 zita-convolver computes its longer partitions in threads of its own.
 *     real time   64 channels, a long filter of its own for each, blocks of 64 frames at 48 kHz:
 *                 the time of a block over its duration, by the clock. A batch is submitted when
 *                 the one before is complete, as a live stream does.
 *
 * Figures are medians with quartiles. Beside every speed stands the error against the definition
 * in double at random frames; a row out of the bound is marked WRONG and the program fails.
 *
 * One thread plays the loop.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"

enum {
    CHANNELS_MOST = 64,
    SIZES_MOST = 16,
    CHECKED_FRAMES = 48,
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
    pid_t child;
    FILE *ask, *answer;
    uint32_t wrong, failed;
};

/* One shape: a filter of its own for every channel, interleaved floats in and out. */
struct run {
    struct bench *bench;
    uint32_t channels, hop, taps_count, blocks;
    struct taps *taps[CHANNELS_MOST];
    struct plan *plan;
    struct ring *ring;
    uint64_t position; /* of the next block: runs continue each other, as a stream does */
    bool uploaded;
    double error;
};

static void wake(void *context)
{
    const uint64_t one = 1;
    ssize_t written = write(*(int *)context, &one, sizeof one);
    (void)written;
}

static double processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

/* ---- ours ------------------------------------------------------------------------------------ */

/* `blocks` blocks as one batch, waited for; NULL when the device failed or was silent. */
static struct batch *run_batch(struct run *run, uint32_t blocks)
{
    struct bench *bench = run->bench;
    struct batch *batch = engine_batch_take(bench->engine);
    const struct batch_item item = {
        .plan = run->plan,
        .ring = run->ring,
        .position = run->position,
        .epoch_block = run->position / run->hop,
        .blocks = blocks,
        .write_until = blocks * run->hop,
        .fresh_from = run->uploaded ? run->position : 0,
        .fresh_until = run->position + (uint64_t)blocks * run->hop,
    };
    if (batch == NULL || engine_batch_add(bench->engine, batch, &item) < 0)
        return NULL;
    run->uploaded = true;
    run->position += (uint64_t)blocks * run->hop;
    engine_submit(bench->engine, batch);
    while ((batch = engine_completed(bench->engine)) == NULL) {
        struct pollfd fd = {.fd = bench->bell, .events = POLLIN};
        uint64_t rings;
        if (poll(&fd, 1, 120000) <= 0 || read(bench->bell, &rings, sizeof rings) < 0)
            return NULL;
    }
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

static double input_at(const struct run *run, uint64_t position, uint32_t channel)
{
    const struct ring *ring = run->ring;
    const float *x = (const float *)(const void *)ring->bytes;
    return (double)x[(position & (ring->frames - 1)) * run->channels + channel];
}

/* ||e|| / ||y|| of one more batch at random frames. */
static bool check(struct run *run)
{
    const uint64_t position = run->position;
    struct batch *batch = run_batch(run, run->blocks);
    if (batch == NULL)
        return false;
    double error = 0, size = 0;
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const uint32_t n = random_below(&run->bench->noise, run->blocks * run->hop);
        const uint32_t c = random_below(&run->bench->noise, run->channels);
        double want = 0;
        for (uint32_t k = 0; k < run->taps_count; k++)
            want += run->taps[c]->re[k] * input_at(run, position + n - k, c);
        const double got = (double)batch->items[0].samples[(size_t)n * run->channels + c];
        error += (got - want) * (got - want);
        size += want * want;
    }
    engine_batch_release(run->bench->engine, batch);
    run->error = sqrt(error / size);
    run->bench->wrong += !(run->error <= error_bound);
    return true;
}

static int run_plan(struct run *run, struct problem *problem)
{
    struct channel_scale scales[CHANNELS_MOST] = {0};
    struct edge edges[CHANNELS_MOST];
    enum output_form forms[CHANNELS_MOST];
    for (uint32_t c = 0; c < run->channels; c++) {
        scales[c].full_scale = 1;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
        forms[c] = OUTPUT_REAL;
    }
    struct plan_spec spec = {
        .inputs = run->channels,
        .scales = scales,
        .taps = (const struct taps *const *)run->taps,
        .taps_count = run->channels,
        .edges = edges,
        .edge_count = run->channels,
        .outputs = forms,
        .outputs_count = run->channels,
        .hop = run->hop,
        .blocks_max = run->blocks,
        .variant = run->bench->variant,
    };
    sample_format_parse("f32le", &spec.format);
    return plan_prepare(run->bench->engine, &spec, &run->plan, problem);
}

static int run_open(struct run *run, struct problem *problem)
{
    struct bench *bench = run->bench;
    int error = 0;
    for (uint32_t c = 0; c < run->channels && error == 0; c++) {
        error = taps_create(run->taps_count, false, &run->taps[c], problem);
        for (uint32_t k = 0; k < run->taps_count && error == 0; k++)
            run->taps[c]->re[k] =
                (double)(float)((2 * random_unit(&bench->noise) - 1) / sqrt(run->taps_count));
    }
    if (error == 0)
        error = run_plan(run, problem);
    if (error < 0)
        return error;
    const uint64_t reach = plan_info(run->plan)->history_frames + 4ull * run->blocks * run->hop;
    error = engine_ring_open(bench->engine, reach, run->channels * (uint32_t)sizeof(float),
                             &run->ring, problem);
    if (error < 0)
        return error;
    float *x = (float *)(void *)run->ring->bytes;
    for (uint64_t i = 0; i < (uint64_t)run->ring->frames * run->channels; i++)
        x[i] = (float)(2 * random_unit(&bench->noise) - 1);
    memset(run->ring->present, 0xff, run->ring->frames / 8);
    run->position = 2ull * run->ring->frames; /* all of the history is there */
    if (!check(run))
        return problem_set(problem, ERROR_DEVICE, "the device failed a batch");
    return 0;
}

static void run_close(struct run *run)
{
    engine_ring_close(run->bench->engine, run->ring);
    plan_close(run->plan);
    for (uint32_t c = 0; c < run->channels; c++)
        taps_free(run->taps[c]);
}

/* ---- the peer -------------------------------------------------------------------------------- */

static bool peer_start(struct bench *bench)
{
    char path[4096];
    int to[2], from[2];
    snprintf(path, sizeof path, "%s/peer_zita_partitions", bench->programs);
    if (access(path, X_OK) != 0 || pipe(to) != 0 || pipe(from) != 0)
        return false;
    bench->child = fork();
    if (bench->child == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    bench->ask = fdopen(to[1], "w");
    bench->answer = fdopen(from[0], "r");
    return bench->child > 0 && bench->ask != NULL && bench->answer != NULL;
}

static void peer_stop(struct bench *bench)
{
    if (bench->ask != NULL)
        fclose(bench->ask);
    if (bench->answer != NULL)
        fclose(bench->answer);
    if (bench->child > 0)
        waitpid(bench->child, NULL, 0);
}

/* Nanoseconds of processor time a sample; 0 when it has ended. */
static double peer_cost(struct bench *bench, uint32_t taps, int64_t for_ns, double *error)
{
    double ns = 0;
    fprintf(bench->ask, "%d %d %u %lld\n", GROWTH_CHANNELS, GROWTH_BLOCK, taps, (long long)for_ns);
    if (fflush(bench->ask) != 0 || fscanf(bench->answer, "%lf %lf", &ns, error) != 2)
        return 0;
    return ns;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void write_row(struct bench *bench, const char *what, const char *shape, double ours,
                      double peer, const struct series *ratio, const char *bar, const char *unit,
                      double error)
{
    const struct spread spread = series_spread(ratio);
    printf("%-36s %-46s %9.4g %9.4g %-12s %6.3f [%.3f %.3f] %s error %.1e%s\n", what, shape, ours,
           peer, unit, spread.median, spread.q1, spread.q3, bar, error,
           error <= error_bound ? "" : " WRONG");
    fflush(stdout);
    if (bench->results == NULL)
        return;
    fprintf(bench->results, "%s,%s,%.6g,%.6g,%.4f,%s,%s,%.4f,%.4f…%.4f,%.3g,\"%s\"\n", what, shape,
            ours, peer, spread.median, bar, unit, spread.median, spread.q1, spread.q3, error,
            bench->command);
    fflush(bench->results);
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
    return (until_ns - from_ns) / ((double)done * run->hop * run->channels);
}

static bool growth_row(struct bench *bench, struct run *run)
{
    const int64_t for_ns = (bench->quick ? 40 : 150) * NS_PER_MS;
    const uint32_t repetitions = bench->quick ? 3 : 9;
    struct series batched = {0}, single = {0}, zita = {0}, ratio = {0}, ratio_single = {0};
    double error = 0;
    for (uint32_t i = 0; i <= repetitions; i++) {
        const double ours = own_cost(run, run->blocks, for_ns);
        const double alone = own_cost(run, 1, for_ns);
        const double theirs = peer_cost(bench, run->taps_count, for_ns, &error);
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
    snprintf(shape, sizeof shape, "S=%u L=%u %uch %s", run->taps_count, run->hop, run->channels,
             plan_info(run->plan)->variant);
    write_row(bench, "cpu growth against zita", shape, series_spread(&batched).median, peer, &ratio,
              "<=1.5", "ns/sample", worst);
    write_row(bench, "cpu growth against zita block by block", shape, series_spread(&single).median,
              peer, &ratio_single, "", "ns/sample", worst);
    return true;
}

static void growth(struct bench *bench)
{
    if (!peer_start(bench)) {
        printf("growth is left out: zita-convolver (libzita-convolver-dev) was not there when the "
               "benches were built\n");
        return;
    }
    for (uint32_t i = 0; i < bench->taps_count; i++) {
        struct problem problem = {.text = "the peer or the device failed"};
        struct run run = {.bench = bench,
                          .channels = GROWTH_CHANNELS,
                          .hop = GROWTH_BLOCK,
                          .taps_count = bench->taps[i],
                          .blocks = GROWTH_BATCH};
        if (run_open(&run, &problem) < 0 || !growth_row(bench, &run)) {
            printf("cpu growth S=%u: %s\n", bench->taps[i], problem.text);
            bench->failed++;
        }
        run_close(&run);
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
    snprintf(shape, sizeof shape, "S=%u L=%u %uch %u block%s%s %s", run->taps_count, run->hop,
             run->channels, blocks, blocks == 1 ? "" : "s", threads, plan_info(run->plan)->variant);
    write_row(bench, gpu ? "gpu real time" : "cpu real time", shape, series_spread(&took).median,
              period_us, &share, "<=1", "us", run->error);
    return true;
}

static void live(struct bench *bench)
{
    static const uint32_t batches[] = {1, 8};
    struct problem problem = {.text = "the device failed a batch"};
    struct run run = {.bench = bench,
                      .channels = LIVE_CHANNELS,
                      .hop = LIVE_BLOCK,
                      .taps_count = engine_device(bench->engine)->gpu ? 1u << 20 : 1u << 16,
                      .blocks = batches[1]};
    bool good = run_open(&run, &problem) == 0;
    for (size_t i = 0; good && i < sizeof batches / sizeof batches[0]; i++)
        good = live_row(bench, &run, batches[i]);
    if (!good) {
        printf("real time: %s\n", problem.text);
        bench->failed++;
    }
    run_close(&run);
}

/* ---- arguments ------------------------------------------------------------------------------- */

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
    static const char head[] = "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command";
    struct bench bench = {
        .device = "cpu",
        .variant = "partitioned",
        .programs = "build/gcc/bench",
        .threads = 1,
        .taps = {1u << 10, 1u << 12, 1u << 14, 1u << 16, 1u << 18, 1u << 20},
        .taps_count = 6,
        .bell = eventfd(0, EFD_CLOEXEC),
        .noise = {20261121},
    };
    char command[512] = "";
    for (int i = 0; i < argc; i++)
        snprintf(command + strlen(command), sizeof command - strlen(command), "%s%s",
                 i > 0 ? " " : "", argv[i]);
    bench.command = command;
    if (!parse(&bench, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    const struct engine_options options = {
        .device = bench.device,
        .cpu_threads = (int)bench.threads,
        .input_bytes = 1ull << 30,
        .spectrum_bytes = 3ull << 30,
        .state_bytes = 3ull << 30,
        .wake = wake,
        .wake_context = &bench.bell,
    };
    struct problem problem;
    if (bench.bell < 0 || engine_open(&options, &bench.engine, &problem) != 0) {
        fprintf(stderr, "bench_partitioned: %s\n", bench.bell < 0 ? strerror(errno) : problem.text);
        return 1;
    }
    if (bench.csv != NULL && (bench.results = results_open(bench.csv, head)) == NULL)
        fprintf(stderr, "bench_partitioned: %s: %s; nothing is saved\n", bench.csv,
                strerror(errno));
    const struct device_info *device = engine_device(bench.engine);
    printf("\nlong filters on %s (driver %s); ours, peer, ratio [quartiles]\n", device->name,
           device->driver);
    if (bench.live)
        live(&bench);
    if (bench.growth && device->gpu)
        printf("growth is left out: it compares processors' time, and this device is a GPU\n");
    else if (bench.growth)
        growth(&bench);
    peer_stop(&bench);
    if (bench.results != NULL)
        fclose(bench.results);
    engine_close(bench.engine);
    close(bench.bell);
    if (bench.wrong + bench.failed > 0)
        printf("\n%u rows out of the error bound, %u failed\n", bench.wrong, bench.failed);
    return bench.wrong + bench.failed > 0 ? 1 : 0;
}
