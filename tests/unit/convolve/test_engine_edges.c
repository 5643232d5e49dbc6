/*
 * Plans as lists of edges: a bank (fan-out), a matrix (fan-in), gains, outputs of different
 * forms beside each other, filters of different lengths in one plan; and filters longer
 * than local memory or a block: 2^20 taps at block 64, transforms up to 2^18 points.
 *
 * long: also, every variant at every long transform
 * turns: yes
 * takes: 6 s CPU in 6 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "tests/support/engine_group.h"
#include "signal/reference.h"

static void run_and_check(const char *label, struct test_plan *plan,
                          const struct test_signal *signal)
{
    test_plan_prepare(engine, plan, signal);
    struct test_run run =
        run_plan(engine, plan, signal, &(struct run_options){.seed = 31, .ring_offset = 5});
    expect_convolution(label, plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(plan);
}

static const char *const general_variants[] = {NULL, "general", "overlap-add-general"};

/* 3 inputs × 5 outputs, an edge for each pair, filters of three lengths. */
static void matrix_of_3_by_5(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof general_variants / sizeof general_variants[0]; v++) {
        struct test_signal *signal = signal_noise("s16be", 3, 3000, 41);
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        static const uint32_t lengths[] = {1, 90, 700};
        for (uint32_t t = 0; t < 15; t++) {
            plan.taps[t] = taps_noise(lengths[t % 3], t % 4 == 1, 300 + t);
            plan.edges[t] = (struct edge){(uint16_t)(t / 5), (uint16_t)(t % 5), (uint16_t)t,
                                          0.25f * (float)t - 1.5f};
        }
        static const enum output_form forms[] = {OUTPUT_REAL, OUTPUT_COMPLEX, OUTPUT_ENVELOPE,
                                                 OUTPUT_REAL, OUTPUT_ENVELOPE};
        memcpy(plan.outputs, forms, sizeof forms);
        plan.spec = (struct plan_spec){.taps_count = 15,
                                       .edge_count = 15,
                                       .outputs_count = 5,
                                       .hop = 64,
                                       .blocks_max = 5,
                                       .fft = 256,
                                       .variant = general_variants[v]};
        run_and_check("3x5 matrix", &plan, signal);
        signal_free(signal);
    }
}

/* Every input through every filter of a bank; one input feeds nothing; one output has no edge. */
static void bank_of_filters(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof general_variants / sizeof general_variants[0]; v++) {
        struct test_signal *signal = signal_noise("s24le", 3, 3000, 42);
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        for (uint32_t t = 0; t < 4; t++)
            plan.taps[t] = taps_noise(50 + 30 * t, false, 400 + t);
        uint32_t count = 0;
        for (uint16_t input = 0; input < 2; input++)
            for (uint16_t t = 0; t < 4; t++) {
                plan.outputs[count] = OUTPUT_REAL;
                plan.edges[count] = (struct edge){input, (uint16_t)count, t, 1};
                count++;
            }
        plan.outputs[count] = OUTPUT_COMPLEX;
        plan.spec = (struct plan_spec){.taps_count = 4,
                                       .edge_count = count,
                                       .outputs_count = count + 1,
                                       .hop = 128,
                                       .blocks_max = 3,
                                       .variant = general_variants[v]};
        run_and_check("bank", &plan, signal);
        signal_free(signal);
    }
}

/* A plan of one edge a channel with gains, fewer outputs than inputs, crossed channels. */
static void crossed_channels_with_gains(void **state)
{
    (void)state;
    const char *variant;
    for (int v = 0; (variant = engine_variant_name(v)) != NULL; v++) {
        if (strcmp(variant, "lanes") == 0 || !harness_runs(engine, variant))
            continue; /* lanes declines: test_engine_lanes.c */
        struct test_signal *signal = signal_noise("s16le", 4, 2000, 43);
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        plan.taps[0] = taps_noise(100, true, 1);
        plan.taps[1] = taps_noise(60, false, 2);
        plan.edges[0] = (struct edge){3, 0, 0, -0.5f};
        plan.edges[1] = (struct edge){0, 1, 1, 2.0f};
        plan.edges[2] = (struct edge){2, 2, 0, 4.0f};
        plan.outputs[0] = OUTPUT_ENVELOPE;
        plan.outputs[1] = OUTPUT_COMPLEX;
        plan.outputs[2] = OUTPUT_REAL;
        plan.spec = (struct plan_spec){.taps_count = 2,
                                       .edge_count = 3,
                                       .outputs_count = 3,
                                       .hop = 100,
                                       .blocks_max = 3,
                                       .variant = variant};
        run_and_check(variant, &plan, signal);
        signal_free(signal);
    }
}

