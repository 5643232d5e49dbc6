/* Watch: see watch.h. */
#include "stream/watch.h"

#include "stream/epochs.h"
#include "stream/state.h"

void stream_watch(struct stream *s, const struct stream_watch *watch)
{
    s->watch = watch;
}

void watch_flight(struct stream *s, const struct flight *flight, const struct batch_item *item)
{
    const struct epoch *e = flight->epoch;
    const uint64_t until = flight->until < e->head ? flight->until : e->head;
    enum clock_source clock;
    int64_t error_ns;
    /* The tail has no input; a ring that a change has replaced may go before `flushed`. */
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
        .capture_ns = epochs_capture_ns(s, e, (double)flight->from, &clock, &error_ns),
        .begins = flight->from == 0,
        .ends = e->ended && until == e->head,
    };
    s->watch->input(s->watch->context, &input);
    if (flight->blocks > flight->reported)
        s->watch->reports(s->watch->context,
                          item->reports + (size_t)flight->reported * s->options.channels,
                          flight->blocks - flight->reported, s->options.channels, &input);
}
