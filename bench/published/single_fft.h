/*
 * Burtsev 2022 on the host: one FFT of n points by the variants A, B, B^L, C, C^L, D, E, F. The
 * kernels and the paper's definitions stand in kernels/published/single_fft.cl; the sequential
 * program is the transform inside convolution_sequential's.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_SINGLE_FFT_H
#define CONVOLVD_BENCH_PUBLISHED_SINGLE_FFT_H

#include "bench/published/lab.h"

enum fft_variant { FFT_A, FFT_B, FFT_BL, FFT_C, FFT_CL, FFT_D, FFT_E, FFT_F, FFT_VARIANTS };

enum { FFT_LOG2_MIN = 8, FFT_LOG2_MAX = 24 };

const char *fft_variant_name(enum fft_variant variant);

/* x = FFT(y), sequential; w has at least n / 2 factors. */
void fft_sequential(uint32_t n, const float *y, float *x, const float *w);

struct fft;

/* n = 2^5 … 2^24. NULL with lab->problem. */
struct fft *fft_open(struct lab *lab, uint32_t n);
void fft_close(struct fft *fft); /* NULL is fine */

/* Whether the variant can: true, or false with the reason. */
bool fft_can(const struct fft *fft, enum fft_variant variant, char *reason, size_t reason_bytes);

/* y to the device, all launches, x back. */
int fft_run(struct fft *fft, enum fft_variant variant, const float *y, float *x);

#endif
