/*
 * Symmetric prototypes by Kaiser window, in double: the ideal response's taps under a window,
 * its cut-offs nudged by Newton steps until the -6 dB points are exact. See prototype.h. No
 * state; worker threads.
 */
#include "filter/prototype.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "filter/design.h"

#define PI 3.14159265358979323846264338328

/* Kaiser's D: (attenuation - 7.95) / 14.36, constant where the window is rectangular. */
static double kaiser_width(double attenuation_db)
{
    return attenuation_db > 21 ? (attenuation_db - 7.95) / 14.36 : 0.9222;
}

double prototype_kaiser_length(double attenuation_db, double transition)
{
    return kaiser_width(attenuation_db) / transition + 1;
}

double prototype_kaiser_transition(double attenuation_db, uint32_t taps)
{
    return kaiser_width(attenuation_db) / (taps - 1);
}

double prototype_kaiser_attenuation(uint32_t taps, double transition)
{
    double attenuation = 7.95 + 14.36 * transition * (taps - 1);
    return fmin(fmax(attenuation, DESIGN_ATTENUATION_DB_MIN), DESIGN_ATTENUATION_DB_MAX);
}

double design_kaiser_beta(double attenuation_db)
{
    if (attenuation_db > 50)
        return 0.1102 * (attenuation_db - 8.7);
    if (attenuation_db > 21)
        return 0.5842 * pow(attenuation_db - 21, 0.4) + 0.07886 * (attenuation_db - 21);
    return 0;
}

/* Modified Bessel function of the first kind, order zero, by its series (all terms positive). */
static double bessel_i0(double x)
{
    double sum = 1, term = 1, quarter = x * x / 4;
    for (int k = 1; term > sum * 1e-17; k++) {
        term *= quarter / ((double)k * k);
        sum += term;
    }
    return sum;
}

void design_kaiser_window(double *window, uint32_t count, double beta)
{
    double middle = (count - 1) / 2.0, whole = bessel_i0(beta);
    for (uint32_t n = 0; n <= (count - 1) / 2; n++) {
        double x = middle > 0 ? (n - middle) / middle : 0;
        double value = bessel_i0(beta * sqrt(fmax(0, 1 - x * x))) / whole;
        window[n] = value;
        window[count - 1 - n] = value;
    }
}

double prototype_amplitude(const double *h, uint32_t taps, double frequency)
{
    double sum = 0, middle = (taps - 1) / 2.0;
    for (uint32_t n = 0; n < taps / 2; n++) {
        double turns = frequency * (middle - n);
        sum += 2 * h[n] * cos(2 * PI * (turns - floor(turns)));
    }
    return taps % 2 == 1 ? sum + h[taps / 2] : sum;
}

/* Ideal low-pass tap at distance t from the middle: sin(2 pi f t) / (pi t). */
static double ideal(double cutoff, double t)
{
    if (t == 0)
        return 2 * cutoff;
    double turns = cutoff * t;
    return sin(2 * PI * (turns - floor(turns))) / (PI * t);
}

/* h = window · ideal response with the cut-offs low and high, gain 1 at the reference. */
static void kaiser_taps(const struct prototype *p, const double *window, double low, double high,
                        double *h)
{
    double middle = (p->taps - 1) / 2.0;
    for (uint32_t n = 0; n <= (p->taps - 1) / 2; n++) {
        double t = middle - n;
        double value = p->has_high ? ideal(high, t) : t == 0 ? 1.0 : 0.0;
        if (p->has_low)
            value -= ideal(low, t);
        if (p->inverted)
            value = (t == 0 ? 1.0 : 0.0) - value;
        h[n] = value * window[n];
        h[p->taps - 1 - n] = h[n];
    }
    double gain = prototype_amplitude(h, p->taps, p->reference);
    for (uint32_t n = 0; n < p->taps; n++)
        h[n] /= gain;
}

int prototype_kaiser(const struct prototype *p, double *h, struct problem *problem)
{
    assert(p->taps >= 2 && (p->has_low || p->has_high));
    double *window = malloc(p->taps * sizeof *window);
    if (window == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory to design %u taps", p->taps);
    design_kaiser_window(window, p->taps, design_kaiser_beta(p->attenuation_db));
    double area = 0; /* the slope of the response at a cut-off is the window's spectrum at 0 */
    for (uint32_t n = 0; n < p->taps; n++)
        area += window[n];

    double low = p->low, high = p->high, reach = p->transition / 2;
    for (int step = 0;; step++) {
        kaiser_taps(p, window, low, high, h);
        double miss_low = p->has_low ? 0.5 - prototype_amplitude(h, p->taps, p->low) : 0;
        double miss_high = p->has_high ? 0.5 - prototype_amplitude(h, p->taps, p->high) : 0;
        if (step == 6 || fmax(fabs(miss_low), fabs(miss_high)) < 1e-10)
            break;
        /* more gain at the lower edge of a pass-band: move it down; upper edge: up */
        double sign = p->inverted ? -1 : 1;
        low -= sign * miss_low / area;
        high += sign * miss_high / area;
        low = fmin(fmax(low, p->low - reach), p->low + reach);
        high = fmin(fmax(high, p->high - reach), p->high + reach);
    }
    free(window);
    return 0;
}
