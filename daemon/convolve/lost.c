/* Losing the device, see lost.h. */
#include "convolve/lost.h"

#include <stdarg.h>
#include <stdio.h>

#include "convolve/object.h"
#include "core/clock.h"
#include "core/log.h"

/* A batch may take so many times what it is expected to. */
enum { COSTS = 20 };

/* While a worker builds plans on the device. */
static const int64_t preparing_gpu_ns = 5 * NS_PER_SECOND, preparing_cpu_ns = 30 * NS_PER_SECOND;

/* Every engine abandoned in this process, closed since or not. */
static pthread_mutex_t left_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct engine *left;
static _Atomic uint32_t abandoned;

const char *engine_loss_name(enum engine_loss loss)
{
    static const char *const names[ENGINE_LOSSES] = {[ENGINE_WORKS] = "works",
#define X(name, text) [ENGINE_LOSS_##name] = (text),
                                                     ENGINE_LOSS_TABLE(X)
#undef X
    };
    return names[loss];
}

void engine_note_fault(struct engine *engine, const char *format, ...)
{
    if (engine->fault[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(engine->fault, sizeof engine->fault, format, arguments);
    va_end(arguments);
    log_error("%s: %s", engine->device.found.info.name, engine->fault);
}

const char *engine_fault(const struct engine *engine)
{
    return engine->fault;
}

void engine_wake(struct engine *engine)
{
    pthread_mutex_lock(&engine->wake_mutex);
    if (engine->wake != NULL)
        engine->wake(engine->wake_context);
    pthread_mutex_unlock(&engine->wake_mutex);
}

void engine_declare_lost(struct engine *engine, enum engine_loss cause, const char *detail)
{
    pthread_mutex_lock(&engine->loss_mutex);
    const bool first = atomic_load(&engine->loss) == ENGINE_WORKS;
    if (first) {
        snprintf(engine->loss_detail, sizeof engine->loss_detail, "%s", detail);
        atomic_store(&engine->planner.abandoned, true);
        atomic_store_explicit(&engine->loss, cause, memory_order_release);
    }
    pthread_mutex_unlock(&engine->loss_mutex);
    if (first)
        engine_wake(engine);
}

enum engine_loss engine_lost(const struct engine *engine)
{
    return (enum engine_loss)atomic_load_explicit(&engine->loss, memory_order_acquire);
}

const char *engine_loss_detail(const struct engine *engine)
{
    return engine->loss_detail;
}

uint64_t engine_oldest(const struct engine *engine, int64_t *given_ns)
{
    if (engine->in_flight == 0)
        return 0;
    const struct batch *oldest = engine->flights[engine->flight_first % BATCHES_MAX];
    *given_ns = engine->patience_ns + COSTS * oldest->cost_ns;
    const int64_t preparing_ns =
        engine->device.found.info.gpu ? preparing_gpu_ns : preparing_cpu_ns;
    if (atomic_load_explicit(&engine->planner.preparing, memory_order_relaxed) > 0 &&
        *given_ns < preparing_ns)
        *given_ns = preparing_ns;
    return ((const struct slot *)oldest)->number +
           atomic_load_explicit(&engine->parts_done, memory_order_relaxed);
}

void engine_note_hung(struct engine *engine, bool hung)
{
    atomic_fetch_add(&engine->planner.hung, hung ? 1 : -1);
}

int engine_check_works(const struct engine *engine, struct problem *problem)
{
    const enum engine_loss loss = engine_lost(engine);
    if (loss != ENGINE_WORKS)
        return problem_set(problem, ERROR_DEVICE, "the device is lost (%s)",
                           engine_loss_name(loss));
    if (atomic_load(&engine->planner.hung) > 0)
        return problem_set(problem, ERROR_DEVICE,
                           "an earlier call of the device's driver does not come back; restart the "
                           "daemon to prepare anything on this device");
    return 0;
}

/* ---- what is left behind ----------------------------------------------------------------- */

static void keep(struct engine *engine)
{
    pthread_mutex_lock(&left_mutex);
    engine->next_left = left;
    left = engine;
    pthread_mutex_unlock(&left_mutex);
}

void engine_abandon(struct engine *engine)
{
    if (engine->abandoned)
        return;
    pthread_mutex_lock(&engine->wake_mutex);
    engine->wake = NULL;
    pthread_mutex_unlock(&engine->wake_mutex);
    engine->abandoned = true;
    engine->awaited = engine->in_flight;
    engine->in_flight = 0;
    keep(engine);
    atomic_fetch_add(&abandoned, 1);
}

int engine_open_lost(int index, int cpu_threads, const char *why, struct engine **out)
{
    struct problem problem;
    struct engine *engine = engine_new();
    if (engine == NULL)
        return ERROR_MEMORY;
    char name[16];
    snprintf(name, sizeof name, "%d", index);
    const int error = device_select(name, cpu_threads, &engine->device.found, &problem);
    if (error < 0) {
        engine_free(engine);
        return error;
    }
    engine_declare_lost(engine, ENGINE_LOSS_FAILED, why);
    engine->abandoned = true;
    atomic_store(&engine->reclaim, RECLAIM_DONE); /* there is nothing to close */
    keep(engine);
    *out = engine;
    return 0;
}

void engine_leave_ring(struct engine *engine, struct ring *ring)
{
    struct ring_memory *memory = (struct ring_memory *)ring;
    pthread_mutex_lock(&engine->loss_mutex);
    memory->next_left = engine->rings_left;
    engine->rings_left = memory;
    pthread_mutex_unlock(&engine->loss_mutex);
    atomic_fetch_sub(&engine->planner.held, 1);
}

static bool is_at_rest(struct engine *engine)
{
    while (engine->awaited > 0 && spsc_pop(&engine->completed) != NULL)
        engine->awaited--;
    return engine->awaited == 0 && atomic_load(&engine->planner.held) == 0;
}

static void *reclaim(void *argument)
{
    struct engine *engine = argument;
    pthread_mutex_lock(&engine->planner.workers);
    /* A worker that began before the loss may have made a plan meanwhile. */
    const bool rests = atomic_load(&engine->planner.held) == 0;
    if (rests)
        engine_close_left(engine);
    pthread_mutex_unlock(&engine->planner.workers);
    if (rests)
        atomic_fetch_sub(&abandoned, 1);
    atomic_store(&engine->reclaim, rests ? RECLAIM_DONE : RECLAIM_NOT_YET);
    return NULL;
}

void engines_reclaim(void)
{
    pthread_mutex_lock(&left_mutex);
    for (struct engine *engine = left; engine != NULL; engine = engine->next_left) {
        pthread_t thread;
        if (atomic_load(&engine->reclaim) != RECLAIM_NOT_YET || !is_at_rest(engine))
            continue;
        atomic_store(&engine->reclaim, RECLAIM_BEGUN);
        if (pthread_create(&thread, NULL, reclaim, engine) == 0)
            pthread_detach(thread);
        else
            atomic_store(&engine->reclaim, RECLAIM_NOT_YET);
    }
    pthread_mutex_unlock(&left_mutex);
}

void engines_forget(void)
{
    pthread_mutex_lock(&left_mutex);
    struct engine **from = &left;
    while (*from != NULL) {
        struct engine *engine = *from;
        if (atomic_load(&engine->reclaim) == RECLAIM_DONE) {
            *from = engine->next_left;
            engine_free(engine);
        } else {
            from = &engine->next_left;
        }
    }
    pthread_mutex_unlock(&left_mutex);
}

uint32_t engines_abandoned(void)
{
    return atomic_load(&abandoned);
}
