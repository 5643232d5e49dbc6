/*
 * Every variant on shapes small enough for a simulator: tests/e2e/oclgrind.sh runs this
 * program under Oclgrind, which reports races, barriers not met by all, and accesses
 * outside a buffer. On a device it is a quick first look. CONVOLVD_TEST_ONLY names one test.
 *
 * takes: 2 s CPU in 3 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/variants/wide.h"
#include "tests/support/engine_harness.h"
#include "tests/support/engine_seams.h"

static const struct {
    const char *variant, *format;
    uint32_t hop, fft, taps, channels;
    enum output_form form;
    bool local; /* false: as if local memory were too small */
    bool split; /* two groups share a window */
} shapes[] = {
    {"lanes", "s16be", 32, 64, 33, 2, OUTPUT_REAL, true, false},
    {"lanes", "f32le", 32, 64, 20, 9, OUTPUT_ENVELOPE, true, false},
    {"lanes", "s24be", 20, 64, 33, 17, OUTPUT_REAL, true, false},
    {"fused", "s24be", 40, 64, 25, 2, OUTPUT_ENVELOPE, true, false},
    {"fused", "f32le", 100, 128, 29, 1, OUTPUT_REAL, true, false}, /* whole sectors: runs, pairs */
    {"fused", "s16be", 100, 128, 29, 4, OUTPUT_REAL, true, false},
    {"fused", "f32le", 100, 128, 29, 1, OUTPUT_REAL, true, true},
    {"direct", "s16be", 32, 64, 20, 2, OUTPUT_REAL, true, false},
    {"direct", "s24le", 45, 64, 9, 17, OUTPUT_REAL, true, false},
    {"direct", "f32be", 32, 64, 30, 3, OUTPUT_ENVELOPE, true, false},
    {"local", "s16be", 32, 64, 33, 2, OUTPUT_REAL, true, false},
    {"local", "s24le", 50, 128, 60, 3, OUTPUT_ENVELOPE, true, false},
    {"local", "f32be", 100, 256, 157, 1, OUTPUT_COMPLEX, true, false},
    {"general", "u8", 32, 64, 100, 3, OUTPUT_REAL, true, false},
    {"general", "s32be", 30, 128, 200, 2, OUTPUT_ENVELOPE, true, false},
    {"general", "s16le", 128, 256, 129, 1, OUTPUT_REAL, false, false},
    {"overlap-add", "u16le", 32, 128, 90, 2, OUTPUT_COMPLEX, true, false},
    {"overlap-add-general", "s16be", 32, 64, 100, 2, OUTPUT_REAL, true, false},
};

static const struct wide split = {
    {32, 8, {4, 8, 1, 1}, 1, 1, 1, 1, 2, false}, 0, PREFETCH_NONE, false, 2, 1, false};

static void small_shapes(void **state)
{
    (void)state;
    for (int local = 1; local >= 0; local--) {
        engine_seams.local_bytes = local ? 0 : 1;
        struct engine *engine = harness_small_engine();
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            if (shapes[i].local != (local != 0) || !harness_runs(engine, shapes[i].variant))
                continue;
            struct test_signal *signal = signal_noise(shapes[i].format, shapes[i].channels,
                                                      shapes[i].taps + 4 * shapes[i].hop, i);
            signal_absent(signal, shapes[i].hop / 2, shapes[i].hop);
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, shapes[i].hop, shapes[i].taps,
                               shapes[i].form != OUTPUT_REAL, shapes[i].form);
            plan.spec.variant = shapes[i].variant;
            plan.spec.fft = shapes[i].fft;
            plan.spec.blocks_max = 2;
            engine_seams.wide = shapes[i].split ? &split : NULL;
            test_plan_prepare(engine, &plan, signal);
            struct test_run run =
                run_plan(engine, &plan, signal, &(struct run_options){.seed = i, .ring_offset = 7});
            expect_convolution(shapes[i].variant, &plan, signal, &run, 0, run.frames);
            print_message("%s on %s: as defined\n", shapes[i].variant, engine_device(engine)->name);
            test_run_free(&run);
            test_plan_free(&plan);
            signal_free(signal);
        }
        engine_seams.wide = NULL;
        harness_engine_close(engine);
    }
    engine_seams.local_bytes = 0;
}

