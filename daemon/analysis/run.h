/*
 * What an analysis takes: consecutive output frames of one stream, in the unit at the sensor, with
 * the frames before them still in memory, so that a pre-trigger is read where it lies and copied
 * only into the record that needs it.
 *
 * The frames of an epoch come once each, in order, in runs of any length; frames that were dropped
 * on the way come as a run too, without samples. Valid during the call only.
 */
#ifndef CONVOLVD_ANALYSIS_RUN_H
#define CONVOLVD_ANALYSIS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/packet.h"

/* Output frames [from, until) of this channel that rest on an input sample with a code at 95 % of
 * full scale or more: of such an input at frame n, frames n … n + S - 1. */
struct analysis_saturation {
    uint64_t from, until;
    uint32_t channel;
};

struct analysis_run {
    uint64_t epoch, record;
    uint64_t first_frame; /* in the epoch */
    uint32_t frames;      /* 0: only tells `ends` */
    uint32_t channels;
    /* [frames][channels]; NULL: the run was dropped (`invalid` says why, over all of it). Finite:
     * a sample that is no number becomes 0 and an invalid range before it comes here. */
    const float *samples;
    /* So many frames of the same epoch lie before samples[0], at samples[-channels · i]: at least
     * what analysis_ops.history asked for, or all since the epoch began. Dropped frames among them
     * are zeros. 0 without samples. */
    uint64_t history;
    /* Sorted by `from`, numbered like first_frame, clipped to the run; may overlap. These frames
     * count as dead time and are looked at by nothing. */
    const struct invalid_range *invalid;
    uint32_t invalid_count;
    const struct analysis_saturation *saturated; /* sorted by `from`, clipped to the run; may
                                                  * overlap */
    uint32_t saturated_count;
    bool begins, ends;  /* the epoch, with the first or the last of these frames */
    int64_t capture_ns; /* realtime, of first_frame */
    enum clock_source clock;
    int64_t clock_error_ns;
    double delay_frames; /* of the filters; with `aligned` applied already to frames and times */
    bool aligned;
};

#endif
