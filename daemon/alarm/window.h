/*
 * A sliding window over counters: how much they have grown within the last seconds. It keeps
 * eleven readings a tenth of its length apart, so the window that it tells of is its length or up
 * to a tenth longer.
 *
 * The first of the values only grows; when it shrinks, whoever counts was replaced or reset, and
 * the window starts again. The others may be sums of either sign.
 *
 * Pure: the caller brings readings and time. One thread.
 */
#ifndef CONVOLVD_ALARM_WINDOW_H
#define CONVOLVD_ALARM_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { WINDOW_VALUES = 3, WINDOW_READINGS = 11 };

struct window {
    int64_t length_ns; /* set by the owner; the rest starts zeroed */
    uint32_t count, newest;
    struct {
        int64_t at_ns;
        double values[WINDOW_VALUES];
    } readings[WINDOW_READINGS];
};

/* What the counters have grown by. */
struct window_growth {
    double values[WINDOW_VALUES];
    int64_t span_ns; /* since this reading */
    bool whole;      /* the window is full: the span is its length or more */
};

/* Reads the counters now, at times that ascend. */
struct window_growth window_read(struct window *window, const double values[WINDOW_VALUES],
                                 int64_t now_ns);

#endif
