/*
 * The launches of kernels on the device thread, in their order, and a place where it waits: so a
 * test does something while a batch is half computed. By the seam engine_seams.launching. Test
 * thread.
 */
#ifndef CONVOLVD_TESTS_LAUNCH_LOG_H
#define CONVOLVD_TESTS_LAUNCH_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* Launches before a batch's own: on a device with memory of its own, that of its rows. */
uint32_t launches_ahead(void);

/* Begins anew, while nothing is in flight. At launch number `hold`, from 1, the device thread waits
 * for launches_go; 0: it does not. */
void launches_follow(uint32_t hold);
/* Waits until it has come there. */
void launches_await(void);
/* Whether it has, once: for a test that runs a loop meanwhile. */
bool launches_held(void);
/* It goes on, to the launch number `hold` where it waits again; 0: nowhere. */
void launches_go(uint32_t hold);
/* Nothing is followed any more; nothing may be in flight. */
void launches_forget(void);

/* How many there were. */
uint32_t launches_count(void);
/* Those of the first batch's kernel; *other_at: the number of the first one that is another
 * batch's, counted from that batch's first, from 1; 0: there was none. */
uint32_t launches_of_first(uint32_t *other_at);

#endif
