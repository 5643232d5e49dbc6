/*
 * Doorbell: wakes a thread that sleeps until there is work, or an event loop that polls a
 * descriptor. It is an eventfd(2); rings coalesce, so a thread that was woken drains its queue and
 * never counts rings. (To wake a loop of uv's from another thread, use loop_bell.h.)
 *
 * Any thread rings; one thread waits.
 */
#ifndef CONVOLVD_CORE_DOORBELL_H
#define CONVOLVD_CORE_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the descriptor, to be closed with close(2), or -1 with errno. */
int doorbell_open(void);

/* Never blocks. */
void doorbell_ring(int doorbell);

/* Sleeps until the doorbell was rung, and clears it. Returns at once when it was rung already; may
 * return early after a signal. */
void doorbell_wait(int doorbell);

/* Sleeps until the doorbell is rung, at most `timeout_ns` (INT64_MAX: without end; 0: does not
 * sleep). True when it was rung; it stays rung until doorbell_wait clears it. */
bool doorbell_rung_within(int doorbell, int64_t timeout_ns);

#endif
