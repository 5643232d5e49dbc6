/*
 * The body of a hit: what one burst on one channel was, from its first frame above the threshold
 * to its last. Sinks, the locator, the page and OSC read the values through the table of fields.
 *
 * Frames are numbered in the epoch, like analysis_event.frame, which is the first of the hit.
 * Undefined values are NAN: a frequency over a time of 0, energy and strength of a channel that is
 * not in volts, what the configuration did not ask for.
 */
#ifndef CONVOLVD_ANALYSIS_HIT_H
#define CONVOLVD_ANALYSIS_HIT_H

#include <stdint.h>

#include "analysis/analysis.h"

enum { HIT_BANDS_MAX = 8 };

struct hit {
    uint64_t last_frame; /* above the threshold */
    uint64_t peak_frame; /* the first frame of the largest |x| */
    uint64_t counts, counts_to_peak;
    double amplitude; /* largest |x|, in the channel's unit */
    double peak_db;   /* see hit_level_db */
    double rise_us, duration_us;
    double energy_eu;    /* 1 eu = 1e-14 V^2 s */
    double strength_nvs; /* the integral of |x| [nVs] */
    double average_khz, initiation_khz, reverberation_khz;
    double rms;       /* of the hit, in the channel's unit */
    double noise_rms; /* of the last complete interval without a hit */
    double ra_us_v;   /* rise time / amplitude */
    double crest, impulse, clearance, shape;
    double skewness, kurtosis; /* about the mean, biased; Gauss: 0 and 3 */
    double peak_khz, median_khz, centroid_khz;
    double threshold;   /* when the hit began, in the channel's unit */
    double margin_db;   /* 20 lg(threshold / noise_rms) */
    double pick_frames; /* from the hit's first frame to the arrival that the picker found */
    double partial[HIT_BANDS_MAX]; /* share of the spectrum's power in each band, 0 … 1 */
};

/* The fields of struct hit; those of `partial` come last, `bands` of them (0 … HIT_BANDS_MAX). The
 * table is the caller's; returns how many rows were written, at most HIT_FIELDS_MAX. */
enum { HIT_FIELDS_MAX = 32 };
uint32_t hit_fields(struct analysis_field fields[HIT_FIELDS_MAX], uint32_t bands);

/* 20 lg(amplitude / reference) with the reference of dB(AE) for volts (1 uV) and those of ISO 1683:
 * acceleration 1 um/s^2, velocity 1 nm/s, displacement 1 pm, force 1 uN, sound pressure in solids
 * and liquids 1 uPa; other units: re 1 of the unit. `unit` may carry an SI prefix. NAN: the
 * amplitude is 0, which has no level. */
double hit_level_db(double amplitude, const char *unit);

/* The amplitude of a level in dB, in `unit`: the inverse of hit_level_db. */
double hit_level_amplitude(double level_db, const char *unit);

/* One `unit` in volts (mV: 0.001); 0 when it is no unit of voltage. */
double hit_volts(const char *unit);

#endif
