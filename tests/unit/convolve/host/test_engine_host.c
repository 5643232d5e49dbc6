/*
 * The variant "host": the engine's results without a launch. Against the definition in double for
 * every instruction set of this CPU, vectors full and not, every sample format with reports, gaps
 * and values that are not finite, banks, outputs of several forms, and to the bit for every J.
 *
 * long: also, every transform length
 * turns: yes
 * takes: 2 s CPU in 2 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/host/host.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

static void run_shape(const char *isa, const char *format, uint32_t channels, enum output_form form,
                      uint32_t hop, uint32_t fft, uint32_t taps, uint64_t seed)
{
    static const char *const forms[] = {"real", "complex", "envelope"};
    char label[160];
    snprintf(label, sizeof label, "%s, %s, %u channels, %s, hop %u, fft %u, %u taps", isa, format,
             channels, forms[form], hop, fft, taps);
    struct test_signal *signal = signal_noise(format, channels, taps + 5ull * hop, seed);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, seed % 5 != 0, form); /* or real taps */
    plan.spec.variant = "host";
    plan.spec.fft = fft;
    plan.spec.blocks_max = 4;
    test_plan_prepare(engine, &plan, signal);
    assert_string_equal(plan_info(plan.plan)->variant, "host");
    /* Whatever the ring's size, it wraps inside the signal. */
    const struct run_options options = {.seed = seed, .ring_offset = (1 << 20) - taps - seed};
    struct test_run run = run_plan(engine, &plan, signal, &options);
    expect_convolution(label, &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* Even and odd depths of the walk, with --long every one; blocks and taps at each end of what N
 * allows. */
static void transforms_and_taps(void **state)
{
    (void)state;
    static const uint32_t channels[] = {16, 1, 17, 4, 8, 31, 2};
    const uint32_t step = harness_every_shape() ? 2 : 8;
    uint64_t turn = 0;
    for (int i = 0; (engine_seams.host_isa = host_isa_name(i)) != NULL; i++)
        for (uint32_t fft = 64; fft <= 16384; fft *= step) {
            const uint32_t hops[] = {fft / 2, fft / 4 + 3, fft - 1};
            for (size_t l = 0; l < sizeof hops / sizeof hops[0]; l++, turn++)
                run_shape(engine_seams.host_isa, turn % 2 ? "s16be" : "f32le",
                          channels[turn % (fft > 2048 ? 2 : 7)], (enum output_form)(turn / 2 % 3),
                          hops[l], fft, turn % 4 == 0 ? 1 : fft - hops[l] + 1, turn);
        }
}

/* Words of every size, order and sign, in full vectors, in few lanes, and gathered. */
static void formats(void **state)
{
    (void)state;
    static const char *const names[] = {"s8",    "u8",    "s16le", "s16be", "u16le", "s24le",
                                        "s24be", "s32le", "s32be", "f32le", "f32be"};
    for (int i = 0; (engine_seams.host_isa = host_isa_name(i)) != NULL; i++)
        for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
            run_shape(engine_seams.host_isa, names[f], 16, OUTPUT_REAL, 100, 0, 90, f);
            run_shape(engine_seams.host_isa, names[f], 3, OUTPUT_COMPLEX, 100, 0, 45, f);
            run_shape(engine_seams.host_isa, names[f], 1 + f % 2, OUTPUT_REAL, 100, 0, 90, f);
        }
}

/* In the time domain: words of every kind, one channel and two, blocks that fill the vectors
 * and blocks that do not, windows that wrap in the ring. */
static void short_filters(void **state)
{
    (void)state;
    static const char *const names[] = {"s8",    "u8",    "s16le", "s16be", "u16le", "s24le",
                                        "s24be", "s32le", "s32be", "f32le", "f32be"};
    static const uint32_t hops[] = {1000, 7, 128, 100, 33}, taps[] = {64, 1, 5, 16, 63};
    for (int i = 0; (engine_seams.host_isa = host_isa_name(i)) != NULL; i++)
        for (uint32_t f = 0; f < 2 * sizeof names / sizeof names[0]; f++)
            run_shape(engine_seams.host_isa, names[f / 2], 1 + f % 2, OUTPUT_REAL, hops[f % 5], 0,
                      taps[(f / 5 + f) % 5], f);
}

