/*
 * The figures that alarms watch, read from the counters of a running pipeline. Each instance keeps
 * what its own window needs.
 *
 * Loop thread; nothing here allocates but alarm_reader_make.
 */
#ifndef CONVOLVD_CONTROL_ALARM_VALUES_H
#define CONVOLVD_CONTROL_ALARM_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "alarm/alarm.h"
#include "alarm/flat.h"
#include "alarm/window.h"
#include "pipeline/pipeline.h"

struct latency_window;

/* How a channel is looked at for a flat line (flat_lines.h). */
enum flat_mode {
    FLAT_LIVE,    /* codes differ */
    FLAT_SUSPECT, /* the few that were looked at were equal */
    FLAT_READ,    /* every code is compared */
    FLAT_PROVEN,  /* they were equal for long enough: a few are looked at again */
};

struct alarm_reader {
    enum alarm_quantity quantity;
    int32_t channel;    /* from 0; -1: the stream as a whole */
    bool counts_partly; /* a count is known before its window is whole */
    int64_t made_ns;    /* silence is counted from here before the first frame */
    int64_t within_ns;
    struct window window;
    struct latency_window *latency; /* LATENCY only */

    /* flat_lines.c */
    struct flat flat;
    enum flat_mode mode;
    uint64_t next; /* position of the first frame not looked at */
};

/* A reader whose window begins at `now_ns`; `rule` is what its values are held against. 0 or
 * ERROR_MEMORY. */
int alarm_reader_make(struct alarm_reader *reader, enum alarm_quantity quantity, int32_t channel,
                      int64_t within_ns, const struct alarm_rule *rule, int64_t now_ns);
void alarm_reader_free(struct alarm_reader *reader);

/* The value now, in the unit of its quantity; NAN: unknown. */
double alarm_reader_value(struct alarm_reader *reader, const struct pipeline *pipeline,
                          const struct stream_stats *stats, int64_t now_ns);

/* RMS about the mean, of what the levels have grown by: {frames, sum, sum of squares}; NAN: no
 * frames. */
double alarm_level(const double growth[WINDOW_VALUES]);

#endif
