/*
 * Segments of a group of frames: stretches of one length, each a hop after the one before, which
 * are transformed to be averaged. A segment with an invalid frame is left out.
 *
 * One thread at a time; nothing but `open` allocates.
 */
#ifndef CONVOLVD_ANALYSIS_SEGMENTS_H
#define CONVOLVD_ANALYSIS_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "analysis/spectrum.h"
#include "analysis/validity.h"
#include "core/codec.h"

struct segments {
    uint32_t points, bins; /* M and M/2 + 1; 0: there are no segments */
    uint32_t hop;
    uint64_t most; /* in a group */
    struct spectrum_plan *plan;
    double *window; /* [points], Hann */
    struct validity validity;
    uint64_t next, summed; /* of the group: the next one, and how many were not left out */
};

/* points: 0, or as spectrum_plan_open takes them, at most `length`, the frames of a group. 0 or
 * ERROR_MEMORY; to be closed in both cases. */
int segments_open(struct segments *segments, uint32_t channels, uint32_t points, uint32_t hop,
                  uint64_t length);
void segments_close(struct segments *segments);

/* What segments_open takes [bytes]. */
uint64_t segments_memory(uint32_t channels, uint32_t points);

/* An epoch begins; a group does. */
void segments_begin(struct segments *segments);
void segments_clear(struct segments *segments);

/* Calls `add` for each segment of the group from frame `first` on that ends by frame `until` of the
 * run, in order: samples[points][channels]. */
void segments_put(struct segments *segments, const struct analysis_run *run, uint64_t first,
                  uint64_t until, void (*add)(void *context, const float *samples), void *context);

/* out = the segment x[points] without its mean, weighted with the window. */
void segments_prepare(const struct segments *segments, const double *x, double *out);

/* False when what was read is no such state. */
bool segments_walk(struct segments *segments, struct codec *codec);

#endif
