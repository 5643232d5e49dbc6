/*
 * sanitizers: no, it measures times
 *
 * A plan is prepared while another one computes blocks. A CPU's driver compiles a kernel when it
 * first runs, here for the first time on this machine (an empty cache): no block of the plan that
 * runs waits for that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "convolve/check/prepare.h"
#include "core/clock.h"
#include "device/compiler.h"
#include "device/compiler_child.h"
#include "tests/support/engine_harness.h"

enum { HOP = 256, FRAMES = 64 * HOP, PACE_US = 1000 };

struct preparation {
    struct engine *engine;
    struct test_plan *plan;
    struct problem problem;
    int error;
    int64_t ns;
    _Atomic int done;
};

static void *prepare(void *context)
{
    struct preparation *p = context;
    int64_t begin_ns = clock_monotonic_ns();
    p->error = plan_prepare(p->engine, &p->plan->spec, &p->plan->plan, &p->problem);
    p->ns = clock_monotonic_ns() - begin_ns;
    atomic_store(&p->done, 1);
    return NULL;
}

/* The longest time from a block's submission to its completion while `until` is not set, in ms. */
static double longest_block_ms(struct engine *engine, const struct test_plan *plan,
                               struct ring *ring, const _Atomic int *until)
{
    int64_t longest_ns = 0;
    while (!atomic_load(until)) {
        struct batch *batch = engine_batch_take(engine);
        const struct batch_item item = {.plan = plan->plan,
                                        .ring = ring,
                                        .position = 8 * HOP,
                                        .epoch_block = 8,
                                        .blocks = 1,
                                        .write_until = HOP,
                                        .fresh_from = 8 * HOP,
                                        .fresh_until = 9 * HOP};
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        int64_t begin_ns = clock_monotonic_ns();
        engine_submit(engine, batch);
        batch = harness_wait(engine);
        int64_t ns = clock_monotonic_ns() - begin_ns;
        engine_batch_release(engine, batch);
        longest_ns = ns > longest_ns ? ns : longest_ns;
        usleep(PACE_US);
    }
    return (double)longest_ns / NS_PER_MS;
}

static void test_no_block_waits_for_a_kernel_to_compile(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 1, FRAMES, 1);
    static struct test_plan live, next;
    struct problem problem;
    struct ring *ring;
    test_plan_diagonal(&live, signal, HOP, 100, false, OUTPUT_REAL);
    live.spec.variant = "general";
    test_plan_prepare(engine, &live, signal);
    assert_int_equal(engine_ring_open(engine, 4096, sizeof(float), &ring, &problem), 0);

    test_plan_diagonal(&next, signal, HOP, 20, false, OUTPUT_REAL);
    next.spec.variant = "direct";
    test_plan_bind(&next, signal);
    struct preparation preparation = {.engine = engine, .plan = &next};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, prepare, &preparation), 0);
    const double longest_ms = longest_block_ms(engine, &live, ring, &preparation.done);
    pthread_join(thread, NULL);
    if (preparation.error != 0)
        fail_msg("%s", preparation.problem.text);
    const double prepared_ms = (double)preparation.ns / NS_PER_MS;
    print_message("prepared in %.0f ms, the longest block meanwhile took %.1f ms\n", prepared_ms,
                  longest_ms);
    engine_ring_close(engine, ring);
    test_plan_free(&live);
    test_plan_free(&next);
    signal_free(signal);
    harness_engine_close(engine);
    /* Half of the time goes into compiling; a busy machine delays both. */
    assert_true(longest_ms < prepared_ms / 4);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], COMPILER_ARGUMENT) == 0)
        return compiler_main(argc, argv);
    compiler_offer(COMPILER_DEADLINE_NS);
    char folder[] = "/tmp/convolvd-cold-XXXXXX", command[80];
    if (mkdtemp(folder) == NULL)
        return 1;
    setenv("POCL_CACHE_DIR", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_block_waits_for_a_kernel_to_compile),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 ? 1 : failed;
}
