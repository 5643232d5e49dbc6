/*
 * Progress: while sources run that come to their end by themselves (recordings, generators with a
 * duration), a line on the terminal says how far they are. Only where standard error is a terminal
 * and the log is not quiet; the line is replaced twice a second, and each line of the log takes its
 * place.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_PROGRESS_H
#define CONVOLVD_SERVICE_PROGRESS_H

#include "control/process.h"

struct progress;

/* `process` outlives it. Without a terminal it does nothing. 0 or ERROR_MEMORY. */
int progress_open(const struct process *process, struct progress **out);
/* The streams run. */
void progress_start(struct progress *progress);
/* The line goes away. NULL, twice, and without a start are fine. */
void progress_stop(struct progress *progress);
/* Closes its timer; the loop frees it. NULL is fine. */
void progress_close(struct progress *progress);

#endif
