/*
 * Event follow: what one follower of analyses (the command `hits`) has still to get. It reads the
 * stores of the analyses that run (pipeline/analysis_store.h) at its own pace, finds new ones by
 * themselves after a reload, and tells a follower that was too slow how much it has missed.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_EVENT_FOLLOW_H
#define CONVOLVD_CONTROL_EVENT_FOLLOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "control/process.h"

struct event_follow;

/* From a request `hits` that command_check has passed. NULL: no memory. */
struct event_follow *event_follow_open(const struct process *process, const json_t *request);
void event_follow_close(struct event_follow *follow); /* NULL is fine */

/* Lines of what is new, the caller's: `{"analysis_event": {…}}` or `{"missed": n}` each; where
 * older ones were asked for, `{"replayed": n}` behind these. A part of it where there is much.
 * NULL: nothing, or no memory. */
char *event_follow_lines(struct event_follow *follow, size_t *bytes);

#endif
