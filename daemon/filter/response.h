/*
 * The frequency response of taps, measured on a dense grid: design.c judges designs by it, and
 * `--design` prints it. Gains are amplitudes of exp(j 2 pi f n); real taps are measured over
 * 0 … Nyquist, complex taps over both signs of the frequency.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_RESPONSE_H
#define CONVOLVD_FILTER_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/taps.h"

/* Bands to judge by, in Hz, 0 … Nyquist. Empty ranges (from ≥ until) are not judged. */
struct response_bands {
    double reference_hz; /* where gain counts as 0 dB; NaN: the peak */
    double pass_from_hz[2], pass_until_hz[2];
    double stop_from_hz[2], stop_until_hz[2];
    double edge_hz[2]; /* asked -6 dB points, ascending; NaN: none */
};

struct response {
    double rate_hz;
    uint32_t grid;               /* points over the whole circle */
    struct response_bands bands; /* what was judged; empty bands and NaN edges when nothing was */
    double reference_hz, reference_gain;
    double peak_hz, peak_gain;
    double minimum_gain;              /* over 0 … Nyquist */
    double edge_low_hz, edge_high_hz; /* where half the reference is crossed; NaN: nowhere */
    double edge_db[2];     /* gain at the asked edges against the reference; NaN: none asked */
    double ripple_db;      /* largest deviation from the reference in the pass-bands; NaN: none */
    double attenuation_db; /* smallest in the stop-bands, negative ones included; NaN: none */
    double image_db;   /* complex taps: pass-band (or peak) gain over the largest at the mirrored
                        * frequencies; NaN: real taps */
    double noise_gain; /* sqrt(sum |h|²): RMS out per RMS of white noise in */
};

/* `bands` may be NULL: nothing is judged, the peak is the reference. Returns 0 or ERROR_MEMORY. */
int response_measure(const struct taps *taps, double rate_hz, const struct response_bands *bands,
                     struct response *out, struct problem *problem);

/*
 * What folds back when only every D-th output frame is kept. The kept band is |f| ≤ rate / 2 D; a
 * frequency beyond it comes back at its distance from the nearest multiple of rate / D. Levels are
 * against the largest gain inside the kept band, in dB: 0 and more where the filter lets more pass
 * outside of it.
 */
struct response_alias {
    double kept_hz;                  /* half the output's rate */
    double worst_db, from_hz, at_hz; /* the largest outside, and where it comes back (signed) */
    /* The largest that comes back where the gain is within 6 dB of the largest kept; -infinity:
     * none does. */
    double pass_db, pass_from_hz, pass_at_hz;
};

/* What is kept of the filter's result: the spectrum that folds. */
enum alias_form {
    ALIAS_REAL,     /* the real taps alone; frequencies are not signed */
    ALIAS_COMPLEX,  /* both; frequencies are signed */
    ALIAS_ENVELOPE, /* the squared envelope of white noise: its power spectrum without the mean is
                     * the autocorrelation of |H|², and levels are those of power */
};

/* Returns 0 or ERROR_MEMORY. decimate ≥ 2. */
int response_alias(const struct taps *taps, double rate_hz, uint32_t decimate, enum alias_form form,
                   struct response_alias *out, struct problem *problem);

/* |H(f)| by the definition, one frequency (either sign). */
double response_at(const struct taps *taps, double frequency_hz, double rate_hz);

/* Magnitudes at k·rate/points, k = 0 … points-1 (upper half: negative frequencies), points a power
 * of two ≥ S. Free with free(). */
int response_grid(const struct taps *taps, uint32_t points, double **magnitudes,
                  struct problem *problem);

#endif
