/*
 * The right-angle transform as the host sees it: its shape for a given N, the factors the
 * kernels read, and filter spectra, all computed in double by the very tree of
 * kernels/tree.clh, so that kernel and host agree on the order by construction.
 *
 * Immutable once made; worker threads.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_FFT_PLAN_H
#define CONVOLVD_CONVOLVE_PLAN_FFT_PLAN_H

#include <stdint.h>

#include "core/error.h"

struct tree {
    uint32_t fft;    /* N = 2Q real points */
    uint32_t q;      /* complex points */
    uint32_t lanes;  /* 1 or 16 */
    uint32_t points; /* Q / lanes */
    uint32_t log_points;
    uint64_t radices; /* log2 of each level's radix, two bits a level, first level lowest */
    uint32_t levels;
    double *factors; /* [points - 1][lanes] interleaved re/im */
};

/* `fft`: a power of two, at least 4·lanes; `radix_max` 4 or 8. */
int tree_create(uint32_t fft, uint32_t lanes, uint32_t radix_max, struct tree **out,
                struct problem *problem);
/* One lane, with the levels of `radices` (as struct tree holds them); their product is N/2. */
int tree_create_levels(uint32_t fft, uint64_t radices, struct tree **out, struct problem *problem);
void tree_free(struct tree *tree); /* NULL is fine */

/* Floats of the kernels' table of factors, at least one vector. */
uint64_t tree_factor_floats(const struct tree *tree);
void tree_factors(const struct tree *tree, float *table);

/* The spectrum of h[count], count <= N, in the kernels' order: 2Q floats, the factor 1/Q folded in.
 * `work` holds 2Q doubles. */
void tree_spectrum(const struct tree *tree, const double *h, uint32_t count, double *work,
                   float *spectrum);

#endif
