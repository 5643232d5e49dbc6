/*
 * Plans that decimate: what comes out is, to the bit, every D-th frame of the plan that keeps
 * all, whatever blocks, batches, phases, forms and variants; nothing else is written.
 *
 * sanitizers: no, sums of kernels; test_stream_decimate plans and counts kept frames
 * long: also, every decimation by every order of lanes, and more sizes of kernels for GPUs
 * turns: yes
 * takes-long: 69 s CPU in 82 s
 * takes: 11 s CPU in 14 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "signal/decimation.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

/* ---- running a plan that decimates ------------------------------------------------------------
 */

struct kept {
    float *samples; /* [frames][output_floats] */
    uint64_t frames;
};

static uint64_t kept_of(const struct plan_info *info, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t n = first; n < end; n++)
        count += n % info->decimate == info->decimate_phase;
    return count;
}

static void put_all(struct ring *ring, const struct test_signal *signal)
{
    memcpy(ring->bytes, signal->bytes, signal->frames * ring->frame_bytes);
    for (uint64_t n = 0; n < signal->frames; n++)
        if (signal->absent == NULL || !signal->absent[n])
            ring->present[n / 32] |= 1u << (n % 32);
}

/* Frames [from, until) of the epoch, in an item that begins with the block of `from`. */
static void run_item(const struct plan *plan, struct ring *ring, uint64_t base, uint64_t from,
                     uint64_t until, const struct test_signal *signal, struct kept *out)
{
    const struct plan_info *info = plan_info(plan);
    const uint64_t block = from / info->hop, start = block * info->hop;
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    const struct batch_item item = {
        .plan = (struct plan *)plan,
        .ring = ring,
        .position = base + start,
        .epoch_block = block,
        .blocks = (uint32_t)((until - start + info->hop - 1) / info->hop),
        .write_from = (uint32_t)(from - start),
        .write_until = (uint32_t)(until - start),
        .fresh_until = base + signal->frames,
        .absent = true,
    };
    assert_true(item.blocks <= engine_batch_room(engine, batch, plan));
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    /* Beside it, so that a frame too many lands in its neighbour. */
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    struct batch *done = harness_wait(engine);
    const uint64_t skipped = kept_of(info, start, from), frames = kept_of(info, from, until);
    for (int i = 0; i < 2; i++)
        memcpy(out->samples + out->frames * info->output_floats,
               done->items[i].samples + skipped * info->output_floats,
               frames * info->output_floats * sizeof(float));
    out->frames += frames;
    engine_batch_release(engine, done);
}

/* The whole signal, in items of any length; `split` also ends items inside blocks. */
static struct kept run_kept(const struct test_plan *plan, const struct test_signal *signal,
                            uint64_t seed, bool split)
{
    const struct plan_info *info = plan_info(plan->plan);
    struct kept kept = {calloc(signal->frames * info->output_floats + 1, sizeof(float)), 0};
    struct ring *ring = NULL;
    struct problem problem = {0};
    /* Position 0 is frame 0: what lies before it is the ring's other end, absent. */
    if (engine_ring_open(engine, 2 * signal->frames + info->history_frames,
                         info->inputs * signal->format.bytes, &ring, &problem) < 0)
        fail_msg("%s", problem.text);
    put_all(ring, signal);
    struct random_state random = {seed};
    const uint64_t frames = signal->frames / info->hop * info->hop;
    for (uint64_t n = 0; n < frames;) {
        uint64_t until =
            (n / info->hop + 1 + random_below(&random, plan->spec.blocks_max - 1)) * info->hop;
        if (split && random_below(&random, 2) == 0)
            until = n + 1 + random_below(&random, info->hop - (uint32_t)(n % info->hop));
        until = until < frames ? until : frames;
        run_item(plan->plan, ring, 0, n, until, signal, &kept);
        n = until;
    }
    engine_ring_close(engine, ring);
    return kept;
}

/* Every D-th frame of the whole run, to the bit. */
static void check_kept(const char *label, const struct test_plan *plan, const struct kept *kept,
                       const struct test_run *whole)
{
    const struct plan_info *info = plan_info(plan->plan);
    assert_int_equal(kept->frames, kept_of(info, 0, whole->frames));
    for (uint64_t m = 0; m < kept->frames; m++) {
        const uint64_t n = info->decimate_phase + m * info->decimate;
        if (memcmp(kept->samples + m * info->output_floats,
                   whole->samples + n * info->output_floats,
                   info->output_floats * sizeof(float)) != 0)
            fail_msg("%s, %s, D = %u, phase %u, block %u: kept frame %llu is not frame %llu: %.9g, "
                     "wanted %.9g",
                     label, info->variant, info->decimate, info->decimate_phase, info->hop,
                     (unsigned long long)m, (unsigned long long)n,
                     (double)kept->samples[m * info->output_floats],
                     (double)whole->samples[n * info->output_floats]);
    }
}

