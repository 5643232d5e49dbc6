/* Event inlet: see event_inlet.h. */
#include "pipeline/event_inlet.h"

bool event_inlet_put(struct event_inlet *inlet, const struct analysis_event *event)
{
    /* It is pending before the taker can be done with it. */
    count_lock_begin(inlet->lock);
    atomic_fetch_add(&inlet->taken, 1);
    atomic_fetch_add(&inlet->pending, 1);
    const bool put = event_message_put(&inlet->thread->ring, event, true);
    if (!put) {
        atomic_fetch_sub(&inlet->taken, 1);
        atomic_fetch_sub(&inlet->pending, 1);
    }
    count_lock_end(inlet->lock);
    if (put)
        sink_thread_wake(inlet->thread);
    return put;
}

void event_inlet_drop(struct event_inlet *inlet)
{
    count_lock_begin(inlet->lock);
    atomic_fetch_add(&inlet->taken, 1);
    atomic_fetch_add(&inlet->queue_drops, 1);
    count_lock_end(inlet->lock);
}

bool event_inlet_can_hold(const struct event_inlet *inlet, const struct analysis_event *event)
{
    return event_message_bytes(event, true) <= message_ring_longest(&inlet->thread->ring);
}

bool event_inlet_advance(struct event_inlet *inlet, uint64_t epoch, uint64_t frame)
{
    const bool put = event_message_put_advance(&inlet->thread->ring, epoch, frame);
    sink_thread_wake(inlet->thread);
    return put;
}

bool event_inlet_live(struct event_inlet *inlet, const struct analysis_event *head)
{
    const bool put = event_message_put_live(&inlet->thread->ring, head);
    sink_thread_wake(inlet->thread);
    return put;
}

bool event_inlet_mark(struct event_inlet *inlet, const struct sink_mark *mark)
{
    const bool put = event_message_put_mark(&inlet->thread->ring, mark);
    sink_thread_wake(inlet->thread);
    return put;
}

void event_inlet_done(struct event_inlet *inlet, bool seen)
{
    count_lock_begin(inlet->lock);
    atomic_fetch_sub(&inlet->pending, 1);
    atomic_fetch_add(seen ? &inlet->seen : &inlet->stopped, 1);
    count_lock_end(inlet->lock);
}
