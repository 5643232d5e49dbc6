/*
 * The double-precision references: see reference.h. The transform is the plain radix-2 FFT with bit
 * reversal and twiddles from sin and cos, the convolution plain overlap-add: the kernels share none
 * of it.
 */
#include "signal/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/power.h"

#define TWO_PI 6.283185307179586476925286766559

void reference_convolve_direct(const double *x, uint64_t frames, const double *h, uint32_t taps,
                               double *y)
{
    if (frames == 0 || taps == 0)
        return;
    memset(y, 0, (frames + taps - 1) * sizeof *y);
    for (uint32_t k = 0; k < taps; k++) {
        for (uint64_t n = 0; n < frames; n++)
            y[n + k] += h[k] * x[n];
    }
}

double reference_dot(const double *x, uint64_t frames, const double *h, uint32_t taps, uint64_t n)
{
    double sum = 0.0, compensation = 0.0; /* Neumaier 1974 */
    uint64_t first = n >= frames ? n - frames + 1 : 0;
    for (uint64_t k = first; k < taps && k <= n; k++) {
        double term = h[k] * x[n - k];
        double total = sum + term;
        compensation += fabs(sum) >= fabs(term) ? (sum - total) + term : (term - total) + sum;
        sum = total;
    }
    return sum + compensation;
}

/* ---- transform --------------------------------------------------------------------------- */

/* The twiddles of every pass, so that each pass reads its own in order: w[half + k], interleaved,
 * is exp(2 pi i k / (2 half)) for k < half, half = 1, 2, 4 … n / 2. */
static double *twiddles_create(uint32_t n)
{
    double *w = calloc(n < 2 ? 4 : 2 * (size_t)n, sizeof *w);
    if (w == NULL)
        return NULL;
    double *last = w + n;
    for (uint32_t k = 0; k < n / 2; k++) {
        double angle = TWO_PI * (double)k / (double)n;
        last[2 * k] = cos(angle);
        last[2 * k + 1] = sin(angle);
    }
    for (uint32_t half = n / 4; half > 0; half /= 2) {
        for (uint32_t k = 0; k < half; k++) {
            w[2 * (half + k)] = w[4 * (half + k)];
            w[2 * (half + k) + 1] = w[4 * (half + k) + 1];
        }
    }
    return w;
}

static void transform(double *data, uint32_t n, int sign, const double *w)
{
    for (uint32_t i = 1, j = 0; i < n; i++) { /* bit reversal */
        uint32_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double re = data[2 * i], im = data[2 * i + 1];
            data[2 * i] = data[2 * j];
            data[2 * i + 1] = data[2 * j + 1];
            data[2 * j] = re;
            data[2 * j + 1] = im;
        }
    }
    for (uint32_t half = 1; half < n; half *= 2) { /* decimation in time */
        const double *pass = w + 2 * half;
        for (uint32_t start = 0; start < n; start += 2 * half) {
            for (uint32_t k = 0; k < half; k++) {
                double wr = pass[2 * k], wi = sign * pass[2 * k + 1];
                double *a = data + 2 * (start + k), *b = a + 2 * half;
                double re = b[0] * wr - b[1] * wi, im = b[0] * wi + b[1] * wr;
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
        }
    }
}

int reference_fft(double *data, uint32_t n, int sign)
{
    assert(n > 0 && (n & (n - 1)) == 0);
    assert(sign == 1 || sign == -1);
    double *w = twiddles_create(n);
    if (w == NULL)
        return ERROR_MEMORY;
    transform(data, n, sign, w);
    free(w);
    return 0;
}

/* ---- convolution ------------------------------------------------------------------------- */

