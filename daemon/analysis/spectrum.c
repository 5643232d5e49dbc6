/*
 * Spectra of real sequences, see spectrum.h. Real and imaginary parts lie in arrays of their own,
 * so that the inner loops are plain ones over neighbours. A pass of radix 4 takes a work array to
 * the other; its twiddles lie in the order in which it reads them.
 */
#include "analysis/spectrum.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

struct complex_arrays {
    double *re, *im;
};

struct twiddle {
    double re[3], im[3]; /* w^p, w^2p, w^3p of a butterfly of radix 4 */
};

/* All arrays of a plan. The transform is complex, of `half` = M/2 points. */
struct spectrum_plan {
    uint32_t half;
    struct twiddle *passes;            /* of all passes, in their order */
    struct complex_arrays unpack;      /* exp(-2 pi j k / M), k ≤ half / 2 */
    struct complex_arrays work, other; /* [half] */
    double *memory;
};

/* exp(-2 pi j k / n), n a power of two: from an angle of the first eighth of the circle, so that
 * values which ought to be equal are. */
static void unit_root(uint32_t k, uint32_t n, double *re, double *im)
{
    const uint64_t eighths = 8 * (uint64_t)(k % n); /* of 1/n of the circle */
    const uint32_t octant = (uint32_t)(eighths / n);
    const uint64_t rest = eighths % n;
    const uint64_t from_axis = octant % 2 == 0 ? rest : n - rest;
    const long double angle = 3.14159265358979323846264338327950288L / 4 * from_axis / n;
    const double c = (double)cosl(angle), s = (double)sinl(angle);
    const bool swap = octant % 4 == 1 || octant % 4 == 2;
    const double x = swap ? s : c, y = swap ? c : s;
    *re = octant >= 2 && octant < 6 ? -x : x;
    *im = octant < 4 ? -y : y;
}

/* Butterflies of all passes of radix 4: n/4 of a pass over n points. */
static uint32_t butterflies(uint32_t half)
{
    uint32_t count = 0;
    for (uint32_t n = half; n >= 4; n /= 4)
        count += n / 4;
    return count;
}

static uint64_t plan_doubles(uint32_t points)
{
    const uint32_t half = points / 2;
    return (uint64_t)butterflies(half) * (sizeof(struct twiddle) / sizeof(double)) +
           2 * ((uint64_t)half / 2 + 1) + 4 * (uint64_t)half;
}

uint64_t spectrum_memory(uint32_t points)
{
    return sizeof(struct spectrum_plan) + plan_doubles(points) * sizeof(double);
}

int spectrum_plan_open(uint32_t points, struct spectrum_plan **out)
{
    assert(points >= SPECTRUM_POINTS_MIN && points <= SPECTRUM_POINTS_MAX &&
           (points & (points - 1)) == 0);
    struct spectrum_plan *s = calloc(1, sizeof *s);
    *out = s;
    if (s == NULL)
        return ERROR_MEMORY;
    s->memory = calloc(plan_doubles(points), sizeof(double));
    if (s->memory == NULL) {
        free(s);
        *out = NULL;
        return ERROR_MEMORY;
    }
    s->half = points / 2;
    s->passes = (struct twiddle *)(void *)s->memory;
    struct twiddle *t = s->passes;
    for (uint32_t n = s->half; n >= 4; n /= 4)
        for (uint32_t p = 0; p < n / 4; p++, t++)
            for (uint32_t i = 0; i < 3; i++)
                unit_root((i + 1) * p, n, &t->re[i], &t->im[i]);
    double *next = (double *)(void *)t;
    const uint32_t quarter = s->half / 2 + 1;
    s->unpack = (struct complex_arrays){next, next + quarter};
    for (uint32_t k = 0; k < quarter; k++)
        unit_root(k, points, &s->unpack.re[k], &s->unpack.im[k]);
    next += 2 * quarter;
    s->work = (struct complex_arrays){next, next + s->half};
    s->other = (struct complex_arrays){next + 2 * s->half, next + 3 * s->half};
    return 0;
}

void spectrum_plan_close(struct spectrum_plan *s)
{
    if (s == NULL)
        return;
    free(s->memory);
    free(s);
}

/* ---- the complex transform ----------------------------------------------------------------- */

/* One butterfly column: `stride` of them with the same twiddles, n/4 · stride points apart in x,
 * and stride apart in y. */
static void radix_4(struct complex_arrays x, struct complex_arrays y, uint32_t apart,
                    uint32_t stride, const struct twiddle *w)
{
    const double *restrict xr = x.re, *restrict xi = x.im;
    double *restrict yr = y.re, *restrict yi = y.im;
    const struct twiddle t = *w;
    for (uint32_t q = 0; q < stride; q++) {
        const double ar = xr[q], ai = xi[q];
        const double br = xr[q + apart], bi = xi[q + apart];
        const double cr = xr[q + 2 * apart], ci = xi[q + 2 * apart];
        const double dr = xr[q + 3 * apart], di = xi[q + 3 * apart];
        const double sum_r = ar + cr, sum_i = ai + ci, sum2_r = br + dr, sum2_i = bi + di;
        const double diff_r = ar - cr, diff_i = ai - ci, diff2_r = br - dr, diff2_i = bi - di;
        const double one_r = diff_r + diff2_i, one_i = diff_i - diff2_r; /* -j (b - d) */
        const double two_r = sum_r - sum2_r, two_i = sum_i - sum2_i;
        const double three_r = diff_r - diff2_i, three_i = diff_i + diff2_r;
        yr[q] = sum_r + sum2_r;
        yi[q] = sum_i + sum2_i;
        yr[q + stride] = one_r * t.re[0] - one_i * t.im[0];
        yi[q + stride] = one_r * t.im[0] + one_i * t.re[0];
        yr[q + 2 * stride] = two_r * t.re[1] - two_i * t.im[1];
        yi[q + 2 * stride] = two_r * t.im[1] + two_i * t.re[1];
        yr[q + 3 * stride] = three_r * t.re[2] - three_i * t.im[2];
        yi[q + 3 * stride] = three_r * t.im[2] + three_i * t.re[2];
    }
}

