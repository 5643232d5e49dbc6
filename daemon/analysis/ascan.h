/*
 * The body of an A-scan: the average of K shots of one channel, and the echoes in its gates. The
 * event's samples are the trace behind its gain over time; its frame is that of samples[0] in the
 * first shot it rests on.
 *
 * Times are times of flight, from the pulse. Undefined values are NAN: what the configuration did
 * not ask for, the time of a gate without an echo, and everything that would follow from it.
 */
#ifndef CONVOLVD_ANALYSIS_ASCAN_H
#define CONVOLVD_ANALYSIS_ASCAN_H

#include <stdint.h>

#include "analysis/analysis.h"

enum { ASCAN_GATES_MAX = 8 };

struct ascan {
    uint32_t shots;    /* asked for: K, of a pair of codes 2 K */
    uint32_t averages; /* those it rests on */
    uint32_t dead;     /* left out: with an invalid frame, or cut */
    double start_us;   /* time of flight of samples[0] */
    double peak;       /* largest |x| of the trace, in the channel's unit */
    double thickness_mm;
    /* Of each gate, in the order of the configuration. */
    double amplitude[ASCAN_GATES_MAX]; /* of the echo, in the channel's unit */
    double above_db[ASCAN_GATES_MAX];  /* 20 lg(amplitude / the gate's level) */
    double time_us[ASCAN_GATES_MAX];
    double path_mm[ASCAN_GATES_MAX];  /* v t / 2 */
    double depth_mm[ASCAN_GATES_MAX]; /* time-of-flight diffraction */
    uint32_t alarm[ASCAN_GATES_MAX];  /* 1: present where it should not be, or absent */
};

/* The fields of struct ascan; those of gates come last, `gates` values each (0 … ASCAN_GATES_MAX).
 * The table is the caller's; returns how many rows were written. */
enum { ASCAN_FIELDS_MAX = 16 };
uint32_t ascan_fields(struct analysis_field fields[ASCAN_FIELDS_MAX], uint32_t gates);

#endif
