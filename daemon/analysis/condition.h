/*
 * The body of a condition: what the vibration of one channel says of a machine and its bearing,
 * over the frames from the event's on. The event's samples are a spectrum, of amplitudes or of
 * spectral kurtosis as configured; bin k lies at k · bin_hz.
 *
 * Undefined values are NAN: what the configuration did not ask for or the unit does not allow,
 * spectra without a valid segment, ratios to an RMS of 0.
 */
#ifndef CONVOLVD_ANALYSIS_CONDITION_H
#define CONVOLVD_ANALYSIS_CONDITION_H

#include <stdint.h>

#include "analysis/analysis.h"

/* name, what it is */
#define CONDITION_DEFECT_TABLE(X)                                                                  \
    X(ftf, "the cage")                                                                             \
    X(bsf, "a rolling element's spin")                                                             \
    X(bpfo, "rolling elements passing a point of the outer race")                                  \
    X(bpfi, "rolling elements passing a point of the inner race")

enum condition_defect {
#define X(name, what) CONDITION_##name,
    CONDITION_DEFECT_TABLE(X)
#undef X
        CONDITION_DEFECTS,
};

struct condition {
    uint64_t live, dead; /* frames: those that rms … kurtosis rest on, and invalid ones */
    uint32_t segments;   /* that the spectra rest on */
    double bin_hz;       /* of the samples */
    /* About the mean, in the channel's unit. */
    double rms, peak, crest, kurtosis; /* kurtosis: m4 / m2², Gauss: 3, a sine: 1.5 */
    double velocity_mms;               /* RMS in the velocity band */
    double speed_hz;                   /* of the shaft */
    double speed_change; /* (longest - shortest) / mean time between the tacho's pulses */
    struct condition_line {
        double expected_hz, found_hz; /* the kinematic frequency; the largest bin near it */
        double amplitude; /* the sum over the harmonics, each the largest bin within the slip */
    } lines[CONDITION_DEFECTS];
    double spectral_kurtosis, spectral_kurtosis_hz; /* the largest, and its bin */
};

/* The fields of struct condition; constant. */
const struct analysis_field *condition_fields(uint32_t *count);

#endif
