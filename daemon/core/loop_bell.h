/*
 * Wakes an event loop from another thread, as uv_async_t does, but never waits for the thread that
 * rang.
 *
 * uv_async_send writes to the loop's descriptor before it has finished with its handle. The loop
 * that this write wakes often runs on the same processor, in the place of the thread that rang, and
 * then spins until that thread has gone on (libuv 1.44, uv__async_spin). In real time, that thread
 * gets no processor meanwhile: loops that were traced stood for 10 ms and more. So each bell has an
 * eventfd(2) of its own, and a ring ends with the write.
 *
 * Rings coalesce. `rung` runs on the loop after the last of them, so it looks at everything that
 * may be new.
 */
#ifndef CONVOLVD_CORE_LOOP_BELL_H
#define CONVOLVD_CORE_LOOP_BELL_H

#include <uv.h>

struct loop_bell {
    union {
        uv_handle_t handle; /* its data is the context */
        uv_poll_t poll;
        uv_async_t async; /* where no descriptor is left */
    };
    int descriptor; /* -1: none */
    void (*rung)(void *context);
    uv_close_cb closed;
};

/* LOOP. Without a descriptor to be had, the bell is a uv_async_t, for which uv_loop_init has opened
 * what it takes. */
void loop_bell_open(struct loop_bell *bell, uv_loop_t *loop, void (*rung)(void *context),
                    void *context);

/* ANY, until it is closed. Never blocks. */
void loop_bell_ring(struct loop_bell *bell);

/* LOOP; nobody rings any more. `closed` (may be NULL) gets a handle whose data is the context: from
 * then on nothing uses the bell. */
void loop_bell_close(struct loop_bell *bell, uv_close_cb closed);

#endif
