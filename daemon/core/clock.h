/*
 * Clocks. Latencies are differences of the monotonic clock; capture times are realtime
 * (CLOCK_REALTIME, ns since the Unix epoch). Kernel receive stamps are realtime; receivers
 * convert them with an offset read at the same wake-up (clock_offset_ns), so that a step of the
 * wall clock enters no latency.
 *
 * Any thread. Tests install a simulated clock with clock_replace before other threads start.
 */
#ifndef CONVOLVD_CORE_CLOCK_H
#define CONVOLVD_CORE_CLOCK_H

#include <stdint.h>

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MS     INT64_C(1000000)
#define NS_PER_US     INT64_C(1000)

/* Times farther than this (36 years) from what they are counted from are no times: sums of a few
 * that are nearer overflow nothing. */
#define CLOCK_FAR_NS (INT64_C(1) << 60)

/* A computed time as an integer, to the nearest: at most CLOCK_FAR_NS from 0, and 0 for a NaN. */
int64_t clock_round_ns(double ns);

int64_t clock_monotonic_ns(void);
int64_t clock_realtime_ns(void);

/* realtime − monotonic, read between two monotonic reads that lie close together. */
int64_t clock_offset_ns(void);

struct clock_functions {
    int64_t (*monotonic_ns)(void);
    int64_t (*realtime_ns)(void);
};

/* Installs other clocks; NULL restores the system's. */
void clock_replace(const struct clock_functions *functions);

#endif
