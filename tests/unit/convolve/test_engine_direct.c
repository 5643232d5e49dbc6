/*
 * The variant "direct": filters in the time domain. Against the definition in double for taps,
 * blocks and channels at both ends and beside the kernel's tiles, runs and stretches; banks with
 * reports for every input; decimated and not, to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_group.h"

static void shapes(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint32_t channels, hop, taps;
        enum output_form form;
        bool complex_taps;
    } given[] = {
        {"s16le", 1, 1, 1, OUTPUT_REAL, false},       {"f32le", 2, 1, 20, OUTPUT_REAL, false},
        {"s24be", 3, 7, 8, OUTPUT_REAL, true},        {"f32be", 1, 15, 9, OUTPUT_COMPLEX, true},
        {"s16be", 17, 16, 16, OUTPUT_ENVELOPE, true}, {"u8", 1, 31, 33, OUTPUT_ENVELOPE, false},
        {"s32le", 2, 128, 64, OUTPUT_REAL, false},    {"f32le", 4, 129, 65, OUTPUT_COMPLEX, false},
        {"s16le", 1, 1000, 128, OUTPUT_REAL, false},  {"f32le", 2, 4096, 31, OUTPUT_ENVELOPE, true},
        {"s16le", 1, 5000, 257, OUTPUT_REAL, false},  {"f32le", 1, 300, 4096, OUTPUT_REAL, false},
    };
    double worst = 0;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        char label[120];
        snprintf(label, sizeof label, "%s, %u channels, hop %u, %u taps", given[i].format,
                 given[i].channels, given[i].hop, given[i].taps);
        struct test_signal *signal = signal_noise(given[i].format, given[i].channels,
                                                  given[i].taps + 6ull * given[i].hop, i);
        if (i % 2)
            signal_absent(signal, given[i].taps / 2, given[i].taps / 2 + 3);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, given[i].hop, given[i].taps, given[i].complex_taps,
                           given[i].form);
        plan.spec.variant = "direct";
        plan.spec.blocks_max = 4;
        test_plan_prepare(engine, &plan, signal);
        const struct run_options options = {.seed = i, .ring_offset = 0xFFFFFF00u + i};
        struct test_run run = run_plan(engine, &plan, signal, &options);
        const double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
        worst = error > worst ? error : worst;
        struct test_run ones = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        assert_memory_equal(run.samples, ones.samples,
                            run.frames * plan_info(plan.plan)->output_floats * sizeof(float));
        test_run_free(&ones);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
    print_message("largest error %.2g\n", worst);
}

/* Inputs heard twice, once and never: a report of each. Neighbours of two forms. */
static void banks_and_reports(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 4, 2000, 5);
    struct test_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.taps[0] = taps_noise(12, true, 1);
    plan.taps[1] = taps_noise(40, false, 2);
    plan.edges[0] = (struct edge){2, 0, 0, -0.5f};
    plan.edges[1] = (struct edge){0, 1, 1, 2.0f};
    plan.edges[2] = (struct edge){1, 2, 1, 4.0f};
    plan.edges[3] = (struct edge){0, 3, 1, 1.0f};
    plan.edges[4] = (struct edge){1, 4, 1, 1.0f};
    plan.outputs[0] = OUTPUT_COMPLEX;
    plan.outputs[1] = OUTPUT_ENVELOPE;
    plan.outputs[2] = OUTPUT_REAL;
    plan.outputs[3] = OUTPUT_REAL;
    plan.outputs[4] = OUTPUT_ENVELOPE;
    plan.spec = (struct plan_spec){.taps_count = 2,
                                   .edge_count = 5,
                                   .outputs_count = 5,
                                   .hop = 100,
                                   .blocks_max = 3,
                                   .variant = "direct"};
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 6});
    expect_convolution("bank", &plan, signal, &run, 0, run.frames);
    for (uint64_t b = 0; b < run.blocks; b++)
        for (uint32_t c = 0; c < 4; c++) {
            double squares = 0;
            for (uint64_t n = b * 100; n < (b + 1) * 100; n++) {
                const double value = signal->values[c * signal->frames + n];
                squares += value * value;
            }
            const struct block_report *report = &run.reports[b * 4 + c];
            assert_int_equal(report->present, 100);
            assert_true(report->sum_squares > 0.999 * squares &&
                        report->sum_squares < 1.001 * squares);
        }
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* By rule for few taps on a CPU, where "lanes" declines: channels that change places. */
static void short_filters_are_its_own(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, taps;
        bool crossed, taken;
    } given[] = {
        {16, 3, true, true}, {2, 32, true, true}, {16, 100, true, false}, {16, 3, false, false}};
    if (!harness_runs(engine, "lanes"))
        skip(); /* not on GPUs */
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", given[i].channels, 600, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 512, given[i].taps, false, OUTPUT_REAL);
        for (uint32_t e = 0; given[i].crossed && e < plan.spec.edge_count; e++)
            plan.edges[e].output = (uint16_t)(plan.spec.edge_count - 1 - e);
        plan.spec.blocks_max = 200; /* too many for "host" */
        test_plan_prepare(engine, &plan, signal);
        const bool taken = strcmp(plan_info(plan.plan)->variant, "direct") == 0;
        if (taken != given[i].taken)
            fail_msg("%u channels, %u taps: %s was chosen", given[i].channels, given[i].taps,
                     plan_info(plan.plan)->variant);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(banks_and_reports),
        cmocka_unit_test(short_filters_are_its_own),
    };
    return cmocka_run_group_tests_name("variant direct", tests, open_engine, close_engine);
}
