/*
 * Cells and repetitions, see bench.h.
 */
#include "bench/published/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

double samples_least(const struct samples *samples)
{
    double least = samples->count == 0 ? 0 : samples->ns[0];
    for (int i = 1; i < samples->count; i++)
        least = fmin(least, samples->ns[i]);
    return least;
}

float *bench_noise(struct bench *bench, size_t count)
{
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = (float)(2 * random_unit(&bench->random) - 1);
    return values;
}

struct cell cell_of(const char *system, const char *variant, const char *part, uint32_t m,
                    uint32_t n)
{
    struct cell cell = {.m = m, .n = n};
    snprintf(cell.system, sizeof cell.system, "%s", system);
    snprintf(cell.variant, sizeof cell.variant, "%s", variant);
    snprintf(cell.part, sizeof cell.part, "%s", part);
    return cell;
}

bool cell_done(const struct bench *bench, const struct cell *cell)
{
    const struct cell *known =
        cells_find(&bench->cells, cell->system, cell->variant, cell->part, cell->m, cell->n);
    /* What was too large for the run before may fit this one. */
    return known != NULL && (known->total_ns > 0 || strstr(known->note, "--points") == NULL ||
                             (uint64_t)cell->m * cell->m * cell->n > bench->points_max);
}

int cell_add(struct bench *bench, struct cell *cell)
{
    if (cell->total_ns > 0 && !(cell->error <= 1e-5)) {
        fprintf(stderr, "\nWRONG: %s %s M %u N %u: error %g\n", cell->system, cell->variant,
                cell->m, cell->n, cell->error);
        bench->wrong++;
    }
    return cells_add(&bench->cells, cell, &bench->problem);
}

void cell_failed(struct bench *bench, struct cell *cell)
{
    snprintf(cell->note, sizeof cell->note, "%.*s", CELL_NOTE - 1, bench->lab.problem.text);
    cell->total_ns = cell->kernel_ns = 0;
    lab_recover(&bench->lab);
}

double relative_error(const float *got, const double *want, size_t count)
{
    double e2 = 0, want2 = 0;
    for (size_t i = 0; i < count; i++) {
        e2 += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        want2 += want[i] * want[i];
    }
    return sqrt(e2 / want2);
}

void cell_repeat(struct bench *bench, struct cell *cell, int64_t first_ns, void (*once)(void *),
                 void *context)
{
    struct samples total = {.count = 0}, kernel = {.count = 0};
    const bool slow = first_ns > 5 * bench->cell_ns;
    if (first_ns > 25 * bench->cell_ns) {
        cell->total_ns = (double)first_ns;
        return;
    }
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
    cell->total_ns = samples_least(&total);
    cell->kernel_ns = samples_least(&kernel);
}

static int production_cell(struct bench *bench, struct cell *cell,
                           const struct production_shape *shape, double pairs)
{
    const bool gpu = bench->lab.found.info.gpu;
    const struct production_probes probes = {
        .set_resident = gpu ? bench->probes.set_resident : NULL,
        .launches_begin = bench->probes.launches_begin,
        .launches_end = bench->probes.launches_end,
    };
    const struct production_options options = {
        .device = bench->device,
        .cpu_threads = atoi(bench->threads),
        .cache_dir = bench->cache_dir,
        .variant = cell->part[0] != '\0' ? cell->part : NULL,
        .streams = bench->streams,
        .limit_ns = bench->cell_ns,
        .probes = &probes,
        .polls = gpu,
    };
    struct production_result result = {0};
    if (production_measure(&options, shape, &result, &bench->problem) == 0) {
        const double share = pairs * bench->streams;
        cell->total_ns = result.total_ns / share;
        cell->kernel_ns = result.launches_ns / share;
        cell->resident_ns = result.resident_ns / share;
        cell->steady_ns = result.steady_ns / share;
        cell->error = result.error;
        snprintf(cell->note, sizeof cell->note, "%s", result.variant);
    } else {
        snprintf(cell->note, sizeof cell->note, "%.*s", CELL_NOTE - 1, bench->problem.text);
    }
    return cell_add(bench, cell);
}

int cell_production(struct bench *bench, struct cell *cell, const struct production_shape *shape,
                    double pairs)
{
    int error = production_cell(bench, cell, shape, pairs);
    for (const char *way = bench->ways; error == 0 && way != NULL && *way != '\0';) {
        const int length = (int)strcspn(way, ",");
        struct cell named = cell_of(cell->system, cell->variant, "", cell->m, cell->n);
        snprintf(named.part, sizeof named.part, "%.*s", length, way);
        named.baseline_ns = cell->baseline_ns;
        error = production_cell(bench, &named, shape, pairs);
        way += length + (way[length] == ',');
    }
    return error;
}