/* A diagonal plan that keeps all against plans that decimate it. */
static void compare(const char *label, const char *variant, const struct test_signal *signal,
                    uint32_t hop, uint32_t taps, enum output_form form, const uint32_t *decimations,
                    uint32_t count)
{
    const bool complex_taps = form != OUTPUT_REAL;
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, complex_taps, form);
    plan.spec.variant = variant;
    test_plan_prepare(engine, &plan, signal);
    struct test_run whole = run_plan(engine, &plan, signal, &(struct run_options){.seed = 3});
    expect_convolution(label, &plan, signal, &whole, 0, whole.frames);
    const uint32_t fft = plan_info(plan.plan)->fft;
    test_plan_free(&plan);
    for (uint32_t i = 0; i < count; i++) {
        test_plan_diagonal(&plan, signal, hop, taps, complex_taps, form);
        plan.spec.variant = variant;
        plan.spec.fft = fft;
        plan.spec.decimate = decimations[i];
        plan.spec.rows = ROWS_MOST; /* of "lanes", where there are as many */
        plan.spec.decimate_phase = decimations[i] / 3 * ((i + 1) % 3);
        test_plan_prepare(engine, &plan, signal);
        assert_int_equal(plan_info(plan.plan)->decimate, decimations[i]);
        struct kept kept = run_kept(&plan, signal, i, i % 2 == 1 || count == 1);
        check_kept(label, &plan, &kept, &whole);
        free(kept.samples);
        test_plan_free(&plan);
    }
    test_run_free(&whole);
}

static const char *const variants[] = {"local", "general", "overlap-add", "overlap-add-general",
                                       "host",  "direct",  "lanes"};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* What a device declines is left out. */
static bool runs(int variant)
{
    return harness_runs(engine, variants[variant]);
}

static void every_variant_keeps_the_same_bits(void **state)
{
    (void)state;
    /* Odd, powers of two, between and beyond the hop; a device compiles a program for each. */
    static const uint32_t decimations[] = {2, 3, 8, 12, 20, 96, 256, 1000, 4096};
    struct test_signal *signal = signal_noise("s16be", 3, 4800, 7);
    signal_absent(signal, 1500, 1541);
    for (int v = 0; v < VARIANTS; v++)
        if (runs(v))
            compare("s16be", variants[v], signal, 128, 200, OUTPUT_REAL, decimations, 9);
    signal_free(signal);
}

static void complex_outputs_and_envelopes(void **state)
{
    (void)state;
    static const uint32_t decimations[] = {5, 32, 48};
    struct test_signal *signal = signal_noise("f32le", 2, 3000, 8);
    for (int v = 0; v < VARIANTS; v++) {
        if (!runs(v))
            continue;
        compare("complex", variants[v], signal, 100, 77, OUTPUT_COMPLEX, decimations, 3);
        compare("envelope", variants[v], signal, 100, 77, OUTPUT_ENVELOPE, decimations, 3);
    }
    signal_free(signal);
}

/* Lanes hold channels, consecutive points and blocks side by side, whose kept frames may differ. */
static void every_order_of_lanes(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint32_t channels, hop, taps;
        enum output_form form;
    } given[] = {
        /* clang-format off */
        {"s16le", 17, 128, 129, OUTPUT_REAL},   {"f32le", 1, 7, 50, OUTPUT_REAL}, /* with every shape: */
        {"s16le", 1, 96, 161, OUTPUT_REAL},     {"f32le", 8, 100, 77, OUTPUT_ENVELOPE},
        /* clang-format on */
    };
    static const uint32_t decimations[] = {2, 7, 40, 96, 3, 8, 64, 500};
    const uint32_t half = sizeof decimations / sizeof decimations[0] / 2;
    if (!harness_runs(engine, "lanes"))
        skip();
    const bool every = harness_every_shape();
    for (size_t i = 0; i < (every ? sizeof given / sizeof given[0] : 2); i++) {
        struct test_signal *signal =
            signal_noise(given[i].format, given[i].channels, given[i].hop * 25ull, 20 + i);
        signal_absent(signal, given[i].hop * 5ull, given[i].hop * 6ull + 3);
        compare("lanes", "lanes", signal, given[i].hop, given[i].taps, given[i].form,
                every ? decimations : decimations + i % 2 * half, every ? 2 * half : half);
        signal_free(signal);
    }
}

/* Blocks of a few frames, of which most keep none; blocks that are no power of two. */
static void blocks_shorter_than_the_decimation(void **state)
{
    (void)state;
    static const uint32_t decimations[] = {7, 64, 100};
    struct test_signal *signal = signal_noise("s24le", 1, 900, 9);
    static const uint32_t hops[] = {1, 8, 37};
    for (int h = 0; h < 3; h++)
        for (int v = 0; v < 2; v++)
            compare("short blocks", variants[v], signal, hops[h], 50, OUTPUT_REAL, decimations, 3);
    signal_free(signal);
}

/* Transforms in global memory, and partitions. */
static void long_filters(void **state)
{
    (void)state;
    static const uint32_t decimations[] = {6, 512};
    struct test_signal *signal = signal_noise("f32le", 1, 8192, 10);
    compare("partitions", "general", signal, 64, 3000, OUTPUT_REAL, decimations, 2);
    signal_free(signal);
    engine_seams.local_bytes = 1;
    harness_engine_close(engine);
    engine = harness_engine();
    signal = signal_noise("f32le", 1, 8192, 11);
    compare("global scratch", "local", signal, 1024, 1025, OUTPUT_ENVELOPE, decimations, 2);
    signal_free(signal);
    engine_seams.local_bytes = 0;
    harness_engine_close(engine);
    engine = harness_engine();
}

