/*
 * Direct mode: what a driver that filters by itself (io/driver.h) needs of a stream, made from the
 * configuration: the stream's filters, and whether anybody else wants the results.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_PIPELINE_DIRECT_H
#define CONVOLVD_PIPELINE_DIRECT_H

#include <stdbool.h>

#include "config/config.h"
#include "core/error.h"

/* *out: the driver's options with the filters, which take the place of the configuration's in
 * source and sink; NULL: the stream is not in direct mode. Free with the driver's direct->free.
 * `known`: as in stream_filters_make. */
int direct_prepare(const struct config *config, const struct config_stream *stream,
                   const struct config_edge *known, void **out, struct problem *problem);

/* Whether only the driver wants the results of the stream, so that the stream computes none. */
bool direct_only(const struct config *config, const struct config_stream *stream);

/* Of a stream in direct mode with other edges: *filters is a descriptor for direct->set. */
int direct_filters(const struct config *config, const struct config_stream *stream,
                   const struct config_edge *known, int *filters, struct problem *problem);

#endif
