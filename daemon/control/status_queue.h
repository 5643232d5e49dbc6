/*
 * Status queue: makes texts of the status without holding the loop up. With thousands of streams a
 * status takes a long time to make, and many may ask at once; so the loop reads a few streams in
 * each of its turns, for about a millisecond, and a worker turns what was read into text.
 *
 *     request ─► loop: one stream after the other, 1 ms a turn ─► worker: text ─► loop: made
 *
 * Requests are made one after the other. The figures of one stream are of one instant, those of
 * different streams up to a few turns apart; when streams come or go meanwhile, it begins anew.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_STATUS_QUEUE_H
#define CONVOLVD_CONTROL_STATUS_QUEUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "control/process.h"

struct status_queue;

enum status_form {
    STATUS_TABLE,        /* for people */
    STATUS_JSON,         /* indented, with a newline at its end */
    STATUS_ANSWER_TABLE, /* the table as the control sockets answer it: one line of JSON */
    STATUS_ANSWER_JSON,
};

/* `process` outlives it. 0 or ERROR_MEMORY. */
int status_queue_open(const struct process *process, struct status_queue **out);

/* Gives no further answer, and frees itself after uv's closes. NULL is fine. */
void status_queue_close(struct status_queue *queue);

/* The process is connected. `made` is called later with the text, which is its own to free, or with
 * NULL: out of memory. 0 or ERROR_MEMORY. */
int status_queue_request(struct status_queue *queue, enum status_form form,
                         void (*made)(void *context, char *text, size_t bytes), void *context);

/* The same as an answer of the control sockets: the table, or JSON. `id`: of the request, copied;
 * NULL: none. */
int status_queue_answer(struct status_queue *queue, bool json, const json_t *id,
                        void (*made)(void *context, char *text, size_t bytes), void *context);

/* `made` is not called for the requests of this context. */
void status_queue_cancel(struct status_queue *queue, const void *context);

#endif
