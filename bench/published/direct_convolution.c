/*
 * Direct convolution: the host side, see direct_convolution.h.
 */
#include "bench/published/direct_convolution.h"

#include <stdlib.h>

enum buffer { X, H, Y, BUFFERS };

/* Enough items to fill a unit several times over; each goes on by all of them. */
enum { STRIDE_ITEMS_PER_UNIT = 2048 };

static const struct {
    const char *name, *kernel;
} variants[DIRECT_VARIANTS] = {
    [DIRECT_GLOBAL] = {"global", "direct_global"},
    [DIRECT_CONSTANT] = {"constant", "direct_constant"},
    [DIRECT_STRIDE] = {"stride", "direct_stride"},
};

struct direct {
    struct lab *lab;
    cl_program program;
    cl_kernel kernels[DIRECT_VARIANTS];
    cl_mem buffers[BUFFERS];
};

const char *direct_variant_name(enum direct_variant variant)
{
    return variants[variant].name;
}

void direct_sequential(const float *x, uint32_t n, const float *h, uint32_t m, float *y)
{
    for (uint32_t i = 0; i < n + m - 1; i++) {
        const uint32_t from = i < n ? 0 : i - n + 1, until = i < m ? i : m - 1;
        float sum = 0;
        for (uint32_t k = from; k <= until; k++)
            sum += h[k] * x[i - k];
        y[i] = sum;
    }
}

struct direct *direct_open(struct lab *lab, uint32_t n, uint32_t m)
{
    struct direct *direct = calloc(1, sizeof *direct);
    if (direct == NULL) {
        lab->error = problem_set(&lab->problem, ERROR_MEMORY, "out of memory");
        return NULL;
    }
    direct->lab = lab;
    direct->program = lab_program(lab, "published/direct_convolution.cl", "");
    for (int v = 0; v < DIRECT_VARIANTS; v++)
        direct->kernels[v] = lab_kernel(lab, direct->program, variants[v].kernel);
    direct->buffers[X] = lab_buffer(lab, n * sizeof(float));
    direct->buffers[H] = lab_buffer(lab, m * sizeof(float));
    direct->buffers[Y] = lab_buffer(lab, ((size_t)n + m - 1) * sizeof(float));
    if (lab_status(lab) == 0)
        return direct;
    direct_close(direct);
    return NULL;
}

void direct_close(struct direct *direct)
{
    if (direct == NULL)
        return;
    lab_release_kernels(direct->kernels, DIRECT_VARIANTS);
    lab_release_buffers(direct->buffers, BUFFERS);
    if (direct->program != NULL)
        clReleaseProgram(direct->program);
    free(direct);
}

int direct_run(struct direct *direct, enum direct_variant variant, const float *x, uint32_t n,
               const float *h, uint32_t m, float *y)
{
    struct lab *lab = direct->lab;
    const size_t samples = (size_t)n + m - 1;
    size_t group = lab->group_max < 256 ? lab->group_max : 256;
    size_t global = (samples + group - 1) / group * group;
    const size_t items = (size_t)lab->found.info.compute_units * STRIDE_ITEMS_PER_UNIT;
    if (variant == DIRECT_STRIDE && global > items / group * group)
        global = items / group * group;
    lab_write(lab, direct->buffers[X], x, n * sizeof *x);
    lab_write(lab, direct->buffers[H], h, m * sizeof *h);
    LAB_SET(lab, direct->kernels[variant], LAB_VALUE(direct->buffers[X]),
            LAB_VALUE(direct->buffers[H]), LAB_VALUE(direct->buffers[Y]), LAB_VALUE(n),
            LAB_VALUE(m));
    lab_launch(lab, direct->kernels[variant], 1, &global, &group);
    lab_read(lab, y, direct->buffers[Y], samples * sizeof *y);
    return lab_status(lab);
}