/* ---- a long tail ------------------------------------------------------------------------- */

/* A head of 128 taps and a tail of 33 partitions of 64, which a GPU adds up in three chunks; a long
 * block has 16 blocks. What is computed begins late, where all partitions count, and after a jump.
 */
enum { TAIL_HOP = 4, TAIL_TAPS = 2240, TAIL_FIRST = 540, TAIL_BLOCKS = 40 };

static void tail_item(struct engine *engine, const struct test_plan *plan, struct ring *ring,
                      uint32_t first, uint32_t blocks, float *samples)
{
    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {
        .plan = plan->plan,
        .ring = ring,
        .position = (uint64_t)first * TAIL_HOP,
        .epoch_block = first,
        .blocks = blocks,
        .write_until = blocks * TAIL_HOP,
        .fresh_until = (TAIL_FIRST + TAIL_BLOCKS) * TAIL_HOP,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    batch = harness_wait(engine);
    assert_int_equal(batch->status, BATCH_OK);
    memcpy(samples, batch->items[0].samples, blocks * TAIL_HOP * sizeof *samples);
    engine_batch_release(engine, batch);
}

static void a_long_tail_in_any_items(void **state)
{
    (void)state;
    enum { FRAMES = TAIL_BLOCKS * TAIL_HOP };
    struct engine *engine = harness_small_engine();
    struct test_signal *signal =
        signal_noise("f32le", 1, (uint64_t)(TAIL_FIRST + TAIL_BLOCKS) * TAIL_HOP, 5);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, TAIL_HOP, TAIL_TAPS, false, OUTPUT_REAL);
    plan.spec.variant = "partitioned";
    plan.spec.fft = 64;
    plan.spec.items = 8; /* few, for the simulator */
    plan.spec.blocks_max = TAIL_BLOCKS;
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring = NULL;
    struct problem problem;
    assert_int_equal(engine_ring_open(engine, signal->frames, sizeof(float), &ring, &problem), 0);
    memcpy(ring->bytes, signal->bytes, signal->frames * sizeof(float));
    memset(ring->present, 0xff, ring->frames / 8);

    float whole[FRAMES], pieces[FRAMES], first[TAIL_HOP];
    tail_item(engine, &plan, ring, TAIL_FIRST, TAIL_BLOCKS, whole);
    tail_item(engine, &plan, ring, 0, 1, first); /* what the plan keeps is computed again */
    static const uint32_t blocks[] = {7, 20, 13};
    for (uint32_t i = 0, at = 0; i < sizeof blocks / sizeof blocks[0]; at += blocks[i++])
        tail_item(engine, &plan, ring, TAIL_FIRST + at, blocks[i], pieces + at * TAIL_HOP);
    assert_memory_equal(whole, pieces, sizeof whole);

    double error = 0, size = 0;
    for (uint32_t n = 0; n < FRAMES; n++) {
        double want = 0;
        for (uint32_t k = 0; k < TAIL_TAPS && k <= TAIL_FIRST * TAIL_HOP + n; k++) {
            float x;
            memcpy(&x, signal->bytes + (TAIL_FIRST * TAIL_HOP + n - k) * sizeof x, sizeof x);
            want += plan.taps[0]->re[k] * (double)x;
        }
        want *= (double)plan.edges[0].gain;
        error += ((double)whole[n] - want) * ((double)whole[n] - want);
        size += want * want;
    }
    assert_true(sqrt(error / size) < 1e-6);
    print_message("partitioned on %s: as defined\n", engine_device(engine)->name);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),
        cmocka_unit_test(a_long_tail_in_any_items),
    };
    cmocka_set_test_filter(getenv("CONVOLVD_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
