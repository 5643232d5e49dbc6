/* Scheduler: see scheduler.h. */
#include "stream/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "convolve/lost.h"
#include "core/clock.h"
#include "core/cpu_wait.h"
#include "core/limits.h"
#include "core/loop_bell.h"
#include "stream/budget.h"
#include "stream/showing.h"
#include "stream/stall.h"
#include "stream/watch.h"

/* While a reload replaces streams, both the old and the new ones are here. */
enum { SCHEDULED_MAX = 2 * STREAMS_MAX };

/* The most device time of a batch while no live stream waits for another: results must not wait for
 * long. On one core longer batches gain nothing, and results that outgrow its cache cost more: a
 * stream that fell behind near the highest rate would stay behind. */
static const int64_t alone_budget_ns = 20 * NS_PER_MS, alone_one_core_ns = 1 * NS_PER_MS;
/* Where nothing was completed for so long, and for four times what the work should have taken, the
 * device or this thread stood still. */
static const int64_t standstill_ns = 200 * NS_PER_MS;

struct scheduler_bell {
    struct loop_bell bell;
    struct scheduler *scheduler;
};

struct scheduler {
    uv_loop_t *loop;
    struct engine *engine;
    struct scheduler_bell *doorbell;
    struct stream *streams[SCHEDULED_MAX];
    int count;
    struct overload_work work[SCHEDULED_MAX]; /* while a batch is filled: see submit_one */
    uint32_t depth;   /* batches submitted at once: one computes while the next is queued */
    int64_t alone_ns; /* the most that a batch takes when no stream waits for another */
    struct budget_streams live;
    int64_t read_ns;            /* in this turn of the loop, for streams that others wait for */
    int64_t busy_ns;            /* expected, of the batches in flight but the one in parts */
    const struct batch *parted; /* the one in parts, which the others overtake; NULL: none … */
    const struct stream *parted_of; /* … and its stream */
    struct showing showing;
    int64_t moved_ns; /* when a batch was completed last, or nothing was in flight */
    bool dirty;
    uv_check_t check; /* end of the loop iteration: everything that came is in the rings */
    uv_idle_t idle;   /* keeps the iteration going when dirty was set outside of polling, or until
                         poll_until_ns */
    int64_t poll_until_ns; /* a batch should complete before this thread could be woken; 0: none */
    uv_poll_t timer;       /* timerfd: uv_timer is too coarse for a reorder window */
    int timer_fd;
    int64_t armed_ns;
    int closing;
    void (*progress)(void *context);
    void *progress_context;
    void (*lost)(void *context); /* NULL: nobody takes over */
    void *lost_context;
    bool lost_told;
    struct stall stall;
    struct cpu_wait *processors;
};

/* ---- doorbell ---------------------------------------------------------------------------- */

static void on_rung(void *context)
{
    struct scheduler_bell *doorbell = context;
    if (doorbell->scheduler != NULL)
        scheduler_kick(doorbell->scheduler);
}

int scheduler_bell_open(uv_loop_t *loop, struct scheduler_bell **out)
{
    struct scheduler_bell *doorbell = calloc(1, sizeof *doorbell);
    if (doorbell == NULL)
        return ERROR_MEMORY;
    loop_bell_open(&doorbell->bell, loop, on_rung, doorbell);
    *out = doorbell;
    return 0;
}

void scheduler_bell_ring(void *doorbell)
{
    loop_bell_ring(&((struct scheduler_bell *)doorbell)->bell);
}

static void on_doorbell_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void scheduler_bell_close(struct scheduler_bell *doorbell)
{
    if (doorbell != NULL)
        loop_bell_close(&doorbell->bell, on_doorbell_closed);
}

/* ---- deadlines of batches ---------------------------------------------------------------- */

static int64_t waited_for_processors(void *context, int64_t now_ns)
{
    const struct scheduler *scheduler = context;
    return cpu_wait_sample(scheduler->processors, now_ns);
}

static void check_stall(struct scheduler *scheduler)
{
    int64_t given_ns = 0;
    const uint64_t oldest = engine_oldest(scheduler->engine, &given_ns);
    if (stall_check(&scheduler->stall, oldest, given_ns, clock_monotonic_ns()))
        engine_declare_lost(scheduler->engine, ENGINE_LOSS_STALLED,
                            "a batch is not back by its deadline");
}

