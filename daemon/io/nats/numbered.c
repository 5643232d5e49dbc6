/* Frames by their sender's numbers: see numbered.h. */
#include "io/nats/numbered.h"

#include "core/clock.h"

enum numbered_match numbered_match(const struct numbered_run *run, double rate_hz,
                                   const struct numbered_mark *mark, int64_t *position)
{
    if (run->ssrc != mark->ssrc)
        return MATCH_NONE;
    /* Nearest to the run's end: half a lap of time stamps either way. */
    const int64_t at = run->until + (int32_t)(mark->timestamp - run->timestamp);
    const double ahead_s = (double)(at - run->until) / rate_hz;
    const int64_t then_ns = run->until_ns + clock_round_ns(ahead_s * 1e9);
    const int64_t apart_ns = then_ns - mark->capture_ns;
    *position = at;
    if (at >= run->from && at <= run->until)
        return MATCH_INSIDE;
    if (apart_ns >= NUMBERED_CLOCKS_NS || apart_ns <= -NUMBERED_CLOCKS_NS)
        return MATCH_NONE;
    return at < run->from ? MATCH_BEFORE : MATCH_BEHIND;
}

struct numbered_mark numbered_mark_of(const struct record *r)
{
    const double ns = r->rate_hz > 0 ? (double)(r->next - r->first) * 1e9 / r->rate_hz : 0;
    return (struct numbered_mark){.ssrc = r->ssrc,
                                  .timestamp = r->timestamp,
                                  .capture_ns = r->capture_ns + clock_round_ns(ns)};
}
