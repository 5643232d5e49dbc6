/*
 * Windows that two work-groups of "fused" share (kernels/fused_split.cl): results and reports are
 * as defined, whatever is in the window, and do not depend on which of the groups is done first, on
 * what else is in flight, on how a batch is cut into launches, or on a launch before that the
 * device refused. Where host and device share memory, and on a device with memory of its own. On a
 * CPU the windows have 2048 frames, on a GPU the 65 536 of the table, which test_engine_wide
 * computes on CPUs, too, comparing the two programs.
 *
 * sanitizers: no, sums of kernels; test_engine_small plans a shared window
 * turns: yes
 * kernels: optimised, two programs round alike only where the compiler forms the same multiply-adds
 * takes: 15 s CPU in 16 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/plan/plan.h"
#include "convolve/plan/planner.h"
#include "convolve/plan/variant.h"
#include "convolve/variants/wide.h"
#include "device/device.h"
#include "device/kernels.h"
#include "device/traits.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"
#include "tests/support/scratch.h"

enum { FFT_MOST = 65536, FFT_SMALL = 2048, TAPS = 129, BLOCKS = 4, CHANNELS_MOST = 2 };

/* Of 2 · 512 points, for one channel and for several. */
static const struct wide small[] = {
    {{512, 16, {8, 8, 8, 1}, 1, 1, 1, 1, 2, false}, 0, PREFETCH_NONE, false, 2, 1, false},
    {{512, 16, {8, 8, 8, 1}, 1, 1, 1, 1, 1, false}, 0, PREFETCH_NONE, false, 2, 1, false},
};

static bool on_gpu(void)
{
    return engine_device(engine)->gpu;
}

static uint32_t fft(void)
{
    return on_gpu() ? FFT_MOST : FFT_SMALL;
}

static uint32_t hop(void)
{
    return fft() - TAPS + 1;
}

static void prepare(struct test_plan *plan, const struct test_signal *signal)
{
    engine_seams.wide = on_gpu() ? NULL : &small[signal->inputs > 1];
    plan->spec.variant = "fused";
    plan->spec.fft = fft();
    test_plan_prepare(engine, plan, signal);
    engine_seams.wide = NULL;
    assert_string_equal(plan->plan->stages[0].kernel->function, "fused_split");
}

/* ---- a stream ---------------------------------------------------------------------------- */

struct scene {
    struct test_signal *signal;
    struct test_plan plan;
    struct ring *ring;
};

/* blocks_max blocks of a launch have scratch. Block 2 and what it hears is silence: what is zero
 * has a sign, too. */
static struct scene scene_open(uint32_t blocks_max, uint32_t channels)
{
    const uint64_t frame_bytes = channels * sizeof(float);
    struct scene scene = {.signal =
                              signal_noise("f32le", channels, (BLOCKS + 1) * (uint64_t)hop(), 3)};
    memset(scene.signal->bytes + (2 * hop() - TAPS) * frame_bytes, 0, (hop() + TAPS) * frame_bytes);
    signal_decode(scene.signal);
    test_plan_diagonal(&scene.plan, scene.signal, hop(), TAPS, false, OUTPUT_REAL);
    scene.plan.spec.blocks_max = blocks_max;
    prepare(&scene.plan, scene.signal);
    struct problem problem = {0};
    if (engine_ring_open(engine, scene.signal->frames, (uint32_t)frame_bytes, &scene.ring,
                         &problem) < 0)
        fail_msg("%s", problem.text);
    memcpy(scene.ring->bytes, scene.signal->bytes, scene.signal->frames * frame_bytes);
    memset(scene.ring->present, 0xff, scene.ring->frames / 8);
    return scene;
}

static void scene_close(struct scene *scene)
{
    engine_ring_close(engine, scene->ring);
    test_plan_free(&scene->plan);
    signal_free(scene->signal);
}

