/*
 * The queue of an event sink: whatever the sink does with events, those put are delivered, dropped
 * under a name or pending, also where a sink learns late that a write has failed.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/clock.h"
#include "io/event_writer.h"

/* A sink on a bad disk: every fifth event is refused at once; a flush loses what was taken since
 * the one before, every other time. */
struct event_sink {
    uint64_t put, taken, flushes, lost;
};

static struct event_sink disk;

static int disk_open(const struct event_sink_options *options,
                     const struct io_environment *environment, struct event_sink **out,
                     struct problem *problem)
{
    (void)options;
    (void)environment;
    (void)problem;
    memset(&disk, 0, sizeof disk);
    *out = &disk;
    return 0;
}

static int disk_put(struct event_sink *sink, const struct analysis_event *event)
{
    (void)event;
    if (++sink->put % 5 == 0)
        return ERROR_SYSTEM;
    sink->taken++;
    return 0;
}

static void disk_flush(struct event_sink *sink)
{
    if (sink->flushes++ % 2 == 0)
        sink->lost += sink->taken;
    sink->taken = 0;
}

static void disk_close(struct event_sink *sink)
{
    (void)sink;
}

static void disk_ledger(const struct event_sink *sink, struct event_sink_ledger *ledger)
{
    ledger->lost += sink->lost;
    ledger->clipped += 3;
}

static int64_t disk_flush_ns(const struct event_sink_options *options)
{
    (void)options;
    return 2 * NS_PER_MS;
}

static const struct event_sink_ops disk_ops = {
    .name = "disk",
    .open = disk_open,
    .put = disk_put,
    .flush = disk_flush,
    .flush_ns = disk_flush_ns,
    .close = disk_close,
    .ledger = disk_ledger,
};

struct closing {
    struct event_writer *writer;
    struct event_sink_ledger last;
    bool done;
};

static void closed(void *context)
{
    struct closing *closing = context;
    event_writer_ledger(closing->writer, &closing->last);
    closing->done = true;
}

static uint64_t sum(const struct event_sink_ledger *ledger)
{
    uint64_t events = ledger->delivered + ledger->pending;
    for (int i = 0; i < DROPS; i++)
        events += ledger->dropped[i];
    return events;
}

static void test_ledger_adds_up(void **state)
{
    (void)state;
    enum { EVENTS = 20000 };
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct io_environment environment = {.loop = &loop};
    const struct event_sink_options options = {.name = "disk", .queue_bytes = 65536};
    struct event_writer *writer;
    struct problem problem = {0};
    struct event_sink_ledger ledger = {0};
    int current = 0; /* ledgers that hold the event just put */
    assert_int_equal(event_writer_open(&disk_ops, &options, &environment, &writer, &problem), 0);
    const uint64_t body[8] = {0};
    const struct analysis_event event = {.ordered = true, .body = body, .body_bytes = sizeof body};
    for (int i = 0; i < EVENTS; i++) {
        if (!event_writer_put(writer, &event))
            event_writer_drop(writer);
        const uint64_t before = ledger.events;
        event_writer_ledger(writer, &ledger);
        /* What was read the last time, where the writer's thread was taken off its core meanwhile.
         */
        assert_in_range(ledger.events, before, i + 1);
        current += ledger.events == (uint64_t)i + 1;
        assert_int_equal(ledger.events, sum(&ledger));
    }
    assert_true(current > EVENTS / 2);
    struct closing closing = {.writer = writer};
    event_writer_close(writer, clock_monotonic_ns() + 10 * NS_PER_SECOND, closed, &closing);
    while (!closing.done)
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    const struct event_sink_ledger *last = &closing.last;
    assert_int_equal(last->events, EVENTS);
    assert_int_equal(last->events, sum(last));
    assert_int_equal(last->pending, 0);
    assert_int_equal(last->dropped[DROP_DISK], disk.lost + disk.put / 5);
    assert_true(disk.lost > 0 && disk.lost < disk.put);
    assert_int_equal(last->clipped, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
