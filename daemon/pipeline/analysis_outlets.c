/* Analysis outlets: see analysis_outlets.h. */
#include "pipeline/analysis_outlets.h"

#include <time.h>

#include "core/clock.h"

/* How long a thread that may wait sleeps before it tries a full queue again. */
static const long retry_ns = 500 * 1000;

/* ---- what is kept ------------------------------------------------------------------------ */

int analysis_outlets_open(struct analysis_outlets *o, const struct analysis_ops *ops,
                          const struct analysis_options *own, uint64_t outbox_bytes)
{
    int error = outbox_bytes > 0 ? message_ring_open(&o->outbox, outbox_bytes) : 0;
    if (error == 0)
        error = analysis_store_open(&o->store);
    return error == 0 ? event_totals_open(ops, own, &o->totals) : error;
}

void analysis_outlets_free(struct analysis_outlets *o)
{
    message_ring_close(&o->outbox);
    analysis_store_close(o->store);
    event_totals_close(o->totals);
}

uint64_t analysis_outlets_bytes(const struct analysis_ops *ops, const struct analysis_options *own)
{
    return analysis_store_bytes() + event_totals_bytes(ops, own);
}

/* ---- thread ------------------------------------------------------------------------------ */

static void sleep_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = retry_ns}, NULL);
}

/* Sleeps before another try to put an event into a full queue; false: not again. */
static bool may_retry(const struct analysis_outlets *o)
{
    if (!o->waits || sink_thread_must_end(o->thread))
        return false;
    sleep_a_little();
    return true;
}

static void put_into_sink(const struct analysis_outlets *o, struct event_writer *writer,
                          const struct analysis_event *event)
{
    while (!event_writer_put(writer, event))
        if (!event_writer_can_hold(writer, event) || !may_retry(o)) {
            event_writer_drop(writer);
            return;
        }
}

static void put_into_reader(const struct analysis_outlets *o, struct event_inlet *reader,
                            const struct analysis_event *event)
{
    while (!event_inlet_put(reader, event))
        if (!event_inlet_can_hold(reader, event) || !may_retry(o)) {
            event_inlet_drop(reader);
            return;
        }
}

static bool has_outbox(const struct analysis_outlets *o)
{
    return o->outbox.bytes != NULL;
}

/* To those who look: a hit comes twice, at once and in order, and they want it once. */
static void show(struct analysis_outlets *o, const struct analysis_event *event)
{
    event_totals_add(o->totals, event, clock_monotonic_ns());
    analysis_store_put(o->store, event);
}

/* The log has each event, so the thread waits for room; samples that are too many stay behind. */
static void put_into_outbox(struct analysis_outlets *o, const struct analysis_event *event)
{
    const bool samples = event_message_bytes(event, true) <= message_ring_longest(&o->outbox);
    while (!atomic_load(&o->discards) && !event_message_put(&o->outbox, event, samples)) {
        sink_thread_ring(o->thread);
        if (sink_thread_must_end(o->thread))
            return;
        sleep_a_little();
    }
    sink_thread_ring(o->thread);
}

void analysis_outlets_emit(struct analysis_outlets *o, const struct analysis_event *event)
{
    if (!limits_hold(o->limits, o->limit_count, event)) {
        atomic_fetch_add(&o->limited, event->ordered ? 1 : 0);
        return;
    }
    /* Store and totals have a hit when it comes first, the others in order. */
    if (!has_outbox(o) && (!event->ordered || event->kind != ANALYSIS_HIT))
        show(o, event);
    if (!event->ordered)
        return;
    if (has_outbox(o))
        put_into_outbox(o, event);
    for (uint32_t i = 0; i < o->sink_count && !has_outbox(o); i++)
        put_into_sink(o, o->sinks[i].writer, event);
    for (uint32_t i = 0; i < o->reader_count; i++)
        put_into_reader(o, o->readers[i], event);
}

/* Where a queue is full, the next run says it again; but an epoch ends only once. */
void analysis_outlets_advance(struct analysis_outlets *o, uint64_t epoch, uint64_t frame)
{
    for (uint32_t i = 0; i < o->reader_count; i++)
        while (!event_inlet_advance(o->readers[i], epoch, frame) && frame == UINT64_MAX &&
               !sink_thread_must_end(o->thread))
            sleep_a_little();
}

bool analysis_outlets_want_live(const struct analysis_outlets *o)
{
    bool wanted = false;
    for (uint32_t i = 0; i < o->reader_count; i++)
        wanted = wanted || o->readers[i]->wants_live;
    return wanted;
}

void analysis_outlets_live(struct analysis_outlets *o, const struct analysis_event *head)
{
    for (uint32_t i = 0; i < o->reader_count; i++)
        while (o->readers[i]->wants_live && !event_inlet_live(o->readers[i], head) &&
               may_retry(o)) {
        }
}

void analysis_outlets_mark(struct analysis_outlets *o, const struct sink_mark *mark)
{
    if (has_outbox(o)) {
        (void)event_message_put_mark(&o->outbox, mark);
        sink_thread_ring(o->thread);
        return; /* whoever goes on with the stream does not know it: no analysis may depend on it */
    }
    for (uint32_t i = 0; i < o->sink_count; i++)
        event_writer_mark(o->sinks[i].writer, mark);
    for (uint32_t i = 0; i < o->reader_count; i++)
        event_inlet_mark(o->readers[i], mark);
}

/* ---- loop -------------------------------------------------------------------------------- */

void analysis_outlets_pass_on(struct analysis_outlets *o, const struct event_message *message)
{
    if (message->kind == EVENT_MESSAGE_EVENT)
        show(o, &message->event);
    for (uint32_t i = 0; i < o->sink_count; i++) {
        struct event_writer *writer = o->sinks[i].writer;
        if (writer == NULL)
            continue;
        if (message->kind == EVENT_MESSAGE_MARK)
            event_writer_mark(writer, &message->mark);
        else if (!event_writer_put(writer, &message->event))
            event_writer_drop(writer);
    }
}

static void part_closed(struct analysis_outlets *o)
{
    if (--o->closing == 0)
        o->closed(o->context);
}

static void sink_closed(void *context)
{
    struct outlet_sink *sink = context;
    event_writer_ledger(sink->writer, &sink->ledger);
    sink->writer = NULL;
    part_closed(sink->outlets);
}

void analysis_outlets_close(struct analysis_outlets *o, int64_t deadline_ns,
                            void (*closed)(void *context), void *context)
{
    o->closed = closed;
    o->context = context;
    o->closing = 1 + o->sink_count;
    for (uint32_t i = 0; i < o->sink_count; i++) {
        o->sinks[i].outlets = o;
        event_writer_close(o->sinks[i].writer, deadline_ns, sink_closed, &o->sinks[i]);
    }
    part_closed(o);
}

void analysis_outlets_sink_ledger(struct analysis_outlets *o, uint32_t sink,
                                  struct event_sink_ledger *ledger)
{
    if (o->sinks[sink].writer != NULL)
        event_writer_ledger(o->sinks[sink].writer, ledger);
    else
        *ledger = o->sinks[sink].ledger;
}
