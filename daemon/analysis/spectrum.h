/*
 * Spectra of real sequences in double: a plan for one length, a power of two, forward and inverse,
 * and the windows that go before it. For the features of hits and for vibration; the device's
 * transforms are convolve/'s.
 *
 * The transform of M points is a complex one of M/2: Stockham's self-sorting algorithm in radix 4
 * (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7 and 4.3), so
 * nothing is permuted. Its error grows with lg M: below 1e-15 · lg M of the spectrum's norm.
 *
 * Results depend on the input alone, to the last bit: one order of operations, without contraction,
 * and twiddles and windows rounded from long double, since a C library may choose another cos for
 * another CPU.
 *
 * A plan holds its own work memory: one thread at a time each, different plans at once. Nothing
 * but `open` allocates.
 */
#ifndef CONVOLVD_ANALYSIS_SPECTRUM_H
#define CONVOLVD_ANALYSIS_SPECTRUM_H

#include <stdint.h>

enum { SPECTRUM_POINTS_MIN = 2, SPECTRUM_POINTS_MAX = 1 << 22 };

struct spectrum_plan;

/* `points`: M, a power of two, SPECTRUM_POINTS_MIN … SPECTRUM_POINTS_MAX. 0 or ERROR_MEMORY. */
int spectrum_plan_open(uint32_t points, struct spectrum_plan **out);
void spectrum_plan_close(struct spectrum_plan *plan); /* NULL is fine */

/* What a plan holds [bytes]. Any thread. */
uint64_t spectrum_memory(uint32_t points);

/* B = M/2 + 1 bins, 0 … Nyquist. Any thread. */
static inline uint32_t spectrum_bins(uint32_t points)
{
    return points / 2 + 1;
}

/* X[k] = sum_i x[i] exp(-2 pi j i k / M), k < B, from x[M]. im[0] and im[B-1] are 0. The arrays do
 * not overlap. */
void spectrum_forward(struct spectrum_plan *plan, const double *x, double *re, double *im);

/* The x[M] whose spectrum this is: the sum over all M bins divided by M, the upper ones being the
 * conjugates of these; im[0] and im[B-1] are not read. */
void spectrum_inverse(struct spectrum_plan *plan, const double *re, const double *im, double *x);

enum spectrum_window {
    SPECTRUM_HAMMING, /* 0.54 - 0.46 cos(2 pi i / (M - 1)): symmetric, as for features of hits */
    SPECTRUM_HANN,    /* 0.5 - 0.5 cos(2 pi i / M): periodic, so that a sine of a whole number of
                         cycles has three bins and its amplitude is read exactly */
};

/* w[M]; any M ≥ 2. Any thread. */
void spectrum_window(enum spectrum_window window, uint32_t points, double *w);

#endif
