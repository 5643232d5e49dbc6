/*
 * Results that the device encodes in each format of the sinks; see engine_results.h.
 *
 * sanitizers: no, a sweep over formats of the code that test_engine_results runs
 * takes: 2 s CPU in 2 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "tests/support/engine_results.h"

/* In the variant that is built soonest, and in the one that is not built at all. */
static void every_format(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", 3, 2000, 7);
    compare_diagonal("real", "host", signal, 100, 77, OUTPUT_REAL, 1, RESULT_FORMATS);
    compare_diagonal("real", "direct", signal, 100, 77, OUTPUT_REAL, 1, RESULT_FORMATS_ON_DEVICES);
    signal_free(signal);
}

/* A result format changes no choice of variant and makes no plan fail. */
static void a_result_format_changes_no_choice(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 2, 640, 5);
    const char *variant[2];
    for (int formatted = 0; formatted < 2; formatted++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 60, false, OUTPUT_REAL);
        if (formatted)
            plan.spec.results = result_format_of(&result_formats[0]);
        test_plan_prepare(engine, &plan, signal);
        variant[formatted] = plan_info(plan.plan)->variant;
        test_plan_free(&plan);
    }
    assert_string_equal(variant[0], variant[1]);
    signal_free(signal);
}

static void impossible_formats_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct result_format results;
        int want;
    } cases[] = {
        {{{0}, 0}, 0},
        {{{SAMPLE_SIGNED, 2, 16, true, false}, 0}, 0},
        {{{SAMPLE_SIGNED, 2, 17, true, false}, 0}, ERROR_ARGUMENT},
        {{{SAMPLE_SIGNED, 5, 16, true, false}, 0}, ERROR_ARGUMENT},
        {{{SAMPLE_SIGNED, 2, 16, true, false}, INFINITY}, ERROR_ARGUMENT},
        {{{SAMPLE_FLOAT, 2, 16, true, false}, 1}, ERROR_ARGUMENT},
    };
    struct test_signal *signal = signal_noise("s16le", 1, 64, 13);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 20, false, OUTPUT_REAL);
        test_plan_bind(&plan, signal);
        plan.spec.results = cases[i].results;
        struct problem problem = {0};
        assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), cases[i].want);
        test_plan_free(&plan);
    }
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(a_result_format_changes_no_choice),
        cmocka_unit_test(impossible_formats_are_refused),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
