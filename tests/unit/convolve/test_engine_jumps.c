/*
 * Blocks that are left out (shed, say) between two items: the same bits as without the jump, for
 * every variant that keeps something on the device, and no more is rebuilt than is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/plan/plan.h"
#include "tests/support/engine_group.h"

enum { CHANNELS = 2, HOP = 16, TAPS = 1500, BLOCKS = 500, MOST = 4 };

static struct ring *whole_ring(const struct test_signal *signal)
{
    struct ring *ring = NULL;
    struct problem problem;
    const uint32_t frame_bytes = CHANNELS * signal->format.bytes;
    assert_int_equal(engine_ring_open(engine, signal->frames, frame_bytes, &ring, &problem), 0);
    memcpy(ring->bytes, signal->bytes, signal->frames * frame_bytes);
    for (uint64_t n = 0; n < signal->frames; n++)
        ring->present[n / 32] |= 1u << (n % 32);
    return ring;
}

/* Computes blocks [first, first + blocks) and holds them against the run. */
static void compute(struct plan *plan, struct ring *ring, const struct test_run *run,
                    uint64_t first, uint32_t blocks, bool fresh)
{
    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {
        .plan = plan,
        .ring = ring,
        .position = first * HOP,
        .epoch_block = first,
        .blocks = blocks,
        .write_until = blocks * HOP,
        .fresh_until = fresh ? BLOCKS * HOP : 0,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    batch = harness_wait(engine);
    assert_int_equal(batch->status, BATCH_OK);
    if (memcmp(batch->items[0].samples, run->samples + first * HOP * CHANNELS,
               (size_t)blocks * HOP * CHANNELS * sizeof(float)) != 0)
        fail_msg("%s: blocks %llu … %llu differ", plan->info.variant, (unsigned long long)first,
                 (unsigned long long)(first + blocks - 1));
    engine_batch_release(engine, batch);
}

static void leave_out(const char *variant)
{
    struct test_signal *signal = signal_noise("s16be", CHANNELS, BLOCKS * HOP, 78);
    struct random_state random = {31};
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, HOP, TAPS, false, OUTPUT_REAL);
    plan.spec.variant = variant;
    plan.spec.blocks_max = MOST;
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
    struct ring *ring = whole_ring(signal);
    const struct layout *layout = &plan.plan->layout;
    const uint64_t both = layout->history_blocks + layout->tail_blocks;
    uint32_t kept = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t block = 0;
        for (bool fresh = true; block + MOST < BLOCKS; fresh = false) {
            const uint32_t blocks = 1 + random_below(&random, MOST);
            compute(plan.plan, ring, &run, block, blocks, fresh);
            block += blocks;
            if (random_below(&random, 3) > 0)
                continue;
            const uint32_t left_out = 1 + random_below(&random, round == 2 ? 300 : 20);
            const uint64_t before = plan.plan->cache.spectra_from;
            block += left_out;
            if (block + MOST >= BLOCKS || block < both || left_out >= both || before + both > block)
                continue;
            /* What lies further back than the missing blocks is not computed again. */
            compute(plan.plan, ring, &run, block, 1, false);
            if (before < block - both && plan.plan->cache.spectra_from == block - both)
                fail_msg("%s: all rebuilt after %u blocks left out", variant, left_out);
            block++;
            kept++;
        }
    }
    assert_true(kept > 10);
    engine_ring_close(engine, ring);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

static void same_bits_after_blocks_left_out(void **state)
{
    (void)state;
    static const char *const variants[] = {"general", "partitioned", "overlap-add"};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        leave_out(variants[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_after_blocks_left_out),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
