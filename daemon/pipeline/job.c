/* Jobs: see job.h. */
#include "pipeline/job.h"

#include <assert.h>
#include <stdatomic.h>

#include "convolve/engine.h"
#include "convolve/lost.h"
#include "core/clock.h"
#include "core/error.h"

/* A deadline passes in so many ticks. After a pause of the process only one is due. */
enum { TICKS = 8 };

static _Atomic uint32_t left_behind[JOB_KINDS];

uint32_t jobs_left_behind(enum job_kind kind)
{
    return atomic_load(&left_behind[kind]);
}

void job_open(struct job *job, enum job_kind kind, void (*run)(struct job *job),
              void (*discard)(struct job *job))
{
    job->kind = kind;
    job->run = run;
    job->discard = discard;
    pthread_mutex_init(&job->mutex, NULL);
}

void job_close(struct job *job)
{
    pthread_mutex_destroy(&job->mutex);
}

/* ---- its thread -------------------------------------------------------------------------- */

bool job_step(struct job *job, const char *stream, const char *step, struct engine *engine)
{
    if (job == NULL)
        return true;
    pthread_mutex_lock(&job->mutex);
    const bool is_left = job->is_left;
    if (is_left && job->engine != NULL) /* its driver has answered */
        engine_note_hung(job->engine, false);
    if (stream != NULL)
        job->stream = stream;
    job->step = step;
    job->engine = is_left ? NULL : engine;
    job->steps++;
    pthread_mutex_unlock(&job->mutex);
    return !is_left;
}

static void *run(void *argument)
{
    struct job *job = argument;
    const enum job_kind kind = job->kind;
    job->run(job);
    job_step(job, NULL, NULL, NULL);
    pthread_mutex_lock(&job->mutex);
    job->is_through = true;
    const bool is_left = job->is_left;
    if (!is_left)
        job->through(job->context);
    pthread_mutex_unlock(&job->mutex);
    if (is_left) { /* late, but back: nothing of it remains */
        job->discard(job);
        atomic_fetch_sub(&left_behind[kind], 1);
    }
    return NULL;
}

/* ---- the loop ---------------------------------------------------------------------------- */

int job_start(struct job *job, void (*through)(void *context), void *context)
{
    pthread_t thread;
    job->through = through;
    job->context = context;
    if (pthread_create(&thread, NULL, run, job) != 0)
        return ERROR_SYSTEM;
    pthread_detach(thread);
    return 0;
}

bool job_through(struct job *job)
{
    pthread_mutex_lock(&job->mutex);
    const bool through = job->is_through;
    pthread_mutex_unlock(&job->mutex);
    return through;
}

bool job_leave(struct job *job)
{
    pthread_mutex_lock(&job->mutex);
    const bool left = !job->is_through;
    job->is_left = left;
    if (left) { /* before the thread can count itself back */
        atomic_fetch_add(&left_behind[job->kind], 1);
        if (job->engine != NULL)
            engine_note_hung(job->engine, true);
    }
    pthread_mutex_unlock(&job->mutex);
    return left;
}

/* ---- waiting for one with a deadline ------------------------------------------------------ */

static void take(struct job_watch *watch)
{
    struct job *job = watch->job;
    uv_timer_stop(&watch->timer);
    watch->job = NULL;
    watch->done(watch->context, job);
}

static void on_rung(void *context)
{
    struct job_watch *watch = context;
    if (watch->job != NULL && job_through(watch->job))
        take(watch);
}

/* Whether the step at hand has taken its time; notes what it is at. */
static bool is_late(struct job_watch *watch, const char **stream, const char **step,
                    struct engine **engine)
{
    struct job *job = watch->job;
    pthread_mutex_lock(&job->mutex);
    watch->ticks = job->steps == watch->steps ? watch->ticks + 1 : 0;
    watch->steps = job->steps;
    *stream = job->stream;
    *step = job->step;
    *engine = job->engine;
    pthread_mutex_unlock(&job->mutex);
    return watch->ticks >= TICKS;
}

static void on_timer(uv_timer_t *timer)
{
    struct job_watch *watch = timer->data;
    const char *stream, *step;
    struct engine *engine;
    if (!is_late(watch, &stream, &step, &engine))
        return;
    if (!job_leave(watch->job)) { /* through just now */
        take(watch);
        return;
    }
    uv_timer_stop(&watch->timer);
    watch->job = NULL;
    watch->late(watch->context, stream, step, engine);
}

static void on_through(void *context)
{
    struct job_watch *watch = context;
    loop_bell_ring(&watch->bell);
}

void job_watch_open(struct job_watch *watch, uv_loop_t *loop)
{
    loop_bell_open(&watch->bell, loop, on_rung, watch);
    uv_timer_init(loop, &watch->timer);
    watch->timer.data = watch;
}

int job_watch_start(struct job_watch *watch, struct job *job, int64_t timeout_ns)
{
    const uint64_t tick_ms = (uint64_t)(timeout_ns / NS_PER_MS / TICKS);
    assert(watch->job == NULL);
    const int error = job_start(job, on_through, watch);
    if (error < 0)
        return error;
    watch->job = job;
    watch->steps = watch->ticks = 0;
    uv_timer_start(&watch->timer, on_timer, tick_ms + 1, tick_ms + 1);
    return 0;
}

struct job *job_watch_close(struct job_watch *watch)
{
    struct job *job = watch->job;
    watch->job = NULL;
    loop_bell_close(&watch->bell, NULL);
    uv_close((uv_handle_t *)&watch->timer, NULL);
    return job != NULL && !job_leave(job) ? job : NULL;
}
