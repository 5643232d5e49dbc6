/*
 * The book's pipeline with its sweep of local sizes, and the vector-width probe, in the bench; see
 * bench.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/bench.h"
#include "bench/published/grid.h"
#include "bench/published/vector_width.h"
#include "core/clock.h"

/* ---- the book's pipeline ----------------------------------------------------------------- */

/* A drawing with edges, and plane waves in noise. */
static void draw(struct bench *bench, bool array, uint32_t width, uint32_t rows, float *points)
{
    for (uint32_t y = 0; y < rows; y++)
        for (uint32_t x = 0; x < width; x++) {
            const int dx = (int)x - (int)width / 2, dy = (int)y - (int)rows / 2;
            const bool inside = dx * dx + dy * dy < (int)(rows * rows / 9);
            const double wave = sin(0.2 * x - 0.4 * y) + sin(0.3 * x + 0.1 * y) +
                                0.1 * (random_unit(&bench->random) - 0.5);
            points[2 * ((size_t)y * width + x)] = array    ? (float)wave
                                                  : inside ? 200.0f
                                                           : (float)(x % 64);
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
        if (cell_done(bench, &total))
            continue;
        struct samples times[PIPELINE_PROCESSES_COUNT] = {{{0}, 0}}, sum = {.count = 0};
        struct pipeline *pipeline = pipeline_open(&bench->lab, shape->width, shape->rows);
        if (pipeline != NULL && local > pipeline_local_max(pipeline)) {
            snprintf(total.note, sizeof total.note, "groups are limited to %u here",
                     pipeline_local_max(pipeline));
            pipeline_close(pipeline);
            error = cell_add(bench, &total);
            continue;
        }
        bench->lab.profiling = true;
        for (int i = 0; i < 6 && lab_status(&bench->lab) == 0; i++) {
            int64_t ns[PIPELINE_PROCESSES_COUNT] = {0};
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
        total.total_ns = samples_least(&sum);
        pipeline_close(pipeline);
        if (lab_status(&bench->lab) != 0)
            cell_failed(bench, &total);
        for (int p = 0; error == 0 && total.total_ns > 0 && p < PIPELINE_PROCESSES_COUNT; p++) {
            struct cell cell = cell_of("pipeline", pipeline_process_name((enum pipeline_process)p),
                                       shape->name, local, shape->width);
            cell.total_ns = cell.kernel_ns = samples_least(&times[p]);
            total.kernel_ns += cell.kernel_ns;
            error = cell_done(bench, &cell) ? 0 : cell_add(bench, &cell);
        }
        if (error == 0)
            error = cell_add(bench, &total);
    }
    return error;
}

int run_pipeline(struct bench *bench, const struct group *group)
{
    const struct grid_pipeline *shape = &grid_pipelines[group->part];
    const size_t count = 2 * (size_t)shape->width * shape->rows;
    float *points = calloc(count, sizeof *points), *work = calloc(count, sizeof *work);
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
    if (error != 0 || cell_done(bench, &cell))
        return error;
    const struct production_shape rows = {.channels = shape->rows,
                                          .blocks = 2,
                                          .hop = shape->width / 2,
                                          .taps = shape->width / 2 + 1,
                                          .fft = shape->width};
    return cell_production(bench, &cell, &rows, 1);
}

/* ---- vector widths ----------------------------------------------------------------------- */

static void width_once(void *context)
{
    width_run(context);
}

int run_width(struct bench *bench, const struct group *group)
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
        struct cell cell = cell_of("width", "probe", width_type_name(type), vector, group->n);
        if (cell_done(bench, &cell))
            continue;
        struct width *width = width_open(&bench->lab, type, vector, rows, row_values);
        if (width != NULL) {
            width_write(width, in[0], in[1], in[2]);
            width_run(width);
            cell_repeat(bench, &cell, 0, width_once, width);
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
            cell_failed(bench, &cell);
        error = cell_add(bench, &cell);
    }
    free(in[0]), free(in[1]), free(in[2]), free(out);
    return error;
}
