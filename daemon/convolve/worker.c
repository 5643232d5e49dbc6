/*
 * The device thread: the only one that enqueues on the device's queue. It sleeps on one
 * eventfd that LOOP rings for a submission, a driver's callback for a completion and a
 * worker for a request; rings coalesce, so at each waking it looks at everything.
 *
 * On GPUs it looks itself for the end of a batch that runs alone; those of several are seen by a
 * second thread, the waiter:
 *
 *     one batch   launch ─► nap on the doorbell, look, nap … ─► hand back
 *     several     launch ─► waiter: nap, look, nap … ─► doorbell ─► hand back
 *
 * Batches complete in the order they were launched: the queue is in order.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"

static void note_done(struct slot *slot, cl_int status)
{
    slot->done_ns = clock_monotonic_ns();
    atomic_store_explicit(&slot->done, status == CL_COMPLETE ? 1 : -1, memory_order_release);
}

/* A thread of the driver's, or the waiter. */
static void CL_CALLBACK batch_done(cl_event event, cl_int status, void *context)
{
    (void)event;
    struct slot *slot = context;
    const int doorbell = slot->engine->doorbell;
    note_done(slot, status);
    doorbell_ring(doorbell);
}

/* Around the time a batch should be done the waiter looks without a pause, so much before and
 * after. */
static const int64_t look_early_ns = 15 * NS_PER_US, look_late_ns = 35 * NS_PER_US;
/* Else it sleeps between two looks for a share of the time gone by, between these. */
enum { NAP_SHARE = 16 };
static const int64_t nap_min_ns = 10 * NS_PER_US, nap_max_ns = NS_PER_MS;

