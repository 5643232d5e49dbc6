/*
 * The filters of one stream: makes the taps that its edges name and delays the faster ones, so that
 * all outputs of the stream are aligned to the sample.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_PIPELINE_STREAM_FILTERS_H
#define CONVOLVD_PIPELINE_STREAM_FILTERS_H

#include <stdint.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "config/config.h"
#include "filter/taps.h"

struct stream_filters {
    struct taps **taps; /* [count], those that some edge uses */
    uint32_t count;
    struct edge *edges;  /* [edge_count] of the stream, naming taps above */
    double delay_frames; /* shared by all edges */
    char *hash;          /* of all taps in order, joined by commas */
};

/*
 * Filters whose delays differ by whole frames get leading zeros up to the longest delay (with a log
 * line); ERROR_CONFIG when the difference is not whole, or a file has too few sets of taps.
 * `known`: [edge_count] edges of this stream that were made before, so that the log has what there
 * is to say of their filters; NULL: none.
 */
int stream_filters_make(const struct config *config, const struct config_stream *stream,
                        const struct config_edge *known, struct stream_filters *out,
                        struct problem *problem);

/* The request to the engine: points into config, stream and filters. `variant` NULL: the
 * configuration's. */
struct plan_spec stream_plan_spec(const struct config_stream *stream,
                                  const struct stream_filters *filters, const char *variant);

/* A zeroed struct is fine. */
void stream_filters_free(struct stream_filters *filters);

#endif
