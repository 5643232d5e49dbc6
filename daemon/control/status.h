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

/* The same in parts, for who makes it a stream at a time (status_queue.h): the head, then each
 * stream, then the tail. */
void status_print_head(const struct process *process, FILE *out);
void status_print_stream(const struct pipeline *pipeline, FILE *out);
void status_print_tail(const struct process *process, FILE *out);

/* The same as a JSON object, the caller's; NULL: no memory, which the others take too. */
json_t *status_json_head(const struct process *process);
/* The devices alone. */
json_t *status_json_devices(const struct process *process);
void status_json_stream(json_t *object, const struct pipeline *pipeline);
void status_json_tail(const struct process *process, json_t *object);

/* The whole as JSON text with a newline at its end, the caller's to free; NULL: no memory. */
char *status_json_text(const struct process *process);

#endif
