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

enum { PRODUCTION_FILTERS = 64, PRODUCTION_STREAMS = 64 };

struct production_result {
    double total_ns;    /* fastest of some batches, submitted to completed */
    double resident_ns; /* likewise with samples and results in device memory; 0: not measured */
    double steady_ns;   /* likewise a batch's share while several are in flight */
    double launches_ns; /* of one batch, added up; 0: not measured, or there is none */
    double error;       /* ||e||2 / ||y||2 of the middle block, first and last channel */
    char variant[24];
};

/* Figures beside the time of a batch; the program that links their functions hands them over. */
struct production_probes {
    /* Whether the following batches leave out their copies; NULL: host and device share memory. */
    void (*set_resident)(bool resident);
    /* Around batches whose launches are timed (bench/launch_times.h). */
    void (*launches_begin)(void);
    double (*launches_end)(void);
};

struct production_options {
    const char *device;
    int cpu_threads;
    const char *cache_dir;
    const char *variant; /* NULL: the engine's choice */
    uint32_t streams;    /* of that shape in every batch, 1 … PRODUCTION_STREAMS */
    int64_t limit_ns;    /* repeat no longer than this */
    bool polls;          /* await a batch as GPU drivers do in clFinish, without sleeping */
    const struct production_probes *probes; /* NULL: no such figures are wanted */
};

/* 0, or why not. */
int production_measure(const struct production_options *options,
                       const struct production_shape *shape, struct production_result *result,
                       struct problem *problem);

#endif
