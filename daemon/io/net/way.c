/* Way: see way.h. */
#include "io/net/way.h"

#include "core/clock.h"

static void connect_again(uv_work_t *work)
{
    struct way *way = work->data;
    way->error = socket_connect_send(way->fd, &way->options, &way->to, NULL);
}

static void on_tried(uv_work_t *work, int status)
{
    struct way *way = work->data;
    const bool found = status == 0 && way->error == 0;
    char address[ADDRESS_TEXT];
    way->busy = false;
    if (found) {
        log_limited(&way->limit, 10 * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "sink %s: the network is there after %.1f s: sends to %s", way->options.sink,
                    (double)(clock_monotonic_ns() - way->lost_ns) / NS_PER_SECOND,
                    address_text(&way->to.storage, address));
        way->lost_ns = 0;
    }
    way->tried(way->context, found);
}

void way_find(struct way *way, uv_loop_t *loop)
{
    if (way->lost_ns == 0)
        way->lost_ns = clock_monotonic_ns();
    if (way->busy)
        return;
    way->work.data = way;
    way->busy = uv_queue_work(loop, &way->work, connect_again, on_tried) == 0;
}
