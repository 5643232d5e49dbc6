/*
 * Where and when a stretch of frames begins, kept until the event that it becomes.
 *
 * A value; any thread.
 */
#ifndef CONVOLVD_ANALYSIS_STAMP_H
#define CONVOLVD_ANALYSIS_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"

struct stamp {
    uint64_t epoch, record, frame;
    int64_t capture_ns; /* of the frame */
    uint32_t clock;     /* enum clock_source */
    int64_t clock_error_ns;
    double delay_frames; /* 0 where it has been applied */
};

/* Of a frame of the run. */
struct stamp stamp_of(const struct analysis_run *run, uint64_t frame, double rate_hz);

/* Fills the event's members of the same names, and its arrival. */
void stamp_event(const struct stamp *stamp, double rate_hz, struct analysis_event *event);

/* False when what was read is no stamp. */
bool stamp_walk(struct stamp *stamp, struct codec *codec);

#endif
