/*
 * The book's 2-D pipeline: the host side, see pipeline_2d.h.
 */
#include "bench/published/pipeline_2d.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "signal/reference.h"

enum kernel { SPIN, REVERSE, BUTTERFLY, NORMALISE, TRANSPOSE, HIGH_PASS, FAN, KERNELS };

static const char *const kernel_names[KERNELS] = {
    [SPIN] = "spin_factors",
    [REVERSE] = "reverse",
    [BUTTERFLY] = "butterfly",
    [NORMALISE] = "normalise",
    [TRANSPOSE] = "transpose",
    [HIGH_PASS] = "high_pass",
    [FAN] = "fan",
};

static const char *const process_names[PIPELINE_PROCESSES_COUNT] = {
#define X(name, text) [PIPELINE_##name] = text,
    PIPELINE_PROCESSES(X)
#undef X
};

/* The data go to and fro between two buffers; a table of factors for each row length. */
enum buffer { HERE, THERE, W_WIDTH, W_ROWS, BUFFERS };

struct pipeline {
    struct lab *lab;
    uint32_t width, rows;
    cl_program program;
    cl_kernel kernels[KERNELS];
    cl_mem buffers[BUFFERS];
    size_t local;
    int64_t *times;
};

const char *pipeline_process_name(enum pipeline_process process)
{
    return process_names[process];
}

