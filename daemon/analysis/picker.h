/*
 * Pickers: where in a record a wave begins. Each is the function of its source over float samples,
 * summed in double in the order of samples, with the first of equal extremes; the indices are those
 * of vallenae 0.10's functions of these names.
 *
 * Pure functions, any thread. They return an index into x, or -1 where they are not defined.
 */
#ifndef CONVOLVD_ANALYSIS_PICKER_H
#define CONVOLVD_ANALYSIS_PICKER_H

#include <stdint.h>

/* Akaike's criterion after Maeda (1985): the i, 0 … n-2, with the least
 * (i + 1) ln var(x[0 … i]) + (n - i - 2) ln var(x[i+1 … n-1]); the variances are biased and at
 * least FLT_MIN. -1: n < 2. */
int64_t picker_aic(const float *x, uint32_t n);

/* Hinkley's criterion: the i with the least sum_{j ≤ i} x^2 - i S / (alpha n), S the whole sum.
 * -1: n < 1. */
int64_t picker_hinkley(const float *x, uint32_t n, double alpha);

/* The i, w … n-w-1, with the largest sum of x^2 over i+1 … i+w over that over i-w+1 … i (plus
 * FLT_MIN): Han, Wong and Bancroft (2009). -1: n ≤ 2 w. */
int64_t picker_energy_ratio(const float *x, uint32_t n, uint32_t w);

/* Where |x| passes `threshold` between `before`, one frame earlier, and `first`, on a straight
 * line: -1 … 0 frames from the first; 0 where the two have not one sign. */
double picker_crossing(float before, float first, double threshold);

#endif
