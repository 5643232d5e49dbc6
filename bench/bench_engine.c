/*
 * Throughput and latency of the engine, through engine.h alone, beside FFTW in the same run.
 *
 * Every row is one shape: channels, N, hop L = N/2, S = L + 1 taps, a filter of its own for every
 * channel, interleaved wire bytes in, interleaved floats out. The contestants take turns
 * (ours, add, save, ours, add, save …), so that a ratio compares neighbours in time; figures are
 * medians with quartiles. Beside every speed stands the error against the definition in double at
 * random frames: a row whose error exceeds the bound is marked WRONG and the program fails.
 *
 * OpenCL CPU devices take their number of threads once a process, so one run has one number
 * of threads; bench/run runs it for each.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/peer.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "signal/reference.h"

enum {
    LIST_MAX = 16,
    VARIANTS_MAX = 8,
    CONTESTANTS_MAX = VARIANTS_MAX + PEER_METHODS,
    IN_FLIGHT = 3,
    CHECKED_FRAMES = 48,
    LATENCY_RUNS_MIN = 30,
};

/* Figures of the default run and of QUICK=1. */
struct effort {
    uint32_t repetitions;
    int64_t repetition_ns;  /* a repetition lasts at least this long */
    uint32_t latency_runs;  /* at most, and at least LATENCY_RUNS_MIN */
    int64_t latency_ns;     /* spent on them, all contestants together */
    uint64_t batch_samples; /* frames · channels of one batch */
};

static const struct effort thorough = {9, 8 * NS_PER_MS, 400, 400 * NS_PER_MS, 1u << 20};
static const struct effort quick = {7, 4 * NS_PER_MS, 150, 150 * NS_PER_MS, 1u << 19};

struct list {
    uint32_t count;
    uint32_t values[LIST_MAX];
};

struct bench {
    struct effort effort;
    const char *device;
    uint32_t threads;
    uint32_t blocks; /* of a batch; 0: as many as the effort's samples hold */
    uint32_t decimate; /* D of our plans; the peers keep all */
    struct list channels, fft;
    const char *formats[LIST_MAX];
    uint32_t format_count;
    const char *variants[VARIANTS_MAX]; /* NULL: the engine's own choice */
    uint32_t variant_count;
    const char *kernels_dir;
    const char *csv, *bars;
    const char *command; /* that repeats it */
    struct engine *engine;
    int doorbell;
    struct random_state random;
    uint32_t wrong, failed;
};

struct shape {
    uint32_t channels, fft, hop, blocks;
    const char *format_name;
    struct sample_format format;
    enum peer_sample sample;
};

/* One way to compute a row, ours or the peer's, and what was measured of it. */
struct contestant {
    char name[48];
    struct plan *plan; /* ours */
    struct peer *peer; /* theirs */
    enum peer_method method;
    uint64_t position; /* of the next block: runs continue each other, as a stream does */
    bool uploaded;
    struct series rate;    /* Msamples/s */
    struct series latency; /* of one block [us] */
    double error;          /* ||e||2 / ||y||2 */
    bool within;
};

struct row {
    struct bench *bench;
    struct shape shape;
    struct ring *ring;
    struct taps **taps; /* [channels] */
    float **taps_f32;   /* [channels] */
    float *output;      /* [blocks · hop · channels], for the peers */
    struct contestant contestants[CONTESTANTS_MAX];
    uint32_t count, ours;
};

/* ---- runs -------------------------------------------------------------------------------- */

static void wake(void *context)
{
    const struct bench *bench = context;
    const uint64_t one = 1;
    (void)!write(bench->doorbell, &one, sizeof one);
}

static struct batch *wait_completed(struct bench *bench)
{
    for (;;) {
        struct batch *batch = engine_completed(bench->engine);
        if (batch != NULL)
            return batch;
        uint64_t wakes;
        (void)!read(bench->doorbell, &wakes, sizeof wakes);
    }
}

