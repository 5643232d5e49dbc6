/*
 * Numbers: what receivers know streams by (pipeline/heritage.h), kept in the state directory over a
 * restart: the file `streams.json`. Without a state directory they are kept for streams that a
 * reload removes and another one adds again.
 *
 * After a clean stop the file holds the last numbers, so that the next epoch has the next number.
 * While the daemon runs, the file is ahead of it by NUMBERS_AHEAD epochs and records: after a crash
 * numbers are left out, but none is used twice. A file that cannot be read costs one warning and
 * begins anew.
 *
 * Read before the loop runs; kept on the loop, which writes on a worker; closed after the loop.
 */
#ifndef CONVOLVD_SERVICE_NUMBERS_H
#define CONVOLVD_SERVICE_NUMBERS_H

#include <stdbool.h>

#include "control/process.h"
#include "pipeline/heritage.h"

enum { NUMBERS_AHEAD = 4096 };

struct numbers;

/* Reads what a run before has left. `process` outlives it; without a state directory nothing is
 * read or written. 0 or ERROR_MEMORY. */
int numbers_open(const struct process *process, struct numbers **out);
/* The last numbers of every stream go to the file. NULL is fine. */
void numbers_close(struct numbers *numbers);

/* LOOP. From now on the file is kept: checked once a second, written when it is no longer ahead,
 * or ten seconds old. */
void numbers_start(struct numbers *numbers);
/* LOOP, the pipelines have been drained and are about to close: takes their last numbers. */
void numbers_take_last(struct numbers *numbers);
/* LOOP. NULL, twice, and without a start are fine. */
void numbers_stop(struct numbers *numbers);

/* LOOP. A retired pipeline is about to be freed: a removed stream, or a sink, of the same name that
 * comes back, in this run or in a later one, continues its numbers. Those gone longest are
 * forgotten when there are more than PIPELINES_MAX. */
void numbers_keep_retired(struct numbers *numbers, const struct pipeline *pipeline);
/* LOOP. The numbers of streams that do not run now, [*count], the caller's; NULL: no memory. */
struct heritage *numbers_removed(const struct numbers *numbers, uint32_t *count);
/* LOOP. Adds the sinks that this stream had before and does not have now. */
void numbers_add_sinks(const struct numbers *numbers, struct heritage *heritage);

/* WORKER. A pipeline made and not yet prepared gets what its name has left, if anything. */
void numbers_introduce(const struct numbers *numbers, struct pipeline *pipeline);

#endif
