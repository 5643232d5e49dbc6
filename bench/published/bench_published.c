/*
 * Runs the published systems at the sizes of their papers, and convolvd on the same work, and keeps
 * every figure as a cell of a CSV file (cells.h); report_published turns cells into tables and plots.
 *
 * A cell is a median of repetitions after one that is not counted, in which the result is held
 * against double precision. What does not fit is a cell too, with the reason. An interrupted run
 * goes on with the cells that are missing.
 *
 * One thread.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/published/cells.h"
#include "bench/published/direct_convolution.h"
#include "bench/published/grid.h"
#include "bench/published/multiple_convolution.h"
#include "bench/published/pipeline_2d.h"
#include "bench/published/production.h"
#include "bench/published/single_fft.h"
#include "bench/published/vector_width.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "signal/reference.h"

enum { REPETITIONS_MAX = 15, BASELINE_POINTS = 1 << 18, CHECKED_VECTORS = 4 };

struct bench {
    const char *program, *device, *threads, *cache_dir;
    uint64_t points_max; /* M·J·N */
    int64_t cell_ns;     /* repetitions of a cell end after this long */
    int64_t deadline_ns;
    uint32_t max_np;
    struct lab lab;
    struct cells cells;
    struct random_state random;
    uint32_t wrong;
    struct problem problem;
};

/* All cells of one shape of one system: what opens once. */
struct group {
    enum { CONVOLUTION, FFT, DIRECT, PIPELINE, WIDTH } system;
    uint32_t m, n, part;
    double weight; /* relative cost, for the time left */
};

/* ---- figures ------------------------------------------------------------------------------ */

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct samples {
    double ns[REPETITIONS_MAX];
    int count;
};

static double median(struct samples *samples)
{
    qsort(samples->ns, (size_t)samples->count, sizeof samples->ns[0], by_value);
    return samples->count == 0 ? 0 : samples->ns[samples->count / 2];
}

static float *noise(struct bench *bench, size_t count)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = (float)(2 * random_unit(&bench->random) - 1);
    return values;
}

static struct cell cell_of(const char *system, const char *variant, const char *part, uint32_t m,
                           uint32_t n)
{
    struct cell cell = {.m = m, .n = n};
    snprintf(cell.system, sizeof cell.system, "%s", system);
    snprintf(cell.variant, sizeof cell.variant, "%s", variant);
    snprintf(cell.part, sizeof cell.part, "%s", part);
    return cell;
}

static bool done(const struct bench *bench, const struct cell *cell)
{
    return cells_find(&bench->cells, cell->system, cell->variant, cell->part, cell->m, cell->n) !=
           NULL;
}

static int add(struct bench *bench, struct cell *cell)
{
    if (cell->total_ns > 0 && !(cell->error <= 1e-5)) {
        fprintf(stderr, "\nWRONG: %s %s M %u N %u: error %g\n", cell->system, cell->variant,
                cell->m, cell->n, cell->error);
        bench->wrong++;
    }
    return cells_add(&bench->cells, cell, &bench->problem);
}

/* The launch failed: the reason is the cell, the device starts again. */
static void failed(struct bench *bench, struct cell *cell)
{
    snprintf(cell->note, sizeof cell->note, "%.*s", CELL_NOTE - 1, bench->lab.problem.text);
    cell->total_ns = cell->kernel_ns = 0;
    lab_recover(&bench->lab);
}

static double relative_error(const float *got, const double *want, size_t count)
{
    double e2 = 0, want2 = 0;
    for (size_t i = 0; i < count; i++) {
        e2 += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        want2 += want[i] * want[i];
    }
    return sqrt(e2 / want2);
}

/* Repeats `once` until the time of a cell is over; `first_ns` is what it took unmeasured: a slow
 * one is repeated once, and not profiled. */