/* Transforms beyond local memory. */
static void long_transforms(void **state)
{
    (void)state;
    static const struct {
        const char *variant;
        uint32_t hop, fft, taps;
        enum output_form form;
    } given[] = {
        {NULL, 8192, 16384, 8193, OUTPUT_REAL},
        {"overlap-add", 16384, 32768, 16385, OUTPUT_COMPLEX},
        {"general", 30000, 65536, 35000, OUTPUT_REAL},
        {NULL, 1 << 17, 1 << 18, 131073, OUTPUT_ENVELOPE}, /* with every shape: */
        {NULL, 16384, 32768, 16385, OUTPUT_ENVELOPE},
        {NULL, 30000, 65536, 35000, OUTPUT_REAL},
        {"general", 1 << 16, 1 << 17, 65537, OUTPUT_REAL},
        {"overlap-add", 1 << 17, 1 << 18, 131073, OUTPUT_REAL},
    };
    const size_t count = harness_every_shape() ? sizeof given / sizeof given[0]
                         : harness_sanitized() ? 2
                                               : 4;
    for (size_t i = 0; i < count; i++) {
        char label[80];
        snprintf(label, sizeof label, "N = %u", given[i].fft);
        struct test_signal *signal =
            signal_noise("s16le", 1 + i % 2, 4 * (uint64_t)given[i].hop, 50 + i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, given[i].hop, given[i].taps, given[i].form != OUTPUT_REAL,
                           given[i].form);
        plan.spec.fft = given[i].fft;
        plan.spec.variant = given[i].variant;
        plan.spec.blocks_max = 2;
        run_and_check(label, &plan, signal);
        signal_free(signal);
    }
}

/*
 * 2^20 taps of white noise at block 64, a few blocks from the middle of an epoch, against
 * direct dot products. The bound is the contract's: sums over 16384 partitions stay near
 * the error of one.
 */
static void million_taps(const char *variant, uint32_t fft, uint32_t partitions)
{
    enum { TAPS = 1 << 20, HOP = 64, BLOCKS = 4, FIRST = TAPS / HOP + 3 };
    struct test_signal *signal = signal_noise("s16le", 1, (FIRST + BLOCKS) * (uint64_t)HOP, 60);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, HOP, TAPS, false, OUTPUT_REAL);
    plan.spec.variant = variant;
    plan.spec.fft = fft;
    plan.spec.blocks_max = BLOCKS;
    const int64_t begin_ns = clock_monotonic_ns();
    test_plan_prepare(engine, &plan, signal);
    const struct plan_info *info = plan_info(plan.plan);
    assert_in_range(info->partitions, 1, partitions);
    struct ring *ring = NULL;
    struct problem problem;
    assert_int_equal(engine_ring_open(engine, signal->frames, 2, &ring, &problem), 0);
    memcpy(ring->bytes, signal->bytes, signal->frames * 2);
    memset(ring->present, 0xFF, ring->frames / 8);

    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {
        .plan = plan.plan,
        .ring = ring,
        .position = FIRST * (uint64_t)HOP,
        .epoch_block = FIRST,
        .blocks = BLOCKS,
        .write_until = BLOCKS * HOP,
        .fresh_until = signal->frames,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    batch = harness_wait(engine);
    double want[BLOCKS * HOP], squares = 0, most = 0;
    for (uint32_t t = 0; t < BLOCKS * HOP; t += 5)
        want[t / 5] = reference_dot(signal->values, signal->frames, plan.taps[0]->re, TAPS,
                                    item.position + t);
    for (uint64_t n = item.position - TAPS; n < item.position + BLOCKS * HOP; n++) {
        squares += signal->values[n] * signal->values[n];
        most = fmax(most, fabs(signal->values[n]));
    }
    const uint32_t count = (BLOCKS * HOP + 4) / 5;
    struct error_bound bound;
    /* White noise through noise taps of unit energy: the output's norm is what the bound is made
     * of. */
    const bool good = error_bound_check(batch->items[0].samples, 5, want, count, 0, most,
                                        taps_peak_response(plan.taps[0]->re, NULL, TAPS), &bound);
    (void)squares;
    if (!good)
        fail_msg("2^20 taps: error %.3g of %.3g, largest %.3g of %.3g", bound.e2, bound.limit2,
                 bound.e_max, bound.limit_max);
    print_message(
        "2^20 taps at block 64 by %s: relative error %.2g, %.1f s in all, %.1f ms a block\n",
        variant, bound.e2 / bound.want2, (double)(clock_monotonic_ns() - begin_ns) * 1e-9,
        (double)(batch->completed_ns - batch->started_ns) * 1e-6 / BLOCKS);
    engine_batch_release(engine, batch);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
}

static void million_taps_at_block_64(void **state)
{
    (void)state;
    if (!harness_sanitized()) /* the kernels' sums; the host's code is that of `partitioned` */
        million_taps("general", 128, 1 << 14);
    million_taps("partitioned", 0, 1 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_of_3_by_5),
        cmocka_unit_test(bank_of_filters),
        cmocka_unit_test(crossed_channels_with_gains),
        cmocka_unit_test(long_transforms),
        cmocka_unit_test(million_taps_at_block_64),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
