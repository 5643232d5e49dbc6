/* Loops: see loops.h. */
#include "pipeline/loops.h"

#include <assert.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/doorbell.h"

/* Loop 1 … N. */
struct loop {
    uv_loop_t uv;
    pthread_t thread;
    int doorbell; /* ends its sleep */

    /* whoever has the turn */
    pthread_mutex_t turn;
    uint64_t sleeps_until_ms; /* of its own clock, uv_now; UINT64_MAX: until an event */
    bool ending;

    double weight; /* under loops->choice */
};

struct loops {
    uv_loop_t *main;
    uint32_t more;
    bool stopped;
    pthread_mutex_t choice;
    struct loop loops[];
};

/* ---- sleeping ---------------------------------------------------------------------------- */

/* How long the loop may sleep [ms]; -1: until an event. libuv does not let a loop without handles
 * sleep: it would end. */
static int may_sleep_ms(const uv_loop_t *uv)
{
    return uv_loop_alive(uv) ? uv_backend_timeout(uv) : -1;
}

static uint64_t sleeps_until(const uv_loop_t *uv, int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : uv_now(uv) + (uint64_t)timeout_ms;
}

/* Until the loop has an event, `timeout_ms` are over (-1: never), or the doorbell rings (-1: there
 * is none). uv_run without waiting then handles what there is. */
static void sleep_until_event(uv_loop_t *uv, int timeout_ms, int doorbell)
{
    struct pollfd ready[] = {{.fd = uv_backend_fd(uv), .events = POLLIN},
                             {.fd = doorbell, .events = POLLIN}};
    (void)poll(ready, doorbell >= 0 ? 2 : 1, timeout_ms);
    if (doorbell >= 0 && ready[1].revents != 0)
        doorbell_wait(doorbell);
}

/* ---- turns ------------------------------------------------------------------------------- */

static void main_takes_turn(struct loops *loops)
{
    for (uint32_t i = 0; i < loops->more; i++) {
        pthread_mutex_lock(&loops->loops[i].turn);
        uv_update_time(&loops->loops[i].uv); /* for timers that the main loop starts there */
    }
}

/* Wakes the loops to which the main loop has given something that does not wait for their next
 * event: a timer, a descriptor to poll, a handle to close. */
static void main_leaves_turn(struct loops *loops)
{
    for (uint32_t i = 0; i < loops->more; i++) {
        struct loop *loop = &loops->loops[i];
        const int timeout_ms = may_sleep_ms(&loop->uv);
        if (loop->ending || sleeps_until(&loop->uv, timeout_ms) < loop->sleeps_until_ms)
            doorbell_ring(loop->doorbell);
        pthread_mutex_unlock(&loop->turn);
    }
}

/* ---- loop 1 … N -------------------------------------------------------------------------- */

static void *run(void *context)
{
    struct loop *loop = context;
    pthread_setname_np(pthread_self(), "convolvd-loop");
    for (;;) {
        pthread_mutex_lock(&loop->turn);
        const bool alive = uv_run(&loop->uv, UV_RUN_NOWAIT) != 0;
        const int timeout_ms = may_sleep_ms(&loop->uv);
        const bool ends = loop->ending && !alive;
        loop->sleeps_until_ms = sleeps_until(&loop->uv, timeout_ms);
        pthread_mutex_unlock(&loop->turn);
        if (ends)
            return NULL;
        sleep_until_event(&loop->uv, timeout_ms, loop->doorbell);
    }
}

/* ---- the main loop ----------------------------------------------------------------------- */

void loops_run(struct loops *loops)
{
    if (loops->more == 0) {
        uv_run(loops->main, UV_RUN_DEFAULT);
        return;
    }
    for (bool alive = true; alive;) {
        main_takes_turn(loops);
        alive = uv_run(loops->main, UV_RUN_NOWAIT) != 0;
        const int timeout_ms = may_sleep_ms(loops->main);
        main_leaves_turn(loops);
        if (alive)
            sleep_until_event(loops->main, timeout_ms, -1);
    }
}

/* ---- which loop -------------------------------------------------------------------------- */

