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

/* The process has connected pipelines; retired ones are left out. */
void status_print(const struct process *process, FILE *out);

/* The same as one JSON object, the caller's; NULL: no memory. */
json_t *status_json(const struct process *process);

/* The same as text with a newline at its end, the caller's to free; NULL: no memory. */
char *status_json_text(const struct process *process);

#endif