static void repeat(struct bench *bench, struct cell *cell, int64_t first_ns, void (*once)(void *),
                   void *context)
{
    struct samples total = {.count = 0}, kernel = {.count = 0};
    const bool slow = first_ns > 5 * bench->cell_ns;
    const int64_t until_ns = clock_monotonic_ns() + bench->cell_ns;
    do {
        const int64_t from_ns = clock_monotonic_ns();
        once(context);
        total.ns[total.count++] = (double)(clock_monotonic_ns() - from_ns);
    } while (lab_status(&bench->lab) == 0 && total.count < REPETITIONS_MAX &&
             (total.count < 3 || clock_monotonic_ns() < until_ns) && !slow);
    bench->lab.profiling = true;
    for (int i = 0; i < 3 && !slow && lab_status(&bench->lab) == 0; i++) {
        bench->lab.kernel_ns = 0;
        once(context);
        kernel.ns[kernel.count++] = (double)bench->lab.kernel_ns;
    }
    bench->lab.profiling = false;
    cell->total_ns = median(&total);
    cell->kernel_ns = median(&kernel);
}

/* ---- Burtsev 2025 ------------------------------------------------------------------------- */

struct convolution_work {
    struct convolution *convolution;
    enum convolution_variant variant;
    float *x, *y, *g, *z, *w;
};

static void convolve_once(void *context)
{
    struct convolution_work *work = context;
    convolution_run(work->convolution, work->variant, work->x, work->y, work->g, work->z);
}

/* The sequential program on at most BASELINE_POINTS, scaled: its vectors are independent. */
static double convolution_baseline(const struct convolution_work *work, uint32_t vectors,
                                   uint32_t n)
{
    const uint32_t most = BASELINE_POINTS / n > 0 ? BASELINE_POINTS / n : 1;
    const uint32_t taken = vectors < most ? vectors : most;
    struct samples samples = {.count = 0};
    for (int i = 0; i < 4; i++) {
        const int64_t from_ns = clock_monotonic_ns();
        convolution_sequential(taken, n, work->x, work->y, work->g, work->z, work->w);
        if (i > 0)
            samples.ns[samples.count++] = (double)(clock_monotonic_ns() - from_ns);
    }
    return median(&samples) * vectors / taken;
}

static double convolution_error(const struct convolution_work *work, uint32_t vectors, uint32_t n)
{
    double *want = malloc(6ull * n * sizeof *want), worst = 0;
    const uint32_t step = vectors > CHECKED_VECTORS ? vectors / CHECKED_VECTORS : 1;
    for (uint32_t v = 0; want != NULL && v < vectors; v += step) {
        const size_t at = 2 * (size_t)v * n;
        if (convolution_reference(n, work->x + at, work->y + at, want, want + 2 * (size_t)n) != 0)
            worst = INFINITY;
        worst = fmax(worst, relative_error(work->z + at, want, 2 * (size_t)n));
    }
    free(want);
    return want == NULL ? INFINITY : worst;
}

static int convolve_ours(struct bench *bench, const struct group *group, double baseline_ns)
{
    struct cell cell = cell_of("convolution", "convolvd", "", group->m, group->n);
    if (done(bench, &cell))
        return 0;
    /* A complex vector of N points holds N/2 new samples beside a filter of N/2 + 1 taps: one block
     * of two real channels. */
    const struct production_shape shape = {
        .channels = 2 * group->m,
        .blocks = group->m,
        .hop = group->n / 2,
        .taps = group->n / 2 + 1,
        .fft = group->n < 64 ? 64 : group->n,
    };
    const struct production_options options = {bench->device, atoi(bench->threads),
                                               bench->cache_dir, bench->cell_ns};
    struct production_result result = {0};
    if (production_measure(&options, &shape, &result, &bench->problem) == 0) {
        cell.total_ns = result.total_ns;
        cell.error = result.error;
        snprintf(cell.note, sizeof cell.note, "%s", result.variant);
    } else {
        snprintf(cell.note, sizeof cell.note, "%.*s", CELL_NOTE - 1, bench->problem.text);
    }
    cell.baseline_ns = baseline_ns;
    return add(bench, &cell);
}

static int convolve_variant(struct bench *bench, const struct group *group,
                            struct convolution_work *work, double baseline_ns)
{
    const char name[] = {(char)('A' + work->variant), '\0'};
    const uint32_t vectors = group->m * group->m;
    struct cell cell = cell_of("convolution", name, "", group->m, group->n);
    if (done(bench, &cell))
        return 0;
    cell.baseline_ns = baseline_ns;
    if (work->convolution == NULL)
        work->convolution =
            convolution_open(&bench->lab, group->m, group->m, group->n, bench->max_np);
    const int64_t from_ns = clock_monotonic_ns();
    if (work->convolution != NULL)
        convolve_once(work);
    const int64_t first_ns = clock_monotonic_ns() - from_ns;
    if (lab_status(&bench->lab) == 0) {
        cell.error = convolution_error(work, vectors, group->n);
        repeat(bench, &cell, first_ns, convolve_once, work);
    }
    if (lab_status(&bench->lab) != 0) {
        convolution_close(work->convolution);
        work->convolution = NULL;
        failed(bench, &cell);
    }
    return add(bench, &cell);
}

