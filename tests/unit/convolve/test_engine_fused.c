/*
 * The variants made for GPUs, "fused" and "staged", against the definition in double: every
 * transform they have, channels that fill groups and channels that do not, every sample format,
 * windows that wrap in the ring or miss frames, inputs that nobody hears, what the reports
 * say, and launches that the device refuses. On a CPU the kernels are built as for a GPU.
 *
 * long: also, every shape of the table
 * turns: yes
 * takes-long: 66 s CPU in 79 s
 * kernels: optimised, PoCL computes wrong results with these when it leaves its optimiser out
 * takes: 18 s CPU in 19 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/variants/registers.h"
#include "core/clock.h"
#include "tests/support/engine_group.h"
#include "signal/reference.h"
#include "tests/support/engine_seams.h"

struct shape {
    const char *variant, *format;
    uint32_t fft, hop, taps, channels;
    enum output_form form;
    bool complex_taps;
};

/* Each row costs a program or two, which is most of the test's time. The gain of channel 0 is 1, so
 * that one channel of f32le is one without scales and gains. `make check` runs the first ones, a
 * sanitized build two. */
static const struct shape shapes[] = {
    {"fused", "f32be", 64, 40, 25, 2, OUTPUT_REAL, false},
    {"staged", "f32le", 8192, 4096, 4097, 24, OUTPUT_REAL, false},
    {"fused", "s16be", 1024, 512, 513, 8, OUTPUT_REAL, false},
    {"fused", "s24le", 16384, 9000, 7000, 2, OUTPUT_REAL, false},
    {"fused", "s32le", 256, 64, 150, 3, OUTPUT_ENVELOPE, true},
    {"fused", "s24be", 512, 500, 13, 9, OUTPUT_REAL, false},
    {"fused", "f32le", 2048, 1000, 700, 16, OUTPUT_REAL, false},
    {"fused", "u16le", 4096, 2048, 2049, 2, OUTPUT_COMPLEX, true},
    {"fused", "f32le", 8192, 4096, 4097, 1, OUTPUT_REAL, false},
};
enum { SHAPES_CHECKED = 4, SHAPES = sizeof shapes / sizeof shapes[0] };

