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
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/diagonal.h"
#include "bench/engine_row.h"
#include "core/clock.h"
#include "core/log.h"

enum { LIST_MAX = 16 };

static const struct effort thorough = {9, 8 * NS_PER_MS, 400, 400 * NS_PER_MS, 1u << 20};
static const struct effort quick = {7, 4 * NS_PER_MS, 150, 150 * NS_PER_MS, 1u << 19};

struct list {
    uint32_t count;
    uint32_t values[LIST_MAX];
};

struct bench {
    struct stand stand;
    const char *device;
    uint32_t blocks; /* of a batch; 0: as many as the effort's samples hold */
    struct list channels, fft;
    const char *formats[LIST_MAX];
    uint32_t format_count;
    const char *variants[VARIANTS_MAX]; /* NULL: the engine's own choice */
    uint32_t variant_count;
    const char *kernels_dir;
    const char *csv, *bars;
    const char *command; /* that repeats it */
    uint32_t wrong, failed;
};

/* ---- tables ------------------------------------------------------------------------------ */

static const char csv_head[] =
    "time,commit,device,driver,threads,format,channels,fft,hop,taps,blocks,contestant,"
    "msamples_q1,msamples,msamples_q3,error,within,latency_p50_us,latency_p99_us,"
    "over_add_q1,over_add,over_add_q3,over_save_q1,over_save,over_save_q3";

/* One line a bar, as bench/check.py reads them. */
static const struct {
    const char *what, *bar;
    enum peer_method method;
    uint32_t channels_least, channels_most;
} bars[] = {
    {"cpu against FFTW overlap-save", ">=2.5", PEER_OVERLAP_SAVE, 16, UINT32_MAX},
    {"cpu against FFTW negacyclic", ">=1.3", PEER_NEGACYCLIC, 16, UINT32_MAX},
    {"cpu against FFTW planar", ">=1.8", PEER_OVERLAP_SAVE, 1, 2},
};

