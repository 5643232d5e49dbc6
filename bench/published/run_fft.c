/*
 * Burtsev 2022 in the bench: cells of the sequential program, A … F and convolvd; see bench.h.
 */
#include <stdlib.h>

#include "bench/published/bench.h"
#include "bench/published/single_fft.h"
#include "core/clock.h"
#include "signal/reference.h"

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
    if (cell_done(bench, &cell))
        return 0;
    /* A forward and an inverse transform of N complex points are two real channels of one block. */
    const struct production_shape shape = {
        .channels = 2, .blocks = 1, .hop = n / 2, .taps = n / 2 + 1, .fft = n};
    cell.baseline_ns = baseline_ns;
    if (n <= 1u << 20)
        return cell_production(bench, &cell, &shape, 2);
    snprintf(cell.note, sizeof cell.note, "convolvd splits longer filters at N = 2^20");
    return cell_add(bench, &cell);
}

static int transform_variants(struct bench *bench, uint32_t n, struct fft_work *work,
                              const double *want, double baseline_ns)
{
    int error = 0;
    for (int v = 0; error == 0 && v < FFT_VARIANTS; v++) {
        work->variant = (enum fft_variant)v;
        struct cell cell = cell_of("fft", fft_variant_name(work->variant), "", 0, n);
        if (cell_done(bench, &cell))
            continue;
        cell.baseline_ns = baseline_ns;
        if (work->fft == NULL)
            work->fft = fft_open(&bench->lab, n);
        if (work->fft != NULL && !fft_can(work->fft, work->variant, cell.note, sizeof cell.note)) {
            error = cell_add(bench, &cell);
            continue;
        }
        const int64_t from_ns = clock_monotonic_ns();
        if (work->fft != NULL)
            transform_once(work);
        const int64_t first_ns = clock_monotonic_ns() - from_ns;
        if (lab_status(&bench->lab) == 0) {
            cell.error = relative_error(work->x, want, 2 * (size_t)n);
            cell_repeat(bench, &cell, first_ns, transform_once, work);
        }
        if (lab_status(&bench->lab) != 0) {
            fft_close(work->fft);
            work->fft = NULL;
            cell_failed(bench, &cell);
        }
        error = cell_add(bench, &cell);
    }
    return error;
}

int run_fft(struct bench *bench, const struct group *group)
{
    const uint32_t n = group->n;
    struct fft_work work = {.y = bench_noise(bench, 2 * (size_t)n), .x = calloc(2 * (size_t)n, 4)};
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
        const double baseline_ns = samples_least(&samples);
        if (error == 0)
            error = transform_variants(bench, n, &work, want, baseline_ns);
        fft_close(work.fft);
        if (error == 0)
            error = fft_ours(bench, n, baseline_ns);
    }
    free(work.y), free(work.x), free(w), free(want);
    return error;
}
