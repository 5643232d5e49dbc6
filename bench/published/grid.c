/*
 * The sizes of the papers' tables, see grid.h.
 */
#include "bench/published/grid.h"

const uint32_t grid_m[] = {2, 5, 10, 20, 50, 100, 200};
const uint32_t grid_m_count = sizeof grid_m / sizeof grid_m[0];

const uint32_t grid_direct_n[] = {10000, 100000, 1000000};
const uint32_t grid_direct_n_count = sizeof grid_direct_n / sizeof grid_direct_n[0];

const struct grid_pipeline grid_pipelines[] = {
    {"image", 512, 512, {.radius = 64}},
    {"array", 4096, 64, {.fan = true, .slowest = 0.31f, .fastest = 1.13f}},
};
const uint32_t grid_pipeline_count = sizeof grid_pipelines / sizeof grid_pipelines[0];
