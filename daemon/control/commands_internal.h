/*
 * Shared by the files that hold the handlers of commands (commands.c, commands_*.c); nobody else
 * includes this.
 */
#ifndef CONVOLVD_CONTROL_COMMANDS_INTERNAL_H
#define CONVOLVD_CONTROL_COMMANDS_INTERNAL_H

#include "control/viewers.h"
#include "control/changes.h"
#include "control/process.h"
#include "control/request.h"
#include "control/status_queue.h"
#include "pipeline/job.h"

/* A request whose answer is still to come. */
struct call {
    struct commands *commands;
    struct call *next;
    uint64_t number;
    const struct command_row *row;
    json_t *id; /* NULL: none */
    struct caller caller;
    command_answered *answered; /* NULL: nobody waits for it any more */
    void *context;
    bool covered; /* reload: the one under way began after it was asked for */
    /* transaction: its changes have the numbers from `number` on; answers that are still to come,
     * those that came, and what the first failure said */
    unsigned parts, awaited;
    json_t *answers;
    json_t *failure;
};

/* A response under way, or room for one: commands_response.c. */
struct response_slot {
    struct job_watch watch;
    struct commands *commands;
    uint64_t call;
    char stream[64];
};

enum { RESPONSES_MAX = 2 };

struct commands {
    const struct process *process;
    struct status_queue *status;
    struct commands_host host;
    struct changes *changes;
    struct viewers *viewers;
    struct call *calls; /* those that wait */
    unsigned call_count;
    uint64_t last_number;
    struct response_slot responses[RESPONSES_MAX];
    struct log_limit refused_limit;
    void (*repeated)(void *context, uint64_t call, const struct change_answer *answer);
    void *repeat_context;
    bool stopped;
};

/* A handler answers with an object, or with NULL when the answer comes later: then it has kept the
 * call with call_keep. */
typedef json_t *command_handler(struct call *call, const json_t *request);

/* The call waits: a copy on the heap, found by its number. NULL: too many wait, or no memory. */
struct call *call_keep(const struct call *call);
struct call *call_find(struct commands *commands, uint64_t number);
/* Frees a kept call, which is answered in another way. */
void call_drop(struct call *call);
/* Answers a kept call and frees it; takes the object over. */
void call_finish(struct call *call, json_t *object);

json_t *answer_error(const struct problem *problem);
json_t *answer_busy(void); /* too many requests wait */

/* The running stream that the request names; NULL: *failure says that there is none. */
struct pipeline *stream_of(const struct call *call, const json_t *request, json_t **failure);

/* commands_response.c */
command_handler handle_response;
void responses_open(struct commands *commands);
/* Gives no further answer; before the loop ends. */
void responses_stop(struct commands *commands);

/* commands_change.c */
command_handler handle_filter, handle_gain, handle_mute, handle_transaction;
/* commands_save.c */
command_handler handle_save;
void on_change_answered(void *context, const struct change_answer *answer);

/* commands_record.c */
command_handler handle_record_start, handle_record_stop;

/* commands_cluster.c */
command_handler handle_hand_over;

/* commands_analysis.c */
command_handler handle_analyses, handle_hits, handle_transient;

/* commands_alarm.c */
command_handler handle_acknowledge, handle_noise_floor;

#endif
