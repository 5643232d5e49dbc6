/*
 * Batches without the engine's copies: the samples lie in device memory already, and the results
 * stay there, packed reports with them. The linker puts the wrappers of gpu_resident.c in the place
 * of the engine's functions (RESIDENT_WRAPS in the Makefile).
 */
#ifndef CONVOLVD_BENCH_GPU_RESIDENT_H
#define CONVOLVD_BENCH_GPU_RESIDENT_H

#include <stdbool.h>

/* May change between batches. */
extern bool gpu_resident;

#endif
