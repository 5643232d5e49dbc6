/*
 * Burtsev 2025 on the host: the sequential program that speed-ups are measured against, and the
 * five variants A … E with exactly the transfers and launches that define them. The kernels
 * and the paper's definitions stand in kernels/published/multiple_convolution.cl.
 *
 * Vectors are interleaved floats re, im: [m][j][n]. One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_MULTIPLE_CONVOLUTION_H
#define CONVOLVD_BENCH_PUBLISHED_MULTIPLE_CONVOLUTION_H

#include "bench/published/lab.h"

enum convolution_variant {
    CONVOLUTION_A,
    CONVOLUTION_B,
    CONVOLUTION_C,
    CONVOLUTION_D,
    CONVOLUTION_E,
    CONVOLUTION_VARIANTS
};

/* z = IFFT(FFT(x) · FFT(y)), vector by vector, on the calling thread; g is scratch of z's size, w
 * has n + 1 factors. */
void convolution_sequential(uint32_t vectors, uint32_t n, const float *x, const float *y, float *g,
                            float *z, const float *w);

/* The same for one vector in double; `work` holds 4n values. Returns 0 or ERROR_MEMORY. */
int convolution_reference(uint32_t n, const float *x, const float *y, double *want, double *work);

struct convolution;

/* Program, buffers and factors for m × j vectors of n points; NULL with lab->problem. max_np: the
 * longest vector a work-item may hold in private memory. */
struct convolution *convolution_open(struct lab *lab, uint32_t m, uint32_t j, uint32_t n,
                                     uint32_t max_np);
void convolution_close(struct convolution *convolution); /* NULL is fine */

/* x, y → z, g being host scratch where A and D keep what they carry back and forth. */
int convolution_run(struct convolution *convolution, enum convolution_variant variant,
                    const float *x, const float *y, float *g, float *z);

/* Host ↔ device transfers of whole matrices that a variant makes: 9 or 3. */
uint32_t convolution_transfers(enum convolution_variant variant);

/*
 * MAX_NP for m × j vectors of n points: 2n when a work-item can hold two of them in private memory,
 * n when it can hold one, else 0. Each is tried in a child process, `program` with the arguments
 * `--try-np M,J,N,MAX_NP` and these: too large an array ends a CPU device's worker with its stack,
 * and how large is too large depends on the work-group the driver chooses for m × j.
 */
uint32_t convolution_find_max_np(const char *program, const char *device, const char *threads,
                                 uint32_t m, uint32_t j, uint32_t n);

/* What the child does: 0 when variants B and C come out right. */
int convolution_try_np(struct lab *lab, uint32_t m, uint32_t j, uint32_t n, uint32_t max_np);

#endif
