/*
 * A job: work that may never come back (a driver's call, a file on a disk that hangs), done by a
 * thread of its own, so that the loop can go on without it.
 *
 *     job_start ─► run ─► through ─► the loop takes what it made
 *                   └─ not through in time: job_leave ─► left behind ─► back after all: discard
 *
 * What a job uses is its own, or outlives every job: a thread that is left behind touches nothing
 * that the loop may free. How many are left behind is counted, and each kind has a bound. While one
 * hangs in a call of a driver, nothing else is prepared on that device (engine_note_hung).
 *
 * A job watch waits for one job at a time with a deadline for each of its steps. Time in which the
 * process could not run counts at most an eighth of it.
 *
 * The loop's, except what says "its thread".
 */
#ifndef CONVOLVD_PIPELINE_JOB_H
#define CONVOLVD_PIPELINE_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/loop_bell.h"

struct engine;

enum job_kind {
    JOB_ON_DEVICE,   /* makes plans for what stands by, and opens lost devices again */
    JOB_OF_CHANGE,   /* a change of a running stream, a reload, or freeing what one has replaced */
    JOB_OF_RESPONSE, /* measures filters for the command `response` */
    JOB_KINDS,
};

/* No further change, reload or response begins while so many of them are left behind. */
enum { JOBS_LEFT_MAX = 3 };

/* The first member of what the owner makes of it; the owner sets nothing in it by itself. */
struct job {
    enum job_kind kind;
    void (*run)(struct job *job);     /* its thread */
    void (*discard)(struct job *job); /* its thread: back after it was left behind; frees it all */
    void (*through)(void *context);
    void *context;

    pthread_mutex_t mutex; /* of the following */
    bool is_through, is_left;
    const char *stream, *step; /* what it is at; NULL: nothing in particular */
    struct engine *engine;     /* whose driver it calls; NULL: none */
    uint32_t steps;            /* begun */
};

/* A zeroed one: ready for job_start and job_close. */
void job_open(struct job *job, enum job_kind kind, void (*run)(struct job *job),
              void (*discard)(struct job *job));
/* Never started, or through: the owner then frees its memory. Its thread, in discard, too. */
void job_close(struct job *job);

/* Its thread. Begins a step: of the stream of this name (NULL: the same as before), a phrase for
 * "hangs while …", and the engine whose driver it may hang in (NULL: none). All outlive the job.
 * False: it was left behind, and need not go on. A NULL job is fine: true. */
bool job_step(struct job *job, const char *stream, const char *step, struct engine *engine);

/* Begins; the thread calls `through` under a lock when it is through and was not left behind. 0 or
 * ERROR_SYSTEM: there is no thread to be had. */
int job_start(struct job *job, void (*through)(void *context), void *context);
bool job_through(struct job *job);
/* Leaves the thread behind with all that the job has. False: it is through. */
bool job_leave(struct job *job);

/* How many of the kind are left behind now. ANY. */
uint32_t jobs_left_behind(enum job_kind kind);

/* ---- waiting for one with a deadline ------------------------------------------------------ */

struct job_watch {
    /* set by the owner */
    void (*done)(void *context, struct job *job);
    /* It was left behind at `step` of `stream` (either may be NULL), in the driver of `engine`
     * (NULL: in none). The job itself must not be used any more. */
    void (*late)(void *context, const char *stream, const char *step, struct engine *engine);
    void *context;

    struct loop_bell bell;
    uv_timer_t timer;
    struct job *job; /* NULL: none is under way */
    uint32_t steps, ticks;
};

/* `watch`, with its first members set, lies in memory that outlives the loop. */
void job_watch_open(struct job_watch *watch, uv_loop_t *loop);
/* Starts the job, each of whose steps may take so long; then calls `done` or `late`. 0 or
 * ERROR_SYSTEM. */
int job_watch_start(struct job_watch *watch, struct job *job, int64_t timeout_ns);
/* Closes the handles; `done` and `late` are not called any more. A job that is not through is left
 * behind. Returns one that is, for its owner to close; NULL: none. */
struct job *job_watch_close(struct job_watch *watch);

#endif