int reference_convolve(const double *x, uint64_t frames, const double *h, uint32_t taps, double *y)
{
    if (frames == 0 || taps == 0)
        return 0;
    if (frames < taps) { /* convolution commutes: use the shorter one as the filter */
        const double *swap = x;
        x = h;
        h = swap;
        uint64_t count = frames;
        frames = taps;
        taps = (uint32_t)count;
    }
    uint64_t total = frames + taps - 1;
    uint64_t wanted = 4 * (uint64_t)taps > 1024 ? 4 * (uint64_t)taps : 1024;
    uint32_t n = (uint32_t)power_of_two_from(1, total < wanted ? total : wanted);
    uint32_t hop = n - taps + 1;

    double *w = twiddles_create(n);
    double *spectrum = calloc(2 * (size_t)n, sizeof *spectrum);
    double *block = calloc(2 * (size_t)n, sizeof *block);
    int status = ERROR_MEMORY;
    if (w == NULL || spectrum == NULL || block == NULL)
        goto done;
    for (uint32_t k = 0; k < taps; k++)
        spectrum[2 * k] = h[k] / (double)n;
    transform(spectrum, n, -1, w);
    memset(y, 0, total * sizeof *y);

    /* Two blocks at a time, one in the real and one in the imaginary part: h is real, so the
     * two results separate by themselves. */
    for (uint64_t start = 0; start < frames; start += 2 * (uint64_t)hop) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t first = start + i, second = first + hop;
            block[2 * i] = i < hop && first < frames ? x[first] : 0.0;
            block[2 * i + 1] = i < hop && second < frames ? x[second] : 0.0;
        }
        transform(block, n, -1, w);
        for (uint32_t i = 0; i < n; i++) {
            double re = block[2 * i], im = block[2 * i + 1];
            double hr = spectrum[2 * i], hi = spectrum[2 * i + 1];
            block[2 * i] = re * hr - im * hi;
            block[2 * i + 1] = re * hi + im * hr;
        }
        transform(block, n, 1, w);
        for (uint32_t i = 0; i < n; i++) { /* overlap-add */
            if (start + i < total)
                y[start + i] += block[2 * i];
            if (start + hop + i < total)
                y[start + hop + i] += block[2 * i + 1];
        }
    }
    status = 0;
done:
    free(w);
    free(spectrum);
    free(block);
    return status;
}

/* ---- bounds ------------------------------------------------------------------------------ */

bool error_bound_check(const float *got, size_t stride, const double *want, size_t count, double x2,
                       double x_max, double h_max, struct error_bound *measured)
{
    double e2 = 0.0, e_max = 0.0, want2 = 0.0, want_max = 0.0;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        double e = (double)got[i * stride] - want[i];
        finite = finite && isfinite(e);
        e2 += e * e;
        e_max = fmax(e_max, fabs(e));
        want2 += want[i] * want[i];
        want_max = fmax(want_max, fabs(want[i]));
    }
    struct error_bound bound = {
        .e2 = sqrt(e2),
        .e_max = finite ? e_max : INFINITY,
        .want2 = sqrt(want2),
        .want_max = want_max,
    };
    bound.limit2 = 1e-6 * fmax(bound.want2, h_max * x2);
    bound.limit_max = 5e-6 * fmax(bound.want_max, h_max * x_max);
    if (measured != NULL)
        *measured = bound;
    return finite && bound.e2 <= bound.limit2 && bound.e_max <= bound.limit_max;
}

double taps_peak_response(const double *re, const double *im, uint32_t taps)
{
    /* At least 8 points per tap and 1024 in all: the true peak is then within 2 %. */
    uint64_t wanted = 8 * (uint64_t)taps > 1024 ? 8 * (uint64_t)taps : 1024;
    uint32_t n = (uint32_t)power_of_two_from(1, wanted);
    double sum = 0.0;
    for (uint32_t k = 0; k < taps; k++)
        sum += hypot(re[k], im != NULL ? im[k] : 0.0);
    double *data = calloc(2 * (size_t)n, sizeof *data);
    if (data == NULL)
        return sum; /* out of memory: the sum of |h| is an upper bound */
    for (uint32_t k = 0; k < taps; k++) {
        data[2 * k] = re[k];
        data[2 * k + 1] = im != NULL ? im[k] : 0.0;
    }
    double peak = 0.0;
    if (reference_fft(data, n, -1) == 0) {
        for (uint32_t i = 0; i < n; i++)
            peak = fmax(peak, hypot(data[2 * i], data[2 * i + 1]));
    } else {
        peak = sum;
    }
    free(data);
    return peak;
}
