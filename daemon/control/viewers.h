/*
 * Viewers: processes that look at running streams through a watch ring (wire/watch_ring.h), such as
 * convolv-web. A viewer is a connection to the control socket; it says what it wants to see, and
 * that is written into its ring until it says otherwise or goes.
 *
 * Looking is bounded and never in the way: it begins when the results of a wake-up are on their
 * way and the next batches are submitted, takes some 50 us of a turn of the loop (backlog.h), at
 * most 4 % of its time and VIEWERS_BYTES_S of single frames a second; what does not fit is skipped,
 * and the next record says so. Without viewers nothing is done at all.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_VIEWERS_H
#define CONVOLVD_CONTROL_VIEWERS_H

#include <jansson.h>

#include "control/process.h"
#include "core/error.h"

/* Single frames, of all viewers together: how many bytes a second, and how many of them may be
 * saved up while nobody asks for frames. */
enum { VIEWERS_BYTES_S = 32000000, VIEWERS_BYTES_SAVED = 8000000 };

struct viewers;

/* `process` outlives it. 0 or ERROR_MEMORY. */
int viewers_open(const struct process *process, struct viewers **out);
/* Looks at nothing any more; the loop frees the rest. NULL is fine. */
void viewers_close(struct viewers *viewers);

/*
 * What the viewer `owner` wants to see from now on:
 *
 *     {"levels": true, "streams": [{"stream": "vessel", "side": "input", "minmax": true,
 * "channels": [1, 3]}]}
 *
 * Streams that are not there are seen once they are. *answer: for each of `streams` its rate,
 * channels and units, or why it is not shown; the caller's. *fd: the ring, with the first request
 * of a viewer, the caller's to close; else -1. 0, or an error with its sentence, and what it saw
 * before stays.
 */
int viewers_watch(struct viewers *viewers, const void *owner, const json_t *request,
                  json_t **answer, int *fd, struct problem *problem);
/* The viewer has gone; NULL or one who never was a viewer is fine. */
void viewers_forget(struct viewers *viewers, const void *owner);

#endif