static void submit(struct row *row, struct contestant *ours, uint32_t blocks)
{
    const uint32_t hop = row->shape.hop;
    struct batch *batch = engine_batch_take(row->bench->engine);
    assert(batch != NULL);
    const struct batch_item item = {
        .plan = ours->plan,
        .ring = row->ring,
        .position = ours->position,
        .epoch_block = ours->position / hop,
        .blocks = blocks,
        .write_until = blocks * hop,
        .fresh_from = ours->uploaded ? ours->position : 0,
        .fresh_until = ours->position + (uint64_t)blocks * hop,
    };
    const int error = engine_batch_add(row->bench->engine, batch, &item);
    assert(error == 0);
    (void)error;
    ours->uploaded = true;
    ours->position += (uint64_t)blocks * hop;
    engine_submit(row->bench->engine, batch);
}

/* `batches` batches, the next submitted before the last is complete; the last one is left in
 * row->output when asked for. False when the device failed. */
static bool run_ours(struct row *row, struct contestant *ours, uint32_t batches, uint32_t blocks,
                     bool keep)
{
    struct bench *bench = row->bench;
    uint32_t submitted = 0, completed = 0;
    bool good = true;
    while (completed < batches) {
        while (submitted < batches && submitted - completed < IN_FLIGHT) {
            submit(row, ours, blocks);
            submitted++;
        }
        struct batch *batch = wait_completed(bench);
        good &= batch->status == BATCH_OK;
        measure_use(batch->items[0].samples);
        if (keep && good)
            memcpy(row->output, batch->items[0].samples,
                   (size_t)blocks * (row->shape.hop / bench->decimate) * row->shape.channels *
                       sizeof(float));
        engine_batch_release(bench->engine, batch);
        completed++;
    }
    return good;
}

static bool run_peer(struct row *row, struct contestant *theirs, uint32_t batches, uint32_t blocks)
{
    for (uint32_t i = 0; i < batches; i++) {
        peer_run(theirs->peer, theirs->method, theirs->position, blocks, row->output);
        theirs->position += (uint64_t)blocks * row->shape.hop;
    }
    measure_use(row->output);
    return true;
}

static bool run(struct row *row, struct contestant *contestant, uint32_t batches, uint32_t blocks)
{
    return contestant->plan != NULL ? run_ours(row, contestant, batches, blocks, false)
                                    : run_peer(row, contestant, batches, blocks);
}

/* ---- correctness ------------------------------------------------------------------------- */

static double input_at(const struct row *row, uint64_t position, uint32_t channel)
{
    const struct ring *ring = row->ring;
    const uint8_t *frame = ring->bytes + (position & (ring->frames - 1)) * ring->frame_bytes;
    return sample_decode(&row->shape.format, frame + channel * row->shape.format.bytes);
}

/* One more run, compared with the definition at random frames of random channels. */
static bool check(struct row *row, struct contestant *contestant)
{
    const struct shape *shape = &row->shape;
    const uint64_t position = contestant->position;
    const uint32_t decimate = contestant->plan != NULL ? row->bench->decimate : 1;
    if (contestant->plan != NULL) {
        if (!run_ours(row, contestant, 1, shape->blocks, true))
            return false;
    } else {
        run_peer(row, contestant, 1, shape->blocks);
    }
    float got[CHECKED_FRAMES];
    double want[CHECKED_FRAMES];
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const uint32_t channel = random_below(&row->bench->random, shape->channels);
        const uint32_t place =
            random_below(&row->bench->random, shape->blocks * shape->hop / decimate);
        const uint32_t frame = place * decimate;
        const struct taps *taps = row->taps[channel];
        want[i] = 0;
        for (uint32_t s = 0; s < taps->count; s++)
            want[i] += taps->re[s] * input_at(row, position + frame - s, channel);
        got[i] = row->output[(size_t)place * shape->channels + channel];
    }
    /* White noise is the pass band: the bound relative to the output alone applies. */
    struct error_bound bound;
    contestant->within = error_bound_check(got, 1, want, CHECKED_FRAMES, 0, 0, 0, &bound);
    contestant->error = bound.e2 / bound.want2;
    return true;
}

