/*
 * The body of an interval: what one channel did in frames [kI, (k+1)I) of its epoch. The event's
 * frame is the first of them; at the start and the end of an epoch an interval may be shorter.
 *
 * Undefined values are NAN: everything of an interval without a live frame; what the configuration
 * did not ask for; energy and strength of a channel that is not in volts; crest, kurtosis and
 * levels of silence.
 */
#ifndef CONVOLVD_ANALYSIS_INTERVAL_H
#define CONVOLVD_ANALYSIS_INTERVAL_H

#include <stdint.h>

#include "analysis/analysis.h"

struct interval {
    uint64_t live, dead; /* frames: those that the values rest on, and invalid ones */
    double rms;          /* in the channel's unit */
    double asl_db;       /* average signal level, dB re 1 uV (or the reference of ISO 1683) */
    double peak;         /* largest |x|, in the channel's unit */
    double peak_db;
    double energy_eu;    /* 1 eu = 1e-14 V^2 s */
    double strength_nvs; /* the integral of |x| [nVs] */
    double crest;        /* peak / rms */
    double kurtosis;     /* about the mean, biased; Gauss: 3 */
    double threshold;    /* in the channel's unit */
    double counts, hits; /* threshold crossings; hits that begin here */
};

/* The rows of struct interval; constant. */
const struct analysis_field *interval_fields(uint32_t *count);

#endif