/* ---- what is in flight ------------------------------------------------------------------- */

static void note_submitted(struct scheduler *scheduler, const struct batch *batch)
{
    if (batch->part_ns > 0)
        scheduler->parted = batch;
    else
        scheduler->busy_ns += batch->cost_ns;
}

static void note_completed(struct scheduler *scheduler, const struct batch *batch)
{
    if (batch == scheduler->parted)
        scheduler->parted = NULL;
    else
        scheduler->busy_ns -= batch->cost_ns;
}

/* Batches in flight, not counting the one in parts: it keeps no other waiting. */
static uint32_t in_flight(const struct scheduler *scheduler)
{
    return engine_in_flight(scheduler->engine) - (scheduler->parted != NULL);
}

/* What waits while the device or this thread stands still waits for no other stream. */
static void excuse_standstill(struct scheduler *scheduler, int64_t expected_ns)
{
    const int64_t now_ns = clock_monotonic_ns(), still_ns = now_ns - scheduler->moved_ns;
    scheduler->moved_ns = now_ns;
    if (still_ns < standstill_ns || still_ns < 4 * expected_ns)
        return;
    for (int i = 0; i < scheduler->count; i++)
        stream_excuse(scheduler->streams[i], now_ns);
}

/* ---- one round --------------------------------------------------------------------------- */

/* Whether the device is lost, with its streams told to go elsewhere. */
static bool is_lost(struct scheduler *scheduler)
{
    if (scheduler->lost == NULL || engine_lost(scheduler->engine) == ENGINE_WORKS)
        return false;
    if (!scheduler->lost_told) {
        scheduler->lost_told = true;
        showing_forget(&scheduler->showing, scheduler->streams, scheduler->count);
        stall_reset(&scheduler->stall);
        scheduler->lost(scheduler->lost_context);
    }
    return true;
}

static bool take_completed(struct scheduler *scheduler)
{
    const int64_t expected_ns =
        scheduler->busy_ns + (scheduler->parted != NULL ? scheduler->parted->cost_ns : 0);
    bool any = false;
    struct batch *batch;
    while ((batch = engine_completed(scheduler->engine)) != NULL) {
        if (batch->status != BATCH_OK && scheduler->lost != NULL) {
            /* Its streams still hold it as in flight, and submit it again elsewhere. */
            engine_declare_lost(scheduler->engine, ENGINE_LOSS_FAILED,
                                engine_fault(scheduler->engine));
            break;
        }
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->items[i].owner != NULL)
                stream_complete(batch->items[i].owner, batch, &batch->items[i]);
        }
        note_completed(scheduler, batch);
        showing_hold(&scheduler->showing, batch);
        any = true;
    }
    if (!any)
        return false;
    excuse_standstill(scheduler, expected_ns);
    for (int i = 0; i < scheduler->count; i++)
        stream_flush_ports(scheduler->streams[i]);
    int64_t now_ns = clock_monotonic_ns();
    for (int i = 0; i < scheduler->count; i++)
        stream_flushed(scheduler->streams[i], now_ns);
    return true;
}

/* By how much the oldest block of the stream is late; 0: it is not, or none waits. */
static int64_t overdue_ns(const struct stream *stream, int64_t now_ns)
{
    const int64_t deadline_ns = stream_ready_deadline_ns(stream);
    return deadline_ns < now_ns ? now_ns - deadline_ns : 0;
}

static void count_live(struct scheduler *scheduler)
{
    const int64_t now_ns = clock_monotonic_ns();
    budget_begin(&scheduler->live);
    for (int i = 0; i < scheduler->count; i++) {
        const struct stream *stream = scheduler->streams[i];
        if (stream_is_live(stream))
            budget_add(&scheduler->live, (uint32_t)i, stream_priority(stream),
                       (int64_t)stream_block_period_ns(stream), overdue_ns(stream, now_ns));
    }
    budget_end(&scheduler->live);
}

static struct budget budget_for(const struct scheduler *scheduler,
                                const struct budget_request *request)
{
    return budget_of(&scheduler->live, request, scheduler->alone_ns, scheduler->depth);
}

/* Whether blocks of the stream may be submitted now: while a batch in parts is in flight, only
 * those that may overtake it. Those of its own stream never do: no stream is above itself. */