static void print_head(const struct bench *bench, const char *format_name)
{
    const struct device_info *device = engine_device(bench->stand.engine);
    printf("\nengine on %s (driver %s), %u CPU thread%s, interleaved %s in, float32 out\n"
           "L = N/2, S = L + 1, a filter a channel; Msamples/s: median of %u runs [quartiles], "
           "ratios of neighbouring runs;\nerror: ||e||2 / ||y||2; latency of one block [us], "
           "p50/p99\n",
           device->name, device->driver, bench->stand.threads, bench->stand.threads == 1 ? "" : "s",
           format_name, bench->stand.effort.repetitions);
    printf("%3s %6s  %-18s %8s %-19s %-17s %-17s %-17s %8s %9s %9s\n", "ch", "N", "", "Ms/s", "",
           "/ overlap-add", "/ overlap-save", "/ negacyclic", "error", "p50", "p99");
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

static void print_contestant(const struct row *row, uint32_t which, FILE *csv)
{
    const struct stand *stand = row->stand;
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
    print_ratio(&over[PEER_NEGACYCLIC]);
    printf(" %8.1e %9.1f %9.1f%s\n", it->error, p50, p99, it->within ? "" : "  WRONG");
    if (csv == NULL)
        return;
    const char *commit = getenv("BENCH_COMMIT");
    const struct device_info *device = engine_device(stand->engine);
    const time_t now = time(NULL);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(csv, "%s,%s,\"%s\",\"%s\",%u,%s,%u,%u,%u,%u,%u,%s", stamp, commit != NULL ? commit : "",
            device->name, device->driver, stand->threads, shape->format_name, shape->channels,
            shape->fft, shape->hop, shape->hop + 1, shape->blocks, it->name);
    csv_spread(csv, &it->rate);
    fprintf(csv, ",%.3g,%s,%.1f,%.1f", it->error, it->within ? "yes" : "no", p50, p99);
    csv_spread(csv, &over[PEER_OVERLAP_ADD]);
    csv_spread(csv, &over[PEER_OVERLAP_SAVE]);
    fprintf(csv, "\n");
    fflush(csv);
}

static void write_bar(const struct bench *bench, const struct row *row, FILE *file,
                      const char *what, const char *bar, const char *unit,
                      const struct series *mine, const struct series *theirs)
{
    const struct shape *shape = &row->shape;
    const struct contestant *ours = &row->contestants[0];
    struct series ratio;
    series_ratio(mine, theirs, &ratio);
    char text[80];
    snprintf(text, sizeof text, "N=%u channels=%u threads=%u", shape->fft, shape->channels,
             row->stand->threads);
    bars_write(file, &(struct bar_row){what, text, series_spread(mine).median,
                                       series_spread(theirs).median, series_spread(&ratio), bar,
                                       unit, ours->within ? ours->error : 1.0, bench->command});
}

/* The row's lines for the bars: of the engine's choice on a CPU, interleaved float input. Batches
 * of one block are asked for to see their latency, others for their rate. */
static void write_bars(const struct bench *bench, const struct row *row, FILE *file)
{
    const struct shape *shape = &row->shape;
    const struct contestant *ours = &row->contestants[0];
    if (row->ours != 1 || row->count == row->ours || strcmp(shape->format_name, "f32le") != 0 ||
        engine_device(row->stand->engine)->gpu)
        return;
    if (bench->blocks == 1)
        write_bar(bench, row, file, "cpu latency", "<=1.5", "us", &ours->latency,
                  &row->contestants[row->ours + PEER_OVERLAP_SAVE].latency);
    for (size_t i = 0; bench->blocks == 0 && i < sizeof bars / sizeof bars[0]; i++)
        if (shape->channels >= bars[i].channels_least && shape->channels <= bars[i].channels_most)
            write_bar(bench, row, file, bars[i].what, bars[i].bar, "Msamples/s", &ours->rate,
                      &row->contestants[row->ours + (uint32_t)bars[i].method].rate);
    fflush(file);
}

static void bench_row(struct bench *bench, const struct shape *shape, FILE *csv, FILE *bars_file)
{
    struct row *row = calloc(1, sizeof *row);
    struct problem problem = {.text = "out of memory"};
    if (row == NULL)
        goto failed;
    if (row_open(row, &bench->stand, shape, &problem) != 0)
        goto failed;
    for (uint32_t i = 0; i < bench->variant_count; i++)
        if (row_add_ours(row, bench->variants[i], &problem) != 0)
            printf("%3u %6u  %s: %s\n", shape->channels, shape->fft,
                   bench->variants[i] != NULL ? bench->variants[i] : "engine", problem.text);
    if (row->ours == 0 || row_add_peers(row, &problem) != 0)
        goto failed;
    snprintf(problem.text, sizeof problem.text, "the device failed a batch");
    if (!row_measure(row))
        goto failed;
    for (uint32_t i = 0; i < row->count; i++) {
        print_contestant(row, i, csv);
        bench->wrong += !row->contestants[i].within;
    }
    if (bars_file != NULL)
        write_bars(bench, row, bars_file);
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
                bench->stand.effort.batch_samples / ((uint64_t)shape.hop * shape.channels);
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
    "  --lanes W            vectors of the variant lanes: 16, 8 or 4 (default: the device's)\n"
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
        {"device", required_argument, NULL, 'd'},
        {"threads", required_argument, NULL, 't'},
        {"channels", required_argument, NULL, 'c'},
        {"fft", required_argument, NULL, 'n'},
        {"formats", required_argument, NULL, 'f'},
        {"variants", required_argument, NULL, 'v'},
        {"kernels", required_argument, NULL, 'k'},
        {"csv", required_argument, NULL, 'o'},
        {"bars", required_argument, NULL, 'b'},
        {"quick", no_argument, NULL, 'q'},
        {"blocks", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"decimate", required_argument, NULL, 'D'},
        {"lanes", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    struct list threads = {1, {1}}, blocks = {1, {0}}, decimate = {1, {1}};
    struct list lanes = {1, {0}};
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
            bench->stand.effort = quick;
            break;
        case 'j':
            good = list_parse(optarg, &blocks) && blocks.count == 1 && blocks.values[0] <= 4096;
            break;
        case 'D':
            good = list_parse(optarg, &decimate) && decimate.count == 1;
            break;
        case 'l':
            good = list_parse(optarg, &lanes) && lanes.count == 1;
            break;
        default:
            good = false;
        }
    bench->stand.vector = lanes.values[0];
    bench->stand.decimate = decimate.values[0];
    bench->stand.threads = threads.values[0];
    bench->blocks = blocks.values[0];
    for (uint32_t i = 0; i < bench->fft.count; i++)
        good &= bench->fft.values[i] >= 64 &&
                (bench->fft.values[i] & (bench->fft.values[i] - 1)) == 0 &&
                bench->fft.values[i] / 2 % bench->stand.decimate == 0;
    for (uint32_t i = 0; i < bench->channels.count; i++)
        good &= bench->channels.values[i] <= 1024;
    return good && optind == argc;
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .stand = {.effort = thorough, .doorbell = doorbell_open(), .random = {20261121}},
        .device = "cpu",
        .channels = {4, {1, 2, 16, 64}},
        .fft = {4, {256, 1024, 4096, 16384}},
        .formats = {"f32le", "s16be"},
        .format_count = 2,
        .variant_count = 1,
    };
    if (!parse_arguments(&bench, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    char command[512];
    measure_command(command, sizeof command, argc, argv);
    bench.command = command;
    const struct engine_options options = {
        .device = bench.device,
        .cpu_threads = (int)bench.stand.threads,
        .kernels_dir = bench.kernels_dir,
        .batches = ROW_IN_FLIGHT + 1,
        .input_bytes = 256u << 20,
        .batch_output_floats = 2 * bench.stand.effort.batch_samples + (1u << 20),
        .wake = ring_bell,
        .wake_context = &bench.stand.doorbell,
    };
    struct problem problem;
    if (bench.stand.doorbell < 0 || engine_open(&options, &bench.stand.engine, &problem) != 0) {
        fprintf(stderr, "bench_engine: %s\n",
                bench.stand.doorbell < 0 ? strerror(errno) : problem.text);
        return 1;
    }
    FILE *csv = NULL;
    if (bench.csv != NULL && (csv = results_open(bench.csv, csv_head)) == NULL)
        fprintf(stderr, "bench_engine: %s: %s; nothing is saved\n", bench.csv, strerror(errno));
    FILE *bars_file = NULL;
    if (bench.bars != NULL)
        bars_file = bars_open("bench_engine", bench.bars);
    for (uint32_t i = 0; i < bench.format_count; i++)
        bench_format(&bench, bench.formats[i], csv, bars_file);
    if (csv != NULL)
        fclose(csv);
    if (bars_file != NULL)
        fclose(bars_file);
    engine_close(bench.stand.engine);
    close(bench.stand.doorbell);
    if (bench.wrong + bench.failed > 0)
        printf("\n%u rows out of the error bound, %u failed\n", bench.wrong, bench.failed);
    return bench.wrong + bench.failed > 0 ? 1 : 0;
}
