/*
 * Velocity filters for line arrays: a fan in the plane of frequency f and wavenumber k, made into
 * real FIR filters between the channels.
 *
 * A plane wave that runs along the array with the apparent phase velocity v reaches channel n
 * (counted from 0) n·spacing/v later than channel 0: x_n(t) = s(t - n·spacing/v). It lies on the
 * line k = f/v; v > 0 runs towards higher channel numbers, v < 0 the other way. The fan holds all
 * waves whose slowness 1/v lies between those of the two edges; edges of opposite signs enclose
 * k = 0, the wave that meets all channels at once.
 *
 * The mask G(f, k), |G| <= 1, is sampled at M + padding wavenumbers; each of them gets an FIR of S
 * taps over time (inverse transform over f, Kaiser window), and the inverse transform over k turns
 * these into h_l, one real filter for each distance l = m - n of two channels:
 *
 *     y_m = sum over n of h_(m-n) * x_n          M² edges, 2M - 1 sets of taps
 *
 * Blocks have no seams, because this is linear convolution. Channels beyond the ends count as zero,
 * so the channels near an end see fewer neighbours: fk_measure says what is left there.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_FK_H
#define CONVOLVD_FILTER_FK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/taps.h"

enum {
    FK_CHANNELS_MIN = 2,
    FK_CHANNELS_MAX = 512,
    FK_TAPS_MAX = 16383,
    FK_PADDING_MAX = 8192,
    FK_ATTENUATION_DB = 60, /* when nothing is asked */
};

/* Zero means "not given" where a default is named. */
struct fk_spec {
    uint32_t channels;    /* M, of the stream */
    double spacing_m;     /* between neighbours, > 0 */
    double velocity_low;  /* [m/s] one edge of the fan */
    double velocity_high; /* [m/s] the other; default -velocity_low: all faster waves, both ways */
    double low_hz;        /* the band in which the fan acts; default 0 Hz */
    double high_hz;       /* default half the rate */
    bool reject;          /* the fan is taken out; outside of the band everything passes */
    double taper;         /* full width of each tapered edge over the fan's, in slowness; 0 … 1 */
    double attenuation_db; /* of the window over time; default 60 dB */
    uint32_t taps;         /* S of the FIR of each wavenumber, odd */
    uint32_t padding;      /* zero channels behind the array; default 3·channels */
};

/* 0, or ERROR_CONFIG with a sentence that begins with the key at fault. */
int fk_check(const struct fk_spec *spec, double rate_hz, struct problem *problem);

/*
 * (*sets)[l + M - 1] = h_l for l = -(M - 1) … M - 1, *count = 2M - 1, all delayed by (S - 1) / 2.
 * ERROR_CONFIG as fk_check, ERROR_MEMORY. Free with taps_sets_free.
 */
int fk_make(const struct fk_spec *spec, double rate_hz, struct taps ***sets, uint32_t *count,
            struct problem *problem);

/* The set that leads from channel `input` to channel `output`, both counted from 0. */
uint32_t fk_set(uint32_t channels, uint32_t input, uint32_t output);

/* The mask itself, 0 … 1, at any f and k (one per metre). */
double fk_mask(const struct fk_spec *spec, double rate_hz, double frequency_hz,
               double wavenumber_per_m);

/* Width over which the FIR's window smears a frequency [Hz]. */
double fk_transition_hz(const struct fk_spec *spec, double rate_hz);

/* Gain of a plane wave at each channel: gains[channels], magnitudes. `sets` as fk_make returns
 * them; `spectra` by fk_spectra at the wave's frequency. */
void fk_gains(const struct fk_spec *spec, const double *spectra, double wavenumber_per_m,
              double *gains);

/* H_l(f) of every set, 2M - 1 pairs re, im, delay taken out. */
void fk_spectra(const struct fk_spec *spec, struct taps *const *sets, double rate_hz,
                double frequency_hz, double *spectra);

/*
 * What plane waves see, measured with the taps themselves over the band and all wavenumbers up to
 * the spatial Nyquist. Judged are waves at least one resolution cell (and the window's smear) away
 * from the tapered edges: nearer ones belong to the edge.
 */
struct fk_measure {
    double resolution_per_m; /* 1/(M·spacing): finer differences no array of this length sees */
    double nyquist_per_m;    /* 1/(2·spacing) */
    double resolved_hz;      /* above it the fan is at least one resolution cell wide */
    double pass_from_hz, pass_until_hz; /* frequencies judged */
    uint32_t passed, stopped;           /* waves judged */
    /* By channel; NaN: nothing to judge. */
    double ripple_db[FK_CHANNELS_MAX];    /* largest deviation from gain 1 where waves pass */
    double rejection_db[FK_CHANNELS_MAX]; /* smallest attenuation where they are stopped */
    double array_rejection_db;            /* the same of the mean power over all channels */
    uint32_t middle_from, middle_until;   /* the middle half of the array, channels from 0 */
    double middle_ripple_db, middle_rejection_db; /* worst of its channels */
    double noise_gain;    /* of the middle channel: sqrt(sum of h² over its inputs) */
    double transition_hz; /* of the FIR along f */
};

/* Returns 0 or ERROR_MEMORY. */
int fk_measure(const struct fk_spec *spec, double rate_hz, struct taps *const *sets,
               struct fk_measure *out, struct problem *problem);

#endif
