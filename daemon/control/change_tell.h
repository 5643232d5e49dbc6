/*
 * Telling of changes: an event and a line of the log for each change that takes effect, with who
 * asked for it.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_TELL_H
#define CONVOLVD_CONTROL_CHANGE_TELL_H

#include <stdint.h>

#include "control/change_request.h"
#include "core/log.h"
#include "pipeline/pipeline.h"

/* The request holds from this output frame on. `filter`: the name of the stream's filter now.
 * `limits`: of lines about gains, and about mutes, of this stream. */
void change_tell(const struct pipeline *pipeline, const struct change_request *request,
                 const char *filter, uint64_t frame, struct log_limit limits[2]);

#endif
