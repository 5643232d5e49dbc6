/*
 * Filter design: low-pass, high-pass, band-pass and band-stop taps in double, either the ideal
 * response under Kaiser's window (kaiser.h) or by the algorithm of Parks and McClellan
 * (prototype.h, liquid-dsp), as long as liquid-dsp solves it. design_make measures every design on
 * a dense grid and refuses one that misses the request, with what was requested and what was
 * achieved.
 *
 * The band edges are the -6 dB points (amplitude one half). The gain is exactly 1 at the centre
 * of the pass-band: at 0 Hz for low-pass and band-stop, at Nyquist for high-pass, half-way
 * between the edges for band-pass. An analytic band-pass is the low-pass prototype modulated to
 * the band centre with gain 2: its real part is the band-pass, and a sine of amplitude a in the
 * pass-band has envelope a.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_DESIGN_H
#define CONVOLVD_FILTER_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/response.h"
#include "filter/taps.h"

enum band_type {
    BAND_LOWPASS,
    BAND_HIGHPASS,
    BAND_BANDPASS,
    BAND_BANDSTOP,
};

#define DESIGN_METHOD_TABLE(X)                                                                     \
    X(KAISER, "kaiser")                                                                            \
    X(REMEZ, "remez")

enum design_method {
#define X(name, text) DESIGN_##name,
    DESIGN_METHOD_TABLE(X)
#undef X
        DESIGN_METHODS,
};

/* NULL past the end of the table. */
const char *design_method_name(int method);

enum {
    DESIGN_REMEZ_TAPS_MAX = 1001, /* what liquid-dsp 1.5 solves; longer designs come back as NaN */
    DESIGN_REMEZ_ATTENUATION_DB_MAX = 120, /* its taps are single precision */
    DESIGN_ATTENUATION_DB_MIN = 10,        /* below, the window is no window */
    DESIGN_ATTENUATION_DB_MAX = 180,
    DESIGN_ATTENUATION_DB = 60, /* when nothing is asked */
};

/* What is wanted. Zero means "not given" for every number. */
struct design_spec {
    enum band_type band;
    enum design_method method;
    double cutoff_hz; /* low-pass, high-pass: the -6 dB edge */
    double low_hz;    /* band-pass, band-stop: lower -6 dB edge; high-pass: the same as cutoff_hz */
    double high_hz;   /* band-pass, band-stop: upper -6 dB edge; low-pass: the same as cutoff_hz */
    double transition_hz;  /* full width of the transition, the edge in its middle; not given and no
                            * taps: a quarter of the room that the edges leave */
    double attenuation_db; /* stop-band, > 0; default 60 dB, or less where `taps` leaves no room */
    double ripple_db;      /* largest deviation from the centre gain in the pass-band, > 0 */
    uint32_t taps;         /* length S; default: what transition and attenuation need, made odd */
    bool analytic;         /* band-pass only */
};

/* Ranges and combinations, without designing (microseconds): 0, or ERROR_CONFIG with a sentence
 * that begins with the key at fault. */
int design_check(const struct design_spec *spec, double rate_hz, struct problem *problem);

/* The taps that attenuation, ripple and transition of a request need, by the method's formula and
 * whatever its own length; 0 when design_check refuses it. */
uint64_t design_length(const struct design_spec *spec, double rate_hz);

/* Designs and measures. ERROR_CONFIG: design_check's; ERROR_ACCURACY: asked against achieved;
 * ERROR_UNSUPPORTED: the method cannot solve it. `response` may be NULL. */
int design_make(const struct design_spec *spec, double rate_hz, struct taps **out,
                struct response *response, struct problem *problem);

#endif
