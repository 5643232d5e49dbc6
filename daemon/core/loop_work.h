/*
 * Work that may block or takes long, for an event loop: it runs on one of a few threads, then
 * `done` runs on the loop. As uv_queue_work does, but the loop is woken by a bell (loop_bell.h),
 * and so never waits for the thread that worked.
 *
 *     LOOP    start ─► queue                        ┌─► done
 *     worker            └─► work ─► ring the bell ──┘
 *
 * The loop does not end before `done` has run. Where no thread is to be had, the work is done in
 * the start.
 */
#ifndef CONVOLVD_CORE_LOOP_WORK_H
#define CONVOLVD_CORE_LOOP_WORK_H

#include "core/loop_bell.h"

struct loop_work {
    void (*work)(void *context), (*done)(void *context);
    void *context;
    struct loop_bell bell;
    struct loop_work *next; /* that waits for a thread */
};

/* LOOP. `work` is the caller's until `done` runs, in which it may be freed or started anew. */
void loop_work_start(struct loop_work *work, uv_loop_t *loop, void (*run)(void *context),
                     void (*done)(void *context), void *context);

#endif