static int run_convolution(struct bench *bench, const struct group *group)
{
    const uint32_t vectors = group->m * group->m, n = group->n;
    const size_t count = 2 * (size_t)vectors * n;
    int error = 0;
    if ((uint64_t)vectors * n > bench->points_max) {
        for (int v = 0; error == 0 && v <= CONVOLUTION_VARIANTS; v++) {
            const char name[] = {(char)('A' + v), '\0'};
            struct cell cell = cell_of("convolution", v < CONVOLUTION_VARIANTS ? name : "convolvd",
                                       "", group->m, n);
            snprintf(cell.note, sizeof cell.note, "four matrices need %zu MiB (--points)",
                     4 * count * sizeof(float) >> 20);
            error = done(bench, &cell) ? 0 : add(bench, &cell);
        }
        return error;
    }
    struct convolution_work work = {
        .x = noise(bench, count),
        .y = noise(bench, count),
        .g = calloc(count, sizeof(float)),
        .z = calloc(count, sizeof(float)),
        .w = malloc((n + 1ull) * 2 * sizeof(float)),
    };
    if (work.x == NULL || work.y == NULL || work.g == NULL || work.z == NULL || work.w == NULL) {
        error = problem_set(&bench->problem, ERROR_MEMORY, "out of memory; lower --points");
    } else {
        fill_factors(work.w, n, n + 1);
        const double baseline_ns = convolution_baseline(&work, vectors, n);
        for (int v = 0; error == 0 && v < CONVOLUTION_VARIANTS; v++) {
            work.variant = (enum convolution_variant)v;
            error = convolve_variant(bench, group, &work, baseline_ns);
        }
        convolution_close(work.convolution);
        if (error == 0)
            error = convolve_ours(bench, group, baseline_ns);
    }
    free(work.x), free(work.y), free(work.g), free(work.z), free(work.w);
    return error;
}

/* ---- Burtsev 2022 ------------------------------------------------------------------------- */

struct fft_work {
    struct fft *fft;
    enum fft_variant variant;
    float *y, *x;
};

static void transform_once(void *context)
{
    struct fft_work *work = context;
    fft_run(work->fft, work->variant, work->y, work->x);
}

static int fft_ours(struct bench *bench, uint32_t n, double baseline_ns)
{
    struct cell cell = cell_of("fft", "convolvd", "", 0, n);
    if (done(bench, &cell))
        return 0;
    /* A forward and an inverse transform of N complex points are two real channels of one block. */
    const struct production_shape shape = {
        .channels = 2, .blocks = 1, .hop = n / 2, .taps = n / 2 + 1, .fft = n};
    const struct production_options options = {bench->device, atoi(bench->threads),
                                               bench->cache_dir, bench->cell_ns};
    struct production_result result = {0};
    cell.baseline_ns = baseline_ns;
    if (n > 1u << 20) {
        snprintf(cell.note, sizeof cell.note, "convolvd splits longer filters at N = 2^20");
    } else if (production_measure(&options, &shape, &result, &bench->problem) == 0) {
        cell.total_ns = result.total_ns / 2;
        cell.error = result.error;
        snprintf(cell.note, sizeof cell.note, "%s", result.variant);
    } else {
        snprintf(cell.note, sizeof cell.note, "%.*s", CELL_NOTE - 1, bench->problem.text);
    }
    return add(bench, &cell);
}

