/*
 * Status: everything that is known of the running daemon at one instant, as a table for
 * people and as JSON for programs. Gathers; counts nothing itself.
 *
 * Loop thread (or after the loop has ended); allocates, so never per block.
 */
#ifndef CONVOLVD_CONTROL_STATUS_H
#define CONVOLVD_CONTROL_STATUS_H

#include <stdint.h>
#include <jansson.h>
#include <stdio.h>

#include "core/error.h"
#include "pipeline/pipeline.h"

struct status_source {
    struct pipeline *const *pipelines; /* [count], prepared; retired ones are left out */
    uint32_t count;
    const struct devices *devices;
    const struct osc_hub *osc; /* with the counters of the OSC server */
    const char *state;         /* "running", "stopping", "stopped" */
    int64_t started_ns;        /* monotonic */
};

void status_print(const struct status_source *source, FILE *out);

/* The same as one JSON object, the caller's; NULL: no memory. */
json_t *status_json(const struct status_source *source);

/* Written whole or not at all (a new file renamed over the old one). 0 or an error with its
 * sentence. */
int status_write_json(const struct status_source *source, const char *path,
                      struct problem *problem);

#endif