static struct complex_arrays from(struct complex_arrays a, uint32_t index)
{
    return (struct complex_arrays){a.re + index, a.im + index};
}

/* Forward transform of s->work; returns the work array that holds it. */
static struct complex_arrays transform(struct spectrum_plan *s)
{
    struct complex_arrays x = s->work, y = s->other;
    const struct twiddle *t = s->passes;
    uint32_t n = s->half, stride = 1;
    for (; n >= 4; n /= 4, stride *= 4) {
        for (uint32_t p = 0; p < n / 4; p++)
            radix_4(from(x, stride * p), from(y, 4 * stride * p), n / 4 * stride, stride, t++);
        const struct complex_arrays swap = x;
        x = y;
        y = swap;
    }
    if (n == 2) {
        for (uint32_t q = 0; q < stride; q++) {
            y.re[q] = x.re[q] + x.re[q + stride];
            y.im[q] = x.im[q] + x.im[q + stride];
            y.re[q + stride] = x.re[q] - x.re[q + stride];
            y.im[q + stride] = x.im[q] - x.im[q + stride];
        }
        x = y;
    }
    return x;
}

/* ---- real sequences ------------------------------------------------------------------------ */

/* With z[i] = x[2i] + j x[2i+1] and Z its transform, E = (Z[k] + conj Z[-k]) / 2 is that of the
 * even points, O = -j (Z[k] - conj Z[-k]) / 2 that of the odd ones, and X[k] = E + w^k O, X[M/2 -
 * k] = conj(E - w^k O). */
void spectrum_forward(struct spectrum_plan *s, const double *x, double *re, double *im)
{
    const uint32_t half = s->half;
    for (uint32_t i = 0; i < half; i++) {
        s->work.re[i] = x[2 * (size_t)i];
        s->work.im[i] = x[2 * (size_t)i + 1];
    }
    const struct complex_arrays z = transform(s);
    for (uint32_t k = 0; k <= half / 2; k++) {
        const uint32_t l = k == 0 ? 0 : half - k;
        const double even_r = 0.5 * (z.re[k] + z.re[l]), even_i = 0.5 * (z.im[k] - z.im[l]);
        const double odd_r = 0.5 * (z.im[k] + z.im[l]), odd_i = 0.5 * (z.re[l] - z.re[k]);
        const double wr = s->unpack.re[k], wi = s->unpack.im[k];
        const double turned_r = odd_r * wr - odd_i * wi, turned_i = odd_r * wi + odd_i * wr;
        re[half - k] = even_r - turned_r;
        im[half - k] = turned_i - even_i;
        re[k] = even_r + turned_r;
        im[k] = even_i + turned_i;
    }
    im[0] = im[half] = 0;
}

/* The same equations solved for Z; the inverse transform is the forward one with real and imaginary
 * parts exchanged before and after. */
void spectrum_inverse(struct spectrum_plan *s, const double *re, const double *im, double *x)
{
    const uint32_t half = s->half;
    for (uint32_t k = 0; k <= half / 2; k++) {
        const uint32_t l = half - k;
        const double upper_i = k == 0 ? 0 : im[l], lower_i = k == 0 ? 0 : im[k];
        const double even_r = 0.5 * (re[k] + re[l]), even_i = 0.5 * (lower_i - upper_i);
        const double turned_r = 0.5 * (re[k] - re[l]), turned_i = 0.5 * (lower_i + upper_i);
        const double wr = s->unpack.re[k], wi = s->unpack.im[k];
        const double odd_r = turned_r * wr + turned_i * wi, odd_i = turned_i * wr - turned_r * wi;
        const uint32_t mirror = k == 0 ? 0 : l;
        s->work.im[mirror] = even_r + odd_i;
        s->work.re[mirror] = odd_r - even_i;
        s->work.im[k] = even_r - odd_i;
        s->work.re[k] = even_i + odd_r;
    }
    const struct complex_arrays z = transform(s);
    const double scale = 1.0 / half;
    for (uint32_t i = 0; i < half; i++) {
        x[2 * (size_t)i] = z.im[i] * scale;
        x[2 * (size_t)i + 1] = z.re[i] * scale;
    }
}

void spectrum_window(enum spectrum_window window, uint32_t points, double *w)
{
    const long double turn = 2 * 3.14159265358979323846264338327950288L;
    for (uint32_t i = 0; i < points; i++)
        w[i] = (double)(window == SPECTRUM_HAMMING ? 0.54L - 0.46L * cosl(turn * i / (points - 1))
                                                   : 0.5L - 0.5L * cosl(turn * i / points));
}