/* Likewise two outputs of one input, one of them a magnitude, each with a gain of its own, beside
 * an input that no output hears; reports; gaps; to the bit for every J. */
static void short_filters_banks_and_reports(void **state)
{
    (void)state;
    enum { HOP = 100, INPUTS = 2, OUTPUTS = 2, WRONG = 311, ABSENT = 705 };
    for (int i = 0; (engine_seams.host_isa = host_isa_name(i)) != NULL; i++) {
        struct test_signal *signal = signal_noise("f32le", INPUTS, 1200, 5);
        const float wrong = (float)NAN, full = -1.0f;
        memcpy(signal->bytes + (WRONG * INPUTS + 1) * 4, &wrong, 4);
        memcpy(signal->bytes + ((WRONG + 79) * INPUTS + 1) * 4, &wrong, 4);
        memcpy(signal->bytes + (391 * INPUTS) * 4, &full, 4);
        signal_absent(signal, ABSENT, ABSENT + 28);
        signal_decode(signal);
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        plan.taps[0] = taps_noise(30, false, 3);
        plan.taps[1] = taps_noise(7, false, 4);
        for (int o = 0; o < OUTPUTS; o++) {
            plan.edges[o] = (struct edge){1, (uint16_t)o, (uint16_t)o,
                                          0.5f * (float)(o + 1)}; /* nothing hears input 0 */
            plan.outputs[o] = o == 1 ? OUTPUT_ENVELOPE : OUTPUT_REAL;
        }
        plan.spec = (struct plan_spec){.taps_count = 2,
                                       .edge_count = OUTPUTS,
                                       .outputs_count = OUTPUTS,
                                       .hop = HOP,
                                       .blocks_max = 3,
                                       .variant = "host"};
        test_plan_prepare(engine, &plan, signal);
        expect_any_batches(engine, engine_seams.host_isa, &plan, signal);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 8});
        for (uint64_t b = 0; b < run.blocks; b++)
            for (uint32_t c = 0; c < INPUTS; c++) {
                const struct block_report *report = &run.reports[b * INPUTS + c];
                double sum = 0, squares = 0, peak = 0;
                for (uint64_t n = b * HOP; n < (b + 1) * HOP; n++) {
                    const double value = signal->values[c * signal->frames + n];
                    sum += value;
                    squares += value * value;
                    peak = fmax(peak, fabs(value));
                }
                assert_true(fabs(report->sum - sum) < 1e-3);
                assert_true(fabs(report->sum_squares - squares) < 1e-3);
                assert_true(fabs(report->peak - peak) < 1e-6);
                assert_int_equal(report->present, b == ABSENT / HOP ? HOP - 28 : HOP);
                assert_int_equal(report->overload, b == 3 && c == 0 ? 1 : 0);
                assert_int_equal(report->nonfinite, b == WRONG / HOP && c == 1 ? 2 : 0);
                if (report->nonfinite > 0) {
                    assert_int_equal(report->nonfinite_first, WRONG % HOP);
                    assert_int_equal(report->nonfinite_last, WRONG % HOP + 79);
                }
            }
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Reports of every input, heard by one output, by two, by none; values that are not finite. */
static void banks_forms_and_reports(void **state)
{
    (void)state;
    for (int i = 0; (engine_seams.host_isa = host_isa_name(i)) != NULL; i++) {
        struct test_signal *signal = signal_noise("f32le", 7, 1200, 5);
        const float wrong = (float)NAN, full = -1.0f;
        memcpy(signal->bytes + (311 * 7 + 2) * 4, &wrong, 4);
        memcpy(signal->bytes + (390 * 7 + 2) * 4, &wrong, 4);
        memcpy(signal->bytes + (391 * 7 + 6) * 4, &full, 4);
        signal_absent(signal, 705, 733);
        signal_decode(signal);
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        for (uint32_t t = 0; t < 3; t++)
            plan.taps[t] = taps_noise(30 + 40 * t, t > 0, t);
        static const uint16_t inputs[] = {3, 0, 2, 2, 5, 1, 3, 3, 0};
        for (uint16_t o = 0; o < 9; o++) {
            plan.edges[o] = (struct edge){inputs[o], o, o % 3, 0.5f * (float)(o + 1)};
            plan.outputs[o] = (enum output_form)(o * 2 % 3);
        }
        plan.spec = (struct plan_spec){.taps_count = 3,
                                       .edge_count = 9,
                                       .outputs_count = 9,
                                       .hop = 100,
                                       .blocks_max = 3,
                                       .variant = "host"};
        test_plan_prepare(engine, &plan, signal);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 8});
        expect_convolution(engine_seams.host_isa, &plan, signal, &run, 0, run.frames);
        for (uint64_t b = 0; b < run.blocks; b++)
            for (uint32_t c = 0; c < 7; c++) {
                const struct block_report *report = &run.reports[b * 7 + c];
                double sum = 0, peak = 0;
                for (uint64_t n = b * 100; n < (b + 1) * 100; n++) {
                    const double value = signal->values[c * signal->frames + n];
                    sum += value;
                    peak =
                        value < 0 ? (-value > peak ? -value : peak) : (value > peak ? value : peak);
                }
                assert_true(report->sum > sum - 1e-3 && report->sum < sum + 1e-3);
                assert_true(report->peak > peak - 1e-6 && report->peak < peak + 1e-6);
                assert_int_equal(report->present, b == 7 ? 72 : 100);
                assert_int_equal(report->nonfinite, b == 3 && c == 2 ? 2 : 0);
                if (b == 3 && c == 2) {
                    assert_int_equal(report->nonfinite_first, 11);
                    assert_int_equal(report->nonfinite_last, 90);
                }
                assert_int_equal(report->overload, b == 3 && c == 6 ? 1 : 0);
            }
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Gaps and the start of an epoch are silence; the result is the same to the bit for every J. */
static void gaps_and_batches(void **state)
{
    (void)state;
    engine_seams.host_isa = NULL;
    struct test_signal *signal = signal_noise("s24le", 18, 2000, 44);
    signal_absent(signal, 0, 5);
    signal_absent(signal, 700, 900);
    signal_absent(signal, 1023, 1024);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 150, true, OUTPUT_ENVELOPE);
    plan.spec.variant = "host";
    test_plan_prepare(engine, &plan, signal);
    expect_any_batches(engine, "gaps", &plan, signal);
    test_plan_free(&plan);
    signal_free(signal);
}