/* Adds blocks [first, first + blocks) of the stream. */
static void add(const struct scene *scene, struct batch *batch, uint32_t first, uint32_t blocks)
{
    const struct batch_item item = {
        .plan = scene->plan.plan,
        .ring = scene->ring,
        .position = (uint64_t)first * hop(),
        .epoch_block = first,
        .blocks = blocks,
        .write_until = blocks * hop(),
        .fresh_until = scene->signal->frames,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
}

/* Blocks 1 … BLOCKS in a batch of their own. */
struct results {
    uint32_t values; /* of a block */
    float samples[BLOCKS][FFT_MOST * CHANNELS_MOST];
    struct block_report reports[BLOCKS][CHANNELS_MOST];
};

static void keep(struct results *results, const struct batch *batch)
{
    for (uint32_t i = 0, block = 0; i < batch->count; i++)
        for (uint32_t k = 0; k < batch->items[i].blocks; k++, block++) {
            const struct batch_item *item = &batch->items[i];
            const uint32_t channels = plan_info(item->plan)->inputs;
            results->values = hop() * channels;
            memcpy(results->samples[block], item->samples + (size_t)k * results->values,
                   sizeof(float) * results->values);
            memcpy(results->reports[block], item->reports + (size_t)k * channels,
                   sizeof *item->reports * channels);
        }
}

/* The blocks in items of `blocks` each, in a batch whose parts take `part_ns`; 0: whole. */
static int compute(const struct scene *scene, uint32_t blocks, int64_t part_ns,
                   struct results *results)
{
    struct batch *batch = engine_batch_take(engine);
    for (uint32_t first = 0; first < BLOCKS; first += blocks)
        add(scene, batch, 1 + first, blocks);
    batch->part_ns = part_ns;
    engine_submit(engine, batch);
    batch = harness_wait_any(engine);
    const int status = (int)batch->status;
    if (status == BATCH_OK)
        keep(results, batch);
    engine_batch_release(engine, batch);
    return status;
}

static struct results *new_results(void)
{
    struct results *results = calloc(1, sizeof *results);
    assert_non_null(results);
    return results;
}

static void expect_equal(const char *label, const struct results *want, const struct results *got)
{
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t n = 0; n < want->values; n++)
            if (memcmp(&want->samples[b][n], &got->samples[b][n], sizeof(float)) != 0)
                fail_msg("%s: block %u, value %u: %a, not %a", label, b, n,
                         (double)got->samples[b][n], (double)want->samples[b][n]);
        if (memcmp(want->reports[b], got->reports[b], sizeof want->reports[b]) != 0)
            fail_msg("%s: report of block %u", label, b);
    }
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Bin k of the transform is in half k mod 2; every bin has one place, and place 0 has bin 0. */
static void halves_hold_every_bin(void **state)
{
    (void)state;
    const struct registers shape = {16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 2, false};
    uint8_t *seen = calloc(FFT_MOST / 2, 1);
    for (uint32_t place = 0; place < FFT_MOST / 2; place++) {
        const uint32_t bin = wide_bin(&shape, 2, place);
        assert_true(bin < FFT_MOST / 2 && !seen[bin] && bin % 2 == place / shape.points);
        seen[bin] = 1;
    }
    assert_int_equal(wide_bin(&shape, 2, 0), 0);
    free(seen);
}

static const struct variant *fused(void)
{
    int i = 0;
    while (strcmp(variant_at(i)->name, "fused") != 0)
        i++;
    return variant_at(i);
}

/* Where nobody names a variant, only few channels share windows, and on NVIDIA's devices alone. */
static void the_rule_knows_the_device(void **state)
{
    (void)state;
    static const struct {
        const char *platform;
        uint32_t channels, fft;
        bool by_name, taken;
    } cases[] = {
        {"NVIDIA CUDA", 1, FFT_MOST, false, true},
        {"NVIDIA CUDA", 2, FFT_MOST, false, true},
        {"NVIDIA CUDA", 4, FFT_MOST, false, true},
        {"NVIDIA CUDA", 6, FFT_MOST, false, false},
        {"NVIDIA CUDA", 6, FFT_MOST, true, true},
        {"NVIDIA CUDA", 1, 2 * FFT_MOST, true, false},
        {"Portable Computing Language", 1, FFT_MOST, false, false},
        {"Portable Computing Language", 1, FFT_MOST, true, true},
        {"Portable Computing Language", 4, FFT_MOST / 2, false, true},
    };
    struct test_signal *signal = signal_noise("f32le", 1, TAPS, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop(), TAPS, false, OUTPUT_REAL);
    prepare(&plan, signal);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_signal *given = signal_noise("f32le", cases[i].channels, TAPS, 1);
        struct test_plan other;
        test_plan_diagonal(&other, given, 1000, TAPS, false, OUTPUT_REAL);
        test_plan_bind(&other, given);
        other.spec.fft = cases[i].fft;
        struct device device = *plan.plan->planner->device;
        snprintf(device.found.info.platform, sizeof device.found.info.platform, "%s",
                 cases[i].platform);
        /* A release of PoCL that compiles every length. */
        snprintf(device.found.info.driver, sizeof device.found.info.driver, "3.1");
        device.traits = device_traits_of(&device.found.info);
        struct layout layout;
        struct problem problem;
        const int error =
            layout_make(&device, &other.spec, fused(), cases[i].by_name, &layout, &problem);
        if (error != (cases[i].taken ? 0 : ERROR_UNSUPPORTED))
            fail_msg("%s, %u channels, N = %u: %d", cases[i].platform, cases[i].channels,
                     cases[i].fft, error);
        test_plan_free(&other);
        signal_free(given);
    }
    test_plan_free(&plan);
    signal_free(signal);
}

