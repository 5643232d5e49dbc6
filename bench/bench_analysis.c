/*
 * bench_analysis: what the analysis `hits` costs, through its interface alone.
 *
 *     bench_analysis FILE CHANNELS RATE_HZ [KEY=VALUE …]
 *
 * FILE holds frames of interleaved float32. For each line on standard input the signal goes once
 * through the analysis, in runs of 1024 frames, and one line comes out: processor time [ns] and
 * hits. bench/bench_analysis.py makes the signals and lets other implementations take turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/analyses.h"

enum { RUN_FRAMES = 1024, VALUES_MAX = 64, LINE_BYTES = 64 };

static uint64_t hits;

static void count(void *context, const struct analysis_event *event)
{
    (void)context;
    hits += event->ordered;
}

static void report(void *context, const char *key, bool warning, const char *text)
{
    (void)context;
    fprintf(stderr, "bench_analysis: %s: %s\n", key != NULL ? key : "", text);
    if (!warning)
        exit(1);
}

static const struct option_value *written(void *context, const char *key)
{
    (void)context;
    (void)key;
    return NULL;
}

/* One value of a row, lists included. */
static void set_option(const struct analysis_options *options, const char *key, const char *text)
{
    static struct option_value values[VALUES_MAX];
    static unsigned used;
    const struct option_row *row =
        option_find(analysis_hits.options, analysis_hits.option_count, key);
    struct problem problem = {.text = "no such key"};
    if (row == NULL || used == VALUES_MAX || option_parse(row, text, &values[used], &problem) != 0)
        report(NULL, key, false, problem.text);
    option_store(row, &values[used++], 1, options->own);
}

static struct analysis *open_hits(struct analysis_options *options, int count_given, char **given)
{
    struct problem problem;
    struct analysis *analysis;
    for (unsigned i = 0; i < analysis_hits.option_count; i++)
        if (analysis_hits.options[i].fallback != NULL)
            set_option(options, analysis_hits.options[i].key, analysis_hits.options[i].fallback);
    for (int i = 0; i < count_given; i++) {
        char *equals = strchr(given[i], '=');
        if (equals == NULL)
            report(NULL, given[i], false, "write KEY=VALUE");
        *equals = '\0';
        set_option(options, given[i], equals + 1);
    }
    const struct option_check check = {.section = "bench", .report = report, .written = written};
    analysis_hits.check(&check, options);
    if (analysis_hits.open(options, &analysis, &problem) != 0)
        report(NULL, NULL, false, problem.text);
    return analysis;
}

static float *read_signal(const char *path, uint64_t *floats)
{
    FILE *file = fopen(path, "rb");
    long bytes = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        bytes = ftell(file);
    /* Aligned as the ring of the daemon's analyses, which is mapped. */
    float *samples =
        bytes > 0
            ? aligned_alloc(LINE_BYTES, ((size_t)bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES)
            : NULL;
    if (samples == NULL || fseek(file, 0, SEEK_SET) != 0 ||
        fread(samples, 1, (size_t)bytes, file) != (size_t)bytes)
        report(NULL, path, false, "cannot be read");
    fclose(file);
    *floats = (uint64_t)bytes / sizeof *samples;
    return samples;
}

/* Each time an epoch of its own. Returns the processor time [ns]. */
static double put(struct analysis *analysis, const float *samples, uint64_t frames,
                  uint32_t channels, uint64_t epoch)
{
    struct timespec from, until;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (uint64_t at = 0; at < frames; at += RUN_FRAMES) {
        const uint64_t left = frames - at;
        const struct analysis_run run = {
            .epoch = epoch,
            .first_frame = at,
            .frames = (uint32_t)(left < RUN_FRAMES ? left : RUN_FRAMES),
            .channels = channels,
            .samples = samples + at * channels,
            .history = at,
            .begins = at == 0,
            .ends = left <= RUN_FRAMES,
        };
        analysis_hits.put(analysis, &run);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &until);
    return (double)(until.tv_sec - from.tv_sec) * 1e9 + (double)(until.tv_nsec - from.tv_nsec);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_analysis FILE CHANNELS RATE_HZ [KEY=VALUE ...]\n");
        return 2;
    }
    uint64_t floats;
    float *samples = read_signal(argv[1], &floats);
    const uint32_t channels = (uint32_t)strtoul(argv[2], NULL, 10);
    const char **units = channels > 0 ? calloc(channels, sizeof *units) : NULL;
    if (units == NULL)
        report(NULL, argv[2], false, "is no number of channels");
    for (uint32_t c = 0; c < channels; c++)
        units[c] = "V";
    void *own = calloc(1, analysis_hits.options_bytes);
    struct analysis_options options = {
        .name = "bench",
        .stream = {.name = "bench",
                   .rate_hz = strtod(argv[3], NULL),
                   .channels = channels,
                   .units = units,
                   .taps_longest = 1},
        .own = own,
        .emit = count,
    };
    if (own == NULL)
        report(NULL, NULL, false, "out of memory");
    struct analysis *analysis = open_hits(&options, argc - 4, argv + 4);
    char line[64];
    for (uint64_t epoch = 1; fgets(line, sizeof line, stdin) != NULL; epoch++) {
        hits = 0;
        const double ns = put(analysis, samples, floats / channels, channels, epoch);
        printf("%.0f %llu\n", ns, (unsigned long long)hits);
        fflush(stdout);
    }
    analysis_hits.close(analysis);
    free(own);
    free(units);
    free(samples);
    return 0;
}
