/*
 * Symmetric prototypes: real linear-phase taps on normalised frequencies (cycles per sample),
 * with their -6 dB points where they were asked and gain exactly 1 at the reference frequency.
 * design.c decides what to ask and judges what comes back.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_PROTOTYPE_H
#define CONVOLVD_FILTER_PROTOTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* One or two edges divide 0 … 0.5 into pass- and stop-bands. */
struct prototype {
    uint32_t taps;
    double low, high; /* -6 dB points; used when has_low, has_high */
    bool has_low, has_high;
    bool inverted;         /* stop-band between low and high instead of outside */
    double reference;      /* where the gain is exactly 1 */
    double attenuation_db; /* and ripples in the pass-band as small */
    double transition;     /* full width */
};

/* h[taps] by Kaiser window. Returns 0 or ERROR_MEMORY. */
int prototype_kaiser(const struct prototype *prototype, double *h, struct problem *problem);

/* h[taps] by Parks–McClellan. ERROR_UNSUPPORTED when liquid-dsp does not solve it. */
int prototype_remez(const struct prototype *prototype, double *h, struct problem *problem);

/* Kaiser's fits (1974): length for attenuation and transition, and either from the others. Lengths
 * are not rounded. */
double prototype_kaiser_length(double attenuation_db, double transition);
double prototype_kaiser_transition(double attenuation_db, uint32_t taps);
double prototype_kaiser_attenuation(uint32_t taps, double transition);

/* Kaiser's fit for equal-ripple designs: (attenuation - 13) / (14.6 transition) + 1. */
double prototype_remez_length(double attenuation_db, double transition);
double prototype_remez_transition(double attenuation_db, uint32_t taps);

/* Zero-phase amplitude of symmetric taps, sum h[n] cos(2 pi f (n - (taps-1)/2)). */
double prototype_amplitude(const double *h, uint32_t taps, double frequency);

#endif
