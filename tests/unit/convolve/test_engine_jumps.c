/*
 * Blocks that are left out (shed, say) between two items: the same bits as without the jump, for
 * every variant that keeps something on the device, and no more is rebuilt than is missing. On the
 * CPU's own memory and through a mirror.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/item.h"
#include "convolve/plan/plan.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

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

/* What a plan has to have seen before block `first`, in items of their own of at most `most`
 * blocks. `fresh`: the device has nothing of the ring yet. Returns how many items; the device then
 * has all of it. */
static uint32_t catch_up(struct plan *plan, struct ring *ring, uint64_t first, uint32_t most,
                         struct random_state *random, bool fresh)
{
    struct batch_item item = {
        .plan = plan,
        .ring = ring,
        .position = first * HOP,
        .epoch_block = first,
        .fresh_until = fresh ? BLOCKS * HOP : 0,
    };
    uint32_t items = 0, missing;
    for (; (missing = engine_missing(&item)) > 0; items++) {
        struct batch *batch = engine_batch_take(engine);
        item.rebuild = 1 + random_below(random, missing < most ? missing : most);
        const int64_t cost_ns = engine_item_cost_ns(&item);
        assert_true(cost_ns > 0);
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        assert_int_equal(batch->cost_ns, cost_ns);
        engine_submit(engine, batch);
        batch = harness_wait(engine);
        assert_int_equal(batch->status, BATCH_OK);
        engine_batch_release(engine, batch);
    }
    item.blocks = 1;
    const struct plan_rebuild rebuild = item_rebuild(&item, &plan->cache);
    if (plan_blocks_count(&rebuild.spectra) > 0 || plan_blocks_count(&rebuild.planes) > 0)
        fail_msg("%s: something is still missing after %u items", plan->info.variant, items);
    return items;
}

/* After blocks left out, and where a plan begins in the middle of an epoch: what it has to have
 * seen is computed in any number of items, between which more blocks may be left out, and the bits
 * are those of the run without a jump. */
static void in_parts(const char *variant)
{
    struct test_signal *signal = signal_noise("s16be", CHANNELS, BLOCKS * HOP, 79);
    struct random_state random = {37};
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, HOP, TAPS, false, OUTPUT_REAL);
    plan.spec.variant = variant;
    plan.spec.blocks_max = MOST;
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
    struct ring *ring = whole_ring(signal);
    const struct layout *layout = &plan.plan->layout;
    const uint32_t both = layout->history_blocks + layout->tail_blocks;
    uint32_t several = 0;
    for (int round = 0; round < 8; round++) {
        uint64_t block = random_below(&random, BLOCKS / 2);
        for (bool fresh = true; block + MOST < BLOCKS; fresh = false) {
            const uint32_t blocks = 1 + random_below(&random, MOST);
            const uint32_t items =
                catch_up(plan.plan, ring, block, 1 + random_below(&random, both), &random, fresh);
            compute(plan.plan, ring, &run, block, blocks, fresh);
            several += items > 1;
            block += blocks + (random_below(&random, 3) == 0 ? random_below(&random, both) : 0);
            struct batch_item begun = {
                .plan = plan.plan, .ring = ring, .position = block * HOP, .epoch_block = block};
            const uint32_t missing = engine_missing(&begun);
            if (block + 2 * both < BLOCKS && missing > 1 && random_below(&random, 2) == 0) {
                begun.rebuild = 1 + random_below(&random, missing - 1);
                struct batch *batch = engine_batch_take(engine);
                assert_int_equal(engine_batch_add(engine, batch, &begun), 0);
                engine_submit(engine, batch);
                engine_batch_release(engine, harness_wait(engine));
                block += random_below(&random, both);
            }
        }
    }
    assert_true(several > 20);
    engine_ring_close(engine, ring);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

static const char *const variants[] = {"general", "partitioned", "overlap-add",
                                       "overlap-add-general"};

static void same_bits_in_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        in_parts(variants[i]);
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
    for (size_t i = 0; i < 3; i++)
        leave_out(variants[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_after_blocks_left_out),
        cmocka_unit_test(same_bits_in_parts),
    };
    int failed = cmocka_run_group_tests_name("engine: jumps", tests, open_engine, close_engine);
    engine_seams.mirrored = true;
    failed +=
        cmocka_run_group_tests_name("engine: jumps, mirrored", tests, open_engine, close_engine);
    return failed;
}
