/*
 * Gates of an A-scan (ISO 22232-1; ISO 16811): stretches of time in which an echo is looked for,
 * and what is read from it. And the line in which a user writes one:
 *
 *     gate = backwall: after interface, start 2 us, width 20 us, level 0.1 V, flank, alarm absent
 *
 * An echo is present when the trace is above the level, strictly. Its time is that of the highest
 * sample (peak) or of the first crossing of the level (flank, j-flank); its height that of the
 * highest sample in the gate (peak, flank) or in its first echo (j-flank).
 *
 * Between samples: the time of the highest is the vertex of the parabola through it and its
 * neighbours, where it is higher than both; a crossing lies on the straight line from the sample
 * before, with the sign of the one above. A gate that begins above the level has its crossing at
 * its first sample. Heights are those of samples.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_GATES_H
#define CONVOLVD_ANALYSIS_GATES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/level.h"

enum gate_measure { GATE_PEAK, GATE_FLANK, GATE_J_FLANK };

enum gate_rectify {
    GATE_FULL,     /* |x| */
    GATE_POSITIVE, /* x */
    GATE_NEGATIVE, /* -x */
};

/* As written. */
struct gate_line {
    char name[OPTION_NAME_BYTES];
    char after[OPTION_NAME_BYTES]; /* the gate whose echo it starts from; "": the pulse */
    double start_s, width_s, gap_s;
    char level[48]; /* proven; see gate_level */
    enum gate_measure measure;
    bool alarm_absent; /* alarm without an echo, else with one */
};

/* 0, or ERROR_CONFIG with what to write instead. */
int gate_parse(const char *text, struct gate_line *gate, struct problem *problem);

/* The level of a line as an amplitude of the channel. False when reported; a NULL check reports
 * nothing. */
bool gate_level(const struct option_check *check, const struct gate_line *gate,
                const struct level_scale *scale, double *level);

/* In frames. */
struct gate {
    int after; /* the gate whose echo it starts from, one before it; -1: the pulse */
    double start, width;
    uint32_t gap; /* so many frames not above the level do not end the first echo (j-flank) */
    enum gate_measure measure;
    bool alarm_absent;
};

/* Samples x[count] of one channel, x[i] at time of flight i - zero [frames]. */
struct gate_trace {
    const double *x;
    uint32_t count;
    double zero;
    enum gate_rectify rectify;
};

struct gate_echo {
    double height; /* NAN: no sample of the trace lies in the gate */
    double time;   /* of flight [frames]; NAN: nothing above the level */
};

/* `base`: the time of flight that the gate's start counts from [frames]; NAN: none, nothing is
 * found. */
struct gate_echo gate_find(const struct gate *gate, const struct gate_trace *trace, double base,
                           double level);

/* Whether the gate's alarm is raised by this echo. */
bool gate_alarms(const struct gate *gate, const struct gate_echo *echo);

#endif