/* ---- one row ----------------------------------------------------------------------------- */

static bool measure(struct row *row)
{
    const struct effort *effort = &row->bench->effort;
    const double samples = (double)row->shape.blocks * row->shape.hop * row->shape.channels;
    uint32_t batches[CONTESTANTS_MAX] = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        struct contestant *contestant = &row->contestants[i];
        if (!check(row, contestant)) /* warms caches up too */
            return false;
        const int64_t from_ns = clock_monotonic_ns();
        if (!run(row, contestant, IN_FLIGHT, row->shape.blocks))
            return false;
        const int64_t took_ns = (clock_monotonic_ns() - from_ns) / IN_FLIGHT + 1;
        const int64_t wanted = effort->repetition_ns / took_ns;
        batches[i] = wanted < IN_FLIGHT + 1 ? IN_FLIGHT + 1 : (uint32_t)wanted;
    }
    for (uint32_t repetition = 0; repetition < effort->repetitions; repetition++)
        for (uint32_t i = 0; i < row->count; i++) {
            struct contestant *contestant = &row->contestants[i];
            const int64_t from_ns = clock_monotonic_ns();
            if (!run(row, contestant, batches[i], row->shape.blocks))
                return false;
            const double took_us = (double)(clock_monotonic_ns() - from_ns) / 1e3;
            series_add(&contestant->rate, samples * batches[i] / took_us);
        }
    const int64_t until_ns = clock_monotonic_ns() + effort->latency_ns;
    for (uint32_t repetition = 0; repetition < effort->latency_runs; repetition++) {
        if (repetition >= LATENCY_RUNS_MIN && clock_monotonic_ns() > until_ns)
            break;
        for (uint32_t i = 0; i < row->count; i++) {
            struct contestant *contestant = &row->contestants[i];
            const int64_t from_ns = clock_monotonic_ns();
            if (!run(row, contestant, 1, 1))
                return false;
            series_add(&contestant->latency, (double)(clock_monotonic_ns() - from_ns) / 1e3);
        }
    }
    return true;
}

static void row_close(struct row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        plan_close(row->contestants[i].plan);
        if (i + 1 == row->count) /* the methods share one peer */
            peer_close(row->contestants[i].peer);
    }
    engine_ring_close(row->bench->engine, row->ring);
    for (uint32_t c = 0; c < row->shape.channels; c++) {
        if (row->taps != NULL)
            taps_free(row->taps[c]);
        if (row->taps_f32 != NULL)
            free(row->taps_f32[c]);
    }
    free(row->taps);
    free(row->taps_f32);
    free(row->output);
}

static int fill_ring(struct row *row, struct problem *problem)
{
    const struct shape *shape = &row->shape;
    const uint32_t frame_bytes = shape->format.bytes * shape->channels;
    const uint64_t reach = 2ull * shape->fft + (IN_FLIGHT + 1ull) * shape->blocks * shape->hop;
    int error = engine_ring_open(row->bench->engine, reach, frame_bytes, &row->ring, problem);
    if (error != 0)
        return error;
    const uint64_t samples = (uint64_t)row->ring->frames * shape->channels;
    for (uint64_t i = 0; i < samples; i++)
        sample_encode(&shape->format, 2 * random_unit(&row->bench->random) - 1,
                      row->ring->bytes + i * shape->format.bytes);
    memset(row->ring->present, 0xff, row->ring->frames / 8);
    return 0;
}

