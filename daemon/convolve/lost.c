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
    int64_t cost_ns = 0;
    for (uint32_t i = 0; i < oldest->count; i++)
        cost_ns += plan_cost_ns(oldest->items[i].plan, oldest->items[i].blocks);
    *given_ns = engine->patience_ns + COSTS * cost_ns;
    const int64_t preparing_ns =
        engine->device.found.info.gpu ? preparing_gpu_ns : preparing_cpu_ns;
    if (atomic_load_explicit(&engine->planner.preparing, memory_order_relaxed) > 0 &&
        *given_ns < preparing_ns)
        *given_ns = preparing_ns;
    return (uint64_t)engine->flight_first + 1;
}

void engine_abandon(struct engine *engine)
{
    if (engine->abandoned)
        return;
    pthread_mutex_lock(&engine->wake_mutex);
    engine->wake = NULL;
    pthread_mutex_unlock(&engine->wake_mutex);
    engine->abandoned = true;
    engine->in_flight = 0;
    atomic_fetch_add(&abandoned, 1);
}

uint32_t engines_abandoned(void)
{
    return atomic_load(&abandoned);
}
