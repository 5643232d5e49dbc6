/* Deadline of a close: see deadline.h. */
#include "io/deadline.h"

#include "core/clock.h"

void deadline_start(uv_timer_t *timer, int64_t deadline_ns, uv_timer_cb reached)
{
    if (deadline_ns == INT64_MAX)
        return;
    /* The loop's time is the monotonic clock in whole milliseconds. uv_timer_start adds it to the
     * timeout, so that it does not matter how stale it is. */
    const int64_t due_ms = deadline_ns / NS_PER_MS + 1, loop_ms = (int64_t)uv_now(timer->loop);
    uv_timer_start(timer, reached, due_ms > loop_ms ? (uint64_t)(due_ms - loop_ms) : 0, 0);
}