static int make_taps(struct row *row, struct problem *problem)
{
    const uint32_t channels = row->shape.channels, count = row->shape.hop + 1;
    row->taps = calloc(channels, sizeof(*row->taps));
    row->taps_f32 = calloc(channels, sizeof *row->taps_f32);
    if (row->taps == NULL || row->taps_f32 == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for %u filters", channels);
    for (uint32_t c = 0; c < channels; c++) {
        const int error = taps_create(count, false, &row->taps[c], problem);
        row->taps_f32[c] = malloc(count * sizeof(float));
        if (error != 0 || row->taps_f32[c] == NULL)
            return error != 0 ? error
                              : problem_set(problem, ERROR_MEMORY, "out of memory for a filter");
        for (uint32_t s = 0; s < count; s++) {
            row->taps_f32[c][s] = (float)(2 * random_unit(&row->bench->random) - 1);
            row->taps[c]->re[s] = (double)row->taps_f32[c][s];
        }
    }
    return 0;
}

/* Channel c through filter c to output c. */
static int add_ours(struct row *row, const char *variant, struct problem *problem)
{
    const struct shape *shape = &row->shape;
    const uint32_t channels = shape->channels;
    struct channel_scale *scales = calloc(channels, sizeof *scales);
    struct edge *edges = calloc(channels, sizeof *edges);
    enum output_form *outputs = calloc(channels, sizeof *outputs);
    int error = ERROR_MEMORY;
    if (scales != NULL && edges != NULL && outputs != NULL) {
        for (uint32_t c = 0; c < channels; c++) {
            scales[c] = (struct channel_scale){.full_scale = 1};
            edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1.0f};
            outputs[c] = OUTPUT_REAL;
        }
        const struct plan_spec spec = {
            .inputs = channels,
            .format = shape->format,
            .scales = scales,
            .taps = (const struct taps *const *)row->taps,
            .taps_count = channels,
            .edges = edges,
            .edge_count = channels,
            .outputs = outputs,
            .outputs_count = channels,
            .hop = shape->hop,
            .blocks_max = shape->blocks,
            .fft = shape->fft,
            .decimate = row->bench->decimate,
            .variant = variant,
        };
        struct contestant *ours = &row->contestants[row->count];
        error = plan_prepare(row->bench->engine, &spec, &ours->plan, problem);
        if (error == 0) {
            snprintf(ours->name, sizeof ours->name, "%s", plan_info(ours->plan)->variant);
            ours->position = 2ull * shape->fft;
            row->count = ++row->ours;
        }
    }
    free(scales);
    free(edges);
    free(outputs);
    return error;
}

static int add_peers(struct row *row, struct problem *problem)
{
    const struct peer_shape shape = {
        .ring = row->ring,
        .sample = row->shape.sample,
        .scale = 1,
        .channels = row->shape.channels,
        .fft = row->shape.fft,
        .hop = row->shape.hop,
        .threads = row->bench->threads,
        .blocks_max = row->shape.blocks,
        .taps = (const float *const *)row->taps_f32,
        .taps_count = row->shape.hop + 1,
    };
    struct peer *peer;
    const int error = peer_open(&shape, &peer, problem);
    if (error != 0)
        return error == ERROR_UNSUPPORTED ? 0 : error;
    for (int method = 0; method < PEER_METHODS; method++) {
        struct contestant *theirs = &row->contestants[row->count++];
        snprintf(theirs->name, sizeof theirs->name, "%s", peer_name((enum peer_method)method));
        theirs->peer = peer;
        theirs->method = (enum peer_method)method;
        theirs->position = 2ull * row->shape.fft;
    }
    return 0;
}

/* ---- tables ------------------------------------------------------------------------------ */

static const char csv_head[] =
    "time,commit,device,driver,threads,format,channels,fft,hop,taps,blocks,contestant,"
    "msamples_q1,msamples,msamples_q3,error,within,latency_p50_us,latency_p99_us,"
    "over_add_q1,over_add,over_add_q3,over_save_q1,over_save,over_save_q3";

/* One line a bar, as bench/check.py reads them. */
static const char bars_head[] = "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command";

