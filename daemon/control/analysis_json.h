/*
 * Analyses as JSON: what runs with which settings and fields, and what it has counted; for the
 * commands `analyses` and `status`.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_ANALYSIS_JSON_H
#define CONVOLVD_CONTROL_ANALYSIS_JSON_H

#include <jansson.h>

#include "pipeline/pipelines.h"

/* A list of all analyses that run, with settings and fields; the caller's. */
json_t *analyses_json(const struct pipelines *pipelines);

/* The analyses of one pipeline: their ledgers, and what their events add up to. */
json_t *analyses_status_json(const struct pipeline *pipeline);

/* One event as event_text_json writes it; NULL: no memory. */
json_t *analysis_event_json(const struct pipeline_analysis *analysis,
                            const struct analysis_event *event);

#endif
