/*
 * Telling of changes: an event and a line of the log for each change that takes effect, with who
 * asked for it, and for each that was published and is cancelled before its frame.
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

/* Cancels what change_tell has published of this request for that frame of the epoch. `filter`: as
 * published; `who`: who asked for what took its place; `why`: a sentence's end. */
void change_tell_cancelled(const struct pipeline *pipeline, const struct change_request *request,
                           const char *filter, uint64_t epoch, uint64_t frame, const char *who,
                           const char *why);

#endif