static int transform_variants(struct bench *bench, uint32_t n, struct fft_work *work,
                              const double *want, double baseline_ns)
{
    int error = 0;
    for (int v = 0; error == 0 && v < FFT_VARIANTS; v++) {
        work->variant = (enum fft_variant)v;
        struct cell cell = cell_of("fft", fft_variant_name(work->variant), "", 0, n);
        if (done(bench, &cell))
            continue;
        cell.baseline_ns = baseline_ns;
        if (work->fft == NULL)
            work->fft = fft_open(&bench->lab, n);
        if (work->fft != NULL &&
            !fft_can(work->fft, work->variant, cell.note, sizeof cell.note)) {
            error = add(bench, &cell);
            continue;
        }
        const int64_t from_ns = clock_monotonic_ns();
        if (work->fft != NULL)
            transform_once(work);
        const int64_t first_ns = clock_monotonic_ns() - from_ns;
        if (lab_status(&bench->lab) == 0) {
            cell.error = relative_error(work->x, want, 2 * (size_t)n);
            repeat(bench, &cell, first_ns, transform_once, work);
        }
        if (lab_status(&bench->lab) != 0) {
            fft_close(work->fft);
            work->fft = NULL;
            failed(bench, &cell);
        }
        error = add(bench, &cell);
    }
    return error;
}

static int run_fft(struct bench *bench, const struct group *group)
{
    const uint32_t n = group->n;
    struct fft_work work = {.y = noise(bench, 2 * (size_t)n), .x = calloc(2 * (size_t)n, 4)};
    float *w = malloc(n * sizeof *w);
    double *want = malloc(2 * (size_t)n * sizeof *want);
    int error = 0;
    if (work.y == NULL || work.x == NULL || w == NULL || want == NULL) {
        error = problem_set(&bench->problem, ERROR_MEMORY, "out of memory for N = %u", n);
    } else {
        for (size_t i = 0; i < 2 * (size_t)n; i++)
            want[i] = (double)work.y[i];
        error = reference_fft(want, n, -1);
        fill_factors(w, n, n / 2);
        struct samples samples = {.count = 0};
        for (int i = 0; i < 4; i++) {
            const int64_t from_ns = clock_monotonic_ns();
            fft_sequential(n, work.y, work.x, w);
            if (i > 0)
                samples.ns[samples.count++] = (double)(clock_monotonic_ns() - from_ns);
        }
        const double baseline_ns = median(&samples);
        if (error == 0)
            error = transform_variants(bench, n, &work, want, baseline_ns);
        fft_close(work.fft);
        if (error == 0)
            error = fft_ours(bench, n, baseline_ns);
    }
    free(work.y), free(work.x), free(w), free(want);
    return error;
}

/* ---- direct convolution ------------------------------------------------------------------- */

struct direct_work {
    struct direct *direct;
    enum direct_variant variant;
    float *x, *h, *y;
    uint32_t n, m;
};

static void direct_once(void *context)
{
    struct direct_work *work = context;
    direct_run(work->direct, work->variant, work->x, work->n, work->h, work->m, work->y);
}

/* At 256 places of the record, its first and last samples among them. */
static double direct_error(const struct direct_work *work)
{
    double e2 = 0, want2 = 0;
    const uint32_t count = work->n + work->m - 1, step = count / 256 + 1;
    for (uint32_t place = 0; place <= count / step; place++) {
        const uint32_t i = place < count / step ? place * step : count - 1;
        double want = 0;
        for (uint32_t k = 0; k < work->m && k <= i; k++)
            if (i - k < work->n)
                want += (double)work->h[k] * (double)work->x[i - k];
        e2 += ((double)work->y[i] - want) * ((double)work->y[i] - want);
        want2 += want * want;
    }
    return sqrt(e2 / want2);
}

static int direct_ours(struct bench *bench, const struct group *group, double baseline_ns)
{
    struct cell cell = cell_of("direct", "convolvd", "", group->m, group->n);
    if (done(bench, &cell))
        return 0;
    /* The record in blocks that give every unit work. */
    const uint32_t hop = group->n >= 100000 ? 4096 : 1024;
    const struct production_shape shape = {
        .channels = 1, .blocks = (group->n + hop - 1) / hop, .hop = hop, .taps = group->m};
    const struct production_options options = {bench->device, atoi(bench->threads),
                                               bench->cache_dir, bench->cell_ns};
    struct production_result result = {0};
    cell.baseline_ns = baseline_ns;
    if (production_measure(&options, &shape, &result, &bench->problem) == 0) {
        cell.total_ns = result.total_ns;
        cell.error = result.error;
        snprintf(cell.note, sizeof cell.note, "%s", result.variant);
    } else {
        snprintf(cell.note, sizeof cell.note, "%.*s", CELL_NOTE - 1, bench->problem.text);
    }
    return add(bench, &cell);
}

