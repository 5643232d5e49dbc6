/* Times of a file: see times.h. */
#include "io/vallen/times.h"

#include <assert.h>

#include "core/clock.h"

#define TICK_NS (NS_PER_SECOND / VALLEN_TIME_BASE)

static int64_t clamp(__int128 value)
{
    return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

int64_t vallen_rescale(int64_t count, int64_t to, int64_t from)
{
    const __int128 product = (__int128)count * to;
    __int128 quotient = product / from, rest = product % from;
    if (rest < 0) { /* division rounds towards zero; floor wanted */
        quotient--;
        rest += from;
    }
    if (2 * rest > from || (2 * rest == from && quotient % 2 != 0))
        quotient++;
    return clamp(quotient);
}

void vallen_times_open(struct vallen_times *times, int64_t rate_hz)
{
    *times = (struct vallen_times){.rate_hz = rate_hz};
}

static int64_t whole_second(int64_t ns)
{
    int64_t rest = ns % NS_PER_SECOND;
    return ns - (rest < 0 ? rest + NS_PER_SECOND : rest);
}

/* Ticks of an instant; the first one makes the origin. */
static int64_t wall_ticks(struct vallen_times *times, int64_t realtime_ns)
{
    if (!times->begun) {
        times->begun = true;
        times->origin_ns = whole_second(realtime_ns);
    }
    return vallen_rescale(clamp((__int128)realtime_ns - times->origin_ns), 1, TICK_NS);
}

void vallen_times_anchor(struct vallen_times *times, uint64_t epoch, uint64_t frame,
                         int64_t arrival_ns)
{
    if (times->anchored && times->epoch == epoch)
        return;
    times->anchored = true;
    times->epoch = epoch;
    times->anchor_frame = frame;
    times->anchor = wall_ticks(times, arrival_ns);
    if (times->anchor < times->last) {
        times->anchor = times->last;
        times->moved++;
    }
}

static int64_t never_fall(struct vallen_times *times, int64_t ticks)
{
    if (ticks > times->last)
        times->last = ticks;
    return times->last;
}

int64_t vallen_times_at(struct vallen_times *times, uint64_t frame)
{
    assert(times->anchored);
    const int64_t frames = (int64_t)(frame - times->anchor_frame);
    const int64_t ticks = vallen_rescale(frames, VALLEN_TIME_BASE, times->rate_hz);
    return never_fall(times, clamp((__int128)times->anchor + ticks));
}

int64_t vallen_times_wall(struct vallen_times *times, int64_t realtime_ns)
{
    return never_fall(times, wall_ticks(times, realtime_ns));
}
