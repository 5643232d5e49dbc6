/*
 * Symmetric prototypes by Kaiser's window, in double: the taps of the ideal response times the
 * window. Newton steps then move the cut-off frequencies until the -6 dB points are exact. See
 * prototype.h.
 */
#include "filter/prototype.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "filter/kaiser.h"

#define PI 3.14159265358979323846264338328

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
    kaiser_window(window, p->taps, kaiser_beta(p->attenuation_db));
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