static int run_direct(struct bench *bench, const struct group *group)
{
    const uint32_t n = group->n, m = group->m;
    struct direct_work work = {.x = noise(bench, n),
                               .h = noise(bench, m),
                               .y = calloc((size_t)n + m, sizeof(float)),
                               .n = n,
                               .m = m};
    int error = 0;
    if (work.x == NULL || work.h == NULL || work.y == NULL)
        return problem_set(&bench->problem, ERROR_MEMORY, "out of memory for N = %u", n);
    struct samples samples = {.count = 0};
    for (int i = 0; i < 3; i++) {
        const int64_t from_ns = clock_monotonic_ns();
        direct_sequential(work.x, n, work.h, m, work.y);
        samples.ns[samples.count++] = (double)(clock_monotonic_ns() - from_ns);
    }
    const double baseline_ns = median(&samples);
    work.direct = direct_open(&bench->lab, n, m);
    for (int v = 0; error == 0 && v < DIRECT_VARIANTS; v++) {
        work.variant = (enum direct_variant)v;
        struct cell cell = cell_of("direct", direct_variant_name(work.variant), "", m, n);
        if (done(bench, &cell))
            continue;
        cell.baseline_ns = baseline_ns;
        const int64_t from_ns = clock_monotonic_ns();
        if (work.direct != NULL)
            direct_once(&work);
        const int64_t first_ns = clock_monotonic_ns() - from_ns;
        if (lab_status(&bench->lab) == 0) {
            cell.error = direct_error(&work);
            repeat(bench, &cell, first_ns, direct_once, &work);
        }
        if (lab_status(&bench->lab) != 0) {
            direct_close(work.direct);
            failed(bench, &cell);
            work.direct = direct_open(&bench->lab, n, m);
        }
        error = add(bench, &cell);
    }
    direct_close(work.direct);
    if (error == 0)
        error = direct_ours(bench, group, baseline_ns);
    free(work.x), free(work.h), free(work.y);
    return error;
}

/* ---- the book's pipeline ------------------------------------------------------------------ */

/* A drawing with edges, and plane waves in noise. */
static void draw(struct bench *bench, bool array, uint32_t width, uint32_t rows, float *points)
{
    for (uint32_t y = 0; y < rows; y++)
        for (uint32_t x = 0; x < width; x++) {
            const int dx = (int)x - (int)width / 2, dy = (int)y - (int)rows / 2;
            const bool inside = dx * dx + dy * dy < (int)(rows * rows / 9);
            const double wave = sin(0.2 * x - 0.4 * y) + sin(0.3 * x + 0.1 * y) +
                                0.1 * (random_unit(&bench->random) - 0.5);
            points[2 * ((size_t)y * width + x)] =
                array ? (float)wave : inside ? 200.0f : (float)(x % 64);
            points[2 * ((size_t)y * width + x) + 1] = 0;
        }
}

