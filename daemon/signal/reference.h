/*
 * The double-precision references that tests and self-tests compare results with, and the error
 * bound that results must keep.
 *
 * reference_convolve_direct is the definition itself: y[n] = sum_k h[k] x[n-k], x zero outside
 * [0, frames). reference_convolve computes the same by FFT in double (overlap-add over blocks); the
 * tests compare it with direct dot products. Neither shares code with the kernels.
 *
 * Pure functions, any thread; those with scratch memory allocate it, so not for the loop.
 */
#ifndef CONVOLVD_SIGNAL_REFERENCE_H
#define CONVOLVD_SIGNAL_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y[0 … frames+taps-2] (frames + taps - 1 values) from real x[frames] and real h[taps]. */
void reference_convolve_direct(const double *x, uint64_t frames, const double *h, uint32_t taps,
                               double *y);

/* The same through double FFTs. Returns 0 or ERROR_MEMORY. */
int reference_convolve(const double *x, uint64_t frames, const double *h, uint32_t taps, double *y);

/* One value of the definition, y[n], summed with Neumaier's compensation (A. Neumaier, ZAMM 54,
 * 1974). */
double reference_dot(const double *x, uint64_t frames, const double *h, uint32_t taps, uint64_t n);

/* In-place complex DFT of power-of-two length n, interleaved re/im; sign -1 forward, +1 inverse
 * (not normalised). Returns 0 or ERROR_MEMORY. */
int reference_fft(double *data, uint32_t n, int sign);

/*
 * The error bound of the design, e = got - want over `count` values:
 *   ||e||_2 <= 1e-6 * max(||want||_2, max|H| * ||x||_2)   and
 *   max|e|  <= 5e-6 * max(max|want|, max|H| * max|x|).
 */
struct error_bound {
    double e2, e_max, want2, want_max; /* measured */
    double limit2, limit_max;          /* allowed */
};
/* got[count] at distances of `stride` floats; x2 = ||x||_2 and x_max = max|x| over the input frames
 * that the values depend on; h_max = max |H(f)|. True when within the bound; NaN in got never is.
 */
bool error_bound_check(const float *got, size_t stride, const double *want, size_t count, double x2,
                       double x_max, double h_max, struct error_bound *measured);

/* max |H(f)| of real or complex taps on a dense grid (at least 4·S points). */
double taps_peak_response(const double *re, const double *im, uint32_t taps);

#endif
