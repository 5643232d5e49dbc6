/*
 * The thread of a sink: messages arrive once, in order, however both sides sleep and wake; what is
 * left is written at the end, or dropped at the deadline; a thread that hangs is abandoned.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "io/sink_thread.h"

enum { MESSAGES = 20000, LONGEST = 700, RING_BYTES = 8192, RING_EVERY = 64 };

struct writer {
    struct sink_thread thread;
    _Atomic bool hangs, slow;
    uint64_t taken; /* the thread's until it has ended */
    bool in_order;
    _Atomic uint64_t told; /* `taken`, for the loop */
    /* the loop's */
    uint64_t seen;
    int rung, hung, closed, freed;
};

/* Each message holds its number in all its words. */
static void take_one(struct writer *w, const uint64_t *message, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / sizeof *message; i++)
        w->in_order = w->in_order && message[i] == w->taken;
    w->taken++;
    atomic_store(&w->told, w->taken);
    if (w->taken % RING_EVERY == 0)
        sink_thread_ring(&w->thread);
}

static void run(void *context)
{
    struct writer *w = context;
    for (;;) {
        while (atomic_load(&w->hangs))
            usleep(1000);
        const int stop = atomic_load(&w->thread.stop);
        uint64_t bytes;
        const uint64_t *message = message_ring_peek(&w->thread.ring, &bytes);
        if (stop == SINK_THREAD_NOW || (stop == SINK_THREAD_DRAIN && message == NULL))
            return;
        if (message == NULL) {
            sink_thread_wait(&w->thread, INT64_MAX, NULL);
            continue;
        }
        take_one(w, message, bytes);
        message_ring_release(&w->thread.ring);
        if (atomic_load(&w->slow))
            usleep(20000);
    }
}

static void on_rung(void *context)
{
    struct writer *w = context;
    const uint64_t told = atomic_load(&w->told);
    assert_true(told >= w->seen);
    w->seen = told;
    w->rung++;
}

static void on_hung(void *context)
{
    ((struct writer *)context)->hung++;
}

static void on_freed(void *context)
{
    struct writer *w = context;
    w->freed++;
    sink_thread_free(&w->thread);
}

static void on_closed(void *context)
{
    ((struct writer *)context)->closed++;
}

static struct writer *writer_open(uv_loop_t *loop)
{
    struct writer *w = calloc(1, sizeof *w);
    assert_int_equal(uv_loop_init(loop), 0);
    const struct sink_thread_options options = {.loop = loop,
                                                .context = w,
                                                .run = run,
                                                .rung = on_rung,
                                                .hung = on_hung,
                                                .freed = on_freed};
    w->in_order = true;
    assert_int_equal(sink_thread_open(&w->thread, &options, RING_BYTES), 0);
    assert_int_equal(sink_thread_begin(&w->thread), 0);
    sink_thread_handles(&w->thread);
    sink_thread_handles(&w->thread);
    return w;
}

static bool put(struct writer *w, uint64_t number, uint64_t words)
{
    uint64_t *message = message_ring_reserve(&w->thread.ring, words * sizeof *message);
    if (message == NULL)
        return false;
    for (uint64_t i = 0; i < words; i++)
        message[i] = number;
    message_ring_commit(&w->thread.ring);
    sink_thread_wake(&w->thread);
    return true;
}

static void close_writer(struct writer *w, uv_loop_t *loop, int64_t in_ns)
{
    sink_thread_close(&w->thread, clock_monotonic_ns() + in_ns, on_closed, w);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(w->closed, 1);
}

/* Both sides sleep and wake at random: nothing is lost, nothing comes twice. */
static void messages_arrive_in_order(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct writer *w = writer_open(&loop);
    struct random_state random = {3};
    for (uint64_t n = 0; n < MESSAGES; n++) {
        while (!put(w, n, 1 + random_below(&random, LONGEST / sizeof n)))
            uv_run(&loop, UV_RUN_NOWAIT);
        if (random_below(&random, 500) == 0)
            usleep(1000); /* the thread falls asleep */
        if (random_below(&random, 16) == 0)
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    close_writer(w, &loop, 60 * NS_PER_SECOND);
    assert_int_equal(w->taken, MESSAGES);
    assert_true(w->in_order && w->rung > 0);
    assert_int_equal(w->freed, 1);
    assert_int_equal(w->hung, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    free(w);
}

/* What is left when the sink closes is written. */
static void the_rest_is_written(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct writer *w = writer_open(&loop);
    atomic_store(&w->slow, true);
    for (uint64_t n = 0; n < 5; n++)
        assert_true(put(w, n, 1));
    close_writer(w, &loop, 60 * NS_PER_SECOND);
    assert_int_equal(w->taken, 5);
    assert_true(w->in_order);
    assert_int_equal(uv_loop_close(&loop), 0);
    free(w);
}

/* At the deadline what is left is dropped, and the thread ends. */
static void the_deadline_drops_the_rest(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct writer *w = writer_open(&loop);
    atomic_store(&w->slow, true);
    uint64_t n = 0;
    while (put(w, n, 1))
        n++;
    close_writer(w, &loop, 0);
    assert_true(w->taken < n && w->in_order);
    assert_int_equal(w->freed, 1);
    assert_int_equal(w->hung, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    free(w);
}

/* One that does not end a second later is left behind with all it uses. */
static void a_hung_thread_is_abandoned(void **state)
{
    (void)state;
    static uv_loop_t loop; /* the handles' and the thread's for good, as the writer */
    static struct writer *w;
    w = writer_open(&loop);
    atomic_store(&w->hangs, true);
    assert_true(put(w, 0, 1));
    close_writer(w, &loop, 0);
    assert_int_equal(w->hung, 1);
    assert_int_equal(w->freed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(the_rest_is_written),
        cmocka_unit_test(the_deadline_drops_the_rest),
        cmocka_unit_test(a_hung_thread_is_abandoned),
    };
    return cmocka_run_group_tests_name("sink_thread", tests, NULL, NULL);
}