static int pipeline_sweep(struct bench *bench, const struct group *group, const float *points,
                          float *work, const double *want)
{
    const struct grid_pipeline *shape = &grid_pipelines[group->part];
    const size_t count = 2 * (size_t)shape->width * shape->rows;
    int error = 0;
    for (uint32_t local = 1; error == 0 && local <= 512; local *= local == 1 ? 16 : 2) {
        struct cell total = cell_of("pipeline", "total", shape->name, local, shape->width);
        if (done(bench, &total))
            continue;
        struct samples times[PIPELINE_PROCESSES_COUNT] = {{{0}, 0}}, sum = {.count = 0};
        struct pipeline *pipeline = pipeline_open(&bench->lab, shape->width, shape->rows);
        if (pipeline != NULL && local > pipeline_local_max(pipeline)) {
            snprintf(total.note, sizeof total.note, "groups are limited to %u here",
                     pipeline_local_max(pipeline));
            pipeline_close(pipeline);
            error = add(bench, &total);
            continue;
        }
        bench->lab.profiling = true;
        for (int i = 0; i < 6 && lab_status(&bench->lab) == 0; i++) {
            int64_t ns[PIPELINE_PROCESSES_COUNT];
            memcpy(work, points, count * sizeof *work);
            const int64_t from_ns = clock_monotonic_ns();
            if (pipeline != NULL)
                pipeline_run(pipeline, &shape->mask, local, work, ns);
            if (i == 0)
                continue; /* builds and warms up */
            sum.ns[sum.count++] = (double)(clock_monotonic_ns() - from_ns);
            for (int p = 0; p < PIPELINE_PROCESSES_COUNT; p++)
                times[p].ns[times[p].count++] = (double)ns[p];
        }
        bench->lab.profiling = false;
        total.error = relative_error(work, want, count);
        total.total_ns = median(&sum);
        pipeline_close(pipeline);
        if (lab_status(&bench->lab) != 0)
            failed(bench, &total);
        for (int p = 0; error == 0 && total.total_ns > 0 && p < PIPELINE_PROCESSES_COUNT; p++) {
            struct cell cell = cell_of("pipeline", pipeline_process_name((enum pipeline_process)p),
                                       shape->name, local, shape->width);
            cell.total_ns = cell.kernel_ns = median(&times[p]);
            total.kernel_ns += cell.kernel_ns;
            error = done(bench, &cell) ? 0 : add(bench, &cell);
        }
        if (error == 0)
            error = add(bench, &total);
    }
    return error;
}

static int run_pipeline(struct bench *bench, const struct group *group)
{
    const struct grid_pipeline *shape = &grid_pipelines[group->part];
    const size_t count = 2 * (size_t)shape->width * shape->rows;
    float *points = malloc(count * sizeof *points), *work = malloc(count * sizeof *work);
    double *want = malloc(count * sizeof *want);
    int error = ERROR_MEMORY;
    if (points != NULL && work != NULL && want != NULL) {
        draw(bench, shape->mask.fan, shape->width, shape->rows, points);
        for (size_t i = 0; i < count; i++)
            want[i] = (double)points[i];
        error = pipeline_reference(shape->width, shape->rows, &shape->mask, want);
    }
    if (error == 0)
        error = pipeline_sweep(bench, group, points, work, want);
    free(points), free(work), free(want);

    /* The nearest production work: every row through a filter as long as the row. */
    struct cell cell = cell_of("pipeline", "convolvd", shape->name, 0, shape->width);
    if (error != 0 || done(bench, &cell))
        return error;
    const struct production_shape rows = {.channels = shape->rows,
                                          .blocks = 2,
                                          .hop = shape->width / 2,
                                          .taps = shape->width / 2 + 1,
                                          .fft = shape->width};
    const struct production_options options = {bench->device, atoi(bench->threads),
                                               bench->cache_dir, bench->cell_ns};
    struct production_result result = {0};
    if (production_measure(&options, &rows, &result, &bench->problem) == 0) {
        cell.total_ns = result.total_ns;
        cell.error = result.error;
        snprintf(cell.note, sizeof cell.note, "%s", result.variant);
    } else {
        snprintf(cell.note, sizeof cell.note, "%.*s", CELL_NOTE - 1, bench->problem.text);
    }
    return add(bench, &cell);
}

/* ---- vector widths ------------------------------------------------------------------------ */

static void width_once(void *context)
{
    width_run(context);
}

