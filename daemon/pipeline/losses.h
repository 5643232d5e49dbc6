/*
 * Losses in the log: one line for what a stream or a sink has lost since the last line, at most
 * every ten seconds, however many packets it was. Reads counters and counts nothing itself.
 *
 * Loop thread, about once a second.
 */
#ifndef CONVOLVD_PIPELINE_LOSSES_H
#define CONVOLVD_PIPELINE_LOSSES_H

#include <stdint.h>

#include "pipeline/pipeline.h"

/* Logs what is new, unless the last line is less than ten seconds old. */
void losses_tell(struct pipeline *pipeline, int64_t now_ns);

#endif