struct pipeline *pipeline_open(struct lab *lab, uint32_t width, uint32_t rows)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL) {
        lab->error = problem_set(&lab->problem, ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *pipeline = (struct pipeline){.lab = lab, .width = width, .rows = rows};
    pipeline->program = lab_program(lab, "published/pipeline_2d.cl", "");
    for (int k = 0; k < KERNELS; k++)
        pipeline->kernels[k] = lab_kernel(lab, pipeline->program, kernel_names[k]);
    const size_t bytes = (size_t)width * rows * 2 * sizeof(float);
    pipeline->buffers[HERE] = lab_buffer(lab, bytes);
    pipeline->buffers[THERE] = lab_buffer(lab, bytes);
    pipeline->buffers[W_WIDTH] = lab_buffer(lab, width * sizeof(float));
    pipeline->buffers[W_ROWS] = lab_buffer(lab, rows * sizeof(float));
    if (lab_status(lab) == 0)
        return pipeline;
    pipeline_close(pipeline);
    return NULL;
}

void pipeline_close(struct pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    lab_release_kernels(pipeline->kernels, KERNELS);
    lab_release_buffers(pipeline->buffers, BUFFERS);
    if (pipeline->program != NULL)
        clReleaseProgram(pipeline->program);
    free(pipeline);
}

uint32_t pipeline_local_max(const struct pipeline *pipeline)
{
    uint32_t shorter = pipeline->width < pipeline->rows ? pipeline->width : pipeline->rows;
    size_t most = pipeline->lab->group_max;
    return shorter / 2 < most ? shorter / 2 : 1u << log2_of((uint32_t)most);
}

static void launch(struct pipeline *p, enum kernel kernel, enum pipeline_process process,
                   uint32_t items, uint32_t rows)
{
    const int64_t before_ns = p->lab->kernel_ns;
    lab_launch(p->lab, p->kernels[kernel], 2, (const size_t[]){items, rows},
               (const size_t[]){p->local, 1});
    if (p->times != NULL)
        p->times[process] += p->lab->kernel_ns - before_ns;
}

/* HERE → THERE, row by row of `width` points. */
static void transform_rows(struct pipeline *p, uint32_t width, uint32_t rows, enum buffer w,
                           cl_uint inverse)
{
    const cl_uint bits = log2_of(width);
    LAB_SET(p->lab, p->kernels[REVERSE], LAB_VALUE(p->buffers[THERE]), LAB_VALUE(p->buffers[HERE]),
            LAB_VALUE(bits), LAB_VALUE(width));
    launch(p, REVERSE, PIPELINE_REVERSE, width, rows);
    for (cl_uint stage = 1; stage <= bits; stage++) {
        LAB_SET(p->lab, p->kernels[BUTTERFLY], LAB_VALUE(p->buffers[THERE]),
                LAB_VALUE(p->buffers[w]), LAB_VALUE(width), LAB_VALUE(stage), LAB_VALUE(inverse));
        launch(p, BUTTERFLY, PIPELINE_BUTTERFLY, width / 2, rows);
    }
    if (inverse) {
        LAB_SET(p->lab, p->kernels[NORMALISE], LAB_VALUE(p->buffers[THERE]), LAB_VALUE(width));
        launch(p, NORMALISE, PIPELINE_NORMALISE, width, rows);
    }
}

/* THERE → HERE. */
static void transpose(struct pipeline *p, uint32_t width, uint32_t rows)
{
    LAB_SET(p->lab, p->kernels[TRANSPOSE], LAB_VALUE(p->buffers[HERE]),
            LAB_VALUE(p->buffers[THERE]), LAB_VALUE(width), LAB_VALUE(rows));
    launch(p, TRANSPOSE, PIPELINE_TRANSPOSE, width, rows);
}

/* In THERE, which is transposed: a row has p->rows points. */
static void mask_spectrum(struct pipeline *p, const struct pipeline_mask *mask)
{
    if (mask->fan)
        LAB_SET(p->lab, p->kernels[FAN], LAB_VALUE(p->buffers[THERE]), LAB_VALUE(p->rows),
                LAB_VALUE(p->width), LAB_VALUE(mask->slowest), LAB_VALUE(mask->fastest));
    else
        LAB_SET(p->lab, p->kernels[HIGH_PASS], LAB_VALUE(p->buffers[THERE]), LAB_VALUE(p->rows),
                LAB_VALUE(p->width), LAB_VALUE(mask->radius));
    launch(p, mask->fan ? FAN : HIGH_PASS, PIPELINE_MASK, p->rows, p->width);
}

static void spin_factors(struct pipeline *p, enum buffer w, uint32_t width)
{
    LAB_SET(p->lab, p->kernels[SPIN], LAB_VALUE(p->buffers[w]), LAB_VALUE(width));
    launch(p, SPIN, PIPELINE_SPIN, width / 2, 1);
}

/* What lies in THERE goes on as HERE. */
static void swap(struct pipeline *p)
{
    cl_mem kept = p->buffers[HERE];
    p->buffers[HERE] = p->buffers[THERE];
    p->buffers[THERE] = kept;
}

int pipeline_run(struct pipeline *p, const struct pipeline_mask *mask, uint32_t local,
                 float *points, int64_t *times)
{
    struct lab *lab = p->lab;
    const size_t bytes = (size_t)p->width * p->rows * 2 * sizeof *points;
    p->local = local;
    p->times = times;
    if (times != NULL)
        memset(times, 0, PIPELINE_PROCESSES_COUNT * sizeof *times);

    int64_t before_ns = lab->transfer_ns;
    lab_write(lab, p->buffers[HERE], points, bytes);
    if (times != NULL)
        times[PIPELINE_WRITE] = lab->transfer_ns - before_ns;
    spin_factors(p, W_WIDTH, p->width);
    spin_factors(p, W_ROWS, p->rows);

    transform_rows(p, p->width, p->rows, W_WIDTH, 0);
    transpose(p, p->width, p->rows);
    transform_rows(p, p->rows, p->width, W_ROWS, 0);
    mask_spectrum(p, mask);
    swap(p);
    transform_rows(p, p->rows, p->width, W_ROWS, 1);
    transpose(p, p->rows, p->width);
    transform_rows(p, p->width, p->rows, W_WIDTH, 1);

    before_ns = lab->transfer_ns;
    lab_read(lab, points, p->buffers[THERE], bytes);
    if (times != NULL)
        times[PIPELINE_READ] = lab->transfer_ns - before_ns;
    return lab_status(lab);
}

/* ---- in double --------------------------------------------------------------------------- */

/* Every row, and then every column, of points[rows][width]. */
static int transform_both_ways(uint32_t width, uint32_t rows, double *points, int sign)
{
    double *column = malloc((size_t)rows * 2 * sizeof *column);
    int error = column == NULL ? ERROR_MEMORY : 0;
    for (uint32_t y = 0; error == 0 && y < rows; y++)
        error = reference_fft(points + (size_t)y * width * 2, width, sign);
    for (uint32_t x = 0; error == 0 && x < width; x++) {
        for (uint32_t y = 0; y < rows; y++)
            memcpy(column + 2 * (size_t)y, points + 2 * ((size_t)y * width + x),
                   2 * sizeof *column);
        error = reference_fft(column, rows, sign);
        for (uint32_t y = 0; y < rows; y++)
            memcpy(points + 2 * ((size_t)y * width + x), column + 2 * (size_t)y,
                   2 * sizeof *column);
    }
    free(column);
    return error;
}

static int frequency(uint32_t i, uint32_t n)
{
    return i < n / 2 ? (int)i : (int)i - (int)n;
}

static bool passes(const struct pipeline_mask *mask, uint32_t width, uint32_t rows, uint32_t x,
                   uint32_t y)
{
    const int fx = frequency(x, width), fy = frequency(y, rows);
    if (!mask->fan)
        return fx * fx + fy * fy >= mask->radius * mask->radius;
    /* In float, as the kernel decides: a bin on the rim must fall the same way. */
    const float temporal = fabsf((float)fx) / (float)width;
    const float wavenumber = fabsf((float)fy) / (float)rows;
    return temporal >= mask->slowest * wavenumber && temporal <= mask->fastest * wavenumber;
}

int pipeline_reference(uint32_t width, uint32_t rows, const struct pipeline_mask *mask,
                       double *points)
{
    int error = transform_both_ways(width, rows, points, -1);
    if (error != 0)
        return error;
    for (uint32_t y = 0; y < rows; y++)
        for (uint32_t x = 0; x < width; x++) {
            double *point = points + 2 * ((size_t)y * width + x);
            const double scale = passes(mask, width, rows, x, y) ? 1.0 / ((double)width * rows) : 0;
            point[0] *= scale;
            point[1] *= scale;
        }
    return transform_both_ways(width, rows, points, +1);
}