static void sleep_until(int64_t until_ns)
{
    const struct timespec until = {until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* When the batch should be done, as far as its plans' costs tell. */
static int64_t predicted_end_ns(int64_t begin_ns, const struct slot *slot)
{
    for (uint32_t i = 0; i < slot->batch.count; i++)
        begin_ns += plan_cost_ns(slot->batch.items[i].plan, slot->batch.items[i].blocks);
    return begin_ns;
}

/* CL_COMPLETE, an error of the batch or of the question (negative), or that it is still to come
 * (positive). */
static cl_int event_status(cl_event event)
{
    cl_int status = CL_QUEUED;
    const cl_int code =
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return code != CL_SUCCESS ? code : status;
}

/*
 * How long to sleep before the next look for the end of a batch that began at begin_ns and should
 * end at end_ns; 0: look at once. NVIDIA's driver (580) looks for finished events with callbacks
 * only every 20 ms once a batch takes longer than some 200 us, and clWaitForEvents burns a core
 * for as long as it waits. So we look by ourselves: without a pause for 50 us around the
 * time a batch should be done, else with naps that grow with the time gone by. A prediction that is
 * wrong costs a sixteenth of the batch's time, never more, and so the next one is better: were the
 * end looked for at the predicted time only, no batch would ever be seen to end before it.
 */
static int64_t nap_from(int64_t begin_ns, int64_t end_ns, int64_t now_ns)
{
    if (now_ns >= end_ns - look_early_ns && now_ns <= end_ns + look_late_ns)
        return 0;
    int64_t nap_ns = (now_ns - begin_ns) / NAP_SHARE;
    nap_ns = nap_ns < nap_min_ns ? nap_min_ns : nap_ns > nap_max_ns ? nap_max_ns : nap_ns;
    const int64_t ahead_ns = end_ns - look_early_ns - now_ns;
    return ahead_ns > 0 && ahead_ns < nap_ns ? ahead_ns : nap_ns;
}

/* The waiter thread, on GPUs. */
static cl_int wait_for(const struct engine *engine, const struct slot *slot)
{
    const int64_t before_ns = atomic_load_explicit(&engine->last_seen_ns, memory_order_relaxed);
    const int64_t begin_ns = before_ns > slot->device_from_ns ? before_ns : slot->device_from_ns;
    const int64_t end_ns = predicted_end_ns(begin_ns, slot);
    for (;;) {
        const cl_int status = event_status(slot->event);
        if (status <= CL_COMPLETE)
            return status;
        const int64_t now_ns = clock_monotonic_ns(), nap_ns = nap_from(begin_ns, end_ns, now_ns);
        if (nap_ns > 0)
            sleep_until(now_ns + nap_ns);
    }
}

void *engine_waiter(void *argument)
{
    struct engine *engine = argument;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* else every sleep is 50 us longer */
    for (;;) {
        doorbell_wait(engine->waiter_bell);
        struct slot *slot;
        while ((slot = spsc_pop(&engine->waiting)) != NULL) {
            batch_done(slot->event, wait_for(engine, slot), slot);
            atomic_store_explicit(&engine->last_seen_ns, clock_monotonic_ns(),
                                  memory_order_relaxed);
        }
        if (atomic_load_explicit(&engine->stopping, memory_order_acquire))
            return NULL;
    }
}

/* The waiter looks for the batch's end from now on. */
static void hand_to_waiter(struct engine *engine, struct slot *slot)
{
    bool pushed = spsc_push(&engine->waiting, slot);
    assert(pushed);
    (void)pushed;
    doorbell_ring(engine->waiter_bell);
}

static void stop_watching(struct engine *engine)
{
    if (engine->watched != NULL)
        hand_to_waiter(engine, engine->watched);
    engine->watched = NULL;
}

/*
 * The device thread looks itself for the end of the batch that runs alone, which saves the ways to
 * the waiter and back. It naps on the doorbell: a ring is seen to first. A batch that is not done
 * when it should be is left to the waiter.
 */
static void watch(struct engine *engine)
{
    struct slot *slot = engine->watched;
    const int64_t begin_ns = slot->device_from_ns, end_ns = predicted_end_ns(begin_ns, slot);
    for (;;) {
        const cl_int status = event_status(slot->event);
        if (status <= CL_COMPLETE) {
            note_done(slot, status);
            atomic_store_explicit(&engine->last_seen_ns, slot->done_ns, memory_order_relaxed);
            engine->watched = NULL;
            return;
        }
        if (engine->running_count < engine->depth && !spsc_empty(&engine->submitted))
            return; /* LOOP rings or has rung */
        const int64_t now_ns = clock_monotonic_ns();
        if (now_ns > end_ns + look_late_ns) {
            stop_watching(engine);
            return;
        }
        const int64_t nap_ns = nap_from(begin_ns, end_ns, now_ns);
        if (nap_ns > 0 && doorbell_rung_within(engine->doorbell, nap_ns))
            return; /* rung: the caller comes back */
    }
}

static void request_finish(struct engine *engine, int error)
{
    pthread_mutex_lock(&engine->request_mutex);
    engine->request_error = error;
    engine->request_finished = true;
    pthread_cond_broadcast(&engine->request_done);
    pthread_mutex_unlock(&engine->request_mutex);
}

static void finish(struct engine *engine, struct slot *slot, int status)
{
    struct batch *batch = &slot->batch;
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
    batch->status = status;
    batch->completed_ns = slot->done_ns;
    if (status == BATCH_OK) {
        int64_t from = slot->device_from_ns;
        if (engine->last_completed_ns > from)
            from = engine->last_completed_ns;
        plan_cost_learn(batch, batch->completed_ns - from);
    } else {
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].plan->cache.valid = false;
    }
    engine->last_completed_ns = batch->completed_ns;
    if (slot->worker) {
        request_finish(engine, status == BATCH_OK ? 0 : ERROR_DEVICE);
        return;
    }
    bool pushed = spsc_push(&engine->completed, batch);
    assert(pushed);
    (void)pushed;
    if (engine->wake != NULL)
        engine->wake(engine->wake_context);
}

static void launch(struct engine *engine, struct slot *slot)
{
    atomic_store_explicit(&slot->done, 0, memory_order_relaxed);
    slot->event = NULL;
    slot->batch.started_ns = slot->device_from_ns = clock_monotonic_ns();
    int error = batch_launch(engine, slot);
    cl_int code = CL_SUCCESS;
    if (error == 0 && slot->event != NULL && !engine->waits)
        code = clSetEventCallback(slot->event, CL_COMPLETE, batch_done, slot);
    if (error < 0 || code != CL_SUCCESS) {
        /* Whatever was enqueued must not write when the slot is used again. */
        device_finish(engine);
        if (code != CL_SUCCESS)
            log_error("clSetEventCallback: %s", opencl_error_name(code));
        slot->done_ns = clock_monotonic_ns();
        atomic_store_explicit(&slot->done, -1, memory_order_relaxed);
    } else if (slot->event == NULL) { /* nothing to compute */
        slot->done_ns = clock_monotonic_ns();
        atomic_store_explicit(&slot->done, 1, memory_order_relaxed);
    } else {
        device_flush(engine);
        if (engine->waits) { /* the waiter takes batches in the order of their launches */
            stop_watching(engine);
            if (engine->running_count == 0)
                engine->watched = slot;
            else
                hand_to_waiter(engine, slot);
        }
    }
    engine->running[engine->running_count++] = slot;
}

/* Hands back what has completed, oldest first. */
static void drain(struct engine *engine)
{
    uint32_t finished = 0;
    while (finished < engine->running_count) {
        struct slot *slot = engine->running[finished];
        int done = atomic_load_explicit(&slot->done, memory_order_acquire);
        if (done == 0)
            break;
        finished++;
        finish(engine, slot, done > 0 ? BATCH_OK : BATCH_FAILED);
    }
    if (finished > 0) {
        engine->running_count -= finished;
        memmove(engine->running, engine->running + finished,
                engine->running_count * sizeof engine->running[0]);
    }
}

/* Context, queues, programs and buffers go and come back; spectra and rings are copied from host
 * memory. */
static int reset(struct engine *engine)
{
    device_destroy(engine);
    feeds_drop(engine);
    int error = device_create(engine, &engine->request_problem);
    if (error == 0)
        error = device_kernels_rebuild(engine, &engine->request_problem);
    for (int i = 0; i < PLANS_MAX; i++)
        if (engine->plans[i] != NULL)
            engine->plans[i]->cache.valid = false;
    return error;
}

static void take_request(struct engine *engine)
{
    pthread_mutex_lock(&engine->request_mutex);
    enum request_kind kind = engine->request_taken ? REQUEST_NONE : engine->request;
    if (kind != REQUEST_NONE)
        engine->request_taken = true;
    pthread_mutex_unlock(&engine->request_mutex);
    switch (kind) {
    case REQUEST_NONE:
        break;
    case REQUEST_RUN:
        launch(engine, &engine->slots[engine->slot_count]);
        break;
    case REQUEST_RESET:
        assert(engine->running_count == 0);
        request_finish(engine, reset(engine));
        break;
    case REQUEST_FEEDS:
        request_finish(engine, feeds_launch(engine) == CL_SUCCESS ? 0 : ERROR_DEVICE);
        break;
    }
}

int engine_request(struct engine *engine, enum request_kind kind, struct problem *problem)
{
    pthread_mutex_lock(&engine->request_mutex);
    engine->request = kind;
    engine->request_taken = engine->request_finished = false;
    engine->request_error = 0;
    problem_set(&engine->request_problem, ERROR_DEVICE, "the device reported an error");
    doorbell_ring(engine->doorbell);
    while (!engine->request_finished)
        pthread_cond_wait(&engine->request_done, &engine->request_mutex);
    engine->request = REQUEST_NONE;
    int error = engine->request_error;
    if (error < 0 && problem != NULL)
        *problem = engine->request_problem;
    pthread_mutex_unlock(&engine->request_mutex);
    return error;
}

void *engine_thread(void *argument)
{
    struct engine *engine = argument;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* else every timed sleep is 50 us longer */
    for (;;) {
        doorbell_wait(engine->doorbell);
        bool again;
        do {
            drain(engine);
            take_request(engine);
            struct batch *batch;
            while (engine->running_count < engine->depth &&
                   (batch = spsc_pop(&engine->submitted)) != NULL)
                launch(engine, (struct slot *)batch);
            if (engine->watched != NULL)
                watch(engine);
            /* A batch that is done already made room, and may have rung before we slept. */
            again = engine->running_count > 0 &&
                    atomic_load_explicit(&engine->running[0]->done, memory_order_acquire) != 0;
        } while (again);
        if (atomic_load_explicit(&engine->stopping, memory_order_acquire) &&
            engine->running_count == 0)
            return NULL;
    }
}