uint32_t loops_more(const struct loops *loops)
{
    return loops->more;
}

uv_loop_t *loops_at(const struct loops *loops, uint32_t loop)
{
    assert(loop <= loops->more);
    return loop == 0 ? loops->main : (uv_loop_t *)&loops->loops[loop - 1].uv;
}

uint32_t loops_choose(struct loops *loops, double weight)
{
    uint32_t least = 0;
    if (loops->more == 0)
        return 0;
    pthread_mutex_lock(&loops->choice);
    for (uint32_t i = 1; i < loops->more; i++)
        if (loops->loops[i].weight < loops->loops[least].weight)
            least = i;
    loops->loops[least].weight += weight;
    pthread_mutex_unlock(&loops->choice);
    return least + 1;
}

void loops_leave(struct loops *loops, uint32_t loop, double weight)
{
    if (loop == 0)
        return;
    pthread_mutex_lock(&loops->choice);
    loops->loops[loop - 1].weight -= weight;
    pthread_mutex_unlock(&loops->choice);
}

int loops_prioritise(struct loops *loops, int policy, const struct sched_param *priority)
{
    int error = 0;
    for (uint32_t i = 0; i < loops->more && error == 0; i++)
        error = pthread_setschedparam(loops->loops[i].thread, policy, priority);
    return error;
}

int loops_run_on(struct loops *loops, uint32_t loop, const struct number_set *processors)
{
    return thread_run_on(loop == 0 ? pthread_self() : loops->loops[loop - 1].thread, processors);
}

/* ---- life -------------------------------------------------------------------------------- */

/* Whoever waits for a turn lends its priority to whoever has it, and gets the turn when that one
 * leaves it: an ordinary mutex would let a loop that is always ready take turn after turn before
 * the main loop (futex(2), FUTEX_UNLOCK_PI). */
static void open_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static int open_loop(struct loop *loop, struct problem *problem)
{
    loop->sleeps_until_ms = UINT64_MAX;
    if (uv_loop_init(&loop->uv) != 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "no event loop; raise the limit of open files (ulimit -n)");
    loop->doorbell = doorbell_open();
    if (loop->doorbell < 0) {
        uv_loop_close(&loop->uv);
        return problem_set(problem, ERROR_SYSTEM,
                           "no eventfd; raise the limit of open files (ulimit -n)");
    }
    open_mutex(&loop->turn);
    if (pthread_create(&loop->thread, NULL, run, loop) == 0)
        return 0;
    pthread_mutex_destroy(&loop->turn);
    close(loop->doorbell);
    uv_loop_close(&loop->uv);
    return problem_set(problem, ERROR_SYSTEM, "no thread can be started (ulimit -u)");
}

int loops_open(uv_loop_t *main, uint32_t more, struct loops **out, struct problem *problem)
{
    assert(more <= LOOPS_MAX);
    struct loops *loops = calloc(1, sizeof *loops + more * sizeof(struct loop));
    if (loops == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    loops->main = main;
    pthread_mutex_init(&loops->choice, NULL);
    for (; loops->more < more; loops->more++) {
        const int error = open_loop(&loops->loops[loops->more], problem);
        if (error < 0) {
            loops_close(loops);
            return error;
        }
    }
    *out = loops;
    return 0;
}

void loops_stop(struct loops *loops)
{
    if (loops == NULL || loops->stopped)
        return;
    loops->stopped = true;
    main_takes_turn(loops);
    for (uint32_t i = 0; i < loops->more; i++)
        loops->loops[i].ending = true;
    main_leaves_turn(loops);
    for (uint32_t i = 0; i < loops->more; i++) {
        struct loop *loop = &loops->loops[i];
        pthread_join(loop->thread, NULL);
        const int closed = uv_loop_close(&loop->uv);
        assert(closed == 0);
        (void)closed;
        close(loop->doorbell);
        pthread_mutex_destroy(&loop->turn);
    }
}

void loops_close(struct loops *loops)
{
    if (loops == NULL)
        return;
    loops_stop(loops);
    pthread_mutex_destroy(&loops->choice);
    free(loops);
}