static const struct {
    const char *what, *bar;
    enum peer_method method;
    uint32_t channels_least, channels_most;
} bars[] = {
    {"cpu against FFTW overlap-save", ">=2.5", PEER_OVERLAP_SAVE, 16, UINT32_MAX},
    {"cpu against FFTW right-angle", ">=1.3", PEER_RIGHT_ANGLE, 16, UINT32_MAX},
    {"cpu against FFTW planar", ">=1.8", PEER_OVERLAP_SAVE, 1, 2},
};

static void print_head(const struct bench *bench, const char *format_name)
{
    const struct device_info *device = engine_device(bench->engine);
    printf("\nengine on %s (driver %s), %u CPU thread%s, interleaved %s in, float32 out\n"
           "L = N/2, S = L + 1, a filter a channel; Msamples/s: median of %u runs [quartiles], "
           "ratios of neighbouring runs;\nerror: ||e||2 / ||y||2; latency of one block [us], "
           "p50/p99\n",
           device->name, device->driver, bench->threads, bench->threads == 1 ? "" : "s",
           format_name, bench->effort.repetitions);
    printf("%3s %6s  %-18s %8s %-19s %-17s %-17s %-17s %8s %9s %9s\n", "ch", "N", "", "Ms/s", "",
           "/ overlap-add", "/ overlap-save", "/ right-angle", "error", "p50", "p99");
}

static void csv_spread(FILE *csv, const struct series *series)
{
    const struct spread spread = series_spread(series);
    if (series->count > 0)
        fprintf(csv, ",%.4g,%.4g,%.4g", spread.q1, spread.median, spread.q3);
    else
        fprintf(csv, ",,,");
}

static void print_ratio(const struct series *ratio)
{
    const struct spread spread = series_spread(ratio);
    if (ratio->count > 0)
        printf(" %5.2f [%.2f %.2f]", spread.median, spread.q1, spread.q3);
    else
        printf(" %17s", "");
}

static void print_contestant(struct row *row, uint32_t which, FILE *csv)
{
    const struct bench *bench = row->bench;
    const struct shape *shape = &row->shape;
    const struct contestant *it = &row->contestants[which];
    struct series over[PEER_METHODS] = {{.count = 0}};
    if (it->plan != NULL && row->count > row->ours)
        for (int method = 0; method < PEER_METHODS; method++)
            series_ratio(&it->rate, &row->contestants[row->ours + (uint32_t)method].rate,
                         &over[method]);
    const struct spread rate = series_spread(&it->rate);
    const double p50 = series_quantile(&it->latency, 0.5),
                 p99 = series_quantile(&it->latency, 0.99);
    char quartiles[32];
    snprintf(quartiles, sizeof quartiles, "[%.1f %.1f]", rate.q1, rate.q3);
    printf("%3u %6u  %-18s %8.1f %-19s", shape->channels, shape->fft, it->name, rate.median,
           quartiles);
    print_ratio(&over[PEER_OVERLAP_ADD]);
    print_ratio(&over[PEER_OVERLAP_SAVE]);
    print_ratio(&over[PEER_RIGHT_ANGLE]);
    printf(" %8.1e %9.1f %9.1f%s\n", it->error, p50, p99, it->within ? "" : "  WRONG");
    if (csv == NULL)
        return;
    const char *commit = getenv("BENCH_COMMIT");
    const struct device_info *device = engine_device(bench->engine);
    const time_t now = time(NULL);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(csv, "%s,%s,\"%s\",\"%s\",%u,%s,%u,%u,%u,%u,%u,%s", stamp, commit != NULL ? commit : "",
            device->name, device->driver, bench->threads, shape->format_name, shape->channels,
            shape->fft, shape->hop, shape->hop + 1, shape->blocks, it->name);
    csv_spread(csv, &it->rate);
    fprintf(csv, ",%.3g,%s,%.1f,%.1f", it->error, it->within ? "yes" : "no", p50, p99);
    csv_spread(csv, &over[PEER_OVERLAP_ADD]);
    csv_spread(csv, &over[PEER_OVERLAP_SAVE]);
    fprintf(csv, "\n");
    fflush(csv);
}

