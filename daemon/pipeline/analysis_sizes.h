/*
 * Sizes of the rings through which an analysis stage takes frames or events. Pure, any thread.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_SIZES_H
#define CONVOLVD_PIPELINE_ANALYSIS_SIZES_H

#include <stdint.h>

#include "analysis/analysis.h"

struct analysis_sizes {
    uint64_t history_frames; /* that stay in the ring of frames behind those that are taken */
    uint64_t queue_bytes;    /* of frames or events that wait */
    uint64_t ring_bytes;     /* of frames: queue and history; 0: it takes events */
    uint64_t message_bytes;  /* of the ring beside it; of events: the queue */
    uint64_t outbox_bytes;   /* of events that a log has first */
};

/* `queue_bytes` 0: a second of frames, within limits. */
struct analysis_sizes analysis_sizes(const struct analysis_ops *ops,
                                     const struct analysis_options *options, uint64_t queue_bytes);

#endif
