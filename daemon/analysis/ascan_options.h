/*
 * The options of A-scans: as written, and as the analysis uses them, in frames.
 */
#ifndef CONVOLVD_ANALYSIS_ASCAN_OPTIONS_H
#define CONVOLVD_ANALYSIS_ASCAN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/analysis.h"
#include "analysis/ascan.h"
#include "analysis/gates.h"

enum { ASCAN_GAINS_MAX = 64, ASCAN_FRAMES_MAX = 1 << 24 };

struct ascan_gain {
    double time_s, db;
};

struct ascan_options {
    /* as written */
    const struct option_value *period_written, *start_written, *from_written, *range_written;
    struct option_values gate_lines, gain_points, thickness_names;
    uint32_t averages; /* K */
    bool golay;        /* channels are pairs of codes, shots alternate */
    enum gate_rectify rectify;
    double velocity;     /* [m/s]; 0: not given */
    int64_t probe_ns;    /* the pulse's way through the probe and back */
    double separation_m; /* of a probe pair, 2 S; 0: pulse-echo */

    /* set by the check */
    uint64_t period_frames; /* 0: one shot in a record */
    double start_frames;    /* of the pulse, from the epoch's first frame */
    uint64_t from_frames;   /* time of flight of the first sample */
    uint32_t range_frames;
    uint32_t gate_count, gain_count;
    struct gate_line lines[ASCAN_GATES_MAX];
    struct gate gates[ASCAN_GATES_MAX];
    struct ascan_gain gains[ASCAN_GAINS_MAX]; /* ascending times */
    int thickness[2];                         /* gates; -1: none, from the pulse */
    struct analysis_field fields[ASCAN_FIELDS_MAX];
    uint32_t field_count;
};

enum { ASCAN_OPTION_ROWS = 13 };
extern const struct option_row ascan_option_rows[ASCAN_OPTION_ROWS];

/* As analysis_ops.check and .report. */
void ascan_options_check(const struct option_check *check, struct analysis_options *options);
void ascan_options_report(const struct analysis_options *options, FILE *out);
/* As analysis_ops.describe: gates, their levels for each channel. */
struct json_t *ascan_options_describe(const struct analysis_options *options);

/* Shots of one result: K, or 2 K of a pair of codes. */
static inline uint64_t ascan_shots(const struct ascan_options *own)
{
    return (uint64_t)own->averages * (own->golay ? 2 : 1);
}

/* The frame of the epoch in which the first shot's pulse shows, which is time of flight 0: sent at
 * `start`, seen behind the delay of the filters [frames] where that has not been applied. */
static inline double ascan_zero(const struct ascan_options *own, double delay_frames)
{
    return own->start_frames + delay_frames;
}

/* The first frame of its trace. */
uint64_t ascan_first(const struct analysis_options *options);

/* How many frames later it would have to begin for the filter to have settled in a record; 0: it
 * has. Known once the filters are. */
uint64_t ascan_unsettled(const struct analysis_options *options);

/* The gain at a time of flight, a factor: linear in dB between the points, constant outside. */
double ascan_gain_at(const struct ascan_options *own, double time_s);

#endif
