/* Lingering close: see linger.h. One timer serves the oldest connection, which is due first. */
#include "linger.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DROP_BYTES = 16 << 10, DROPS_MAX = 16 /* reads at one wake-up */ };

struct lingering {
    struct lingers *lingers;
    struct lingering *next; /* younger */
    uv_poll_t poll;
    int fd;
    uint64_t due_ms;
};

struct lingers {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct lingering *oldest, **end;
    unsigned count, max;
};

static void on_timer(uv_timer_t *timer);

static void arm(struct lingers *lingers)
{
    if (lingers->oldest == NULL) {
        uv_timer_stop(&lingers->timer);
        return;
    }
    const uint64_t now_ms = uv_now(lingers->loop), due_ms = lingers->oldest->due_ms;
    uv_timer_start(&lingers->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct lingering *one = handle->data;
    close(one->fd);
    free(one);
}

static void end(struct lingering *one)
{
    struct lingers *lingers = one->lingers;
    struct lingering **at = &lingers->oldest;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    if (one->next == NULL)
        lingers->end = at;
    lingers->count--;
    uv_close((uv_handle_t *)&one->poll, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    struct lingers *lingers = timer->data;
    while (lingers->oldest != NULL && lingers->oldest->due_ms <= uv_now(lingers->loop))
        end(lingers->oldest);
    arm(lingers);
}

static void on_poll(uv_poll_t *poll, int status, int happened)
{
    struct lingering *one = poll->data;
    struct lingers *lingers = one->lingers;
    char dropped[DROP_BYTES];
    ssize_t got = 1;
    (void)happened;
    for (unsigned i = 0; status == 0 && got > 0 && i < DROPS_MAX; i++)
        got = recv(one->fd, dropped, sizeof dropped, MSG_DONTWAIT);
    if (status == 0 && (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))))
        return;
    end(one);
    arm(lingers);
}

struct lingers *lingers_open(uv_loop_t *loop, unsigned max)
{
    struct lingers *lingers = calloc(1, sizeof *lingers);
    if (lingers == NULL)
        return NULL;
    *lingers = (struct lingers){.loop = loop, .max = max};
    lingers->end = &lingers->oldest;
    uv_timer_init(loop, &lingers->timer);
    lingers->timer.data = lingers;
    return lingers;
}

void lingers_add(struct lingers *lingers, int fd)
{
    struct lingering *one = calloc(1, sizeof *one);
    shutdown(fd, SHUT_WR);
    if (one == NULL || uv_poll_init(lingers->loop, &one->poll, fd) != 0) {
        close(fd);
        free(one);
        return;
    }
    if (lingers->count == lingers->max)
        end(lingers->oldest);
    one->lingers = lingers;
    one->fd = fd;
    one->due_ms = uv_now(lingers->loop) + LINGER_MS;
    one->poll.data = one;
    *lingers->end = one;
    lingers->end = &one->next;
    lingers->count++;
    uv_poll_start(&one->poll, UV_READABLE, on_poll);
    arm(lingers);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void lingers_close(struct lingers *lingers)
{
    if (lingers == NULL)
        return;
    while (lingers->oldest != NULL)
        end(lingers->oldest);
    uv_close((uv_handle_t *)&lingers->timer, on_timer_closed);
}
