/* Epochs of a stream: see epochs.h. */
#include "stream/epochs.h"

#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "stream/state.h"

/* Times that a source gives differ by less from block to block. */
static const int64_t given_step_ns = NS_PER_MS;

/* ---- in the ring --------------------------------------------------------------------------- */

/* The lowest ring position that a block reads, in flight or next. */
static uint64_t lowest_of_blocks(const struct stream *s)
{
    if (s->flight_first != s->flight_next)
        return s->flights[s->flight_first % FLIGHTS_MAX].low;
    if (s->epoch_first == s->epoch_next)
        return s->cleared_until > s->history ? s->cleared_until - s->history : 0;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        const struct epoch *e = epoch_at((struct stream *)s, i);
        if (!e->ended || e->submitted < e->output_end)
            return e->base + block_start(s, e->submitted) - s->history;
    }
    const struct epoch *last = epoch_newest((struct stream *)s);
    return last->base + block_start(s, last->output_end) - s->history;
}

uint64_t epochs_low(const struct stream *s)
{
    const uint64_t low = lowest_of_blocks(s);
    for (uint64_t i = s->epoch_first; s->has_raw && i < s->epoch_next; i++) {
        const struct epoch *e = epoch_at((struct stream *)s, i);
        const uint64_t raw = e->base + e->raw_delivered; /* not handed on yet */
        if (!e->ended || e->raw_delivered < e->head)
            return raw < low ? raw : low;
    }
    return low;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

uint64_t epochs_next_base(const struct stream *s)
{
    if (s->epoch_first == s->epoch_next)
        return round_up(s->cleared_until, s->hop);
    const struct epoch *e = epoch_newest((struct stream *)s);
    return round_up(e->base, s->hop) + round_up(e->head + s->taps_longest - 1, s->hop) +
           round_up(s->history, s->hop) + s->hop;
}

/* ---- in time ------------------------------------------------------------------------------- */

/* How many frames pass in a time at the nominal rate; at most 2^60. */
static uint64_t elapsed_frames(const struct stream *s, double elapsed_ns)
{
    const double frames = elapsed_ns * s->options.rate_hz / 1e9;
    return frames > 0 ? (uint64_t)llround(fmin(frames, 0x1p60)) : 0;
}

/* The first epoch of this stream: 0, or where the numbers of the one before it (stream_continue)
 * have got to since. */
static uint64_t first_timeline(const struct stream *s, const struct packet *packet)
{
    const struct stream_numbers *before = &s->before;
    if (before->epochs == 0)
        return 0;
    const double frames = (double)packet->frames + packet->frames_behind;
    const double elapsed_ns = (double)packet->receive_realtime_ns -
                              frames * 1e9 / s->options.rate_hz -
                              (double)before->anchor_realtime_ns;
    const uint64_t wanted = before->anchor + elapsed_frames(s, elapsed_ns);
    return decimation_grid(s->kept.factor, wanted > before->timeline ? wanted : before->timeline);
}

uint64_t epochs_next_timeline(const struct stream *s, const struct packet *packet)
{
    if (s->epoch_first == s->epoch_next)
        return first_timeline(s, packet);
    const struct epoch *last = epoch_newest((struct stream *)s);
    uint64_t least = last->timeline_base + last->output_end;
    uint64_t elapsed = 0;
    if ((!(packet->flags & PACKET_DISCONTINUITY) || packet->flags & PACKET_TIMED) &&
        packet->first_frame > last->source_origin) {
        elapsed = packet->first_frame - last->source_origin; /* the source's own count */
    } else {
        double begun_ns = (double)source_clock_time_ns(&s->clock, (double)last->source_origin);
        double frames = (double)packet->frames + packet->frames_behind;
        double now_ns = (double)packet->receive_ns - frames * 1e9 / s->options.rate_hz;
        elapsed = elapsed_frames(s, now_ns - begun_ns);
    }
    uint64_t wanted = last->timeline_base + elapsed;
    return decimation_grid(s->kept.factor, wanted > least ? wanted : least);
}

/* Of times that the source gave. */
static int64_t given_capture_ns(const struct epoch *e, double frame, uint64_t frames,
                                int64_t *error_ns)
{
    const struct capture_before *before = &e->before;
    const bool is_before = frame < (double)before->until;
    const bool crosses = is_before && frame + (double)frames > (double)before->until;
    *error_ns = is_before ? before->error_ns : e->capture_error_ns;
    if (frame < (double)before->from)
        *error_ns = SOURCE_CLOCK_UNKNOWN_NS;
    else if (crosses)
        *error_ns = clock_round_ns((double)*error_ns + fabs((double)before->step_ns));
    return is_before ? before->capture_ns +
                           clock_round_ns((frame - (double)before->frame) * 1e9 / before->rate_hz)
                     : e->capture_ns + clock_round_ns((frame - (double)e->capture_frame) * 1e9 /
                                                      e->capture_rate_hz);
}

int64_t epochs_capture_ns(const struct stream *s, const struct epoch *e, double frame,
                          uint64_t frames, enum clock_source *clock, int64_t *error_ns)
{
    *clock = e->clock;
    if (e->capture_known)
        return given_capture_ns(e, frame, frames, error_ns);
    const double first = (double)e->source_origin + frame;
    *error_ns = source_clock_error_ns(&s->clock, first, first + (double)frames);
    return source_clock_time_ns(&s->clock, first) + s->offset_ns;
}

void epochs_take_capture(struct stream *s, struct epoch *e, uint64_t first,
                         const struct packet *packet)
{
    if (e->capture_known) {
        int64_t error_ns;
        const int64_t off_ns =
            packet->capture_ns - given_capture_ns(e, (double)first, 0, &error_ns);
        if (llabs(off_ns) > packet->clock_error_ns + given_step_ns && first > e->before.until)
            e->before = (struct capture_before){.from = e->before.until,
                                                .until = first,
                                                .frame = e->capture_frame,
                                                .rate_hz = e->capture_rate_hz,
                                                .capture_ns = e->capture_ns,
                                                .error_ns = e->capture_error_ns,
                                                .step_ns = off_ns};
    }
    e->capture_known = true;
    e->capture_frame = first;
    e->capture_rate_hz = s->options.rate_hz;
    e->capture_ns = packet->capture_ns;
    e->capture_error_ns = packet->clock_error_ns;
    e->clock = packet->clock;
}

struct result_clock_step epochs_clock_step(const struct stream *s, bool raw, uint64_t aligned_by)
{
    struct result_clock_step step = s->clock_step;
    if (raw || step.count == 0)
        return step;
    step.frame = decimation_output(&s->kept, step.frame);
    step.frame = step.frame > aligned_by ? step.frame - aligned_by : 0;
    return step;
}

void epochs_keep_capture_times(struct stream *s)
{
    double rate_hz, ppm;
    if (!clock_line_rate(&s->clock.line, &rate_hz, &ppm))
        rate_hz = s->options.rate_hz;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        if (e->capture_known)
            continue;
        const uint64_t left =
            s->has_raw && e->raw_delivered < e->delivered ? e->raw_delivered : e->delivered;
        const double from = (double)e->source_origin + (double)(left < e->head ? left : e->head);
        e->capture_error_ns =
            source_clock_error_ns(&s->clock, from, (double)e->source_origin + (double)e->head);
        int64_t error_ns; /* of the head alone */
        e->capture_ns = epochs_capture_ns(s, e, (double)e->head, 0, &e->clock, &error_ns);
        e->capture_frame = e->head;
        e->capture_rate_hz = rate_hz;
        e->capture_known = true;
    }
}

/* ---- which are live ------------------------------------------------------------------------ */

static bool in_flight(const struct stream *s, const struct epoch *e)
{
    for (uint32_t i = s->flight_first; i != s->flight_next; i++) {
        if (s->flights[i % FLIGHTS_MAX].epoch == e)
            return true;
    }
    return false;
}

bool epochs_through(const struct stream *s, const struct epoch *e)
{
    return e->ended && e->submitted >= e->output_end && !in_flight(s, e);
}

void epochs_retire(struct stream *s)
{
    /* The newest stays: the base and the timeline of the next one follow from it. */
    while (s->epoch_next - s->epoch_first > 1) {
        const struct epoch *e = epoch_at(s, s->epoch_first);
        if (!epochs_through(s, e) || !e->end_told || (s->has_raw && e->raw_delivered < e->head))
            return;
        s->epoch_first++;
    }
}