/* What a block's report says of a signal with these frames absent, not finite, or at full scale;
 * one of each kind in every quarter of a window. */
static void reports_count_every_quarter(void **state)
{
    (void)state;
    const uint32_t quarter = fft() / 4;
    for (int absent = 0; absent < 2; absent++) {
        struct test_signal *signal = signal_noise("f32le", 1, 2 * (uint64_t)hop(), 9);
        float *samples = (float *)(void *)signal->bytes;
        for (uint32_t q = 0; q < 4; q++) {
            samples[hop() + q * quarter + 100] = q == 3   ? NAN
                                                 : q == 2 ? -9.96921e36f
                                                 : q == 1 ? 3e20f
                                                          : -INFINITY;
            samples[hop() + q * quarter + 200 + q] = 1.25f;
        }
        signal_decode(signal);
        if (absent)
            for (uint32_t q = 0; q < 4; q++)
                signal_absent(signal, hop() + q * quarter + 300, hop() + q * quarter + 301 + q);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, hop(), TAPS, false, OUTPUT_REAL);
        prepare(&plan, signal);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        expect_convolution("split", &plan, signal, &run, 0, run.frames);
        double sum = 0, squares = 0;
        for (uint32_t n = hop(); n < 2 * hop(); n++) {
            sum += signal->values[n];
            squares += signal->values[n] * signal->values[n];
        }
        const struct block_report *report = &run.reports[1];
        assert_int_equal(report->present, hop() - (absent ? 1 + 2 + 3 + 4 : 0));
        assert_int_equal(report->overload, 4);
        assert_int_equal(report->nonfinite, 4);
        assert_int_equal(report->nonfinite_first, 100);
        assert_int_equal(report->nonfinite_last, 3 * quarter + 100);
        assert_float_equal(report->sum, sum, 1e-4 * sqrt(squares));
        assert_float_equal(report->sum_squares, squares, 1e-5 * squares);
        assert_float_equal(report->peak, 1.25, 0);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* With few windows of scratch a batch becomes many launches: of some items, of some blocks of each.
 * Parts cut between windows, not between the groups of one. */
static void launches_may_be_cut(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        uint32_t channels, blocks_max, blocks;
        int parts;
    } cases[] = {
        {"one item at a time", 1, 1, 1, 0},   {"a block of each item", 1, 2, 2, 0},
        {"parts of a window", 1, 4, 4, 1000}, {"parts of some windows", 1, 4, 4, 2},
        {"parts and items", 1, 2, 2, 3},      {"channels, one item at a time", 2, 1, 1, 0},
        {"channels in parts", 2, 4, 4, 1000},
    };
    struct results *want = new_results(), *got = new_results();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scene scene = scene_open(BLOCKS, cases[i].channels);
        assert_int_equal(compute(&scene, BLOCKS, 0, want), BATCH_OK);
        scene_close(&scene);
        scene = scene_open(cases[i].blocks_max, cases[i].channels);
        const int64_t cost_ns = 1000000;
        harness_set_cost(scene.plan.plan, cost_ns);
        const int64_t part_ns = cases[i].parts > 0 ? BLOCKS * cost_ns / cases[i].parts + 1 : 0;
        assert_int_equal(compute(&scene, cases[i].blocks, part_ns, got), BATCH_OK);
        expect_equal(cases[i].label, want, got);
        scene_close(&scene);
    }
    free(want);
    free(got);
}

/* No group of the plan's scratch is counted as arrived; where the test can look at it. */
static void expect_no_counts(const struct plan *plan)
{
    const struct device *device = plan->planner->device;
    if (device->mirrored)
        return;
    for (int queue = 0; queue < DEVICE_QUEUES; queue++) {
        const uint32_t *heads =
            (const uint32_t *)(const void *)(device->state.host + plan->scratch_offset +
                                             (uint64_t)queue * plan->scratch_queue_bytes);
        for (uint32_t window = 0; window < SPLIT_WINDOWS; window++)
            assert_int_equal(heads[window * SPLIT_HEAD_WORDS], 0);
    }
}

