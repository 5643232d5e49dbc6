/*
 * convolvd's own variants on the papers' work, through engine.h: samples from the ring in, float
 * samples out, one batch, whatever variant the engine prefers for the shape.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_PRODUCTION_H
#define CONVOLVD_BENCH_PUBLISHED_PRODUCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct production_shape {
    uint32_t
        channels; /* each with a filter of its own, at most PRODUCTION_FILTERS different ones */
    uint32_t blocks, hop, taps, fft; /* fft 0: the engine's rule */
};

enum { PRODUCTION_FILTERS = 64 };

struct production_result {
    double total_ns;    /* fastest of some batches, submitted to completed */
    double resident_ns; /* likewise with samples and results in device memory; 0: not measured */
    double error;       /* ||e||2 / ||y||2 of the middle block, first and last channel */
    char variant[24];
};

struct production_options {
    const char *device;
    int cpu_threads;
    const char *cache_dir;
    const char *variant; /* NULL: the engine's choice */
    int64_t limit_ns;    /* repeat no longer than this */
    /* Whether the following batches leave out their copies; NULL: no such figure is wanted. */
    void (*set_resident)(bool resident);
};

/* 0, or why not. */
int production_measure(const struct production_options *options,
                       const struct production_shape *shape, struct production_result *result,
                       struct problem *problem);

#endif
