/*
 * Symmetric prototypes: real linear-phase taps on normalised frequencies (cycles per frame), whose
 * -6 dB points lie where the caller wants them, with a gain of exactly 1 at the reference
 * frequency. design.c chooses the request and measures the taps.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_PROTOTYPE_H
#define CONVOLVD_FILTER_PROTOTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* One or two edges divide 0 … 0.5 into pass-bands and stop-bands. Frequencies in cycles per frame.
 */
struct prototype {
    uint32_t taps;
    double low, high; /* -6 dB points; used when has_low, has_high */
    bool has_low, has_high;
    bool inverted;         /* stop-band between low and high instead of outside */
    double reference;      /* where the gain is exactly 1 */
    double attenuation_db; /* of the stop-bands, > 0; the pass-bands ripple as little */
    double transition;     /* full width */
};

/* h[taps] by Kaiser's window; taps ≥ 2. Returns 0 or ERROR_MEMORY. */
int prototype_kaiser(const struct prototype *prototype, double *h, struct problem *problem);

/* h[taps] by the algorithm of Parks and McClellan (IEEE Trans. Circuit Theory 19, 1972; program in
 * McClellan, Parks, Rabiner, IEEE Trans. Audio Electroacoust. 21, 1973), as liquid-dsp implements
 * it. ERROR_UNSUPPORTED when liquid-dsp does not solve the problem, ERROR_MEMORY. */
int prototype_remez(const struct prototype *prototype, double *h, struct problem *problem);

/* The length of an equal-ripple design by Kaiser's fit, (attenuation - 13) / (14.6 transition) + 1,
 * not rounded, and the transition that a length gives. */
double prototype_remez_length(double attenuation_db, double transition);
double prototype_remez_transition(double attenuation_db, uint32_t taps);

/* Zero-phase amplitude of symmetric taps, sum h[n] cos(2 pi f (n - (taps-1)/2)). */
double prototype_amplitude(const double *h, uint32_t taps, double frequency);

#endif