static void a_bank_of_matrices(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 2, 2000, 12);
    struct test_run whole = {0};
    for (int decimated = 0; decimated < 2; decimated++) {
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        for (uint32_t t = 0; t < 6; t++) {
            plan.taps[t] = taps_noise(40 + 30 * t, t % 2 == 1, 60 + t);
            plan.edges[t] = (struct edge){(uint16_t)(t % 2), (uint16_t)(t / 2), (uint16_t)t, 1};
        }
        plan.outputs[0] = OUTPUT_REAL;
        plan.outputs[1] = OUTPUT_COMPLEX;
        plan.outputs[2] = OUTPUT_ENVELOPE;
        plan.spec = (struct plan_spec){.taps_count = 6,
                                       .edge_count = 6,
                                       .outputs_count = 3,
                                       .hop = 250,
                                       .blocks_max = 3,
                                       .fft = 1024,
                                       .variant = "general",
                                       .decimate = decimated ? 24 : 0,
                                       .decimate_phase = decimated ? 5 : 0};
        test_plan_prepare(engine, &plan, signal);
        if (decimated) {
            struct kept kept = run_kept(&plan, signal, 1, true);
            check_kept("matrix", &plan, &kept, &whole);
            free(kept.samples);
        } else {
            whole = run_plan(engine, &plan, signal, &(struct run_options){.seed = 2});
            expect_convolution("matrix", &plan, signal, &whole, 0, whole.frames);
        }
        test_plan_free(&plan);
    }
    test_run_free(&whole);
    signal_free(signal);
}

/* Kernels built as for a GPU: passes back that leave items out, and columns that do not come back.
 */
static void kernels_for_gpus(void **state)
{
    (void)state;
    static const struct {
        const char *variant, *format;
        uint32_t channels, hop, taps; /* N follows */
        enum output_form form;
        uint32_t decimate;
    } cases[] = {
        {"fused", "s16be", 3, 30, 20, OUTPUT_REAL, 12},            /* Q = 32 */
        {"fused", "f32le", 2, 2100, 1900, OUTPUT_ENVELOPE, 320},   /* 2048 */
        {"staged", "f32le", 2, 36005, 29000, OUTPUT_ENVELOPE, 96}, /* 64 by 512 */
        {"fused", "s16le", 9, 500, 500, OUTPUT_REAL, 6},           /* 512, three passes */
        {"fused", "f32le", 1, 9001, 7000, OUTPUT_REAL, 1000},      /* 8192, in halves */
    };
    for (size_t i = 0; i < (harness_every_shape() ? sizeof cases / sizeof cases[0] : 3); i++) {
        struct test_signal *signal =
            signal_noise(cases[i].format, cases[i].channels, 6 * (uint64_t)cases[i].hop, 20 + i);
        signal_absent(signal, 3 * cases[i].hop - 20, 3 * cases[i].hop + 9);
        compare("as for a GPU", cases[i].variant, signal, cases[i].hop, cases[i].taps,
                cases[i].form, &cases[i].decimate, 1);
        signal_free(signal);
    }
}

static void impossible_decimations_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t decimate, phase;
        int want;
    } cases[] = {
        {0, 0, 0},
        {1, 0, 0},
        {1, 1, ERROR_ARGUMENT},
        {0, 1, ERROR_ARGUMENT},
        {8, 7, 0},
        {8, 8, ERROR_ARGUMENT},
        {DECIMATE_MAX, DECIMATE_MAX - 1, 0},
        {DECIMATE_MAX + 1, 0, ERROR_ARGUMENT},
    };
    struct test_signal *signal = signal_noise("s16le", 1, 64, 13);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 20, false, OUTPUT_REAL);
        plan.spec.inputs = 1;
        plan.spec.format = signal->format;
        plan.spec.scales = signal->scales;
        plan.spec.taps = (const struct taps *const *)plan.taps;
        plan.spec.edges = plan.edges;
        plan.spec.outputs = plan.outputs;
        plan.spec.decimate = cases[i].decimate;
        plan.spec.decimate_phase = cases[i].phase;
        struct problem problem = {0};
        assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), cases[i].want);
        test_plan_free(&plan);
    }
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_keeps_the_same_bits),
        cmocka_unit_test(complex_outputs_and_envelopes),
        cmocka_unit_test(every_order_of_lanes),
        cmocka_unit_test(blocks_shorter_than_the_decimation),
        cmocka_unit_test(long_filters),
        cmocka_unit_test(a_bank_of_matrices),
        cmocka_unit_test(impossible_decimations_are_refused),
    };
    const struct CMUnitTest gpu_tests[] = {cmocka_unit_test(kernels_for_gpus)};
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(gpu_tests, open_gpu_shape_engine, close_engine);
}