static int run_width(struct bench *bench, const struct group *group)
{
    const enum width_type type = (enum width_type)group->part;
    const uint32_t rows = 1024, row_values = group->n / rows;
    const size_t bytes = (size_t)group->n * width_type_bytes(type);
    int error = 0;
    uint8_t *in[3] = {malloc(bytes), malloc(bytes), malloc(bytes)}, *out = malloc(bytes);
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL || out == NULL)
        error = problem_set(&bench->problem, ERROR_MEMORY, "out of memory for %u values", group->n);
    for (int k = 0; error == 0 && k < 3; k++)
        for (size_t i = 0; i < group->n; i++) {
            const uint64_t bits = random_u64(&bench->random);
            if (type == WIDTH_FLOAT)
                ((float *)(void *)in[k])[i] = (float)(bits >> 40) * 0x1p-24f;
            else if (type == WIDTH_INT)
                ((int32_t *)(void *)in[k])[i] = (int32_t)bits;
            else
                ((int16_t *)(void *)in[k])[i] = (int16_t)bits;
        }
    for (uint32_t vector = 1; error == 0 && vector <= WIDTH_LARGEST; vector *= 2) {
        struct cell cell =
            cell_of("width", "probe", width_type_name(type), vector, group->n);
        if (done(bench, &cell))
            continue;
        struct width *width = width_open(&bench->lab, type, vector, rows, row_values);
        if (width != NULL) {
            width_write(width, in[0], in[1], in[2]);
            width_run(width);
            repeat(bench, &cell, 0, width_once, width);
            width_read(width, out);
        }
        width_close(width);
        double worst = 0;
        for (size_t i = 0; lab_status(&bench->lab) == 0 && i < group->n; i += 997)
            worst = fmax(worst, fabs(width_expected(type, in[0], in[1], in[2], i) -
                                     width_value(type, out, i)));
        cell.error = worst;
        snprintf(cell.note, sizeof cell.note, "reported %u", width_reported(&bench->lab, type));
        if (lab_status(&bench->lab) != 0)
            failed(bench, &cell);
        error = add(bench, &cell);
    }
    free(in[0]), free(in[1]), free(in[2]), free(out);
    return error;
}

/* ---- the run ------------------------------------------------------------------------------ */

enum { GROUPS_MAX = 256 };

static uint32_t list_groups(struct group *groups)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < WIDTH_TYPES; t++)
        groups[count++] = (struct group){WIDTH, 0, GRID_WIDTH_VALUES, t, 3};
    for (uint32_t p = 0; p < grid_pipeline_count; p++)
        groups[count++] = (struct group){PIPELINE, 0, 0, p, 8};
    for (uint32_t i = 0; i < grid_direct_n_count; i++)
        for (uint32_t m = GRID_DIRECT_M_MIN; m <= GRID_DIRECT_M_MAX; m *= 2)
            groups[count++] = (struct group){
                DIRECT, m, grid_direct_n[i], 0, 1 + 2e-9 * m * grid_direct_n[i]};
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
        groups[count++] = (struct group){FFT, 0, 1u << p, 0, 2 + 8e-7 * (1u << p)};
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
        for (uint32_t i = 0; i < grid_m_count; i++)
            groups[count++] = (struct group){
                CONVOLUTION, grid_m[i], n, 0, 2 + 2e-6 * grid_m[i] * grid_m[i] * n};
    return count;
}

static int (*const runs[])(struct bench *, const struct group *) = {
    [CONVOLUTION] = run_convolution, [FFT] = run_fft,     [DIRECT] = run_direct,
    [PIPELINE] = run_pipeline,       [WIDTH] = run_width,
};

static const char *const system_names[] = {
    [CONVOLUTION] = "convolution", [FFT] = "fft", [DIRECT] = "direct", [PIPELINE] = "pipeline",
    [WIDTH] = "width",
};

static void progress(const struct group *group, double before, double all, int64_t since_ns)
{
    enum { BAR = 30 };
    char bar[BAR + 1];
    const int full = (int)(BAR * before / all);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    const double spent_s = (double)(clock_monotonic_ns() - since_ns) / 1e9;
    const double left_s = before > 0 ? spent_s * (all - before) / before : 0;
    fprintf(stderr, isatty(STDERR_FILENO) ? "\r%s %3.0f %%  %3.0f:%02.0f left  %-11s M %-3u N %-9u"
                                          : "%s %3.0f %%  %3.0f:%02.0f left  %-11s M %-3u N %u\n",
            bar, 100 * before / all, floor(left_s / 60), floor(fmod(left_s, 60)),
            system_names[group->system], group->m, group->n);
}

static int run_all(struct bench *bench, const char *only)
{
    static struct group groups[GROUPS_MAX];
    const uint32_t count = list_groups(groups);
    double all = 0, before = 0;
    for (uint32_t g = 0; g < count; g++) {
        if (groups[g].system == CONVOLUTION &&
            (uint64_t)groups[g].m * groups[g].m * groups[g].n > bench->points_max)
            groups[g].weight = 0;
        if (only != NULL && strcmp(only, system_names[groups[g].system]) != 0)
            groups[g].weight = 0;
        all += groups[g].weight;
    }
    const int64_t since_ns = clock_monotonic_ns();
    int error = 0;
    for (uint32_t g = 0; error == 0 && g < count; g++) {
        if (only != NULL && strcmp(only, system_names[groups[g].system]) != 0)
            continue;
        progress(&groups[g], before, all, since_ns);
        if (bench->deadline_ns != 0 && clock_monotonic_ns() > bench->deadline_ns) {
            fprintf(stderr, "\nout of time: run again to go on from here\n");
            break;
        }
        error = runs[groups[g].system](bench, &groups[g]);
        before += groups[g].weight;
    }
    fputc('\n', stderr);
    return error;
}

