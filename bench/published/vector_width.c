/*
 * The vector-width probe: the host side, see vector_width.h.
 */
#include "bench/published/vector_width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
    cl_device_info preferred;
} types[WIDTH_TYPES] = {
    [WIDTH_FLOAT] = {"float", 4, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT},
    [WIDTH_INT] = {"int", 4, CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT},
    [WIDTH_SHORT] = {"short", 2, CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT},
};

enum buffer { A, B, C, D, BUFFERS };

struct width {
    struct lab *lab;
    uint32_t rows, row_elements;
    size_t bytes;
    cl_program program;
    cl_kernel kernels[1];
    cl_mem buffers[BUFFERS];
};

const char *width_type_name(enum width_type type)
{
    return types[type].name;
}

uint32_t width_type_bytes(enum width_type type)
{
    return types[type].bytes;
}

uint32_t width_reported(const struct lab *lab, enum width_type type)
{
    cl_uint reported = 0;
    clGetDeviceInfo(lab->found.device, types[type].preferred, sizeof reported, &reported, NULL);
    return reported;
}

struct width *width_open(struct lab *lab, enum width_type type, uint32_t vector, uint32_t rows,
                         uint32_t row_values)
{
    struct width *width = calloc(1, sizeof *width);
    if (width == NULL) {
        lab->error = problem_set(&lab->problem, ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *width = (struct width){.lab = lab,
                            .rows = rows,
                            .row_elements = row_values / vector,
                            .bytes = (size_t)rows * row_values * types[type].bytes};
    char element[32] = "", options[64];
    if (vector > 1)
        snprintf(element, sizeof element, "%u", vector);
    snprintf(options, sizeof options, "-D ELEMENT=%s%s", types[type].name, element);
    width->program = lab_program(lab, "published/vector_width.cl", options);
    width->kernels[0] = lab_kernel(lab, width->program, "probe");
    for (int b = 0; b < BUFFERS; b++)
        width->buffers[b] = lab_buffer(lab, width->bytes);
    LAB_SET(lab, width->kernels[0], LAB_VALUE(width->buffers[A]), LAB_VALUE(width->buffers[B]),
            LAB_VALUE(width->buffers[C]), LAB_VALUE(width->buffers[D]),
            LAB_VALUE(width->row_elements));
    if (lab_status(lab) == 0)
        return width;
    width_close(width);
    return NULL;
}

void width_close(struct width *width)
{
    if (width == NULL)
        return;
    lab_release_kernels(width->kernels, 1);
    lab_release_buffers(width->buffers, BUFFERS);
    if (width->program != NULL)
        clReleaseProgram(width->program);
    free(width);
}

void width_write(struct width *width, const void *b, const void *c, const void *d)
{
    lab_write(width->lab, width->buffers[B], b, width->bytes);
    lab_write(width->lab, width->buffers[C], c, width->bytes);
    lab_write(width->lab, width->buffers[D], d, width->bytes);
}

int width_run(struct width *width)
{
    lab_launch(width->lab, width->kernels[0], 2, (const size_t[]){width->row_elements, width->rows},
               NULL);
    return lab_status(width->lab);
}

int width_read(struct width *width, void *a)
{
    lab_read(width->lab, a, width->buffers[A], width->bytes);
    return lab_status(width->lab);
}

double width_value(enum width_type type, const void *values, size_t i)
{
    switch (type) {
    case WIDTH_FLOAT:
        return (double)((const float *)values)[i];
    case WIDTH_INT:
        return ((const int32_t *)values)[i];
    default:
        return ((const int16_t *)values)[i];
    }
}

double width_expected(enum width_type type, const void *b, const void *c, const void *d, size_t i)
{
    const double bv = width_value(type, b, i), cv = width_value(type, c, i),
                 dv = width_value(type, d, i);
    const uint64_t exact = ((uint64_t)(int64_t)bv - (uint64_t)(int64_t)cv) * (uint64_t)(int64_t)dv;
    switch (type) {
    case WIDTH_FLOAT:
        return (bv - cv) * dv;
    case WIDTH_INT:
        return (int32_t)(uint32_t)exact;
    default:
        return (int16_t)(uint16_t)exact;
    }
}
