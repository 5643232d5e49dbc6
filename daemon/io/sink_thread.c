/* Sink thread: see sink_thread.h. */
#include "io/sink_thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "io/deadline.h"

/* What still hangs so long after the deadline is abandoned. */
static const uint64_t abandon_ms = 1000;

/* ---- thread ------------------------------------------------------------------------------ */

static void *run(void *argument)
{
    struct sink_thread *t = argument;
    t->options.run(t->options.context);
    atomic_store(&t->done, true);
    loop_bell_ring(&t->doorbell);
    return NULL;
}

void sink_thread_ring(struct sink_thread *t)
{
    loop_bell_ring(&t->doorbell);
}

bool sink_thread_empty(const struct sink_thread *t)
{
    return message_ring_unused(&t->ring) == t->ring.capacity;
}

void sink_thread_wait(struct sink_thread *t, int64_t until_ns, const _Atomic bool *wanted)
{
    atomic_store(&t->asleep, true);
    /* A wake after this store sees `asleep`; what came before it shows below. */
    if (sink_thread_empty(t) && atomic_load(&t->stop) == SINK_THREAD_RUN &&
        (wanted == NULL || !atomic_load(wanted))) {
        int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - clock_monotonic_ns();
        if (doorbell_rung_within(t->wake_fd, left_ns > 0 ? left_ns : 0))
            doorbell_wait(t->wake_fd);
    }
    atomic_store(&t->asleep, false);
}

/* ---- loop -------------------------------------------------------------------------------- */

void sink_thread_wake(struct sink_thread *t)
{
    atomic_thread_fence(memory_order_seq_cst); /* the commit before, `asleep` after */
    if (atomic_load(&t->asleep))
        doorbell_ring(t->wake_fd);
}

static void handle_closed(uv_handle_t *handle)
{
    struct sink_thread *t = handle->data;
    if (--t->open_handles > 0)
        return;
    t->closed(t->closed_context);
    t->options.freed(t->options.context);
}

/* The thread has left its function. */
static void finish(struct sink_thread *t)
{
    if (uv_is_closing(&t->doorbell.handle))
        return;
    pthread_join(t->thread, NULL);
    loop_bell_close(&t->doorbell, handle_closed);
    uv_close((uv_handle_t *)&t->deadline, handle_closed);
}

static void on_rung(void *context)
{
    struct sink_thread *t = context;
    if (t->closed == NULL)
        t->options.rung(t->options.context);
    else if (!t->abandoned && atomic_load(&t->done))
        finish(t);
}

static void on_deadline(uv_timer_t *timer)
{
    struct sink_thread *t = timer->data;
    if (!t->late) {
        t->late = true;
        atomic_store(&t->stop, SINK_THREAD_NOW);
        doorbell_ring(t->wake_fd);
        if (t->options.hung != NULL)
            uv_timer_start(timer, on_deadline, abandon_ms, 0);
        return;
    }
    t->options.hung(t->options.context);
    uv_unref(&t->doorbell.handle);
    uv_unref((uv_handle_t *)timer);
    t->abandoned = true;
    pthread_detach(t->thread);
    t->closed(t->closed_context);
}

void sink_thread_handles(struct sink_thread *t)
{
    if (t->handles_open)
        return;
    t->handles_open = true;
    loop_bell_open(&t->doorbell, t->options.loop, on_rung, t);
    uv_timer_init(t->options.loop, &t->deadline);
    t->deadline.data = t;
    t->open_handles = 2;
}

void sink_thread_close(struct sink_thread *t, int64_t deadline_ns, void (*closed)(void *context),
                       void *context)
{
    sink_thread_handles(t);
    t->closed = closed;
    t->closed_context = context;
    deadline_start(&t->deadline, deadline_ns, on_deadline);
    atomic_store(&t->stop, SINK_THREAD_DRAIN);
    doorbell_ring(t->wake_fd);
    if (atomic_load(&t->done))
        finish(t);
}

/* ---- life -------------------------------------------------------------------------------- */

int sink_thread_open(struct sink_thread *t, const struct sink_thread_options *options,
                     uint64_t ring_bytes)
{
    t->options = *options;
    t->wake_fd = doorbell_open();
    if (t->wake_fd < 0)
        return errno;
    return message_ring_open(&t->ring, ring_bytes) == 0 ? 0 : ENOMEM;
}

int sink_thread_begin(struct sink_thread *t)
{
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    const int error = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return error;
}

void sink_thread_free(struct sink_thread *t)
{
    if (t->options.run == NULL) /* not opened */
        return;
    message_ring_close(&t->ring);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    t->wake_fd = -1;
}
