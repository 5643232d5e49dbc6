/* Preparing plans on another device: see preparation.h. */
#include "pipeline/preparation.h"

#include <stddef.h>
#include <stdlib.h>

#include "core/clock.h"

static void prepare(struct job *job);
static void discard(struct job *job);

struct preparation *preparation_new(struct placement *placement, struct engine *engine,
                                    const struct config *config)
{
    struct preparation *preparation = calloc(1, sizeof *preparation);
    if (preparation == NULL)
        return NULL;
    job_open(&preparation->job, JOB_ON_DEVICE, prepare, discard);
    preparation->placement = placement;
    preparation->config = config;
    preparation->engine = engine;
    preparation->opens = engine == NULL;
    preparation->begun_ns = clock_monotonic_ns();
    return preparation;
}

void preparation_add(struct preparation *preparation, const struct pipeline *pipeline)
{
    if (preparation->count == preparation->capacity) {
        const uint32_t capacity = preparation->capacity > 0 ? 2 * preparation->capacity : 8;
        struct prepared *larger =
            realloc(preparation->prepared, capacity * sizeof *preparation->prepared);
        if (larger == NULL)
            return; /* it is added the next time */
        preparation->prepared = larger;
        preparation->capacity = capacity;
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

/* Worker, the job's thread, or it was never started. */
static void close_parts(struct preparation *preparation)
{
    for (uint32_t i = 0; i < preparation->count; i++) {
        plan_close(preparation->prepared[i].plan);
        stream_ring_free(preparation->prepared[i].ring);
        recipe_drop(preparation->prepared[i].recipe);
    }
    if (preparation->opens)
        engine_close(preparation->engine);
    job_close(&preparation->job);
    free(preparation->prepared);
}

static void prepare(struct job *job)
{
    struct preparation *preparation = (struct preparation *)job;
    if (preparation->opens)
        preparation->error = devices_reopen(preparation->placement, preparation->config,
                                            &preparation->engine, &preparation->problem);
    for (uint32_t i = 0; preparation->error == 0 && i < preparation->count; i++)
        prepare_one(preparation, &preparation->prepared[i]);
}

static void discard(struct job *job)
{
    struct preparation *preparation = (struct preparation *)job;
    close_parts(preparation);
    free(preparation);
}

/* ---- the loop ---------------------------------------------------------------------------- */

int preparation_start(struct preparation *preparation, void (*done)(void *context), void *context)
{
    const int error = job_start(&preparation->job, done, context);
    if (error < 0)
        discard(&preparation->job);
    return error;
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

static void close_later(struct closing *closing)
{
    struct preparation *preparation =
        (void *)((char *)closing - offsetof(struct preparation, closing));
    close_parts(preparation);
    free(preparation);
}

void preparation_close_later(struct preparation *preparation)
{
    preparation->closing.close = close_later;
    closing_begin(preparation->engine, &preparation->closing);
}
