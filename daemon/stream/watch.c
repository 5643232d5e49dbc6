/* Watch: see watch.h. */
#include "stream/watch.h"

#include "stream/epochs.h"
#include "stream/state.h"

void stream_watch(struct stream *s, const struct stream_watch *watch)
{
    s->watch = watch;
    s->shows = false;
}

bool stream_watch_holds(const struct stream *s, const struct ring *ring, uint64_t position)
{
    const uint64_t written =
        s->vacant_until > s->cleared_until ? s->vacant_until : s->cleared_until;
    return ring == s->ring && written <= position + ring->frames;
}

bool stream_shows(const struct stream *s)
{
    return s->shows;
}

void stream_show(struct stream *s)
{
    s->shows = s->watch->show(s->watch->context);
}

bool stream_keeps(const struct stream *s, const struct batch *batch)
{
    return s->shows && s->watch->keeps(s->watch->context, batch);
}

void stream_forget_shown(struct stream *s, const struct batch *batch)
{
    if (s->shows)
        s->watch->forget(s->watch->context, batch);
}

void watch_flight(struct stream *s, const struct flight *flight, const struct batch_item *item)
{
    const struct epoch *e = flight->epoch;
    const uint64_t until = flight->until < e->head ? flight->until : e->head;
    enum clock_source clock;
    int64_t error_ns;
    /* The tail has no input; a ring that a change has replaced goes. */
    if (flight->from >= until || item->ring != s->ring)
        return;
    const struct watched_input input = {
        .epoch = e->number,
        .record = e->record,
        .first_frame = flight->from,
        .frames = (uint32_t)(until - flight->from),
        .ring = item->ring,
        .position = e->base + flight->from,
        .rate_hz = s->options.rate_hz,
        .capture_ns = epochs_capture_ns(s, e, (double)flight->from, 0, &clock, &error_ns),
        .begins = flight->from == 0,
        .ends = e->ended && until == e->head,
    };
    s->shows = true;
    s->watch->input(s->watch->context, &input);
    if (flight->blocks > flight->reported)
        s->watch->reports(s->watch->context,
                          item->reports + (size_t)flight->reported * s->options.channels,
                          flight->blocks - flight->reported, s->options.channels, &input);
}

void watch_result(struct stream *s, const struct result *result)
{
    s->shows = true;
    s->watch->result(s->watch->context, result, s->completing);
}
