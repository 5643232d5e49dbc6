/*
 * Deadline of a close: a timer that ends a sink's wait for what it still has to deliver. The caller
 * initialises the timer on its loop and closes it.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_IO_DEADLINE_H
#define CONVOLVD_IO_DEADLINE_H

#include <stdint.h>

#include <uv.h>

/* Starts the timer so that the loop calls `reached` once: when the monotonic clock has passed
 * `deadline_ns`, at the next whole millisecond, or on the loop's next iteration when it has passed
 * already. INT64_MAX: there is no deadline, the timer does not start. */
void deadline_start(uv_timer_t *timer, int64_t deadline_ns, uv_timer_cb reached);

#endif
