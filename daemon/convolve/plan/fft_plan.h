/*
 * An FFT plan: the passes, twiddles and spectrum order of one transform length, for the host and
 * for the kernels.
 *
 * The transform is the weighted (odd-frequency) DFT of kernels/fft.clh, which turns a product of
 * two spectra into the negacyclic convolution of N real frames. The plan computes in double what
 * the kernels read in float: the table of twiddles, and the spectra of filters in the order in
 * which the kernels hold their points. Both sides follow the same list of radices, so that they
 * agree on that order by construction.
 *
 * Immutable once made; worker threads.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_FFT_PLAN_H
#define CONVOLVD_CONVOLVE_PLAN_FFT_PLAN_H

#include <stdint.h>

#include "core/error.h"

struct fft_plan {
    uint32_t fft;    /* N = 2Q real frames */
    uint32_t q;      /* complex points */
    uint32_t lanes;  /* 1, or 16: the first pass has radix 16 and its results are vector lanes */
    uint32_t points; /* Q / lanes: vectors of `lanes` points */
    uint32_t log_points;
    uint64_t radices; /* log2 of each pass's radix, two bits a pass, the first pass lowest */
    uint32_t passes;
    double *twiddles; /* [points - 1][lanes] interleaved re/im */
};

/* `fft`: a power of two, at least 4·lanes; `radix_max` 4 or 8. 0 or ERROR_MEMORY. */
int fft_plan_create(uint32_t fft, uint32_t lanes, uint32_t radix_max, struct fft_plan **out,
                    struct problem *problem);

/* One lane, with the passes of `radices` (as struct fft_plan holds them); their product is N/2. */
int fft_plan_create_radices(uint32_t fft, uint64_t radices, struct fft_plan **out,
                            struct problem *problem);
void fft_plan_free(struct fft_plan *plan); /* NULL is fine */

/* Floats of the kernels' table of twiddles, at least one vector. */
uint64_t fft_plan_twiddle_floats(const struct fft_plan *plan);

/* Writes the kernels' table, [points - 1][re: lanes][im: lanes]. */
void fft_plan_twiddles(const struct fft_plan *plan, float *table);

/* The spectrum of h[count], count <= N, in the kernels' order: 2Q floats, the factor 1/Q folded in.
 * `work` holds 2Q doubles. */
void fft_plan_spectrum(const struct fft_plan *plan, const double *h, uint32_t count, double *work,
                       float *spectrum);

#endif
