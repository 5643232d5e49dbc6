/* The device thread and the waiter, see worker.h. */
#include "convolve/worker.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "convolve/launch.h"
#include "convolve/lost.h"
#include "convolve/mirror.h"
#include "convolve/parts.h"
#include "convolve/plan/plan.h"
#include "convolve/reports.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "device/compiler.h"

static void note_done(struct slot *slot, cl_int status)
{
    slot->done_ns = clock_monotonic_ns();
    slot->status = status;
    atomic_store_explicit(&slot->done, status == CL_COMPLETE ? DONE_OK : DONE_FAILED,
                          memory_order_release);
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

/* A thread polls without a pause from so long before to so long after the predicted completion. For
 * a batch that runs alone it begins earlier: a thread that slept comes back 25 to 60 us late on a
 * processor that was idle, and what it saw late would be the next prediction. */
static const int64_t poll_early_ns = 15 * NS_PER_US, poll_late_ns = 35 * NS_PER_US;
static const int64_t poll_alone_early_ns = 70 * NS_PER_US;
/* What a worker asks of the device thread: a self-test, in whose first launch a CPU's driver
 * compiles. */
static const int64_t request_patience_ns = 60 * NS_PER_SECOND;

/* Outside that time it sleeps between two polls for a share of the time gone by, within limits. */
enum { SLEEP_SHARE = 16 };
static const int64_t sleep_min_ns = 10 * NS_PER_US, sleep_max_ns = NS_PER_MS;

static void sleep_until(int64_t until_ns)
{
    const struct timespec until = {until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
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
 * How long to sleep before the next poll of a batch that began at begin_ns and should end at
 * end_ns; 0: poll at once. NVIDIA's driver (580) reports finished events to callbacks only every
 * 20 ms once a batch takes longer than some 200 us, and clWaitForEvents burns a core for as long as
 * it waits. So the engine polls by itself: without a pause for 50 us around the predicted
 * completion, from early_ns before it on, else with sleeps that grow with the time gone by. A wrong
 * prediction costs at most a sixteenth of the batch's time, and polls before the predicted time
 * correct predictions that are too late.
 */
static int64_t sleep_before_poll(int64_t begin_ns, int64_t end_ns, int64_t early_ns, int64_t now_ns)
{
    if (now_ns >= end_ns - early_ns && now_ns <= end_ns + poll_late_ns)
        return 0;
    int64_t sleep_ns = (now_ns - begin_ns) / SLEEP_SHARE;
    sleep_ns = sleep_ns < sleep_min_ns   ? sleep_min_ns
               : sleep_ns > sleep_max_ns ? sleep_max_ns
                                         : sleep_ns;
    const int64_t ahead_ns = end_ns - early_ns - now_ns;
    return ahead_ns > 0 && ahead_ns < sleep_ns ? ahead_ns : sleep_ns;
}

/* The waiter thread, on GPUs. */
static cl_int wait_for(const struct engine *engine, const struct slot *slot)
{
    const int64_t before_ns = atomic_load_explicit(&engine->last_seen_ns, memory_order_relaxed);
    const int64_t begin_ns = before_ns > slot->device_from_ns ? before_ns : slot->device_from_ns;
    const int64_t end_ns = begin_ns + slot->predicted_ns;
    for (;;) {
        const cl_int status = event_status(slot->event);
        if (status <= CL_COMPLETE)
            return status;
        const int64_t now_ns = clock_monotonic_ns(),
                      sleep_ns = sleep_before_poll(begin_ns, end_ns, poll_early_ns, now_ns);
        if (sleep_ns > 0)
            sleep_until(now_ns + sleep_ns);
    }
}

/* The calling thread, as the first thing it does: what it allocates is near its device then. */
static void begin_thread(const struct engine *engine, const char *name)
{
    const struct node_place *place = &engine->device.place;
    pthread_setname_np(pthread_self(), name);
    const int refused = number_set_count(&place->processors) > 0
                            ? thread_run_on(pthread_self(), &place->processors)
                            : 0;
    if (refused != 0)
        log_warning(
            "memory node %u: thread %s runs on any node (sched_setaffinity: %s); allow this "
            "call (SystemCallFilter=sched_setaffinity)",
            place->node, name, strerror(refused));
}

void *engine_waiter(void *argument)
{
    struct engine *engine = argument;
    begin_thread(engine, "convolvd-waiter");
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

/* The waiter polls for the batch from now on. */
static void hand_to_waiter(struct engine *engine, struct slot *slot)
{
    bool pushed = spsc_push(&engine->waiting, slot);
    assert(pushed);
    (void)pushed;
    doorbell_ring(engine->waiter_bell);
}

static void stop_polling(struct engine *engine)
{
    if (engine->polled != NULL)
        hand_to_waiter(engine, engine->polled);
    engine->polled = NULL;
}

/* The device's queue has room. The part of a batch in parts that is there takes none of it. */
static bool takes_another(const struct engine *engine)
{
    return engine->running_count - (engine->parted != NULL) < engine->depth_short;
}

/*
 * The device thread polls for the batch that runs alone, which saves the ways to the waiter and
 * back. It sleeps on the doorbell, so that it serves a ring first. It leaves a batch that is late
 * to the waiter.
 */
static void poll_alone(struct engine *engine)
{
    struct slot *slot = engine->polled;
    const int64_t begin_ns = slot->device_from_ns, end_ns = begin_ns + slot->predicted_ns;
    for (;;) {
        const cl_int status = event_status(slot->event);
        if (status <= CL_COMPLETE) {
            note_done(slot, status);
            atomic_store_explicit(&engine->last_seen_ns, slot->done_ns, memory_order_relaxed);
            engine->polled = NULL;
            return;
        }
        if (takes_another(engine) && !spsc_empty(&engine->submitted))
            return; /* LOOP rings or has rung */
        const int64_t now_ns = clock_monotonic_ns();
        if (now_ns > end_ns + poll_late_ns) {
            stop_polling(engine);
            return;
        }
        const int64_t sleep_ns = sleep_before_poll(begin_ns, end_ns, poll_alone_early_ns, now_ns);
        if (sleep_ns > 0 && doorbell_rung_within(engine->doorbell, sleep_ns))
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

/* Moves the costs of a completed batch's plans towards what the device took. */
static void learn_costs(const struct batch *batch, int64_t device_ns)
{
    if (batch->cost_ns <= 0 || device_ns <= 0)
        return;
    /* Every plan of the batch takes its share of the difference; one batch counts an eighth. */
    double ratio = (double)device_ns / (double)batch->cost_ns;
    ratio = fmin(fmax(ratio, 0.25), 4.0);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        if (item->blocks > 0)
            plan_cost_scale(item->plan, 1 + (ratio - 1) / 8);
        else
            plan_spectra_cost_scale(item->plan, 1 + (ratio - 1) / 8);
    }
}

/* The batch was launched before one ahead of it was seen to fail, and may have read what that one
 * did not leave: its copies into the mirror, or what its plans keep on the device. */
static bool is_suspect(const struct engine *engine, const struct slot *slot)
{
    if (slot->launch > engine->suspect_until)
        return false;
    bool reads = engine->device.mirrored;
    for (uint32_t i = 0; i < slot->batch.count; i++)
        reads = reads || slot->batch.items[i].plan->stateful;
    return reads;
}

/* What was launched last is complete: the device's time for it. Work on one queue runs one after
 * the other; a batch in parts may have a queue to itself. */
static void note_spent(struct engine *engine, struct slot *slot)
{
    const bool beside = slot == engine->parted && !engine->device.mirrored;
    int64_t from_ns = slot->device_from_ns;
    if (!beside && engine->last_completed_ns > from_ns)
        from_ns = engine->last_completed_ns;
    if (slot->done_ns > from_ns)
        slot->spent_ns += slot->done_ns - from_ns;
    if (!beside)
        engine->last_completed_ns = slot->done_ns;
}

static void finish(struct engine *engine, struct slot *slot, int status)
{
    struct batch *batch = &slot->batch;
    if (status == BATCH_OK && is_suspect(engine, slot))
        status = BATCH_FAILED;
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
    batch->status = status;
    batch->completed_ns = slot->done_ns;
    note_spent(engine, slot);
    batch->overtaken_ns = slot == engine->parted && status == BATCH_OK
                              ? batch->completed_ns - batch->started_ns - slot->spent_ns
                              : 0;
    if (status == BATCH_OK) {
        learn_costs(batch, slot->spent_ns);
    } else {
        engine_note_fault(engine, "a batch failed on the device: %s",
                          opencl_error_name(slot->status));
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].plan->cache.valid = false;
    }
    if (slot == engine->parted)
        engine->parted = NULL;
    if (slot->worker) {
        request_finish(engine, status == BATCH_OK ? 0 : ERROR_DEVICE);
        return;
    }
    bool pushed = spsc_push(&engine->completed, batch);
    assert(pushed);
    (void)pushed;
    engine_wake(engine);
}

/* Sleeps until there may be work. On a GPU it is awake when the next batch should come. */
static void await_work(struct engine *engine)
{
    const int64_t next_ns =
        engine->waits && engine->running_count == 0 ? arrivals_next_ns(&engine->arrivals) : 0;
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < next_ns + arrivals_late_ns) {
        const int64_t ahead_ns = next_ns - arrivals_early_ns - now_ns;
        bool rung = ahead_ns > 0 && doorbell_rung_within(engine->doorbell, ahead_ns);
        while (!rung && clock_monotonic_ns() < next_ns + arrivals_late_ns)
            if (!spsc_empty(&engine->submitted))
                return; /* the doorbell rings, too, and the next call returns at once */
    }
    doorbell_wait(engine->doorbell);
}

/* What was enqueued for the slot will be seen to complete. `alone`: nothing else runs. */
static void await(struct engine *engine, struct slot *slot, int error, bool alone)
{
    cl_int code = CL_SUCCESS;
    if (error == 0 && slot->event != NULL && !engine->waits)
        code = clSetEventCallback(slot->event, CL_COMPLETE, batch_done, slot);
    if (error < 0 || code != CL_SUCCESS) {
        /* Whatever was enqueued must not write when the slot is used again. */
        device_finish(&engine->device);
        if (code != CL_SUCCESS)
            engine_note_fault(engine, "clSetEventCallback: %s", opencl_error_name(code));
        slot->done_ns = clock_monotonic_ns();
        atomic_store_explicit(&slot->done, DONE_REFUSED, memory_order_relaxed);
        engine->failures++;
    } else if (slot->event == NULL) { /* nothing to compute */
        slot->done_ns = clock_monotonic_ns();
        atomic_store_explicit(&slot->done, DONE_OK, memory_order_relaxed);
    } else {
        device_flush(&engine->device, slot->apart);
        if (engine->waits) { /* the waiter takes batches in the order of their launches */
            stop_polling(engine);
            if (alone)
                engine->polled = slot;
            else
                hand_to_waiter(engine, slot);
        }
    }
}

static void launch(struct engine *engine, struct slot *slot)
{
    struct batch *batch = &slot->batch;
    atomic_store_explicit(&slot->done, DONE_NOT_YET, memory_order_relaxed);
    slot->event = NULL;
    slot->launch = ++engine->launches;
    if (!slot->worker) {
        atomic_store_explicit(&engine->live, true, memory_order_relaxed);
        compiler_streams_run();
        arrivals_note(&engine->arrivals, batch->submitted_ns);
        if (batch->part_ns > 0 && batch->count <= PARTED_ITEMS)
            engine->parted = slot;
    }
    slot->spent_ns = 0;
    slot->predicted_ns = slot == engine->parted ? batch->part_ns : batch->cost_ns;
    batch->started_ns = slot->device_from_ns = clock_monotonic_ns();
    await(engine, slot, batch_launch(engine, slot), engine->running_count == 0);
    engine->running[engine->running_count++] = slot;
}

/* Whether the batch in parts has one to launch: the one before is complete. */
static bool is_between_parts(const struct engine *engine)
{
    return engine->parted != NULL && parts_left(&engine->parts) &&
           atomic_load_explicit(&engine->parted->done, memory_order_acquire) == DONE_OK;
}

static void launch_part(struct engine *engine)
{
    struct slot *slot = engine->parted;
    note_spent(engine, slot);
    atomic_fetch_add_explicit(&engine->parts_done, 1, memory_order_relaxed);
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
    atomic_store_explicit(&slot->done, DONE_NOT_YET, memory_order_relaxed);
    slot->device_from_ns = clock_monotonic_ns();
    await(engine, slot, batch_launch_part(engine, slot), engine->running_count == 1);
}

/* The place in `running` of what to hand back next; running_count: nothing. That is the oldest
 * batch once it is done, and while the batch in parts is not, one that has overtaken it. */
static uint32_t next_done(const struct engine *engine)
{
    for (uint32_t i = 0; i < engine->running_count; i++) {
        const struct slot *slot = engine->running[i];
        const bool done = atomic_load_explicit(&slot->done, memory_order_acquire) != DONE_NOT_YET &&
                          !(slot == engine->parted && is_between_parts(engine));
        if (done)
            return i;
        if (slot != engine->parted)
            break;
    }
    return engine->running_count;
}

/* A batch is complete once its reports are. */
static int take_reports(struct engine *engine, struct slot *slot, int done)
{
    if (done != DONE_OK)
        return done;
    if (engine->device.mirrored)
        slot->status = mirror_fetch_full(engine, slot);
    if (slot->status != CL_SUCCESS)
        return DONE_FAILED;
    reports_unpack(slot);
    return DONE_OK;
}

/* Hands back what has completed. */
static void drain(struct engine *engine)
{
    uint32_t at;
    while ((at = next_done(engine)) < engine->running_count) {
        struct slot *slot = engine->running[at];
        const int done =
            take_reports(engine, slot, atomic_load_explicit(&slot->done, memory_order_acquire));
        engine->running_count--;
        memmove(engine->running + at, engine->running + at + 1,
                (engine->running_count - at) * sizeof engine->running[0]);
        if (done == DONE_FAILED) {
            engine->failures++;
            engine->suspect_until = engine->launches;
        }
        finish(engine, slot, done == DONE_OK ? BATCH_OK : BATCH_FAILED);
    }
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
    case REQUEST_FEEDS:
        if (feeds_launch(&engine->feeds, &engine->copies_ahead) == CL_SUCCESS) {
            request_finish(engine, 0);
            break;
        }
        engine->failures++;
        request_finish(engine, ERROR_DEVICE);
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
    const int64_t until_ns = clock_monotonic_ns() + request_patience_ns;
    const struct timespec until = {until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};
    int late = 0;
    while (!engine->request_finished && late == 0)
        late = pthread_cond_timedwait(&engine->request_done, &engine->request_mutex, &until);
    if (!engine->request_finished) { /* and it may yet finish: the request's memory stays its own */
        engine_declare_lost(engine, ENGINE_LOSS_STALLED, "a self-test does not come back");
        engine->request_error = ERROR_DEVICE;
        engine->request_taken = true;
    }
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
    begin_thread(engine, "convolvd-device");
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* else every timed sleep is 50 us longer */
    for (;;) {
        await_work(engine);
        bool again;
        do {
            drain(engine);
            take_request(engine);
            struct batch *batch;
            while (takes_another(engine) && (batch = spsc_pop(&engine->submitted)) != NULL)
                launch(engine, (struct slot *)batch);
            if (is_between_parts(engine)) /* after those that overtake it */
                launch_part(engine);
            if (engine->polled != NULL)
                poll_alone(engine);
            /* A batch that is done already made room, and may have rung before we slept. */
            again = next_done(engine) < engine->running_count || is_between_parts(engine);
        } while (again);
        if (atomic_load_explicit(&engine->stopping, memory_order_acquire) &&
            engine->running_count == 0)
            return NULL;
    }
}
