/*
 * Direct convolution in the bench; see bench.h.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/published/bench.h"
#include "bench/published/direct_convolution.h"
#include "core/clock.h"

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
    if (cell_done(bench, &cell))
        return 0;
    /* The record in blocks that give every unit work: a GPU has more of them. */
    const bool short_blocks = bench->lab.found.info.gpu && group->m > 64 && group->m <= 256;
    const uint32_t hop = group->n >= 100000 ? 4096 : short_blocks ? 256 : 1024;
    const struct production_shape shape = {
        .channels = 1, .blocks = (group->n + hop - 1) / hop, .hop = hop, .taps = group->m};
    cell.baseline_ns = baseline_ns;
    return cell_production(bench, &cell, &shape, 1);
}

int run_direct(struct bench *bench, const struct group *group)
{
    const uint32_t n = group->n, m = group->m;
    struct direct_work work = {.x = bench_noise(bench, n),
                               .h = bench_noise(bench, m),
                               .y = calloc((size_t)n + m, sizeof(float)),
                               .n = n,
                               .m = m};
    int error = 0;
    if (work.x == NULL || work.h == NULL || work.y == NULL) {
        free(work.x), free(work.h), free(work.y);
        return problem_set(&bench->problem, ERROR_MEMORY, "out of memory for N = %u", n);
    }
    struct samples samples = {.count = 0};
    for (int i = 0; i < 3; i++) {
        const int64_t from_ns = clock_monotonic_ns();
        direct_sequential(work.x, n, work.h, m, work.y);
        samples.ns[samples.count++] = (double)(clock_monotonic_ns() - from_ns);
    }
    const double baseline_ns = samples_least(&samples);
    work.direct = direct_open(&bench->lab, n, m);
    for (int v = 0; error == 0 && v < DIRECT_VARIANTS; v++) {
        work.variant = (enum direct_variant)v;
        struct cell cell = cell_of("direct", direct_variant_name(work.variant), "", m, n);
        if (cell_done(bench, &cell))
            continue;
        cell.baseline_ns = baseline_ns;
        const int64_t from_ns = clock_monotonic_ns();
        if (work.direct != NULL)
            direct_once(&work);
        const int64_t first_ns = clock_monotonic_ns() - from_ns;
        if (lab_status(&bench->lab) == 0) {
            cell.error = direct_error(&work);
            cell_repeat(bench, &cell, first_ns, direct_once, &work);
        }
        if (lab_status(&bench->lab) != 0) {
            direct_close(work.direct);
            cell_failed(bench, &cell);
            work.direct = direct_open(&bench->lab, n, m);
        }
        error = cell_add(bench, &cell);
    }
    direct_close(work.direct);
    if (error == 0)
        error = direct_ours(bench, group, baseline_ns);
    free(work.x), free(work.h), free(work.y);
    return error;
}