static void write_bar(const struct row *row, FILE *file, const char *what, const char *bar,
                      const char *unit, const struct series *mine, const struct series *theirs)
{
    const struct shape *shape = &row->shape;
    const struct contestant *ours = &row->contestants[0];
    struct series ratio;
    series_ratio(mine, theirs, &ratio);
    const struct spread spread = series_spread(&ratio);
    fprintf(file, "%s,N=%u channels=%u threads=%u,%.5g,%.5g,%.4f,%s,%s,%.4f,%.4f…%.4f,%.3g,\"%s\"\n",
            what, shape->fft, shape->channels, row->bench->threads, series_spread(mine).median,
            series_spread(theirs).median, spread.median, bar, unit, spread.median, spread.q1,
            spread.q3, ours->within ? ours->error : 1.0, row->bench->command);
}

/* The row's lines for the bars: of the engine's choice on a CPU, interleaved float input. Batches of
 * one block are asked for to see their latency, others for their rate. */
static void write_bars(const struct row *row, FILE *file)
{
    const struct shape *shape = &row->shape;
    const struct contestant *ours = &row->contestants[0];
    if (row->ours != 1 || row->count == row->ours || strcmp(shape->format_name, "f32le") != 0 ||
        engine_device(row->bench->engine)->gpu)
        return;
    if (row->bench->blocks == 1)
        write_bar(row, file, "cpu latency", "<=1.5", "us", &ours->latency,
                  &row->contestants[row->ours + PEER_OVERLAP_SAVE].latency);
    for (size_t i = 0; row->bench->blocks == 0 && i < sizeof bars / sizeof bars[0]; i++)
        if (shape->channels >= bars[i].channels_least && shape->channels <= bars[i].channels_most)
            write_bar(row, file, bars[i].what, bars[i].bar, "Msamples/s", &ours->rate,
                      &row->contestants[row->ours + (uint32_t)bars[i].method].rate);
    fflush(file);
}

static void bench_row(struct bench *bench, const struct shape *shape, FILE *csv, FILE *bars_file)
{
    struct row *row = calloc(1, sizeof *row);
    struct problem problem = {.text = "out of memory"};
    if (row == NULL)
        goto failed;
    row->bench = bench;
    row->shape = *shape;
    row->output = malloc((size_t)shape->blocks * shape->hop * shape->channels * sizeof(float));
    if (row->output == NULL || make_taps(row, &problem) != 0 || fill_ring(row, &problem) != 0)
        goto failed;
    for (uint32_t i = 0; i < bench->variant_count; i++)
        if (add_ours(row, bench->variants[i], &problem) != 0)
            printf("%3u %6u  %s: %s\n", shape->channels, shape->fft,
                   bench->variants[i] != NULL ? bench->variants[i] : "engine", problem.text);
    if (row->ours == 0 || add_peers(row, &problem) != 0)
        goto failed;
    snprintf(problem.text, sizeof problem.text, "the device failed a batch");
    if (!measure(row))
        goto failed;
    for (uint32_t i = 0; i < row->count; i++) {
        print_contestant(row, i, csv);
        bench->wrong += !row->contestants[i].within;
    }
    if (bars_file != NULL)
        write_bars(row, bars_file);
    goto done;

failed:
    printf("%3u %6u  FAILED: %s\n", shape->channels, shape->fft, problem.text);
    bench->failed++;
done:
    fflush(stdout);
    if (row != NULL)
        row_close(row);
    free(row);
}

