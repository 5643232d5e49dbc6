/* Way: see way.h. */
#include "io/net/way.h"

#include "core/clock.h"
#include "core/loop_work.h"

static void connect_again(void *context)
{
    struct way *way = context;
    way->error = socket_connect_send(way->fd, &way->options, &way->to, NULL);
}

static void on_tried(void *context)
{
    struct way *way = context;
    const bool found = way->error == 0;
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
    way->busy = true;
    loop_work_start(&way->work, loop, connect_again, on_tried, way);
}
