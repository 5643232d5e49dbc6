/*
 * The sizes of the papers' tables, for the bench and the report alike.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_GRID_H
#define CONVOLVD_BENCH_PUBLISHED_GRID_H

#include <stdint.h>

#include "bench/published/pipeline_2d.h"

/* Burtsev 2025: M = J, and N. */
enum { GRID_N_MIN = 32, GRID_N_MAX = 65536 };
extern const uint32_t grid_m[];
extern const uint32_t grid_m_count;

/* Direct convolution: N samples, M taps (powers of two). */
enum { GRID_DIRECT_M_MIN = 8, GRID_DIRECT_M_MAX = 512 };
extern const uint32_t grid_direct_n[];
extern const uint32_t grid_direct_n_count;

/* The 2-D pipeline: the book's image, and time × channel of an array. */
struct grid_pipeline {
    const char *name;
    uint32_t width, rows;
    struct pipeline_mask mask;
};
extern const struct grid_pipeline grid_pipelines[];
extern const uint32_t grid_pipeline_count;

/* Vector widths: values of each operand. */
enum { GRID_WIDTH_VALUES = 1 << 22 };

#endif
