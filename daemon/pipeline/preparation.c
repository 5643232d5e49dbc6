/* Preparing plans on another device: see preparation.h. */
#include "pipeline/preparation.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"

/* What loop and thread share. */
struct job {
    struct preparation preparation; /* first: the caller's pointer */
    uint32_t capacity;
    uv_work_t work;
    pthread_mutex_t mutex;
    bool through, left; /* under mutex */
    void (*done)(void *context);
    void *context;
};

static _Atomic uint32_t left_behind;

uint32_t preparations_left_behind(void)
{
    return atomic_load(&left_behind);
}

struct preparation *preparation_new(struct placement *placement, struct engine *engine,
                                    const struct config *config)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->preparation = (struct preparation){.placement = placement,
                                            .config = config,
                                            .engine = engine,
                                            .opens = engine == NULL,
                                            .begun_ns = clock_monotonic_ns()};
    pthread_mutex_init(&job->mutex, NULL);
    return &job->preparation;
}

void preparation_add(struct preparation *preparation, const struct pipeline *pipeline)
{
    struct job *job = (struct job *)preparation;
    if (preparation->count == job->capacity) {
        const uint32_t capacity = job->capacity > 0 ? 2 * job->capacity : 8;
        struct prepared *larger =
            realloc(preparation->prepared, capacity * sizeof *preparation->prepared);
        if (larger == NULL)
            return; /* it is added the next time */
        preparation->prepared = larger;
        job->capacity = capacity;
    }
    preparation->prepared[preparation->count++] = (struct prepared){
        .recipe = recipe_hold(pipeline->recipe), .like = stream_ring_now(pipeline->stream)};
}

/* ---- the thread -------------------------------------------------------------------------- */

static void prepare_one(const struct preparation *preparation, struct prepared *one)
{
    one->error = recipe_plan(one->recipe, preparation->engine, &one->plan, &one->problem);
    if (one->error < 0)
        return;
    one->error =
        stream_ring_like(preparation->engine, &one->like, one->plan, &one->ring, &one->problem);
    if (one->error < 0) {
        plan_close(one->plan);
        one->plan = NULL;
    }
}

/* Worker, the thread itself, or it was never started. */
static void close_job(struct job *job)
{
    struct preparation *preparation = &job->preparation;
    for (uint32_t i = 0; i < preparation->count; i++) {
        plan_close(preparation->prepared[i].plan);
        stream_ring_free(preparation->prepared[i].ring);
        recipe_drop(preparation->prepared[i].recipe);
    }
    if (preparation->opens)
        engine_close(preparation->engine);
    pthread_mutex_destroy(&job->mutex);
    free(preparation->prepared);
}

static void *prepare(void *argument)
{
    struct job *job = argument;
    struct preparation *preparation = &job->preparation;
    if (preparation->opens)
        preparation->error = devices_reopen(preparation->placement, preparation->config,
                                            &preparation->engine, &preparation->problem);
    for (uint32_t i = 0; preparation->error == 0 && i < preparation->count; i++)
        prepare_one(preparation, &preparation->prepared[i]);
    pthread_mutex_lock(&job->mutex);
    job->through = true;
    const bool is_left = job->left;
    if (!is_left)
        job->done(job->context);
    pthread_mutex_unlock(&job->mutex);
    if (is_left) { /* late, but back: nothing of it remains */
        close_job(job);
        free(job);
        atomic_fetch_sub(&left_behind, 1);
    }
    return NULL;
}

/* ---- the loop ---------------------------------------------------------------------------- */

int preparation_start(struct preparation *preparation, void (*done)(void *context), void *context)
{
    struct job *job = (struct job *)preparation;
    pthread_t thread;
    job->done = done;
    job->context = context;
    if (pthread_create(&thread, NULL, prepare, job) == 0) {
        pthread_detach(thread);
        return 0;
    }
    close_job(job);
    free(job);
    return ERROR_SYSTEM;
}

bool preparation_done(const struct preparation *preparation)
{
    struct job *job = (struct job *)preparation;
    pthread_mutex_lock(&job->mutex);
    const bool through = job->through;
    pthread_mutex_unlock(&job->mutex);
    return through;
}

const char *preparation_why(const struct preparation *preparation)
{
    if (preparation->error < 0)
        return preparation->problem.text;
    for (uint32_t i = 0; i < preparation->count; i++)
        if (preparation->prepared[i].error < 0)
            return preparation->prepared[i].problem.text;
    return preparation->engine != NULL ? engine_loss_detail(preparation->engine) : "";
}

bool preparation_leave(struct preparation *preparation)
{
    struct job *job = (struct job *)preparation;
    pthread_mutex_lock(&job->mutex);
    const bool left = !job->through;
    job->left = left;
    pthread_mutex_unlock(&job->mutex);
    if (left)
        atomic_fetch_add(&left_behind, 1);
    return left;
}

static void close_work(uv_work_t *work)
{
    close_job(work->data);
}

static void after_close(uv_work_t *work, int status)
{
    (void)status; /* nobody cancels it */
    free(work->data);
}

void preparation_close_later(uv_loop_t *loop, struct preparation *preparation)
{
    struct job *job = (struct job *)preparation;
    job->work.data = job;
    uv_queue_work(loop, &job->work, close_work, after_close);
}
