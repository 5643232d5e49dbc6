/*
 * Status output: the status as a table on standard output and as a JSON file. The loop makes the
 * texts; threads write them, so a pipe that nobody reads or a disk that hangs delays nothing.
 *
 * Loop thread. The queue is closed before the output.
 */
#ifndef CONVOLVD_SERVICE_STATUS_OUTPUT_H
#define CONVOLVD_SERVICE_STATUS_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/process.h"
#include "control/status_queue.h"

struct status_output;

/* 0 or ERROR_MEMORY. */
int status_output_open(struct status_output **out);

/* `path` of the JSON file, NULL: none. A text that finds the one before it unwritten may be
 * dropped, which is logged. */
void status_output_write(struct status_output *output, const struct process *process, bool table,
                         const char *path);

/* The same later, when the queue has made the texts: the daemon runs on meanwhile. */
void status_output_request(struct status_output *output, struct status_queue *queue, bool table,
                           const char *path);

/* Waits for what is being written, each up to `timeout_ns`, and logs what was cut. NULL is fine. */
void status_output_close(struct status_output *output, int64_t timeout_ns);

#endif
