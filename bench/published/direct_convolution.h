/*
 * Yevchuk, Rovinskyi and Striletskyi on the host: direct convolution with the taps in global or in
 * constant memory, or with a grid-stride loop; and the sequential program it is compared with.
 * The kernels and the paper's definitions stand in kernels/published/direct_convolution.cl.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_DIRECT_CONVOLUTION_H
#define CONVOLVD_BENCH_PUBLISHED_DIRECT_CONVOLUTION_H

#include "bench/published/lab.h"

enum direct_variant { DIRECT_GLOBAL, DIRECT_CONSTANT, DIRECT_STRIDE, DIRECT_VARIANTS };

const char *direct_variant_name(enum direct_variant variant);

/* y[0 … n+m-2] from x[n], h[m]. */
void direct_sequential(const float *x, uint32_t n, const float *h, uint32_t m, float *y);

struct direct;

/* Records of up to n samples, filters of up to m taps. NULL with lab->problem. */
struct direct *direct_open(struct lab *lab, uint32_t n, uint32_t m);
void direct_close(struct direct *direct); /* NULL is fine */

/* x and h to the device, one launch, y back. */
int direct_run(struct direct *direct, enum direct_variant variant, const float *x, uint32_t n,
               const float *h, uint32_t m, float *y);

#endif
