/*
 * Succession: a pipeline goes on where another one of the same name stopped, in this process (a
 * reload) or in the next (a restart): its epoch continues (stream/resume.h), nothing settles again,
 * and frame numbers, SSRCs and counters go on.
 *
 *     old: pipeline_pause ─► quiet ─► succession_write ─► stream_leave ─► close
 *     new: (prepared as plan_pin says) ─► succession_read ─► pipeline_start
 *
 * It is possible where datagrams wait for the next source (source_ops.walk), and for streams that
 * read such a stream. What differs in more than sinks, deadlines and the like begins a new epoch.
 *
 * A record holds one pipeline, little-endian, with a version. Its stream's state carries a
 * checksum, and whoever keeps records gives the whole another one. Any bytes may be read.
 *
 * Loop thread, except where WORKER is named.
 */
#ifndef CONVOLVD_PIPELINE_SUCCESSION_H
#define CONVOLVD_PIPELINE_SUCCESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/heritage.h"
#include "pipeline/pipeline.h"
#include "stream/resume.h"

/* Whether another pipeline can go on from this one at all. */
bool succession_possible(const struct pipeline *pipeline);
/* Paused, and every block that it has received whole has been handed to the sinks. */
bool succession_writable(const struct pipeline *pipeline);
/* Its analyses, too, have taken all of them: worth waiting for, since one that has not begins anew.
 */
bool succession_ready(const struct pipeline *pipeline);

/* The record of a pipeline that is writable, in memory of its own. NULL: no memory, or a state too
 * large to carry. */
uint8_t *succession_write(struct pipeline *pipeline, size_t *count);
/* The pipeline whose record was written hands out nothing more: `successor` does; NULL: one of the
 * next daemon. */
void succession_leave(struct pipeline *pipeline, struct pipeline *successor);

/* Reads the head of a record: the stream's name, its numbers, and the plan that its successor is to
 * prepare. WORKER. 0 or ERROR_FORMAT, ERROR_UNSUPPORTED with the reason. */
int succession_peek(const uint8_t *record, size_t count, struct heritage *left,
                    struct plan_pin *pin, struct problem *problem);

/* A prepared pipeline into which nothing was put goes on from the record; the one that it reads has
 * done so before. `told`: see analysis_states_read. 0, or why it cannot: it is as before then. */
int succession_read(struct pipeline *pipeline, const uint8_t *record, size_t count, bool told,
                    struct problem *problem);

#endif