/* ---- arguments ---------------------------------------------------------------------------- */

static const char help[] =
    "bench_published [options]: the published systems at the sizes of their papers\n"
    "  --device NAME    as for convolvd (default auto)\n"
    "  --threads N      of a CPU device (default: all cores)\n"
    "  --csv FILE       cells (default bench/results/published-cpu.csv or -gpu.csv)\n"
    "  --fresh          begin the file again\n"
    "  --only SYSTEM    convolution, fft, direct, pipeline or width\n"
    "  --points N       largest M*J*N (default 2^20 on a CPU, 2^26 on a GPU)\n"
    "  --seconds N      stop after that long; the next run goes on\n";

static void make_folder(const char *path)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0777); /* opening the file says what is wrong */
        *slash = '/';
    }
}

int main(int argc, char **argv)
{
    static struct bench bench = {
        .device = "auto", .threads = "0", .cell_ns = 60 * NS_PER_MS, .random = {1}};
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'}, {"threads", required_argument, NULL, 't'},
        {"csv", required_argument, NULL, 'c'},    {"fresh", no_argument, NULL, 'f'},
        {"only", required_argument, NULL, 'o'},   {"points", required_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'}, {"try-np", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    const char *csv = NULL, *only = NULL;
    uint32_t try_np = 0;
    bool fresh = false;
    int64_t seconds = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'd': bench.device = optarg; break;
        case 't': bench.threads = optarg; break;
        case 'c': csv = optarg; break;
        case 'f': fresh = true; break;
        case 'o': only = optarg; break;
        case 'p': bench.points_max = strtoull(optarg, NULL, 10); break;
        case 's': seconds = strtol(optarg, NULL, 10); break;
        case 'n': try_np = (uint32_t)strtoul(optarg, NULL, 10); break;
        default: fputs(help, option == 'h' ? stdout : stderr); return option == 'h' ? 0 : 2;
        }
    if (try_np != 0) {
        if (lab_open(&bench.lab, bench.device, atoi(bench.threads), NULL) != 0)
            return 1;
        return convolution_try_np(&bench.lab, try_np) == 0 ? 0 : 1;
    }
    log_set_level(LOG_LEVEL_WARNING);
    bench.program = "/proc/self/exe";
    bench.deadline_ns = seconds > 0 ? clock_monotonic_ns() + seconds * NS_PER_SECOND : 0;
    if (only == NULL || strcmp(only, "convolution") == 0) {
        bench.max_np = convolution_find_max_np(bench.program, bench.device, bench.threads);
        fprintf(stderr, "MAX_NP by trial: %u points in private memory\n", bench.max_np);
    }
    if (lab_open(&bench.lab, bench.device, atoi(bench.threads), NULL) != 0) {
        fprintf(stderr, "bench_published: %s\n", bench.lab.problem.text);
        return 1;
    }
    const bool gpu = bench.lab.found.info.gpu;
    if (bench.points_max == 0)
        bench.points_max = gpu ? 1 << 26 : 1 << 20;
    if (csv == NULL)
        csv = gpu ? "bench/results/published-gpu.csv" : "bench/results/published-cpu.csv";
    make_folder(csv);
    if (fresh)
        unlink(csv);
    int error = cells_open(&bench.cells, csv, bench.lab.found.info.name, &bench.problem);
    if (error == 0 && bench.max_np != 0) {
        struct cell cell = cell_of("max_np", "C", "", 0, bench.max_np);
        error = done(&bench, &cell) ? 0 : add(&bench, &cell);
    }
    if (error == 0)
        error = run_all(&bench, only);
    if (error != 0)
        fprintf(stderr, "bench_published: %s\n", bench.problem.text);
    cells_close(&bench.cells);
    lab_close(&bench.lab);
    return error != 0 || bench.wrong != 0;
}