static bool may_submit(const struct scheduler *scheduler, const struct stream *stream)
{
    return scheduler->parted == NULL ||
           (stream_is_live(stream) &&
            stream_priority(stream) > stream_priority(scheduler->parted_of));
}

/* What waits, in the order in which it is to be computed; how many streams that is. */
static uint32_t order_work(struct scheduler *scheduler)
{
    const int64_t now_ns = clock_monotonic_ns();
    uint32_t count = 0;
    for (int i = 0; i < scheduler->count; i++) {
        if (may_submit(scheduler, scheduler->streams[i]) &&
            stream_work(scheduler->streams[i], now_ns, &scheduler->work[count]))
            scheduler->work[count++].owner = (uint32_t)i;
    }
    /* A batch is complete when all of it is. */
    const struct budget_request anybody = {.owner = UINT32_MAX};
    const struct budget any = budget_for(scheduler, &anybody);
    const int64_t part_ns = scheduler->parted != NULL ? scheduler->parted->part_ns : 0;
    overload_order(scheduler->work, count, now_ns, scheduler->busy_ns + part_ns + any.batch_ns);
    return count;
}

static struct budget budget_of_work(const struct scheduler *scheduler,
                                    const struct overload_work *work)
{
    const struct budget_request request = {work->owner, work->priority, !work->kept,
                                           work->launch_ns};
    return budget_for(scheduler, &request);
}

/* What a batch that has taken so much may still take of this stream [ns]. */
static int64_t room_for(const struct scheduler *scheduler, const struct overload_work *work,
                        int64_t taken_ns)
{
    const struct budget budget = budget_of_work(scheduler, work);
    const int64_t free_ns = budget.total_ns - scheduler->busy_ns;
    return (free_ns < budget.batch_ns ? free_ns : budget.batch_ns) - taken_ns;
}

/* A batch of one stream that takes longer than it may goes in parts, where streams of higher
 * priority may need the device meanwhile. */
static void choose_parts(struct scheduler *scheduler, struct batch *batch,
                         const struct overload_work *work)
{
    const int64_t most_ns = budget_of_work(scheduler, work).batch_ns;
    if (batch->cost_ns <= most_ns || !budget_is_above(&scheduler->live, work->priority))
        return;
    batch->part_ns = most_ns;
    scheduler->parted_of = scheduler->streams[work->owner];
}

/* NULL: all are in use. Viewers keep none from the streams. */
static struct batch *take_batch(struct scheduler *scheduler)
{
    struct batch *batch = engine_batch_take(scheduler->engine);
    if (batch != NULL ||
        !showing_give_up(&scheduler->showing, scheduler->streams, scheduler->count))
        return batch;
    return engine_batch_take(scheduler->engine);
}

static bool submit_one(struct scheduler *scheduler)
{
    /* A stream goes into a batch once, and filling changes nothing for the others. */
    const uint32_t waiting = order_work(scheduler);
    const bool idle = in_flight(scheduler) == 0;
    /* A block that takes longer than it may waits until the device is idle, or computes only what
     * may be overtaken: so others wait for one of its kind, not for two. */
    if (waiting == 0 ||
        (!idle && scheduler->work[0].block_ns > room_for(scheduler, &scheduler->work[0], 0)))
        return false;
    struct batch *batch = take_batch(scheduler);
    if (batch == NULL)
        return false;
    int64_t taken_ns = 0;
    for (uint32_t i = 0; i < waiting; i++) {
        const struct overload_work *work = &scheduler->work[i];
        const int64_t room_ns = room_for(scheduler, work, taken_ns);
        const bool first = idle && taken_ns == 0;
        if (room_ns <= 0 && !first)
            break; /* it begins the next batch */
        taken_ns += stream_fill(scheduler->streams[work->owner], batch, room_ns, first);
    }
    if (batch->count == 0) {
        engine_batch_release(scheduler->engine, batch);
        return false;
    }
    if (idle && scheduler->parted == NULL)
        choose_parts(scheduler, batch, &scheduler->work[0]);
    engine_submit(scheduler->engine, batch);
    note_submitted(scheduler, batch);
    return true;
}

