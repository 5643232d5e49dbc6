/* Ports of a stream: see ports.h. */
#include "stream/ports.h"

#include <assert.h>

#include "core/clock.h"
#include "stream/epochs.h"
#include "stream/presence.h"
#include "stream/state.h"
#include "stream/watch.h"

int stream_add_port(struct stream *s, const struct result_port *port)
{
    if (s->port_count == PORTS_MAX)
        return ERROR_FULL;
    s->ports[s->port_count++] = *port;
    s->has_raw = s->has_raw || port->raw;
    s->has_room = s->has_room || port->room != NULL;
    return 0;
}

bool stream_has_port(const struct stream *s, const void *context)
{
    for (int i = 0; i < s->port_count; i++)
        if (s->ports[i].context == context && !s->ports[i].raw)
            return true;
    return false;
}

void stream_remove_port(struct stream *s, const void *context)
{
    int kept = 0;
    s->has_room = false;
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].context == context && !s->ports[i].raw)
            continue;
        s->has_room = s->has_room || s->ports[i].room != NULL;
        s->ports[kept++] = s->ports[i];
    }
    s->port_count = kept;
}

void stream_inspect(struct stream *s, void (*inspect)(void *context, const struct batch_item *item),
                    void *context)
{
    s->inspect = inspect;
    s->inspect_context = context;
}

void stream_flush_ports(struct stream *s)
{
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].flush != NULL)
            s->ports[i].flush(s->ports[i].context);
    }
}

void ports_put(struct stream *s, const struct result *result)
{
    const bool raw = result->flags & RESULT_RAW;
    if (!raw && s->watch != NULL && result->frames > 0)
        watch_result(s, result);
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].raw == raw)
            s->ports[i].put(s->ports[i].context, result);
    }
}

/* ---- room ---------------------------------------------------------------------------------- */

/* The least that any port of this kind takes, as it counts: kept frames, or frames of raw input. */
static uint64_t least_room(const struct stream *s, bool raw)
{
    uint64_t room = UINT64_MAX;
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].room == NULL || s->ports[i].raw != raw)
            continue;
        uint64_t frames = s->ports[i].room(s->ports[i].context);
        room = frames < room ? frames : room;
    }
    return room;
}

uint64_t ports_room(const struct stream *s)
{
    if (s->options.live || !s->has_room)
        return UINT64_MAX;
    uint64_t room = decimation_span(s->kept.factor, least_room(s, false));
    return room > s->stats.submitted ? room - s->stats.submitted : 0;
}

uint64_t ports_raw_room(const struct stream *s, uint64_t waiting)
{
    if (s->options.live || !s->has_raw)
        return UINT64_MAX;
    uint64_t room = least_room(s, true);
    return room > waiting ? room - waiting : 0;
}

/* ---- raw input ----------------------------------------------------------------------------- */

struct epoch *ports_raw_behind(const struct stream *stream)
{
    struct stream *s = (struct stream *)stream;
    for (uint64_t i = s->epoch_first; s->has_raw && i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        if (e->ended && e->raw_delivered < e->head)
            return e;
    }
    return NULL;
}

/* The runs of frames [from, from + frames) of the epoch that never came, in `runs`. Returns how
 * many frames that is true of: all, or those before the run for which there is no room. */
static uint64_t absent_runs(const struct stream *s, const struct epoch *e, uint64_t from,
                            uint64_t frames, struct frame_run *runs, uint32_t *count)
{
    const uint64_t end = e->base + from + frames;
    uint64_t position = e->base + from;
    *count = 0;
    while ((position = presence_find(s, position, end, false)) < end) {
        if (*count == RANGES_MAX)
            return position - e->base - from;
        const uint64_t until = presence_find(s, position, end, true);
        runs[(*count)++] = (struct frame_run){position - e->base, until - e->base};
        position = until;
    }
    return frames;
}

/* The first frame at or behind `from` that no range covers; *next: where the next range begins, at
 * most there. */
static uint64_t uncovered(const struct invalid_range *ranges, uint32_t count, uint64_t from,
                          uint64_t *next)
{
    for (uint32_t i = 0; i < count;) {
        const bool covers = ranges[i].from <= from && from < ranges[i].until;
        from = covers ? ranges[i].until : from;
        i = covers ? 0 : i + 1;
    }
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].from > from && ranges[i].from < *next)
            *next = ranges[i].from;
    return from;
}

/* Room for the ranges of a list, and for what lies between them in as many absent runs. */
enum { RAW_RANGES_MAX = 3 * RANGES_MAX };

/* Adds those absent frames that none of the `count` ranges covers, since the list had no room for
 * them (gaps_raw_make_room). Returns how many ranges there are then. */
static uint32_t cover_absent(struct invalid_range *ranges, uint32_t count,
                             const struct frame_run *absent, uint32_t absent_count)
{
    const uint32_t listed = count;
    for (uint32_t run = 0; run < absent_count; run++) {
        for (uint64_t from = absent[run].from, until; from < absent[run].until; from = until) {
            until = absent[run].until;
            from = uncovered(ranges, listed, from, &until);
            if (from < until)
                ranges[count++] = (struct invalid_range){from, until, INVALID_UPSTREAM};
            else
                until = from;
        }
    }
    assert(count <= RAW_RANGES_MAX);
    return count;
}

