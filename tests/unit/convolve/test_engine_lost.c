/*
 * Losing a device: any thread may declare it, the first cause counts, LOOP is woken once; a batch
 * has a deadline of its patience and twenty times its cost; what is abandoned closes nothing and
 * wakes nobody until all of it has come back and been closed.
 *
 * threads: yes
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "convolve/lost.h"
#include "core/clock.h"
#include "tests/support/engine_harness.h"

static _Atomic int wakes;

static void wake(void *context)
{
    (void)context;
    atomic_fetch_add(&wakes, 1);
}

static struct engine *opened(int64_t deadline_ns)
{
    struct engine *engine;
    struct problem problem;
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    const struct engine_options options = {.device = device != NULL ? device : "cpu",
                                           .input_bytes = 1 << 20,
                                           .spectrum_bytes = 1 << 20,
                                           .state_bytes = 1 << 20,
                                           .batch_output_floats = 1 << 14,
                                           .deadline_ns = deadline_ns,
                                           .wake = wake};
    if (engine_open(&options, &engine, &problem) != 0)
        fail_msg("%s", problem.text);
    atomic_store(&wakes, 0);
    return engine;
}

/* Engines that have come to rest are closed. */
static void reclaim_down_to(uint32_t engines)
{
    const int64_t deadline_ns = clock_monotonic_ns() + 60 * NS_PER_SECOND;
    while (engines_abandoned() > engines && clock_monotonic_ns() < deadline_ns) {
        engines_reclaim();
        usleep(1000);
    }
    assert_int_equal(engines_abandoned(), engines);
}

static struct batch *submit(struct engine *engine, struct plan *plan, struct ring *ring)
{
    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {.plan = plan,
                                    .ring = ring,
                                    .position = 1024,
                                    .epoch_block = 16,
                                    .blocks = 2,
                                    .write_until = 128,
                                    .fresh_until = 1152,
                                    .absent = true};
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    return batch;
}

static void *declare(void *argument)
{
    struct engine *engine = argument;
    engine_declare_lost(engine, ENGINE_LOSS_WRONG_RESULT, "stream a: error 0.5 of 1e-06");
    return NULL;
}

static void the_first_cause_counts(void **state)
{
    (void)state;
    struct engine *engine = opened(0);
    assert_int_equal(engine_lost(engine), ENGINE_WORKS);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, declare, engine), 0);
    pthread_join(thread, NULL);
    engine_declare_lost(engine, ENGINE_LOSS_STALLED, "later");
    assert_int_equal(engine_lost(engine), ENGINE_LOSS_WRONG_RESULT);
    assert_string_equal(engine_loss_name(engine_lost(engine)), "wrong result");
    assert_string_equal(engine_loss_detail(engine), "stream a: error 0.5 of 1e-06");
    assert_int_equal(atomic_load(&wakes), 1);
    const uint32_t before = engines_abandoned();
    engine_abandon(engine);
    engine_abandon(engine);
    assert_int_equal(engines_abandoned(), before + 1);
    engine_close(engine); /* leaves it as it is, but nobody has anything of it */
    reclaim_down_to(before);
}

static void a_batch_has_a_deadline(void **state)
{
    (void)state;
    static const int64_t patience_ns = 300 * NS_PER_SECOND;
    struct engine *engine = opened(patience_ns);
    struct test_signal *signal = signal_noise("s16le", 1, 1024, 1);
    struct test_plan plan;
    struct problem problem;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring;
    assert_int_equal(engine_ring_open(engine, 4096, 2, &ring, &problem), 0);
    int64_t given_ns = 0;
    assert_int_equal(engine_oldest(engine, &given_ns), 0);
    harness_set_cost(plan.plan, 1000000);
    const int64_t cost_ns = plan_cost_ns(plan.plan, 2);
    struct batch *batch = submit(engine, plan.plan, ring);
    assert_int_equal(engine_oldest(engine, &given_ns), 1);
    /* The batch may be complete already, and its cost learnt anew: at most 11/8 of what it was. */
    assert_true(given_ns > patience_ns && given_ns <= patience_ns + 20 * cost_ns * 11 / 8);
    struct batch *completed;
    while ((completed = engine_completed(engine)) == NULL)
        usleep(1000);
    assert_ptr_equal(completed, batch);
    assert_int_equal(engine_oldest(engine, &given_ns), 0);
    engine_batch_release(engine, batch);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
}

static void a_lost_engine_is_left_as_it_is(void **state)
{
    (void)state;
    struct ring *ring;
    const uint32_t before = engines_abandoned();
    struct engine *engine = opened(0);
    struct test_signal *signal = signal_noise("s16le", 1, 1024, 1);
    struct test_plan plan;
    struct problem problem;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(engine_ring_open(engine, 4096, 2, &ring, &problem), 0);
    engine_declare_lost(engine, ENGINE_LOSS_STALLED, "a test");
    engine_abandon(engine);
    struct plan *other;
    assert_int_equal(plan_prepare(engine, &plan.spec, &other, &problem), ERROR_DEVICE);
    assert_false(engine_ring_feed(engine, ring, 0, 0, ring->bytes, 1));
    engine_ring_close(engine, ring);
    engines_reclaim();
    usleep(50000);
    engines_reclaim();
    ring->bytes[0] = 1; /* somebody has the plan yet: the memory stays */
    assert_int_equal(engines_abandoned(), before + 1);
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
    reclaim_down_to(before);
    assert_string_equal(engine_loss_detail(engine), "a test"); /* as long as somebody may ask */
    assert_int_equal(engine_ring_open(engine, 4096, 2, &ring, &problem), ERROR_DEVICE);
    engines_forget();
}

/* A batch is on the way when the device is declared lost; it comes back afterwards. */
static void a_late_engine_is_closed(void **state)
{
    (void)state;
    const uint32_t before = engines_abandoned();
    struct engine *engine = opened(0);
    struct test_signal *signal = signal_noise("s16le", 1, 1024, 1);
    struct test_plan plan;
    struct problem problem;
    struct ring *ring;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(engine_ring_open(engine, 4096, 2, &ring, &problem), 0);
    submit(engine, plan.plan, ring);
    engine_declare_lost(engine, ENGINE_LOSS_STALLED, "late");
    engine_abandon(engine);
    assert_int_equal(engine_in_flight(engine), 0);
    assert_null(engine_completed(engine));
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
    reclaim_down_to(before);
    engines_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_cause_counts),
        cmocka_unit_test(a_batch_has_a_deadline),
        cmocka_unit_test(a_lost_engine_is_left_as_it_is),
        cmocka_unit_test(a_late_engine_is_closed),
    };
    return cmocka_run_group_tests_name("engine: lost", tests, NULL, NULL);
}
