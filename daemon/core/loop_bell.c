/* Waking a loop: see loop_bell.h. */
#include "core/loop_bell.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/doorbell.h"

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct loop_bell *bell = (struct loop_bell *)poll;
    (void)status, (void)events;
    uint64_t rings;
    const ssize_t got = read(bell->descriptor, &rings, sizeof rings);
    (void)got; /* before `rung`, so that a ring meanwhile wakes the loop again */
    bell->rung(bell->handle.data);
}

static void on_async(uv_async_t *async)
{
    ((struct loop_bell *)async)->rung(async->data);
}

void loop_bell_open(struct loop_bell *bell, uv_loop_t *loop, void (*rung)(void *context),
                    void *context)
{
    *bell = (struct loop_bell){.descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .rung = rung};
    if (bell->descriptor >= 0 && uv_poll_init(loop, &bell->poll, bell->descriptor) != 0) {
        close(bell->descriptor);
        bell->descriptor = -1;
    }
    if (bell->descriptor >= 0)
        uv_poll_start(&bell->poll, UV_READABLE, on_poll);
    else
        uv_async_init(loop, &bell->async, on_async);
    bell->handle.data = context;
}

void loop_bell_ring(struct loop_bell *bell)
{
    if (bell->descriptor >= 0)
        doorbell_ring(bell->descriptor);
    else
        uv_async_send(&bell->async);
}

static void on_closed(uv_handle_t *handle)
{
    struct loop_bell *bell = (struct loop_bell *)handle;
    if (bell->descriptor >= 0)
        close(bell->descriptor);
    if (bell->closed != NULL)
        bell->closed(handle);
}

void loop_bell_close(struct loop_bell *bell, uv_close_cb closed)
{
    bell->closed = closed;
    uv_close(&bell->handle, on_closed);
}
