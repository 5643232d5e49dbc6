/* Clocks: see clock.h. */
#include "core/clock.h"

#include <math.h>
#include <stddef.h>
#include <time.h>

int64_t clock_round_ns(double ns)
{
    const double far_ns = (double)CLOCK_FAR_NS;
    return isnan(ns) ? 0 : (int64_t)llround(fmin(fmax(ns, -far_ns), far_ns));
}

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static int64_t system_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

static const struct clock_functions system_clock = {system_monotonic_ns, system_realtime_ns};
static struct clock_functions current = {system_monotonic_ns, system_realtime_ns};

int64_t clock_monotonic_ns(void)
{
    return current.monotonic_ns();
}

int64_t clock_realtime_ns(void)
{
    return current.realtime_ns();
}

int64_t clock_offset_ns(void)
{
    /* Reads the wall clock between two monotonic reads, three times, and uses the closest pair: a
     * preemption widens the others. */
    int64_t best_width_ns = INT64_MAX;
    int64_t offset_ns = 0;
    for (int i = 0; i < 3; i++) {
        int64_t before_ns = current.monotonic_ns();
        int64_t real_ns = current.realtime_ns();
        int64_t after_ns = current.monotonic_ns();
        if (after_ns - before_ns < best_width_ns) {
            best_width_ns = after_ns - before_ns;
            offset_ns = real_ns - (before_ns + (after_ns - before_ns) / 2);
        }
        if (best_width_ns < 200)
            break;
    }
    return offset_ns;
}

void clock_replace(const struct clock_functions *functions)
{
    current = functions != NULL ? *functions : system_clock;
}