static void bench_format(struct bench *bench, const char *format_name, FILE *csv, FILE *bars_file)
{
    static const struct {
        const char *name;
        enum peer_sample sample;
    } samples[] = {{"f32le", PEER_F32LE}, {"s16le", PEER_S16LE}, {"s16be", PEER_S16BE}};
    struct shape shape = {.format_name = format_name};
    uint32_t known = 0;
    while (known < sizeof samples / sizeof samples[0] &&
           strcmp(samples[known].name, format_name) != 0)
        known++;
    if (known == sizeof samples / sizeof samples[0] ||
        sample_format_parse(format_name, &shape.format) != 0) {
        fprintf(stderr, "bench_engine: --formats takes f32le, s16le and s16be, not '%s'\n",
                format_name);
        bench->failed++;
        return;
    }
    shape.sample = samples[known].sample;
    print_head(bench, format_name);
    for (uint32_t c = 0; c < bench->channels.count; c++)
        for (uint32_t n = 0; n < bench->fft.count; n++) {
            shape.channels = bench->channels.values[c];
            shape.fft = bench->fft.values[n];
            shape.hop = shape.fft / 2;
            const uint64_t blocks =
                bench->effort.batch_samples / ((uint64_t)shape.hop * shape.channels);
            shape.blocks = blocks < 1 ? 1 : blocks > 4096 ? 4096 : (uint32_t)blocks;
            if (bench->blocks != 0)
                shape.blocks = bench->blocks;
            bench_row(bench, &shape, csv, bars_file);
        }
}

/* ---- arguments --------------------------------------------------------------------------- */

static const char usage[] =
    "usage: bench_engine [options]\n"
    "  --device NAME        auto, cpu, gpu, an index or a part of a name (default cpu)\n"
    "  --threads N          of the CPU device and of FFTW (default 1)\n"
    "  --channels A,B,…     default 1,2,16,64\n"
    "  --fft A,B,…          N: powers of two (default 256,1024,4096,16384)\n"
    "  --formats A,B,…      f32le, s16le, s16be (default f32le,s16be)\n"
    "  --blocks N           of a batch (default: a million samples); 1 asks for the latency\n"
    "  --decimate D         our plans keep every D-th frame, a power of two up to N/2\n"
    "  --variants A,B,…     names of the engine's variants; default: its own choice\n"
    "  --kernels DIR        kernels from there instead of the embedded ones\n"
    "  --csv FILE           append the table\n"
    "  --bars FILE          append a line for every bar, as bench/check.py reads them\n"
    "  --quick              fewer and shorter runs\n";

static bool list_parse(const char *text, struct list *list)
{
    list->count = 0;
    while (list->count < LIST_MAX) {
        char *end;
        errno = 0;
        const unsigned long value = strtoul(text, &end, 10);
        if (errno != 0 || end == text || value == 0 || value > 1u << 20 ||
            (*end != ',' && *end != '\0'))
            return false;
        list->values[list->count++] = (uint32_t)value;
        if (*end == '\0')
            return true;
        text = end + 1;
    }
    return false;
}

static uint32_t split(char *text, const char **names, uint32_t capacity)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(text, ",", &rest); name != NULL && count < capacity;
         name = strtok_r(NULL, ",", &rest))
        names[count++] = name;
    return count;
}