static void shapes_are_as_defined(void **state)
{
    (void)state;
    double worst = 0;
    const int count = harness_every_shape() ? SHAPES : harness_sanitized() ? 2 : SHAPES_CHECKED;
    for (int i = 0; i < count; i++) {
        const struct shape *shape = &shapes[i];
        char label[200];
        snprintf(label, sizeof label, "%s, %s, fft %u, hop %u, %u taps, %u channels",
                 shape->variant, shape->format, shape->fft, shape->hop, shape->taps,
                 shape->channels);
        const uint64_t frames = shape->taps + 6 * (uint64_t)shape->hop;
        struct test_signal *signal =
            signal_noise(shape->format, shape->channels, frames, (uint64_t)i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, shape->hop, shape->taps, shape->complex_taps,
                           shape->form);
        plan.spec.variant = shape->variant;
        plan.spec.fft = shape->fft;
        plan.spec.blocks_max = 4;
        for (uint32_t e = 0; e < plan.spec.edge_count; e++)
            plan.edges[e].gain = 1.0f - 0.25f * (float)e;
        test_plan_prepare(engine, &plan, signal);
        const struct run_options options = {.seed = (uint64_t)i,
                                            .ring_offset = 100003 + (uint64_t)i};
        struct test_run run = run_plan(engine, &plan, signal, &options);
        const double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
        worst = error > worst ? error : worst;
        print_message("%s: error %.2g\n", label, error);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
    print_message("largest error %.2g\n", worst);
}

/* ---- reports, gaps and wrong samples ----------------------------------------------------- */

enum { HOP = 700, BLOCKS = 7, CHANNELS = 6 };

/* Noise with samples that are no numbers, samples at full scale, and frames that never arrived. */
static struct test_signal *hurt_signal(const char *format, bool absent)
{
    struct test_signal *signal = signal_noise(format, CHANNELS, HOP * BLOCKS, 77);
    float *samples = (float *)(void *)signal->bytes;
    if (strcmp(format, "f32le") == 0) {
        samples[(2 * HOP + 5) * CHANNELS + 1] = NAN;
        samples[(2 * HOP + 90) * CHANNELS + 1] = -INFINITY;
        samples[(4 * HOP + 9) * CHANNELS + 2] = -9.96921e36f;
        samples[(6 * HOP - 3) * CHANNELS + 4] = 1e17f;
        samples[(4 * HOP - 1) * CHANNELS + 3] = 1.5f;
    } else {
        memset(signal->bytes + (5 * HOP + 1) * CHANNELS * 2, 0x80, 1); /* -32768, big-endian */
        memset(signal->bytes + (5 * HOP + 1) * CHANNELS * 2 + 1, 0, 1);
    }
    signal_decode(signal);
    if (absent)
        signal_absent(signal, 3 * HOP - 20, 3 * HOP + 35);
    return signal;
}

/* What the report of a block must say, by its definition. */
static struct block_report want_report(const struct test_signal *signal, uint64_t block, uint32_t c)
{
    struct block_report want = {.nonfinite_first = UINT32_MAX};
    double sum = 0, squares = 0, peak = 0;
    for (uint32_t i = 0; i < HOP; i++) {
        const uint64_t n = block * HOP + i;
        if (signal->absent != NULL && signal->absent[n])
            continue;
        const double code = sample_decode(
            &signal->format, signal->bytes + (n * CHANNELS + c) * signal->format.bytes);
        const double value = signal->values[c * signal->frames + n];
        want.present++;
        sum += value;
        squares += value * value;
        peak = fmax(peak, fabs(value));
        if (!(fabs(code) <= 0x1p50)) {
            want.nonfinite++;
            want.nonfinite_first = want.nonfinite == 1 ? i : want.nonfinite_first;
            want.nonfinite_last = i;
        } else if (signal->format.kind == SAMPLE_FLOAT ? fabs(code) >= 1
                                                       : code <= -1 || code >= 1 - 0x1p-15) {
            want.overload++;
        }
    }
    want.sum = (float)sum;
    want.sum_squares = (float)squares;
    want.peak = (float)peak;
    return want;
}

static void reports_say_what_was_seen(void **state)
{
    (void)state;
    /* programs of the shapes above, as far as possible */
    static const struct {
        const char *variant, *format;
        uint32_t fft;
        bool heard; /* all inputs: the programs for whole sectors */
    } cases[] = {{"fused", "f32le", 2048, false},
                 {"fused", "s16be", 1024, false},
                 {"staged", "f32le", 8192, false},
                 {"fused", "s16be", 1024, true},
                 {"fused", "f32le", 1024, true}}; /* with every shape */
    for (int i = 0; i < (harness_every_shape() ? 10 : 8); i++) {
        struct test_signal *signal = hurt_signal(cases[i / 2].format, i % 2);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, HOP, 301, false, OUTPUT_REAL);
        plan.spec.variant = cases[i / 2].variant;
        plan.spec.fft = cases[i / 2].fft;
        plan.edges[1].gain = 0.75f;
        if (!cases[i / 2].heard) /* nobody hears the last */
            plan.spec.outputs_count = plan.spec.edge_count = CHANNELS - 1;
        test_plan_prepare(engine, &plan, signal);
        const struct run_options options = {.blocks = 1, .ring_offset = 123};
        struct test_run run = run_plan(engine, &plan, signal, &options);
        expect_convolution(plan.spec.variant, &plan, signal, &run, 0, run.frames);
        for (uint64_t b = 0; b < BLOCKS; b++)
            for (uint32_t c = 0; c < CHANNELS; c++) {
                const struct block_report want = want_report(signal, b, c),
                                          *got = &run.reports[b * CHANNELS + c];
                assert_int_equal(got->present, want.present);
                assert_int_equal(got->overload, want.overload);
                assert_int_equal(got->nonfinite, want.nonfinite);
                if (want.nonfinite > 0) {
                    assert_int_equal(got->nonfinite_first, want.nonfinite_first);
                    assert_int_equal(got->nonfinite_last, want.nonfinite_last);
                }
                assert_float_equal(got->sum, want.sum, 1e-4);
                assert_float_equal(got->sum_squares, want.sum_squares, 1e-4 * want.sum_squares);
                assert_float_equal(got->peak, want.peak, 1e-6);
            }
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* ---- single batches ---------------------------------------------------------------------- */

/* Submits `blocks` blocks from the epoch's block `first` on; the caller releases the batch. */
static struct batch *run_blocks(const struct test_plan *plan, const struct test_signal *signal,
                                struct ring *ring, uint64_t first, uint32_t blocks)
{
    const struct batch_item item = {
        .plan = plan->plan,
        .ring = ring,
        .position = first * plan->spec.hop,
        .epoch_block = first,
        .blocks = blocks,
        .write_until = blocks * plan->spec.hop,
        .fresh_until = signal->frames,
    };
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    const int64_t until_ns = clock_monotonic_ns() + 60 * NS_PER_SECOND;
    while ((batch = engine_completed(engine)) == NULL) { /* harness_wait lets no failed one pass */
        assert_true(clock_monotonic_ns() < until_ns);
        usleep(200);
    }
    return batch;
}

static struct ring *ring_of(const struct test_signal *signal)
{
    struct ring *ring = NULL;
    struct problem problem = {0};
    const uint32_t frame_bytes = signal->inputs * signal->format.bytes;
    if (engine_ring_open(engine, signal->frames, frame_bytes, &ring, &problem) < 0)
        fail_msg("%s", problem.text);
    memcpy(ring->bytes, signal->bytes, signal->frames * frame_bytes);
    memset(ring->present, 0xff, ring->frames / 8);
    return ring;
}

/* The longest transform there is, Q = 2^20, with as many taps as a filter may have. */
static void a_million_points(void **state)
{
    (void)state;
    enum { TAPS = 1 << 20, HOP_FRAMES = 1 << 19, POINTS = 48 };
    struct test_signal *signal = signal_noise("s16be", 1, 3 * HOP_FRAMES, 91);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, HOP_FRAMES, TAPS, false, OUTPUT_REAL);
    plan.spec.variant = "staged";
    plan.spec.blocks_max = 1;
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->fft, 1 << 21);
    struct ring *ring = ring_of(signal);
    struct batch *batch = run_blocks(&plan, signal, ring, 2, 1);
    assert_int_equal(batch->status, BATCH_OK);
    double error = 0, size = 0;
    for (uint32_t i = 0; i < POINTS; i++) {
        const uint32_t t = i * ((HOP_FRAMES - 1) / (POINTS - 1));
        const double want = reference_dot(signal->values, signal->frames, plan.taps[0]->re, TAPS,
                                          2 * (uint64_t)HOP_FRAMES + t);
        const double wrong = batch->items[0].samples[t] - want;
        error += wrong * wrong;
        size += want * want;
    }
    print_message("staged, fft %d: error %.2g\n", 1 << 21, sqrt(error / size));
    assert_true(sqrt(error / size) <= 1e-6);
    engine_batch_release(engine, batch);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
}

