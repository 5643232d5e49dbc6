/*
 * Burtsev 2025 in the bench: cells of the sequential program, A … E and convolvd; see bench.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/bench.h"
#include "bench/published/grid.h"
#include "bench/published/multiple_convolution.h"
#include "core/clock.h"

/* Points the sequential program is timed on, and vectors held against double precision. */
enum { BASELINE_POINTS = 1 << 18, CHECKED_VECTORS = 4 };

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
    return samples_least(&samples) * vectors / taken;
}

static double convolution_error(const struct convolution_work *work, uint32_t vectors, uint32_t n)
{
    double *want = calloc(6ull * n, sizeof *want), worst = 0;
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
    if (cell_done(bench, &cell))
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
    cell.baseline_ns = baseline_ns;
    return cell_production(bench, &cell, &shape, 1);
}

static int convolve_variant(struct bench *bench, const struct group *group,
                            struct convolution_work *work, uint32_t max_np, double baseline_ns)
{
    const char name[] = {(char)('A' + work->variant), '\0'};
    const uint32_t vectors = group->m * group->m;
    struct cell cell = cell_of("convolution", name, "", group->m, group->n);
    if (cell_done(bench, &cell))
        return 0;
    cell.baseline_ns = baseline_ns;
    if (work->convolution == NULL)
        work->convolution = convolution_open(&bench->lab, group->m, group->m, group->n, max_np);
    const int64_t from_ns = clock_monotonic_ns();
    if (work->convolution != NULL)
        convolve_once(work);
    const int64_t first_ns = clock_monotonic_ns() - from_ns;
    if (lab_status(&bench->lab) == 0) {
        cell.error = convolution_error(work, vectors, group->n);
        cell_repeat(bench, &cell, first_ns, convolve_once, work);
    }
    if (lab_status(&bench->lab) != 0) {
        convolution_close(work->convolution);
        work->convolution = NULL;
        cell_failed(bench, &cell);
    }
    return cell_add(bench, &cell);
}

/* How many vectors of n points a work-item can hold, in order of preference. */
static const struct {
    const char *name;
    uint32_t vectors;
} private_room[] = {{"two", 2}, {"one", 1}, {"none", 0}};

/* MAX_NP of a shape. On a CPU it depends on the groups the driver makes of M × J items; on a GPU an
 * item's memory is its own, and the largest matrix of this run at that length stands for all. */
static int find_max_np(struct bench *bench, const struct group *group, uint32_t *max_np)
{
    const uint32_t n = group->n;
    uint32_t m = group->m;
    for (uint32_t i = 0; bench->lab.found.info.gpu && i < grid_m_count; i++)
        if ((uint64_t)grid_m[i] * grid_m[i] * n <= bench->points_max)
            m = grid_m[i];
    for (int r = 0; r < 3; r++) {
        const struct cell known = cell_of("max_np", private_room[r].name, "", m, n);
        if (cells_find(&bench->cells, known.system, known.variant, "", m, n) != NULL) {
            *max_np = private_room[r].vectors * n;
            return 0;
        }
    }
    *max_np = convolution_find_max_np("/proc/self/exe", bench->device, bench->threads, m, m, n);
    int room = 0;
    while (private_room[room].vectors * n > *max_np)
        room++;
    struct cell cell = cell_of("max_np", private_room[room].name, "", m, n);
    return cell_add(bench, &cell);
}

int run_convolution(struct bench *bench, const struct group *group)
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
            error = cell_done(bench, &cell) ? 0 : cell_add(bench, &cell);
        }
        return error;
    }
    uint32_t max_np;
    error = find_max_np(bench, group, &max_np);
    if (error != 0)
        return error;
    struct convolution_work work = {
        .x = bench_noise(bench, count),
        .y = bench_noise(bench, count),
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
            error = convolve_variant(bench, group, &work, max_np, baseline_ns);
        }
        convolution_close(work.convolution);
        if (error == 0)
            error = convolve_ours(bench, group, baseline_ns);
    }
    free(work.x), free(work.y), free(work.g), free(work.z), free(work.w);
    return error;
}