/* The counts of arrived groups are zero between launches, also when one of a batch was refused. */
static void refused_launches_leave_nothing(void **state)
{
    (void)state;
    struct results *want = new_results(), *got = new_results();
    struct scene scene = scene_open(1, 1);
    assert_int_equal(compute(&scene, 1, 0, want), BATCH_OK);
    for (uint32_t refused = 1; refused <= 3; refused++) {
        engine_seams.refused_launch = refused;
        assert_int_equal(compute(&scene, 1, 0, got), BATCH_FAILED);
        engine_seams.refused_launch = 0;
        assert_int_equal(compute(&scene, 1, 0, got), BATCH_OK);
        expect_equal("after a refused launch", want, got);
        expect_no_counts(scene.plan.plan);
    }
    scene_close(&scene);
    free(want);
    free(got);
}

static void batches_in_flight_keep_apart(void **state)
{
    (void)state;
    enum { FLIGHTS = 5 };
    struct results *want = new_results(), *got = new_results();
    struct scene scene = scene_open(BLOCKS, 1);
    assert_int_equal(compute(&scene, BLOCKS, 0, want), BATCH_OK);
    for (int i = 0; i < FLIGHTS; i++) {
        struct batch *batch = engine_batch_take(engine);
        assert_non_null(batch);
        add(&scene, batch, 1, 1 + i % 2);
        add(&scene, batch, 2 + i % 2, BLOCKS - 1 - i % 2);
        engine_submit(engine, batch);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        struct batch *batch = harness_wait(engine);
        memset(got, 0, sizeof *got);
        keep(got, batch);
        engine_batch_release(engine, batch);
        expect_equal("one of several batches", want, got);
    }
    scene_close(&scene);
    free(want);
    free(got);
}

/* Groups are run in the order of their numbers by a thread of a CPU: with the halves' places
 * changed in the launch, the other one is the second to arrive. */
static void the_order_of_arrival_does_not_matter(void **state)
{
    (void)state;
    struct results *want = new_results(), *got = new_results();
    struct scene scene = scene_open(BLOCKS, 1);
    assert_int_equal(compute(&scene, BLOCKS, 0, want), BATCH_OK);
    scene_close(&scene);
    harness_engine_close(engine);

    char *text = NULL;
    assert_int_equal(kernel_source(getenv("CONVOLVD_TEST_KERNELS"), "fused_split.cl", &text, NULL),
                     0);
    static const char turned[] = "#define TURNED 1u\n";
    char *all = malloc(sizeof turned + strlen(text));
    assert_non_null(all);
    sprintf(all, "%s%s", turned, text);
    scratch_clear();
    const char *kernels = scratch_make("turned");
    scratch_write("turned/fused_split.cl", all);
    const char *before = getenv("CONVOLVD_TEST_KERNELS");
    char *kept = before != NULL ? strdup(before) : NULL;
    setenv("CONVOLVD_TEST_KERNELS", kernels, 1);
    engine = harness_engine();
    scene = scene_open(BLOCKS, 1);
    assert_int_equal(compute(&scene, BLOCKS, 0, got), BATCH_OK);
    scene_close(&scene);
    expect_equal("the other order", want, got);

    harness_engine_close(engine);
    if (kept != NULL)
        setenv("CONVOLVD_TEST_KERNELS", kept, 1);
    else
        unsetenv("CONVOLVD_TEST_KERNELS");
    engine = harness_engine();
    free(kept);
    free(all);
    free(text);
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(halves_hold_every_bin),
        cmocka_unit_test(the_rule_knows_the_device),
        cmocka_unit_test(reports_count_every_quarter),
        cmocka_unit_test(launches_may_be_cut),
        cmocka_unit_test(refused_launches_leave_nothing),
        cmocka_unit_test(the_order_of_arrival_does_not_matter),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(reports_count_every_quarter),
        cmocka_unit_test(launches_may_be_cut),
        cmocka_unit_test(batches_in_flight_keep_apart),
        cmocka_unit_test(the_order_of_arrival_does_not_matter),
    };
    int failed =
        cmocka_run_group_tests_name("shared memory", shared, open_gpu_shape_engine, close_engine);
    failed +=
        cmocka_run_group_tests_name("memory of its own", apart, open_mirrored_engine, close_engine);
    return failed;
}
