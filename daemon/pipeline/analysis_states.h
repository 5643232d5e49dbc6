/*
 * Analysis states: what the analyses of a pipeline hold, as bytes, so that those of the pipeline
 * that goes on in its place (succession.h) go on too, equal to the last bit: open hits, sums,
 * averages, events that are not told yet, the frames before the next run.
 *
 *     count │ { name, hash, what, epoch, frame, held │ length │ state │ CRC-32C } …
 *
 * Each analysis stands for itself. One whose section has changed, whose state is damaged, of
 * another version, too large or not written because it was behind begins anew; the log says why and
 * what is lost. An analysis of events goes on only if the one that it takes them of does.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_STATES_H
#define CONVOLVD_PIPELINE_ANALYSIS_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/pipeline.h"

/* The longest state of one analysis that is handed over [bytes]. */
static const uint64_t ANALYSIS_STATE_BYTES_MAX = UINT64_C(256) << 20;

/* Of all analyses of a pipeline into which nothing more is put, in memory of its own; what is not
 * idle is named as behind. NULL: no memory. */
uint8_t *analysis_states_write(struct pipeline *pipeline, size_t *count);

/* Gives each analysis of a prepared pipeline, into which nothing was put, what was written for it;
 * if the pipeline has not resumed, none. `told`: the one before is of this process, and tells what
 * is open where nobody goes on (analysis_states_leave); else that is lost, and becomes dead time.
 * Any bytes may be read. */
void analysis_states_read(struct pipeline *pipeline, const uint8_t *bytes, size_t count, bool told);

/* Of a pipeline that runs, whose analyses are idle: each goes on from what was written, whatever
 * they held before. False: one of them cannot, *why and *name say which; they are to be restored
 * from another state then. Any bytes may be read. */
bool analysis_states_restore(struct pipeline *pipeline, const uint8_t *bytes, size_t count,
                             const char **name, const char **why);

/* `successor` goes on from the pipeline, or, NULL, the next daemon does: ends those analyses from
 * which nobody goes on, so that they tell what is open. */
void analysis_states_leave(struct pipeline *pipeline, const struct pipeline *successor);

#endif