/* Short batches may be more than `depth`, while the queue is no longer than the shortest budget. */
static bool has_room(const struct scheduler *scheduler)
{
    const struct budget_request anybody = {.owner = UINT32_MAX};
    const struct budget any = budget_for(scheduler, &anybody);
    return in_flight(scheduler) < scheduler->depth ||
           (engine_takes_batch(scheduler->engine) &&
            scheduler->busy_ns + any.batch_ns <= any.total_ns);
}

static void arm_timer(struct scheduler *scheduler)
{
    int64_t next_ns = INT64_MAX;
    for (int i = 0; i < scheduler->count; i++) {
        int64_t tick_ns = stream_next_tick_ns(scheduler->streams[i]);
        if (tick_ns < next_ns)
            next_ns = tick_ns;
    }
    if (scheduler->stall.due_ns < next_ns)
        next_ns = scheduler->stall.due_ns;
    if (next_ns == scheduler->armed_ns)
        return;
    scheduler->armed_ns = next_ns;
    struct itimerspec when = {0};
    if (next_ns != INT64_MAX) {
        /* A time in the past fires at once; zero would disarm. */
        int64_t at_ns = next_ns > 0 ? next_ns : 1;
        when.it_value.tv_sec = at_ns / NS_PER_SECOND;
        when.it_value.tv_nsec = at_ns % NS_PER_SECOND;
    }
    timerfd_settime(scheduler->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop from sleeping */
}

/* The loop sleeps unless there is something to do, or soon will be. */
static void arm_idle(struct scheduler *scheduler)
{
    if (scheduler->dirty || scheduler->poll_until_ns != 0 || showing_is_due(&scheduler->showing))
        uv_idle_start(&scheduler->idle, on_idle);
    else
        uv_idle_stop(&scheduler->idle);
}

static void run(struct scheduler *scheduler)
{
    scheduler->dirty = false;
    bool progress = !is_lost(scheduler) && take_completed(scheduler);
    if (scheduler->lost != NULL)
        check_stall(scheduler);
    const bool works = !is_lost(scheduler);
    int64_t now_ns = clock_monotonic_ns();
    for (int i = 0; i < scheduler->count; i++) {
        if (stream_next_tick_ns(scheduler->streams[i]) <= now_ns)
            stream_tick(scheduler->streams[i], now_ns);
    }
    if (engine_in_flight(scheduler->engine) == 0)
        scheduler->moved_ns = now_ns;
    count_live(scheduler);
    while (works && has_room(scheduler) && submit_one(scheduler))
        progress = true;
    for (int i = 0; works && i < scheduler->count; i++)
        stream_keep_up(scheduler->streams[i], now_ns);
    if (works && scheduler->lost != NULL)
        check_stall(scheduler); /* the time of what was just submitted begins */
    if (progress && scheduler->progress != NULL)
        scheduler->progress(scheduler->progress_context);
    arm_timer(scheduler);
    scheduler->poll_until_ns = works ? engine_poll_until_ns(scheduler->engine) : 0;
}

int64_t scheduler_may_read_ns(const struct scheduler *scheduler, const struct stream *stream)
{
    struct budget_request request = {.owner = UINT32_MAX,
                                     .priority = stream_priority(stream),
                                     .behind = stream_is_ahead(stream, clock_monotonic_ns())};
    for (int i = 0; request.behind && i < scheduler->count; i++)
        request.owner = scheduler->streams[i] == stream ? (uint32_t)i : request.owner;
    return budget_reading_ns(&scheduler->live, &request, scheduler->read_ns);
}

void scheduler_has_read(struct scheduler *scheduler, const struct stream *stream, int64_t ns)
{
    if (scheduler_may_read_ns(scheduler, stream) != INT64_MAX)
        scheduler->read_ns += ns;
}

static void on_check(uv_check_t *check)
{
    struct scheduler *scheduler = check->data;
    scheduler->read_ns = 0;
    if (scheduler->dirty)
        run(scheduler);
    else if (scheduler->poll_until_ns != 0 && clock_monotonic_ns() > scheduler->poll_until_ns)
        scheduler->poll_until_ns = 0;
    if (showing_is_due(&scheduler->showing))
        showing_turn(&scheduler->showing, scheduler->streams, scheduler->count);
    arm_idle(scheduler);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct scheduler *scheduler = poll->data;
    uint64_t expirations;
    ssize_t bytes = read(scheduler->timer_fd, &expirations, sizeof expirations);
    (void)bytes; /* EAGAIN after the timer was set anew: nothing expired */
    scheduler->armed_ns = 0;
    scheduler_kick(scheduler);
}

void scheduler_kick(struct scheduler *scheduler)
{
    if (!scheduler->dirty) {
        scheduler->dirty = true;
        uv_idle_start(&scheduler->idle, on_idle);
    }
}

void scheduler_on_progress(struct scheduler *scheduler, void (*progress)(void *context),
                           void *context)
{
    scheduler->progress = progress;
    scheduler->progress_context = context;
}

void scheduler_on_lost(struct scheduler *scheduler, void (*lost)(void *context), void *context)
{
    scheduler->lost = lost;
    scheduler->lost_context = context;
}

static void use_engine(struct scheduler *scheduler, struct engine *engine)
{
    scheduler->engine = engine;
    scheduler->showing = (struct showing){.engine = engine};
    scheduler->depth = engine_depth(engine);
    scheduler->alone_ns = scheduler_alone_ns(engine_device(engine));
    scheduler->lost_told = false;
    stall_reset(&scheduler->stall);
    scheduler->busy_ns = 0;
    scheduler->parted = NULL;
}

void scheduler_take_engine(struct scheduler *scheduler, struct engine *engine)
{
    use_engine(scheduler, engine);
    scheduler_kick(scheduler);
}

/* ---- streams ----------------------------------------------------------------------------- */

int64_t scheduler_alone_ns(const struct device_info *device)
{
    return !device->gpu && device->compute_units == 1 ? alone_one_core_ns : alone_budget_ns;
}

int scheduler_add(struct scheduler *scheduler, struct stream *stream)
{
    if (scheduler->count == SCHEDULED_MAX)
        return ERROR_FULL;
    scheduler->streams[scheduler->count++] = stream;
    scheduler_kick(scheduler);
    return 0;
}

void scheduler_remove(struct scheduler *scheduler, struct stream *stream)
{
    for (int i = 0; i < scheduler->count; i++) {
        if (scheduler->streams[i] == stream) {
            stream_forget_shown(stream, NULL);
            scheduler->count--;
            memmove(&scheduler->streams[i], &scheduler->streams[i + 1],
                    (size_t)(scheduler->count - i) * sizeof(struct stream *));
            break;
        }
    }
}

/* ---- life -------------------------------------------------------------------------------- */

int scheduler_open(uv_loop_t *loop, struct engine *engine, struct scheduler_bell *doorbell,
                   struct scheduler **out, struct problem *problem)
{
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL)
        return problem_set(problem, ERROR_MEMORY, "scheduler: out of memory");
    scheduler->loop = loop;
    scheduler->doorbell = doorbell;
    scheduler->processors = cpu_wait_open();
    stall_open(&scheduler->stall, waited_for_processors, scheduler);
    use_engine(scheduler, engine);
    count_live(scheduler);
    scheduler->armed_ns = INT64_MAX;
    scheduler->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (scheduler->timer_fd < 0) {
        int error = problem_set(problem, ERROR_SYSTEM, "timerfd: %s", strerror(errno));
        cpu_wait_close(scheduler->processors);
        free(scheduler);
        return error;
    }
    uv_check_init(loop, &scheduler->check);
    uv_idle_init(loop, &scheduler->idle);
    uv_poll_init(loop, &scheduler->timer, scheduler->timer_fd);
    scheduler->check.data = scheduler->idle.data = scheduler->timer.data = scheduler;
    uv_check_start(&scheduler->check, on_check);
    uv_poll_start(&scheduler->timer, UV_READABLE, on_timer);
    doorbell->scheduler = scheduler;
    *out = scheduler;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct scheduler *scheduler = handle->data;
    if (--scheduler->closing == 0) {
        close(scheduler->timer_fd);
        cpu_wait_close(scheduler->processors);
        free(scheduler);
    }
}

void scheduler_close(struct scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    assert(engine_in_flight(scheduler->engine) == 0); /* 0 too where the engine was abandoned */
    showing_release(&scheduler->showing);
    scheduler->doorbell->scheduler = NULL;
    scheduler->closing = 3;
    uv_close((uv_handle_t *)&scheduler->check, on_closed);
    uv_close((uv_handle_t *)&scheduler->idle, on_closed);
    uv_close((uv_handle_t *)&scheduler->timer, on_closed);
}
