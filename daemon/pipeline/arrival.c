/* Arrival: see arrival.h. */
#include "pipeline/arrival.h"

#include <math.h>

#include "core/clock.h"

static const int64_t silence_ns = 10 * NS_PER_SECOND;
static const int64_t window_ns = 5 * NS_PER_SECOND;
/* Between two checks, which come about once a second: the process was stopped. */
static const int64_t stopped_ns = 3 * NS_PER_SECOND;
/* Far beyond any jitter of packets that come within a second. */
static const double tolerance = 0.25;

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_SECOND;
}

/* Nothing has come since the last check. The rate is not measured across a pause. */
static enum arrival_event paused(struct arrival *a, int64_t now_ns, double *figure)
{
    a->window_ns = 0;
    if (a->silent || now_ns - a->grown_ns < silence_ns)
        return ARRIVAL_NONE;
    a->silent = true;
    *figure = seconds(now_ns - a->grown_ns);
    return ARRIVAL_SILENT;
}

static enum arrival_event measured(struct arrival *a, uint64_t frames, double rate_hz,
                                   int64_t now_ns, double *figure)
{
    if (a->window_ns != 0 && now_ns - a->window_ns < window_ns)
        return ARRIVAL_NONE;
    double rate = (double)(frames - a->window_frames) / seconds(now_ns - a->window_ns);
    bool first = a->window_ns == 0;
    a->window_ns = now_ns;
    a->window_frames = frames;
    if (first)
        return ARRIVAL_NONE;
    bool off = fabs(rate - rate_hz) > tolerance * rate_hz;
    const double came_s = (double)(frames - a->right_frames) / rate_hz,
                 passed_s = seconds(now_ns - a->right_ns);
    if (off && rate > rate_hz && !a->off_rate && came_s <= passed_s) {
        const bool told = a->catches_up;
        a->catches_up = true;
        *figure = passed_s - came_s;
        return told ? ARRIVAL_NONE : ARRIVAL_CATCHES_UP;
    }
    a->catches_up = false;
    if (!off) {
        a->right_ns = now_ns;
        a->right_frames = frames;
    }
    if (off == a->off_rate)
        return ARRIVAL_NONE;
    a->off_rate = off;
    *figure = rate;
    return off ? ARRIVAL_OFF_RATE : ARRIVAL_ON_RATE;
}

enum arrival_event arrival_check(struct arrival *a, uint64_t frames, double rate_hz, int64_t now_ns,
                                 double *figure)
{
    if (!a->started) {
        *a = (struct arrival){.started = true,
                              .frames = frames,
                              .grown_ns = now_ns,
                              .checked_ns = now_ns,
                              .right_ns = now_ns,
                              .right_frames = frames};
        return ARRIVAL_NONE;
    }
    const int64_t since_ns = now_ns - a->checked_ns;
    a->checked_ns = now_ns;
    if (since_ns >= stopped_ns && !a->silent) {
        a->grown_ns = now_ns;
        a->frames = frames;
        a->window_ns = 0;
        a->catches_up = true;
        *figure = seconds(since_ns);
        return ARRIVAL_STOPPED;
    }
    if (frames == a->frames)
        return paused(a, now_ns, figure);
    int64_t pause_ns = now_ns - a->grown_ns;
    a->frames = frames;
    a->grown_ns = now_ns;
    if (a->silent) {
        a->silent = false;
        *figure = seconds(pause_ns);
        return ARRIVAL_AGAIN;
    }
    return measured(a, frames, rate_hz, now_ns, figure);
}
