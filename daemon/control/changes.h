/*
 * Change requests: gain, mute and filter of a running stream. For each request a worker prepares a
 * plan with the new edges, and the stream exchanges its plan for it at one output frame
 * (stream_change), with a cross-fade if asked for.
 *
 * Requests for a stream are taken in order, one at a time over all streams; up to 32 wait. Gains
 * and mutes for the next block that wait together are merged into one change, as faders send many.
 *
 * A change whose frame is still to come does not hold up requests for earlier frames: a filter for
 * an earlier frame replaces it, and whoever asked for it is answered so; a gain or mute a second or
 * more before it goes first, and the change is then prepared once more and answered again.
 * A request that is refused leaves everything as it was.
 *
 * Preparation is a job (pipeline/job.h): one that hangs for `prepare timeout` is left behind, its
 * request is answered so, and the next one begins.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_CHANGES_H
#define CONVOLVD_CONTROL_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "control/change_request.h"
#include "control/process.h"
#include "core/error.h"

struct changes;

/* `process` outlives it. 0 or ERROR_MEMORY. */
int changes_open(const struct process *process,
                 void (*answered)(void *context, const struct change_answer *answer), void *context,
                 struct changes **out);

/* Refuses the request at once with a sentence, or answers it later. */
int changes_request(struct changes *changes, struct pipeline *pipeline,
                    const struct change_request *request, struct problem *problem);

/* Whether the request could be taken, together with `others` more for the same stream. 0, or an
 * error with its sentence. */
int changes_check(struct changes *changes, struct pipeline *pipeline,
                  const struct change_request *request, uint32_t others, struct problem *problem);

/* Between the two, requests wait: those of one `group` then take effect together. */
void changes_hold(struct changes *changes);
void changes_release(struct changes *changes);

/* The edges that the stream has now [stream_config->edge_count]; NULL: as configured. */
const struct config_edge *changes_edges(const struct changes *changes,
                                        const struct pipeline *pipeline);

/* Frees what is kept for pipelines that are in the registry no more: after a reload. */
void changes_forget(struct changes *changes);

/* Takes no further request and gives no further answer. */
void changes_stop(struct changes *changes);

/* The loop has ended, the engines are still open. NULL is fine. */
void changes_close(struct changes *changes);

#endif
