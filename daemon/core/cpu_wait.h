/*
 * How long threads of this process waited for a processor that others had. A deadline must not
 * count that time: a thread that does not run cannot answer.
 *
 * The kernel keeps it for each thread in /proc/self/task/TID/schedstat (sched-stats.rst). Where it
 * does not, nothing is known, and every answer is 0.
 *
 * One thread at a time; allocates when opened only, and reads files of /proc alone.
 */
#ifndef CONVOLVD_CORE_CPU_WAIT_H
#define CONVOLVD_CORE_CPU_WAIT_H

#include <stdint.h>

struct cpu_wait;

/* NULL: nothing is known here, or out of memory. */
struct cpu_wait *cpu_wait_open(void);
/* The longest that any one thread waited since the call before; 0 for threads that are new since
 * then. `now_ns`: monotonic. NULL is fine. */
int64_t cpu_wait_sample(struct cpu_wait *wait, int64_t now_ns);
void cpu_wait_close(struct cpu_wait *wait); /* NULL is fine */

#endif
