/* Event writer: see event_writer.h. */
#include "io/event_writer.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/count_lock.h"
#include "io/event_message.h"
#include "io/sink_thread.h"

struct event_writer {
    /* immutable after open */
    const struct event_sink_ops *ops;
    const struct event_sink_options *options;
    int64_t flush_ns;

    struct event_sink *sink;       /* the writer's thread; WORKER before it begins */
    uint64_t lost;                 /* the writer's thread: that the sink has told of */
    struct event_sink_ledger last; /* LOOP: what added up the last time */
    bool abandoned;                /* LOOP: the thread hangs, and writes nothing any more */
    void (*closed)(void *context); /* LOOP */
    void *closed_context;

    /* shared */
    struct sink_thread thread;
    struct count_lock lock;
    _Atomic uint64_t events, delivered, pending, dropped[DROPS];
    _Atomic uint64_t bytes, files, clipped;
};

/* ---- the writer's thread ----------------------------------------------------------------- */

/* The event leaves the queue and is counted as `to`. */
static void settle(struct event_writer *w, _Atomic uint64_t *to)
{
    count_lock_begin(&w->lock);
    atomic_fetch_sub(&w->pending, 1);
    atomic_fetch_add(to, 1);
    count_lock_end(&w->lock);
}

static void take(struct event_writer *w, const struct event_message *message)
{
    if (message->kind == EVENT_MESSAGE_MARK) {
        if (w->ops->mark != NULL)
            w->ops->mark(w->sink, &message->mark);
    } else if (message->kind == EVENT_MESSAGE_EVENT) {
        if (sink_thread_must_end(&w->thread))
            settle(w, &w->dropped[DROP_STOPPED]);
        else if (w->ops->put(w->sink, &message->event) == 0)
            settle(w, &w->delivered);
        else
            settle(w, &w->dropped[DROP_DISK]);
    }
}

static void publish(struct event_writer *w)
{
    struct event_sink_ledger ledger = {0};
    if (w->ops->ledger == NULL)
        return;
    w->ops->ledger(w->sink, &ledger);
    atomic_store(&w->bytes, ledger.bytes);
    atomic_store(&w->files, ledger.files);
    atomic_store(&w->clipped, ledger.clipped);
    if (ledger.lost == w->lost)
        return;
    count_lock_begin(&w->lock);
    atomic_fetch_sub(&w->delivered, ledger.lost - w->lost);
    atomic_fetch_add(&w->dropped[DROP_DISK], ledger.lost - w->lost);
    count_lock_end(&w->lock);
    w->lost = ledger.lost;
}

static void flush(struct event_writer *w)
{
    if (w->ops->flush != NULL)
        w->ops->flush(w->sink);
    publish(w);
}

static void write_events(void *context)
{
    struct event_writer *w = context;
    struct sink_thread *thread = &w->thread;
    int64_t flush_at_ns = INT64_MAX; /* of the next flush; INT64_MAX: nothing to flush */
    for (;;) {
        const struct event_message *message;
        while ((message = event_message_peek(&thread->ring)) != NULL) {
            take(w, message);
            message_ring_release(&thread->ring);
            const int64_t now_ns = clock_monotonic_ns();
            if (flush_at_ns == INT64_MAX) {
                flush_at_ns = now_ns + w->flush_ns;
            } else if (w->flush_ns > 0 && now_ns >= flush_at_ns) {
                flush(w);
                flush_at_ns = INT64_MAX;
            }
        }
        if (clock_monotonic_ns() >= flush_at_ns) {
            flush(w);
            flush_at_ns = INT64_MAX;
        }
        if (sink_thread_ends(thread) && sink_thread_empty(thread))
            break;
        sink_thread_wait(thread, flush_at_ns, NULL);
    }
    flush(w);
    w->ops->close(w->sink);
    w->sink = NULL;
}

/* ---- life -------------------------------------------------------------------------------- */

static void rung(void *context)
{
    (void)context; /* the thread rings only when it ends */
}

/* The disk may never answer: thread, ring and file are abandoned on purpose. */
static void hung(void *context)
{
    struct event_writer *w = context;
    w->abandoned = true;
    log_error("sink %s: what it writes to does not answer; its file is not finished, and %llu "
              "events are not in it",
              w->options->name, (unsigned long long)atomic_load(&w->pending));
}

static void freed(void *context)
{
    struct event_writer *w = context;
    sink_thread_free(&w->thread);
    free(w);
}

