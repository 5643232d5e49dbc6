/* Shared by status.c and status_analyses.c (table) and status_json.c (JSON); nobody else includes
 * this. */
#ifndef CONVOLVD_CONTROL_STATUS_INTERNAL_H
#define CONVOLVD_CONTROL_STATUS_INTERNAL_H

#include <stdint.h>
#include <stdio.h>

struct status_quantile {
    const char *name;
    double quantile;
};

struct pipeline;

enum { STATUS_QUANTILES = 4, STATUS_FILTER_NAMES = 400 };
extern const struct status_quantile
    status_quantiles[STATUS_QUANTILES]; /* the maximum stands apart */

/* Upper bounds of the buckets that the JSON gives of each histogram, beside its quantiles. */
enum { STATUS_BOUNDS = 18 };
extern const int64_t status_bounds_ns[STATUS_BOUNDS];

/* The filters in use, each once, with commas between them; cut with "…" where there are many. */
const char *status_filter_names(const struct pipeline *pipeline, char text[STATUS_FILTER_NAMES]);

/* The lines of the table about its analyses and their sinks. */
void status_print_analyses(const struct pipeline *pipeline, FILE *out);

#endif