static bool parse_arguments(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},   {"threads", required_argument, NULL, 't'},
        {"channels", required_argument, NULL, 'c'}, {"fft", required_argument, NULL, 'n'},
        {"formats", required_argument, NULL, 'f'},  {"variants", required_argument, NULL, 'v'},
        {"kernels", required_argument, NULL, 'k'},  {"csv", required_argument, NULL, 'o'},
        {"bars", required_argument, NULL, 'b'},     {"quick", no_argument, NULL, 'q'},
        {"blocks", required_argument, NULL, 'j'},   {"help", no_argument, NULL, 'h'},
        {"decimate", required_argument, NULL, 'D'},
        {NULL, 0, NULL, 0},
    };
    struct list threads = {1, {1}}, blocks = {1, {0}}, decimate = {1, {1}};
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        switch (option) {
        case 'd':
            bench->device = optarg;
            break;
        case 't':
            good = list_parse(optarg, &threads) && threads.count == 1;
            break;
        case 'c':
            good = list_parse(optarg, &bench->channels);
            break;
        case 'n':
            good = list_parse(optarg, &bench->fft);
            break;
        case 'f':
            bench->format_count = split(optarg, bench->formats, LIST_MAX);
            break;
        case 'v':
            bench->variant_count = split(optarg, bench->variants, VARIANTS_MAX);
            break;
        case 'k':
            bench->kernels_dir = optarg;
            break;
        case 'o':
            bench->csv = optarg;
            break;
        case 'b':
            bench->bars = optarg;
            break;
        case 'q':
            bench->effort = quick;
            break;
        case 'j':
            good = list_parse(optarg, &blocks) && blocks.count == 1 && blocks.values[0] <= 4096;
            break;
        case 'D':
            good = list_parse(optarg, &decimate) && decimate.count == 1;
            break;
        default:
            good = false;
        }
    bench->decimate = decimate.values[0];
    bench->threads = threads.values[0];
    bench->blocks = blocks.values[0];
    for (uint32_t i = 0; i < bench->fft.count; i++)
        good &=
            bench->fft.values[i] >= 64 &&
            (bench->fft.values[i] & (bench->fft.values[i] - 1)) == 0 &&
            bench->fft.values[i] / 2 % bench->decimate == 0;
    for (uint32_t i = 0; i < bench->channels.count; i++)
        good &= bench->channels.values[i] <= 1024;
    return good && optind == argc;
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .effort = thorough,
        .device = "cpu",
        .channels = {4, {1, 2, 16, 64}},
        .fft = {4, {256, 1024, 4096, 16384}},
        .formats = {"f32le", "s16be"},
        .format_count = 2,
        .variant_count = 1,
        .doorbell = eventfd(0, EFD_CLOEXEC),
        .random = {20261121},
    };
    if (!parse_arguments(&bench, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    char command[512] = "";
    for (int i = 0; i < argc; i++)
        snprintf(command + strlen(command), sizeof command - strlen(command), "%s%s",
                 i > 0 ? " " : "", argv[i]);
    bench.command = command;
    const struct engine_options options = {
        .device = bench.device,
        .cpu_threads = (int)bench.threads,
        .kernels_dir = bench.kernels_dir,
        .batches = IN_FLIGHT + 1,
        .input_bytes = 256u << 20,
        .batch_output_floats = 2 * bench.effort.batch_samples + (1u << 20),
        .wake = wake,
        .wake_context = &bench,
    };
    struct problem problem;
    if (bench.doorbell < 0 || engine_open(&options, &bench.engine, &problem) != 0) {
        fprintf(stderr, "bench_engine: %s\n", bench.doorbell < 0 ? strerror(errno) : problem.text);
        return 1;
    }
    FILE *csv = NULL;
    if (bench.csv != NULL && (csv = results_open(bench.csv, csv_head)) == NULL)
        fprintf(stderr, "bench_engine: %s: %s; nothing is saved\n", bench.csv, strerror(errno));
    FILE *bars_file = NULL;
    if (bench.bars != NULL && (bars_file = results_open(bench.bars, bars_head)) == NULL)
        fprintf(stderr, "bench_engine: %s: %s; nothing is saved\n", bench.bars, strerror(errno));
    for (uint32_t i = 0; i < bench.format_count; i++)
        bench_format(&bench, bench.formats[i], csv, bars_file);
    if (csv != NULL)
        fclose(csv);
    if (bars_file != NULL)
        fclose(bars_file);
    engine_close(bench.engine);
    close(bench.doorbell);
    if (bench.wrong + bench.failed > 0)
        printf("\n%u rows out of the error bound, %u failed\n", bench.wrong, bench.failed);
    return bench.wrong + bench.failed > 0 ? 1 : 0;
}
