/*
 * Results in the formats of sinks, in every variant; see engine_results.h.
 *
 * sanitizers: no, sums of kernels; test_engine_formats and test_stream_results run the code
 * long: also, every format and shape of lanes, and more forms of long blocks
 * turns: yes
 * takes-long: 77 s CPU in 99 s
 * takes: 8 s CPU in 8 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "tests/support/engine_results.h"
#include "tests/support/engine_seams.h"

static const char *const variants[] = {
    "local", "general", "direct", "overlap-add", "overlap-add-general", "partitioned", "host"};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* ---- tests ------------------------------------------------------------------------------- */

static void every_variant(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", 3, 2000, 7);
    signal_absent(signal, 700, 741);
    for (int v = 0; v < VARIANTS; v++)
        if (harness_runs(engine, variants[v]))
            compare_diagonal("real", variants[v], signal, 100, 77, OUTPUT_REAL, 1, 1);
    signal_free(signal);
    /* Whole vectors of channels. */
    signal = signal_noise("s16be", 16, 1000, 8);
    compare_diagonal("16 channels", "direct", signal, 100, 33, OUTPUT_REAL, 1, 1);
    compare_diagonal("16 channels", "host", signal, 100, 33, OUTPUT_REAL, 1, 1);
    signal_free(signal);
}

static void complex_outputs_and_envelopes(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 2, 1500, 8);
    for (int v = 0; v < VARIANTS; v++) {
        if (!harness_runs(engine, variants[v]))
            continue;
        compare_diagonal("complex", variants[v], signal, 96, 50, OUTPUT_COMPLEX, 1, 1);
        compare_diagonal("kept envelope", variants[v], signal, 96, 50, OUTPUT_ENVELOPE, 12, 1);
        if (!harness_every_shape())
            continue;
        compare_diagonal("envelope", variants[v], signal, 96, 50, OUTPUT_ENVELOPE, 1, 1);
        compare_diagonal("kept", variants[v], signal, 96, 50, OUTPUT_REAL, 5, 1);
    }
    signal_free(signal);
}

/* Whole vectors at once, several blocks of one, sums of squares of one, and frames one by one. */
static void vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, decimate, taps;
        enum output_form form;
        int formats;
    } given[] = {
        {16, 1, 50, OUTPUT_REAL, 7}, {3, 1, 50, OUTPUT_COMPLEX, 2},
        {1, 1, 150, OUTPUT_REAL, 2}, /* with every shape: */
        {2, 3, 50, OUTPUT_REAL, 1},  {8, 1, 50, OUTPUT_ENVELOPE, 2},
        {16, 2, 50, OUTPUT_REAL, 1},
    };
    if (!harness_runs(engine, "lanes"))
        skip();
    const bool every = harness_every_shape();
    for (size_t i = 0; i < (every ? sizeof given / sizeof given[0] : 3); i++) {
        struct test_signal *signal = signal_noise("s16le", given[i].channels, 640, 30 + i);
        compare_diagonal("lanes", "lanes", signal, 64, given[i].taps, given[i].form,
                         given[i].decimate, every ? given[i].formats : 1 + 2 * (i == 0));
        signal_free(signal);
    }
}

/* A long block's tail is added before the sum is encoded. */
static void long_filters(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s24le", 1, 6400, 9);
    compare_diagonal("partitions", "partitioned", signal, 64, 3000, OUTPUT_ENVELOPE, 1, 1);
    compare_diagonal("partitions", "general", signal, 64, 1500, OUTPUT_REAL, 1, 1);
    signal_free(signal);
}

/* Outputs of every form side by side, sums of several inputs. */
static void a_bank_of_matrices(void **state)
{
    (void)state;
    static const char *const all[] = {"general", "overlap-add-general"};
    struct test_signal *signal = signal_noise("s16le", 2, 1500, 12);
    for (int v = 0; v < 2; v++) {
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        for (uint32_t t = 0; t < 6; t++) {
            plan.taps[t] = taps_noise(40 + 30 * t, t % 2 == 1, 60 + t);
            plan.edges[t] = (struct edge){(uint16_t)(t % 2), (uint16_t)(t / 2), (uint16_t)t, 1};
        }
        plan.outputs[0] = OUTPUT_COMPLEX;
        plan.outputs[1] = OUTPUT_REAL;
        plan.outputs[2] = OUTPUT_ENVELOPE;
        plan.spec = (struct plan_spec){.taps_count = 6,
                                       .edge_count = 6,
                                       .outputs_count = 3,
                                       .hop = 125,
                                       .blocks_max = 3,
                                       .fft = 512,
                                       .variant = all[v]};
        compare_results("matrix", &plan, signal, 1);
        for (uint32_t t = 0; t < 6; t++)
            taps_free(plan.taps[t]);
    }
    signal_free(signal);
}

/* A filter a hundredth too strong is seen through sixteen bits. */
static void the_self_test_sees_through_codes(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 1, 640, 5);
    struct test_plan plan;
    engine_seams.wrong_variant = "local";
    test_plan_diagonal(&plan, signal, 64, 60, false, OUTPUT_REAL);
    test_plan_bind(&plan, signal);
    plan.spec.variant = "local";
    plan.spec.results = result_format_of(&result_formats[0]);
    struct problem problem = {0};
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_ACCURACY);
    engine_seams.wrong_variant = NULL;
    test_plan_free(&plan);
    signal_free(signal);
}

/* With kernels as for a GPU, and results that are copied. `direct` alone: PoCL takes most of a
 * minute to compile `local` for many work-items; a GPU runs it in the tests above. */
static void as_on_a_gpu(void **state)
{
    harness_engine_close(engine);
    open_mirrored_engine(state);
    struct test_signal *signal = signal_noise("s16be", 3, 1000, 7);
    compare_diagonal("real", "direct", signal, 100, 33, OUTPUT_REAL, 1, 1);
    compare_diagonal("envelope", "direct", signal, 100, 33, OUTPUT_ENVELOPE, 4, 1);
    signal_free(signal);
    close_engine(state);
    open_engine(state);
}

/* The variants made for GPUs: another word, a complex frame, kept frames. */
static void by_fused_and_staged(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", 2, 8000, 7);
    compare_diagonal("real", "fused", signal, 100, 33, OUTPUT_REAL, 1, 2);
    if (harness_every_shape())
        compare_diagonal("envelope", "fused", signal, 100, 33, OUTPUT_ENVELOPE, 4, 1);
    compare_diagonal("complex", "staged", signal, 400, 5000, OUTPUT_COMPLEX, 3, 1);
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant),
        cmocka_unit_test(complex_outputs_and_envelopes),
        cmocka_unit_test(vectors),
        cmocka_unit_test(long_filters),
        cmocka_unit_test(a_bank_of_matrices),
        cmocka_unit_test(the_self_test_sees_through_codes),
        cmocka_unit_test(as_on_a_gpu),
    };
    const struct CMUnitTest gpu_tests[] = {cmocka_unit_test(by_fused_and_staged)};
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(gpu_tests, open_gpu_shape_engine, close_engine);
}
