/*
 * The device "host": an engine without OpenCL, which computes by the variant "host" alone. It
 * stands by for a GPU where no OpenCL device is a CPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "tests/support/engine_group.h"

static void it_computes_what_one_edge_an_output_needs(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint32_t channels, hop, taps;
        enum output_form form;
    } rows[] = {
        {"s16le", 1, 64, 65, OUTPUT_REAL},      {"f32be", 3, 512, 1500, OUTPUT_REAL},
        {"s24le", 20, 1024, 4001, OUTPUT_REAL}, {"f32le", 2, 100, 301, OUTPUT_ENVELOPE},
        {"u16le", 4, 256, 100, OUTPUT_COMPLEX}, {"s32le", 1, 16, 5, OUTPUT_REAL},
    };
    assert_true(device_is_host(engine_device(engine)));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct test_signal *signal =
            signal_noise(rows[i].format, rows[i].channels, 10 * (uint64_t)rows[i].hop, i);
        signal_absent(signal, 3 * rows[i].hop + 2, 4 * rows[i].hop);
        signal_decode(signal);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, rows[i].hop, rows[i].taps, rows[i].form != OUTPUT_REAL,
                           rows[i].form);
        test_plan_prepare(engine, &plan, signal);
        assert_string_equal(plan_info(plan.plan)->variant, "host");
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 5});
        expect_convolution("host", &plan, signal, &run, 0, run.frames);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

static void it_says_what_needs_opencl(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 2, 1000, 1);
    struct test_plan plan;
    struct problem problem = {0};
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_bind(&plan, signal);
    plan.spec.variant = "general";
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, "needs an OpenCL device"));
    plan.spec.variant = NULL;
    plan.edges[1].output = 0; /* a sum of two inputs */
    assert_true(plan_prepare(engine, &plan.spec, &plan.plan, &problem) < 0);
    test_plan_free(&plan);
    signal_free(signal);
}

int main(void)
{
    setenv("CONVOLVD_TEST_DEVICE", "host", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_what_one_edge_an_output_needs),
        cmocka_unit_test(it_says_what_needs_opencl),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