/* By rule it takes what is done before a launch would be, and only that. */
static void tiny_batches_are_its_own(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, hop, taps, blocks;
        bool taken;
    } given[] = {
        {1, 64, 65, 1, true},     {16, 64, 65, 4, true},      {16, 256, 257, 1, true},
        {2, 64, 65, 1000, false}, {64, 4096, 4097, 1, false}, {16, 512, 513, 64, false},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", given[i].channels, 600, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, given[i].hop, given[i].taps, false, OUTPUT_REAL);
        plan.spec.blocks_max = given[i].blocks;
        test_plan_prepare(engine, &plan, signal);
        const bool taken = strcmp(plan_info(plan.plan)->variant, "host") == 0;
        if (taken != given[i].taken)
            fail_msg("row %zu: %s was chosen", i, plan_info(plan.plan)->variant);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* What it cannot do it declines, and the next variant of the table takes it. */
static void a_matrix_goes_to_another(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 2, 600, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    plan.edges[1].output = 0;
    plan.spec.outputs_count = 1;
    plan.spec.blocks_max = 1;
    test_plan_prepare(engine, &plan, signal);
    assert_string_equal(plan_info(plan.plan)->variant, "general");
    test_plan_free(&plan);
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_and_taps),
        cmocka_unit_test(formats),
        cmocka_unit_test(short_filters),
        cmocka_unit_test(short_filters_banks_and_reports),
        cmocka_unit_test(banks_forms_and_reports),
        cmocka_unit_test(gaps_and_batches),
        cmocka_unit_test(tiny_batches_are_its_own),
        cmocka_unit_test(a_matrix_goes_to_another),
    };
    return cmocka_run_group_tests_name("variant host", tests, open_engine, close_engine);
}
