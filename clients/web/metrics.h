/*
 * Metrics: the daemon's status, as its control socket answers it, turned into Prometheus text
 * (exposition format 0.0.4). One table of metrics (metrics.c) drives the text and the table in
 * docs/monitoring.md.
 *
 * Pure functions without state; any thread. Whatever the JSON holds is safe: a figure that is
 * missing, null or of another type gives no sample.
 */
#ifndef CONVOLVD_WEB_METRICS_H
#define CONVOLVD_WEB_METRICS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The media type of the text. */
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics_options {
    uint32_t channels_max; /* channels of a stream beyond this one get no series; 0: none does */
};

/* The text, `*bytes` long without its final 0, the caller's to free; NULL: no memory. `status` is
 * the object of control/status_json.c; NULL: the daemon does not answer, which leaves
 * `convolvd_up 0` alone. */
char *metrics_text(const json_t *status, const struct metrics_options *options, size_t *bytes);

/* The table of docs/monitoring.md: name, type, labels, meaning, in Markdown. */
void metrics_document(FILE *out);

#endif
