/*
 * The OpenCL Programming Book, 6.1, on the host: 2-D FFT, mask, inverse, with the time of every
 * process. The kernels and what the book defines stand in kernels/published/pipeline_2d.cl.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_PIPELINE_2D_H
#define CONVOLVD_BENCH_PUBLISHED_PIPELINE_2D_H

#include "bench/published/lab.h"

/* The rows of the book's table. */
#define PIPELINE_PROCESSES(X)                                                                      \
    X(WRITE, "write")                                                                              \
    X(SPIN, "spin factors")                                                                        \
    X(REVERSE, "bit reversal")                                                                     \
    X(BUTTERFLY, "butterflies")                                                                    \
    X(NORMALISE, "normalise")                                                                      \
    X(TRANSPOSE, "transpose")                                                                      \
    X(MASK, "mask")                                                                                \
    X(READ, "read")

enum pipeline_process {
#define X(name, text) PIPELINE_##name,
    PIPELINE_PROCESSES(X)
#undef X
        PIPELINE_PROCESSES_COUNT
};

const char *pipeline_process_name(enum pipeline_process process);

/* What remains of the spectrum. */
struct pipeline_mask {
    bool fan;
    int radius;             /* high pass: bins nearer the constant component go */
    float slowest, fastest; /* fan: channels a frame */
};

struct pipeline;

/* Both powers of two, 2 … 65536: an image, or time (width) × channel (rows). NULL with
 * lab->problem. */
struct pipeline *pipeline_open(struct lab *lab, uint32_t width, uint32_t rows);
void pipeline_close(struct pipeline *pipeline); /* NULL is fine */

/* The largest local size that divides every launch. */
uint32_t pipeline_local_max(const struct pipeline *pipeline);

/* points[rows][width], interleaved complex, in place. `local`: work-items of a group along a row.
 * Profiled: times[process] in ns, NULL when not wanted. */
int pipeline_run(struct pipeline *pipeline, const struct pipeline_mask *mask, uint32_t local,
                 float *points, int64_t *times);

/* The same in double on the host; in place, [rows][width]. Returns 0 or ERROR_MEMORY. */
int pipeline_reference(uint32_t width, uint32_t rows, const struct pipeline_mask *mask,
                       double *points);

#endif