int event_writer_open(const struct event_sink_ops *ops, const struct event_sink_options *options,
                      const struct io_environment *environment, struct event_writer **out,
                      struct problem *problem)
{
    struct event_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    w->ops = ops;
    w->options = options;
    w->flush_ns = ops->flush_ns != NULL ? ops->flush_ns(options) : 0;
    const struct sink_thread_options thread_options = {.loop = environment->loop,
                                                       .context = w,
                                                       .run = write_events,
                                                       .rung = rung,
                                                       .hung = hung,
                                                       .freed = freed};
    int error = sink_thread_open(&w->thread, &thread_options, options->queue_bytes);
    if (error != 0) {
        freed(w);
        return problem_set(problem, ERROR_MEMORY,
                           "sink %s: no memory for a queue of %llu MiB; write a smaller `queue`",
                           options->name, (unsigned long long)(options->queue_bytes >> 20));
    }
    int status = ops->open(options, environment, &w->sink, problem);
    if (status != 0) {
        freed(w);
        return status;
    }
    error = sink_thread_begin(&w->thread);
    if (error != 0) {
        ops->close(w->sink);
        freed(w);
        return problem_set(problem, ERROR_SYSTEM, "sink %s: no thread to write with: %s",
                           options->name, strerror(error));
    }
    *out = w;
    return 0;
}

static void thread_closed(void *context)
{
    struct event_writer *w = context;
    const uint64_t stopped = atomic_load(&w->dropped[DROP_STOPPED]);
    if (stopped > 0)
        log_warning("sink %s: %llu events were not written within `drain timeout`",
                    w->options->name, (unsigned long long)stopped);
    w->closed(w->closed_context);
}

void event_writer_close(struct event_writer *w, int64_t deadline_ns, void (*closed)(void *context),
                        void *context)
{
    w->closed = closed;
    w->closed_context = context;
    sink_thread_close(&w->thread, deadline_ns, thread_closed, w);
}

/* ---- the producer ------------------------------------------------------------------------ */

bool event_writer_put(struct event_writer *w, const struct analysis_event *event)
{
    if (!event->ordered) /* a hit comes twice: files get it in order */
        return true;
    /* It is pending before the writer can settle it. */
    count_lock_begin(&w->lock);
    atomic_fetch_add(&w->events, 1);
    atomic_fetch_add(&w->pending, 1);
    const bool put = event_message_put(&w->thread.ring, event, w->ops->samples);
    if (!put) {
        atomic_fetch_sub(&w->events, 1);
        atomic_fetch_sub(&w->pending, 1);
    }
    count_lock_end(&w->lock);
    if (put)
        sink_thread_wake(&w->thread);
    return put;
}

void event_writer_drop(struct event_writer *w)
{
    count_lock_begin(&w->lock);
    atomic_fetch_add(&w->events, 1);
    atomic_fetch_add(&w->dropped[DROP_QUEUE], 1);
    count_lock_end(&w->lock);
}

bool event_writer_can_hold(const struct event_writer *w, const struct analysis_event *event)
{
    return event_message_bytes(event, w->ops->samples) <= message_ring_longest(&w->thread.ring);
}

bool event_writer_mark(struct event_writer *w, const struct sink_mark *mark)
{
    if (w->ops->mark == NULL)
        return true;
    if (!event_message_put_mark(&w->thread.ring, mark))
        return false;
    sink_thread_wake(&w->thread);
    return true;
}

/* ---- ledger ------------------------------------------------------------------------------ */

void event_writer_ledger(struct event_writer *w, struct event_sink_ledger *ledger)
{
    for (int tries = 0; tries < COUNT_LOCK_TRIES; tries++) {
        struct event_sink_ledger now = {0};
        const uint64_t token = count_lock_look(&w->lock);
        now.events = atomic_load(&w->events);
        now.delivered = atomic_load(&w->delivered);
        now.pending = atomic_load(&w->pending);
        for (int i = 0; i < DROPS; i++)
            now.dropped[i] = atomic_load(&w->dropped[i]);
        if (count_lock_held(&w->lock, token)) {
            w->last = now;
            break;
        }
    }
    *ledger = w->last;
    if (w->abandoned) {
        ledger->dropped[DROP_STOPPED] += ledger->pending;
        ledger->pending = 0;
    }
    ledger->bytes = atomic_load(&w->bytes);
    ledger->files = atomic_load(&w->files);
    ledger->clipped = atomic_load(&w->clipped);
}
