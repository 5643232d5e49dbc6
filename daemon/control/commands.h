/*
 * Commands: runs requests by the table (command_table.h), whichever way they come. The caller says
 * who asks and in which role; here the request is checked, refused or handed to its handler, and
 * answered once: within commands_run, or later.
 *
 *     socket, OSC ──► commands_run ──► role ──► command_check ──► handler ──► answered
 *                                        └─────────┴ refused: {"ok": false, "error", "code"}
 *
 * No handler blocks the loop: what takes time is done a piece in each turn or on a worker. At most
 * CALLS_MAX requests wait for their answers; further ones are refused.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_COMMANDS_H
#define CONVOLVD_CONTROL_COMMANDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/changes.h"
#include "control/process.h"
#include "control/request.h"
#include "control/status_queue.h"

struct commands;
struct event_follow;

/* `process` and `status` outlive it. 0 or ERROR_MEMORY. */
int commands_open(const struct process *process, struct status_queue *status,
                  const struct commands_host *host, struct commands **out);
/* Gives no further answer and takes no request; before the loop ends. NULL is fine. */
void commands_stop(struct commands *commands);
/* The loop has ended, the engines are still open. NULL is fine. */
void commands_close(struct commands *commands);

/* Runs a request; it stays the caller's. `answered` may be called from within. Returns the number
 * of the call. */
uint64_t commands_run(struct commands *commands, json_t *request, const struct caller *caller,
                      command_answered *answered, void *context);
/* For a session whose request is `hits`: what it is to get once the request is answered; the
 * session's. NULL: nothing, or no memory. */
struct event_follow *commands_follow(const struct commands *commands, json_t *request);
/* `answered` is not called any more for this context. */
void commands_cancel(struct commands *commands, const void *context);

/* A change that was answered, and then prepared once more because a gain overtook it, takes effect
 * later than its answer said; the call's number is what commands_run returned. */
void commands_on_repeat(struct commands *commands,
                        void (*repeated)(void *context, uint64_t call,
                                         const struct change_answer *answer),
                        void *context);

/* A reload has ended, whoever asked for it: with an error and its sentence, or 0. */
struct reload_outcome {
    int error;
    const char *text;
    json_t
        *problems; /* messages behind `text`, as convolvctl check --json lists them; NULL: none */
    uint32_t kept, changed, removed; /* streams */
};
/* A reload begins: it answers those who have asked so far. */
void commands_reload_started(struct commands *commands);
void commands_reloaded(struct commands *commands, const struct reload_outcome *outcome);
/* Frees what is kept for pipelines that a reload has freed. */
void commands_forget(struct commands *commands);

#endif
