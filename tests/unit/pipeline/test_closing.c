/*
 * What is out of use on a device is closed on a thread of that device (pipeline/closing.h): a
 * driver that hangs holds up neither other devices nor libuv's threads.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "control/change_plans.h"
#include "core/clock.h"
#include "pipeline/closing.h"
#include "tests/support/engine_harness.h"

/* Far more than closing takes on a busy machine; what a test waits in vain. */
static const int64_t patience_ns = 20 * NS_PER_SECOND, short_ns = 50 * NS_PER_MS;

enum { DEVICES = 2, EACH = 3, RETIRED = 8 }; /* more than libuv has threads */

/* ---- one device hangs ---------------------------------------------------------------------- */

static pthread_mutex_t hanging = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int closed[DEVICES];

struct thing {
    struct closing closing;
    int device, number;
};

static void close_thing(struct closing *closing)
{
    struct thing *thing = (struct thing *)closing;
    if (thing->device == 0) {
        pthread_mutex_lock(&hanging);
        pthread_mutex_unlock(&hanging);
    }
    assert_int_equal(atomic_fetch_add(&closed[thing->device], 1), thing->number); /* in turn */
    free(thing);
}

static void wait_closed(int device, int count)
{
    const int64_t until_ns = clock_monotonic_ns() + patience_ns;
    while (atomic_load(&closed[device]) < count)
        assert_true(clock_monotonic_ns() < until_ns);
}

static void begin(int device, int number)
{
    struct thing *thing = calloc(1, sizeof *thing);
    assert_non_null(thing);
    *thing = (struct thing){{NULL, close_thing}, device, number};
    closing_begin(&closed[device], &thing->closing);
}

static void what_is_being_closed_is_waited_for(void **state)
{
    (void)state;
    pthread_mutex_lock(&hanging);
    begin(0, 0);
    assert_false(closings_end(short_ns));
    pthread_mutex_unlock(&hanging);
    assert_true(closings_end(patience_ns));
    assert_int_equal(atomic_exchange(&closed[0], 0), 1);
}

static void a_device_that_hangs_holds_up_its_own(void **state)
{
    (void)state;
    pthread_mutex_lock(&hanging);
    for (int i = 0; i < DEVICES * EACH; i++)
        begin(i % DEVICES, i / DEVICES);
    wait_closed(1, EACH);
    assert_false(closings_end(short_ns));
    assert_int_equal(atomic_load(&closed[0]), 0);
    pthread_mutex_unlock(&hanging);
    assert_true(closings_end(patience_ns));
    assert_int_equal(atomic_load(&closed[0]), EACH);
}

/* ---- plans of changes ---------------------------------------------------------------------- */

static void nothing(uv_work_t *work)
{
    (void)work;
}

static void count(uv_work_t *work, int status)
{
    (void)status;
    ++*(int *)work->data;
}

/* A preparation that hangs in the driver has the mutex that closing a plan takes. */
static void plans_of_changes_leave_libuvs_threads_alone(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 1, 4096, 1);
    struct test_plan plans[RETIRED + 1];
    uv_loop_t loop;
    int worked = 0;
    uv_work_t work = {.data = &worked};
    for (int i = 0; i <= RETIRED; i++) {
        test_plan_diagonal(&plans[i], signal, 64, 10, false, OUTPUT_REAL);
        test_plan_prepare(engine, &plans[i], signal);
    }
    harness_hold_driver(plans[RETIRED].plan, true);
    for (int i = 0; i < RETIRED; i++) {
        struct plan *const retired[3] = {plans[i].plan, NULL, NULL};
        assert_true(change_plans_retire(engine, retired, NULL));
        plans[i].plan = NULL;
    }
    assert_false(closings_end(short_ns));
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_queue_work(&loop, &work, nothing, count);
    const int64_t until_ns = clock_monotonic_ns() + patience_ns;
    while (worked == 0 && clock_monotonic_ns() < until_ns)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(worked, 1);
    harness_hold_driver(plans[RETIRED].plan, false);
    assert_true(closings_end(patience_ns));
    assert_int_equal(uv_loop_close(&loop), 0);
    for (int i = 0; i <= RETIRED; i++)
        test_plan_free(&plans[i]);
    signal_free(signal);
    harness_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_being_closed_is_waited_for),
        cmocka_unit_test(a_device_that_hangs_holds_up_its_own),
        cmocka_unit_test(plans_of_changes_leave_libuvs_threads_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
