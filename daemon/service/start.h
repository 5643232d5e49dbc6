/*
 * Start: prepares the devices and every stream of the first configuration, in a job with a deadline
 * for each step (pipeline/job.h). Nothing runs yet, so a start that hangs ends the process: systemd
 * starts it again.
 *
 * Loop thread, except the job inside, which owns the registry meanwhile.
 */
#ifndef CONVOLVD_SERVICE_START_H
#define CONVOLVD_SERVICE_START_H

#include "control/process.h"
#include "service/numbers.h"
#include "service/store.h"

struct start;

struct start_host {
    struct process *process;
    const struct numbers *numbers;
    const struct store *store;
    void *context;
    /* Everything is prepared, or `error` with its problem. */
    void (*prepared)(void *context, int error, const struct problem *problem);
    /* A step takes longer than `prepare timeout`; the problem says which. */
    void (*hangs)(void *context, const struct problem *problem);
};

/* 0 or ERROR_MEMORY. */
int start_open(const struct start_host *host, struct start **out);
/* Begins to prepare; `prepared` or `hangs` is called later. 0 or ERROR_SYSTEM. */
int start_begin(struct start *start);
/* Closes its handles; not while it prepares. NULL is fine. */
void start_stop(struct start *start);
/* The loop has ended. NULL is fine. */
void start_close(struct start *start);

#endif
