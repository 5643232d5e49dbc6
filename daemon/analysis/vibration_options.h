/*
 * The options of vibration: as written, and as the analysis uses them, in frames and bins.
 */
#ifndef CONVOLVD_ANALYSIS_VIBRATION_OPTIONS_H
#define CONVOLVD_ANALYSIS_VIBRATION_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/analysis.h"
#include "analysis/bearing.h"
#include "analysis/tacho.h"

enum vibration_trace { TRACE_SPECTRUM, TRACE_KURTOSIS, TRACE_NONE };

struct vibration_options {
    /* as written */
    const struct option_value *spectrum, *kurtosis; /* points */
    uint32_t averages;
    double overlap;    /* of segments, 0 … 0.95 */
    double highest_hz; /* of the event's spectrum; 0: all */
    enum vibration_trace trace;
    double envelope_low_hz, envelope_high_hz; /* 0: of the samples as they are */
    double velocity_low_hz, velocity_high_hz;
    double speed_hz; /* 0: not fixed */
    uint32_t tacho;  /* channel, from 1; 0: none */
    uint32_t pulses; /* a turn */
    const struct option_value *tacho_level, *tacho_hysteresis;
    struct bearing_geometry geometry;         /* elements 0: none */
    double orders_written[CONDITION_DEFECTS]; /* 0: of the geometry */
    double slip;
    uint32_t harmonics;

    /* set by the check */
    uint32_t points, kurtosis_points; /* M, powers of two; kurtosis 0: none */
    uint32_t hop, kurtosis_hop;
    uint32_t envelope_low, envelope_high; /* bins [low, high]; 0: no envelope is taken */
    double orders[CONDITION_DEFECTS];     /* events a turn; 0: not looked for */
    struct tacho_rules tacho_rules;
    uint32_t velocity_low, velocity_high; /* bins [low, high]; high 0: no velocity */
};

enum { VIBRATION_OPTION_ROWS = 25 };
extern const struct option_row vibration_option_rows[VIBRATION_OPTION_ROWS];

/* As analysis_ops.check and .report. */
void vibration_options_check(const struct option_check *check, struct analysis_options *options);
void vibration_options_report(const struct analysis_options *options, FILE *out);
/* As analysis_ops.describe: bands, and the bearing's lines in multiples of the speed. */
struct json_t *vibration_options_describe(const struct analysis_options *options);

/* Frames that one result rests on: K segments, each a hop after the one before. */
static inline uint64_t vibration_frames(const struct vibration_options *own)
{
    return (uint64_t)(own->averages - 1) * own->hop + own->points;
}

/* One `unit` of acceleration in m/s², or of velocity in m/s: how to make a velocity of it. */
enum vibration_unit { VIBRATION_OTHER, VIBRATION_ACCELERATION, VIBRATION_VELOCITY };
enum vibration_unit vibration_unit(const char *unit, double *factor);

#endif
