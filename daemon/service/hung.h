/*
 * What hangs at the end: names it in the log, and ends a process whose drivers hang while they are
 * closed.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_HUNG_H
#define CONVOLVD_SERVICE_HUNG_H

#include "pipeline/pipelines.h"
#include "service/exit_status.h"

/* Streams that the drain timeout has cut off. */
void hung_name_streams(const struct pipelines *pipelines);
/* Sinks of events that have not closed, and how many events they hold. */
void hung_name_sinks(const struct pipelines *pipelines);
/* Sources that have not closed. */
void hung_name_sources(const struct pipelines *pipelines);

/* Everything is flushed. From here on the process ends within 10 s, with SERVICE_EXIT_CUT when it
 * does not by itself. */
void hung_limit_close(void);

#endif
