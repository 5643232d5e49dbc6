/*
 * Losses in the log: frames, datagrams and blocks that a stream or a sink has lost since the last
 * line, new epochs and senders, silence and a wrong rate; for each cause at most one line in ten
 * seconds, however many packets it was. Reads counters and counts nothing itself.
 *
 * Loop thread, about once a second.
 */
#ifndef CONVOLVD_PIPELINE_LOSSES_H
#define CONVOLVD_PIPELINE_LOSSES_H

#include <stdint.h>

#include "pipeline/pipeline.h"

/* Logs what is new, unless the last line of the same cause is less than ten seconds old. */
void losses_tell(struct pipeline *pipeline, int64_t now_ns);
/* The pipeline ends: logs what is still pending. */
void losses_flush(struct pipeline *pipeline);

/* The pipeline goes on with the numbers or the counters of another one: what it has counted up to
 * now is not told again. */
void losses_go_on(struct pipeline *pipeline);

#endif
