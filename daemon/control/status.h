/*
 * Status: a snapshot of the running daemon, as a table for people (status.c) and as JSON for
 * programs (status_json.c). It collects the counters of streams, sources, sinks and devices and
 * counts nothing itself.
 *
 * Loop thread, or after the loop has ended; allocates, so never per block.
 */
#ifndef CONVOLVD_CONTROL_STATUS_H
#define CONVOLVD_CONTROL_STATUS_H

#include <jansson.h>
#include <stdio.h>

#include "control/process.h"
#include "core/error.h"

/* The process has connected pipelines; retired ones are left out. */
void status_print(const struct process *process, FILE *out);

/* The same as one JSON object, the caller's; NULL: no memory. */
json_t *status_json(const struct process *process);

/* Written whole or not at all (a new file renamed over the old one). 0 or an error with its
 * sentence. */
int status_write_json(const struct process *process, const char *path, struct problem *problem);

#endif
