/*
 * Sink thread: the thread of a sink that writes where the loop must not wait (a disk, a pipe), the
 * message ring that feeds it, and how both wake each other and end.
 *
 *     loop: put ──► ring, sink_thread_wake ──► thread: sink_thread_wait, peek, release
 *           ◄── rung ◄──────────────────────── sink_thread_ring
 *
 * Order: open, begin (worker) → handles (loop, before the first wake; twice is fine) → close (loop)
 * → `closed`, then `freed` (loop). Between them the sink puts messages into `ring` itself. At the
 * deadline of close `stop` becomes SINK_THREAD_NOW; with `hung`, a thread that does not end a
 * second later is abandoned with the ring and all it uses: `closed` comes, `freed` does not.
 *
 * No lock; neither side ever waits for the other but in sink_thread_wait.
 */
#ifndef CONVOLVD_IO_SINK_THREAD_H
#define CONVOLVD_IO_SINK_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/loop_bell.h"
#include "core/message_ring.h"

enum sink_thread_stop {
    SINK_THREAD_RUN,
    SINK_THREAD_DRAIN, /* end when the ring is empty */
    SINK_THREAD_NOW,   /* drop what is left */
};

struct sink_thread_options {
    uv_loop_t *loop;
    void *context; /* of the calls below */
    /* THREAD. Returns when `stop` is set and the ring is empty. */
    void (*run)(void *context);
    void (*rung)(void *context);  /* not after close */
    void (*hung)(void *context);  /* it is abandoned now; NULL: it never hangs */
    void (*freed)(void *context); /* nothing uses the sink any more */
};

struct sink_thread {
    struct sink_thread_options options; /* immutable after open */
    pthread_t thread;

    /* loop thread */
    bool handles_open, late, abandoned;
    struct loop_bell doorbell;
    uv_timer_t deadline;
    int open_handles;
    void (*closed)(void *context); /* NULL: it is not closing */
    void *closed_context;

    /* shared */
    struct message_ring ring;
    int wake_fd; /* rung by the loop; may be polled */
    _Atomic bool asleep, done;
    _Atomic int stop; /* enum sink_thread_stop */
};

/* Opens the ring and the doorbell of a zeroed `thread`. 0, ENOMEM or another errno; free it in any
 * case. */
int sink_thread_open(struct sink_thread *thread, const struct sink_thread_options *options,
                     uint64_t ring_bytes);
/* Starts the thread; signals are the loop's. 0 or errno. */
int sink_thread_begin(struct sink_thread *thread);
/* Loop: what belongs to it, since `open` runs on a worker. */
void sink_thread_handles(struct sink_thread *thread);
/* Loop: a message is in the ring. */
void sink_thread_wake(struct sink_thread *thread);
/* Loop: `closed` comes from the loop, once everything is written or the deadline [monotonic] has
 * passed. */
void sink_thread_close(struct sink_thread *thread, int64_t deadline_ns,
                       void (*closed)(void *context), void *context);
/* In `freed`, or where the thread has not begun; one that was not opened is fine. */
void sink_thread_free(struct sink_thread *thread);

/* THREAD. Sleeps until the loop wakes it or until_ns [monotonic; INT64_MAX: without end], not at
 * all when there is work or `wanted` is true. */
void sink_thread_wait(struct sink_thread *thread, int64_t until_ns, const _Atomic bool *wanted);
/* THREAD. Makes the loop call `rung`; rings coalesce. */
void sink_thread_ring(struct sink_thread *thread);
/* THREAD. The loop puts nothing more; at the deadline the rest is dropped. */
static inline bool sink_thread_ends(const struct sink_thread *thread)
{
    return atomic_load(&thread->stop) != SINK_THREAD_RUN;
}

static inline bool sink_thread_must_end(const struct sink_thread *thread)
{
    return atomic_load(&thread->stop) == SINK_THREAD_NOW;
}

/* Whether all messages are taken and released. */
bool sink_thread_empty(const struct sink_thread *thread);

#endif