/* A launch that the device refuses fails the batch, whichever of its launches it is, and no other
 * batch. */
static void refused_launches_fail_their_batch(void **state)
{
    (void)state;
    static const struct {
        const char *variant;
        uint32_t fft, launches;
    } cases[] = {{"fused", 2048, 1}, {"staged", 8192, 3}};
    for (int i = 0; i < 2; i++) {
        struct test_signal *signal = signal_noise("f32le", CHANNELS, HOP * BLOCKS, 5);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, HOP, 301, false, OUTPUT_REAL);
        plan.spec.variant = cases[i].variant;
        plan.spec.fft = cases[i].fft;
        plan.edges[1].gain = 0.75f;
        test_plan_prepare(engine, &plan, signal);
        struct ring *ring = ring_of(signal);
        for (uint32_t refused = 0; refused <= cases[i].launches; refused++) {
            engine_seams.refused_launch = refused;
            struct batch *batch = run_blocks(&plan, signal, ring, 1, 2);
            assert_int_equal(batch->status, refused > 0 ? BATCH_FAILED : BATCH_OK);
            assert_int_equal(engine_seams.refused_launch, 0);
            engine_batch_release(engine, batch);
        }
        engine_ring_close(engine, ring);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        expect_convolution(plan.spec.variant, &plan, signal, &run, 0, run.frames);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* The order of bins: every position of the last pass holds one bin, and position 0 holds bin 0. */
static void every_bin_has_one_position(void **state)
{
    (void)state;
    for (uint32_t points = 32; points <= 8192; points *= 2) {
        const struct registers *shape = registers_find(points);
        assert_non_null(shape);
        uint32_t product = 1;
        for (int pass = 0; pass < REGISTER_PASSES_MAX; pass++)
            product *= shape->radices[pass];
        assert_int_equal(product, points);
        static uint8_t seen[8192];
        memset(seen, 0, sizeof seen);
        for (uint32_t position = 0; position < points; position++) {
            const uint32_t bin = registers_bin(shape, position);
            assert_true(bin < points && !seen[bin]);
            seen[bin] = 1;
        }
        assert_int_equal(registers_bin(shape, 0), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bin_has_one_position),
        cmocka_unit_test(shapes_are_as_defined),
        cmocka_unit_test(reports_say_what_was_seen),
        cmocka_unit_test(refused_launches_fail_their_batch),
        cmocka_unit_test(a_million_points),
    };
    return cmocka_run_group_tests(tests, open_gpu_shape_engine, close_engine);
}