void ports_put_raw(struct stream *s, struct epoch *e, uint64_t until)
{
    struct ranges *invalid = raw_invalid_of(s, e);
    assert(ports_raw_behind(s) == NULL || ports_raw_behind(s) == e);
    while (e->raw_delivered < until) {
        uint64_t slot = (e->base + e->raw_delivered) & (s->ring->frames - 1);
        uint64_t frames = until - e->raw_delivered;
        if (frames > s->ring->frames - slot)
            frames = s->ring->frames - slot;
        struct invalid_range ranges[RAW_RANGES_MAX];
        struct frame_run absent[RANGES_MAX];
        uint32_t absent_count;
        frames = absent_runs(s, e, e->raw_delivered, frames, absent, &absent_count);
        const uint32_t listed =
            ranges_clip(invalid, e->raw_delivered, e->raw_delivered + frames, ranges, RANGES_MAX);
        struct result result = {
            .epoch = e->number,
            .record = e->record,
            .first_frame = e->raw_delivered,
            .timeline_frame = e->timeline_base + e->raw_delivered,
            .frames = (uint32_t)frames,
            .channels = s->options.channels,
            .flags = RESULT_RAW | (e->raw_delivered == 0 ? RESULT_EPOCH_START : 0) |
                     (e->ended && e->raw_delivered + frames == e->head ? RESULT_EPOCH_END : 0),
            .raw = s->ring->bytes + slot * s->ring->frame_bytes,
            .rate_hz = s->options.rate_hz,
            .invalid = ranges,
            .invalid_count = cover_absent(ranges, listed, absent, absent_count),
            .absent = absent,
            .absent_count = absent_count,
            .sender = {e->sender_known, e->sender, (uint32_t)(e->source_origin + e->raw_delivered)},
            .first_receive_ns = s->last_receive_ns,
            .last_receive_ns = s->last_receive_ns,
            .delivered_ns = clock_monotonic_ns(),
        };
        result.capture_ns = epochs_capture_ns(s, e, (double)e->raw_delivered, frames, &result.clock,
                                              &result.clock_error_ns);
        result.clock_step = epochs_clock_step(s, true, 0);
        ports_put(s, &result);
        e->raw_delivered += frames;
    }
    ranges_drop_before(invalid, e->raw_delivered);
}

/* ---- what was shed --------------------------------------------------------------------------- */

bool ports_range_of_kept(const struct stream *s, struct invalid_range *range)
{
    range->from = decimation_output(&s->kept, range->from);
    range->until = decimation_output(&s->kept, range->until);
    return range->from < range->until;
}

/* Frames by which the numbers of results lie before those of the frames that answer them. */
static uint64_t aligned_by(const struct stream *s)
{
    return s->options.align ? (uint64_t)output_delay_frames(s, s->delay_frames) : 0;
}

uint32_t ports_take_shed(struct stream *s, const struct epoch *e, uint64_t until,
                         struct invalid_range *ranges)
{
    const uint64_t shift = aligned_by(s);
    uint32_t taken = sheds_take(&s->sheds, e->number, until, ranges), count = 0;
    for (uint32_t i = 0; i < taken; i++) {
        struct invalid_range range = ranges[i];
        if (!ports_range_of_kept(s, &range) || range.until <= shift)
            continue;
        range.from = range.from > shift ? range.from - shift : 0;
        range.until -= shift;
        ranges[count++] = range;
    }
    return count;
}

/* ---- the end of an epoch ------------------------------------------------------------------- */

/* Tells the ports by a result without frames that the epoch has ended, and what of it was shed
 * last; nothing, when nothing of it was handed on or shed. */
static void put_end(struct stream *s, struct epoch *e)
{
    struct invalid_range ranges[SHEDS_MAX];
    const uint32_t count = ports_take_shed(s, e, e->output_end, ranges);
    e->end_told = true;
    if (!e->announced && count == 0)
        return;
    const uint64_t ended = decimation_output(&s->kept, e->output_end), shift = aligned_by(s);
    const double delay_frames = s->delay_frames + s->options.upstream_delay_frames;
    double frame = (double)decimation_input(&s->kept, ended);
    if (s->options.align)
        frame -= delay_frames;
    assert(ended >= shift); /* else nothing was announced or shed */
    struct result result = {
        .epoch = e->number,
        .record = e->record,
        .first_frame = ended - shift,
        .timeline_frame = output_timeline(s, e, ended) - shift,
        .channels = s->output_channels,
        .flags = RESULT_EPOCH_END | (e->announced ? 0 : RESULT_EPOCH_START),
        .rate_hz = decimation_rate_hz(s->kept.factor, s->options.rate_hz),
        .delay_frames = output_delay_frames(s, s->delay_frames),
        .aligned = s->options.align,
        .invalid = ranges,
        .invalid_count = count,
        .first_receive_ns = s->last_receive_ns,
        .last_receive_ns = s->last_receive_ns,
        .delivered_ns = clock_monotonic_ns(),
    };
    result.capture_ns = epochs_capture_ns(s, e, frame, 0, &result.clock, &result.clock_error_ns);
    result.clock_step = epochs_clock_step(s, false, shift);
    e->announced = true;
    ports_put(s, &result);
    stream_flush_ports(s);
}

void ports_put_ends(struct stream *s)
{
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        if (!epochs_through(s, e))
            return;
        if (!e->end_told)
            put_end(s, e);
    }
}
