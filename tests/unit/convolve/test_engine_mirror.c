/*
 * A device with memory of its own, which the device is made to look like, whatever it is.
 *
 * Copies that fail: whatever copy to the device is refused, and whatever batch fails while it runs,
 * every batch that the engine reports as good holds the samples of an undisturbed run, to the bit.
 * So it is on two queues, and where presence bits come to the device later than the samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/object.h"
#include "kernels/row.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

enum { HOP = 64, BLOCKS = 12, FRAMES = HOP * BLOCKS, TAPS = 200, CHANNELS = 2 };

struct scene {
    struct test_signal *signal;
    struct test_plan plan;
    struct ring *ring;
};

static void stage_open(struct scene *stage, const char *format, const char *variant)
{
    stage->signal = signal_noise(format, CHANNELS, FRAMES, 5);
    test_plan_diagonal(&stage->plan, stage->signal, HOP, TAPS, false, OUTPUT_REAL);
    stage->plan.spec.variant = variant;
    test_plan_prepare(engine, &stage->plan, stage->signal);
}

/* A ring that the device has seen nothing of. */
static void ring_open(struct scene *stage)
{
    struct problem problem;
    const uint32_t frame_bytes = CHANNELS * stage->signal->format.bytes;
    assert_int_equal(engine_ring_open(engine, 2 * FRAMES, frame_bytes, &stage->ring, &problem), 0);
    memset(stage->ring->bytes, 0, (size_t)stage->ring->frames * frame_bytes);
    memset(stage->ring->present, 0, stage->ring->frames / 8);
}

static void stage_close(struct scene *stage)
{
    test_plan_free(&stage->plan);
    signal_free(stage->signal);
}

/* Writes a block into the ring, with its presence bits. */
static void put_block(struct ring *ring, uint64_t block, const void *samples)
{
    memcpy(ring->bytes + block * HOP * ring->frame_bytes, samples, (size_t)HOP * ring->frame_bytes);
    for (uint64_t n = block * HOP; n < (block + 1) * HOP; n++)
        ring->present[n / 32] |= 1u << (n % 32);
}

static int add_block(struct scene *stage, struct batch *batch, uint64_t block, bool fresh,
                     bool absent)
{
    const struct batch_item item = {
        .plan = stage->plan.plan,
        .ring = stage->ring,
        .position = block * HOP,
        .epoch_block = block,
        .blocks = 1,
        .write_until = HOP,
        .fresh_from = fresh ? block * HOP : (block + 1) * HOP,
        .fresh_until = (block + 1) * HOP,
        .absent = absent,
    };
    return engine_batch_add(engine, batch, &item);
}

static void submit_block(struct scene *stage, uint64_t block, bool fresh, bool absent)
{
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    assert_int_equal(add_block(stage, batch, block, fresh, absent), 0);
    engine_submit(engine, batch);
}

/* With its presence bits. */
static void submit(struct scene *stage, uint64_t block, bool fresh)
{
    submit_block(stage, block, fresh, true);
}

/* What became of a run. */
struct outcome {
    bool failed[BLOCKS];
    uint32_t queue[BLOCKS];
    float samples[BLOCKS][HOP * CHANNELS];
    int failures;
};

static void take(struct outcome *outcome, uint64_t block)
{
    struct batch *batch = harness_wait_any(engine);
    outcome->failed[block] = batch->status != BATCH_OK;
    outcome->failures += outcome->failed[block];
    outcome->queue[block] = ((const struct slot *)batch)->queue;
    memcpy(outcome->samples[block], batch->items[0].samples, sizeof outcome->samples[block]);
    engine_batch_release(engine, batch);
}

static void expect_same(const char *what, uint32_t n, const struct outcome *want,
                        const struct outcome *got)
{
    int wrong = 0;
    for (int block = 0; block < BLOCKS; block++)
        for (int i = 0; i < HOP * CHANNELS && !got->failed[block]; i++)
            wrong += want->samples[block][i] != got->samples[block][i];
    if (wrong > 0)
        fail_msg("%s, fault %u: %d samples of good batches are wrong", what, n, wrong);
}

/* A batch copies samples and presence bits. */
enum { COPIES = 2 };

/* The signal block by block, `ahead` batches in flight. Copy number `copy` is refused; batch number
 * `completion` fails while it runs, and its samples never reach the device. */
static struct outcome run(struct scene *stage, int ahead, uint32_t copy, uint32_t completion)
{
    struct outcome outcome = {.failures = 0};
    ring_open(stage);
    engine_seams.refused_copy = copy;
    engine_seams.failed_completion = completion;
    engine_seams.lost_copy = completion > 0 ? COPIES * (completion - 1) + 1 : 0;
    for (int block = 0; block < BLOCKS + ahead; block++) {
        if (block < BLOCKS) {
            put_block(stage->ring, (uint64_t)block,
                      stage->signal->bytes + (size_t)block * HOP * stage->ring->frame_bytes);
            submit(stage, (uint64_t)block, true);
        }
        if (block >= ahead)
            take(&outcome, (uint64_t)(block - ahead));
    }
    engine_seams.refused_copy = engine_seams.failed_completion = engine_seams.lost_copy = 0;
    engine_ring_close(engine, stage->ring);
    return outcome;
}

static const char *const variants[] = {"general", "overlap-add", "local"};

static void refused_copies_are_made_again(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        struct scene stage;
        stage_open(&stage, "s16le", variants[v]);
        const struct outcome want = run(&stage, 0, 0, 0);
        assert_int_equal(want.failures, 0);
        for (uint32_t copy = 1; copy < 40; copy += 3) {
            const struct outcome got = run(&stage, 1, copy, 0);
            assert_int_equal(got.failures, copy <= 2 * BLOCKS ? 1 : got.failures);
            expect_same(variants[v], copy, &want, &got);
        }
        stage_close(&stage);
    }
}

/* The batches behind a failed one are in the device's queue already when it is seen to fail. */
static void what_runs_behind_a_failed_batch_fails(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        struct scene stage;
        stage_open(&stage, "s16le", variants[v]);
        const struct outcome want = run(&stage, 0, 0, 0);
        for (uint32_t n = 1; n <= BLOCKS; n += 2) {
            const struct outcome got = run(&stage, 3, 0, n);
            assert_in_range(got.failures, 1, 4);
            expect_same(variants[v], n, &want, &got);
        }
        stage_close(&stage);
    }
}

/* The results of one stage fed to the next inside the device. What `first` computed is true; faults
 * meet only what the second stage's launches copy. */
static struct outcome run_chain(struct scene stages[2], uint32_t copy, uint32_t completion)
{
    struct scene *first = &stages[0], *second = &stages[1];
    struct outcome outcome = {.failures = 0};
    ring_open(first);
    ring_open(second);
    uint32_t left = copy, left_completion = completion;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        put_block(first->ring, block,
                  first->signal->bytes + block * HOP * first->ring->frame_bytes);
        submit(first, block, true);
        struct batch *batch = harness_wait(engine);
        const float *samples = batch->items[0].samples;
        put_block(second->ring, block, samples);
        assert_true(engine_ring_feed(engine, second->ring, block * HOP, block * HOP, samples, HOP));
        engine_batch_release(engine, batch);
        engine_seams.refused_copy = left;
        engine_seams.failed_completion = left_completion;
        submit(second, block, false);
        take(&outcome, block);
        left = engine_seams.refused_copy;
        left_completion = engine_seams.failed_completion;
        engine_seams.refused_copy = engine_seams.failed_completion = 0;
    }
    engine_ring_close(engine, first->ring);
    engine_ring_close(engine, second->ring);
    return outcome;
}

static void refused_feeds_are_copied_from_the_host(void **state)
{
    (void)state;
    struct scene stages[2];
    stage_open(&stages[0], "s16le", "general");
    stage_open(&stages[1], "f32le", "general");
    const struct outcome want = run_chain(stages, 0, 0);
    assert_int_equal(want.failures, 0);
    for (uint32_t copy = 1; copy <= 2 * BLOCKS; copy++) {
        const struct outcome got = run_chain(stages, copy, 0);
        assert_int_equal(got.failures, 1);
        expect_same("chain", copy, &want, &got);
    }
    for (uint32_t n = 1; n <= BLOCKS; n++) {
        const struct outcome got = run_chain(stages, 0, n);
        assert_int_equal(got.failures, 1);
        expect_same("chain, batch", n, &want, &got);
    }
    stage_close(&stages[0]);
    stage_close(&stages[1]);
}

/* ---- queues ------------------------------------------------------------------------------ */

static uint32_t on_second_queue(const struct outcome *outcome)
{
    uint32_t count = 0;
    for (int block = 0; block < BLOCKS; block++)
        count += outcome->queue[block] == 1;
    return count;
}

/* Batches behind each other take both queues, unless their plan keeps something on the device. */
static void only_plans_without_state_take_the_second_queue(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        struct scene stage;
        stage_open(&stage, "s16le", variants[v]);
        const struct outcome alone = run(&stage, 0, 0, 0), many = run(&stage, 3, 0, 0);
        assert_int_equal(on_second_queue(&alone), 0);
        if (strcmp(variants[v], "local") == 0)
            assert_true(on_second_queue(&many) > 0);
        else
            assert_int_equal(on_second_queue(&many), 0);
        expect_same(variants[v], 0, &alone, &many);
        stage_close(&stage);
    }
}

/* The first queue stands still, with the copies of block 0 on it. Block 1, on the second queue,
 * reads its frames. */
static void the_second_queue_waits_for_copies_on_the_first(void **state)
{
    (void)state;
    struct scene stage;
    stage_open(&stage, "s16le", "local");
    const struct outcome want = run(&stage, 0, 0, 0);
    struct outcome got = {.failures = 0};
    ring_open(&stage);
    cl_int code = CL_SUCCESS;
    const cl_event gate = clCreateUserEvent(engine->device.context, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clEnqueueBarrierWithWaitList(engine->device.compute[0], 1, &gate, NULL), 0);
    for (uint64_t block = 0; block < 2; block++) {
        put_block(stage.ring, block, stage.signal->bytes + block * HOP * stage.ring->frame_bytes);
        submit(&stage, block, true);
    }
    usleep(100000); /* in which a block that does not wait would be computed */
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    clReleaseEvent(gate);
    take(&got, 0);
    take(&got, 1);
    assert_int_equal(got.queue[0], 0);
    assert_int_equal(got.queue[1], 1);
    assert_memory_equal(got.samples[1], want.samples[1], sizeof want.samples[1]);
    engine_ring_close(engine, stage.ring);
    stage_close(&stage);
}

/* ---- rows ------------------------------------------------------------------------------- */

/* One batch of all blocks, each an item: more groups of rows than an argument holds. */
static void rows_of_many_items(void **state)
{
    (void)state;
    _Static_assert(BLOCKS > ROW_GROUPS, "as many as an argument holds");
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        struct scene stage;
        stage_open(&stage, "s16le", variants[v]);
        const struct outcome want = run(&stage, 0, 0, 0);
        struct outcome got = {.failures = 0};
        ring_open(&stage);
        struct batch *batch = engine_batch_take(engine);
        assert_non_null(batch);
        for (uint64_t block = 0; block < BLOCKS; block++) {
            put_block(stage.ring, block,
                      stage.signal->bytes + block * HOP * stage.ring->frame_bytes);
            assert_int_equal(add_block(&stage, batch, block, true, true), 0);
        }
        engine_submit(engine, batch);
        assert_ptr_equal(harness_wait(engine), batch);
        for (int block = 0; block < BLOCKS; block++)
            memcpy(got.samples[block], batch->items[block].samples, sizeof got.samples[block]);
        engine_batch_release(engine, batch);
        expect_same(variants[v], 0, &want, &got);
        engine_ring_close(engine, stage.ring);
        stage_close(&stage);
    }
}

/* ---- presence ---------------------------------------------------------------------------- */

/* Blocks without absent frames leave the device's presence bits as they are; the first batch that
 * tests them finds those of all blocks before it. */
static void presence_follows_when_a_batch_reads_it(void **state)
{
    (void)state;
    enum { TESTED = 6 };
    struct scene stage;
    stage_open(&stage, "s16le", "local");
    const struct outcome want = run(&stage, 0, 0, 0);
    struct outcome got = {.failures = 0};
    ring_open(&stage);
    struct engine_traffic before, after;
    engine_traffic(engine, &before);
    for (uint64_t block = 0; block <= TESTED; block++) {
        put_block(stage.ring, block, stage.signal->bytes + block * HOP * stage.ring->frame_bytes);
        if (block == TESTED) {
            engine_traffic(engine, &after);
            assert_int_equal(after.presence_bytes - before.presence_bytes, 0);
        }
        submit_block(&stage, block, true, block == TESTED);
        take(&got, block);
    }
    assert_memory_equal(got.samples[TESTED], want.samples[TESTED], sizeof want.samples[TESTED]);
    engine_ring_close(engine, stage.ring);
    stage_close(&stage);
}

/* ---- counts ------------------------------------------------------------------------------ */

/* Samples of a block that saturate, in the memory that the last batch left behind. */
static uint32_t saturated_of(struct scene *stage, uint64_t block)
{
    struct batch *batch = engine_batch_take(engine);
    assert_int_equal(add_block(stage, batch, block, true, false), 0);
    engine_submit(engine, batch);
    assert_ptr_equal(harness_wait(engine), batch);
    uint32_t most = 0;
    for (int c = 0; c < CHANNELS; c++) {
        const uint32_t count = batch->items[0].saturated[c];
        most = count > most ? count : most;
    }
    engine_batch_release(engine, batch);
    return most;
}

static void counts_begin_at_zero(void **state)
{
    (void)state;
    enum { LOUD = 3 };
    struct scene stage = {.signal = signal_noise("s16le", CHANNELS, FRAMES, 5)};
    const size_t block_bytes = (size_t)HOP * CHANNELS * stage.signal->format.bytes;
    memset(stage.signal->bytes + LOUD * block_bytes, 0, (BLOCKS - LOUD) * block_bytes);
    signal_decode(stage.signal);
    test_plan_diagonal(&stage.plan, stage.signal, HOP, TAPS, false, OUTPUT_REAL);
    assert_int_equal(sample_format_parse("s16le", &stage.plan.spec.results.format), 0);
    stage.plan.spec.results.factor = 64;
    stage.plan.spec.variant = "local";
    test_plan_prepare(engine, &stage.plan, stage.signal);
    ring_open(&stage);
    for (uint64_t block = 0; block < BLOCKS; block++)
        put_block(stage.ring, block, stage.signal->bytes + block * block_bytes);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        const uint32_t count = saturated_of(&stage, block);
        if (block < LOUD)
            assert_in_range(count, HOP / 2, HOP);
        else if (block * HOP > (uint64_t)LOUD * HOP + TAPS)
            assert_int_equal(count, 0);
    }
    engine_ring_close(engine, stage.ring);
    stage_close(&stage);
}

/* Not in the shape of a GPU: compiling its barriers for a CPU takes half a minute. */
static int open_mirrored(void **state)
{
    engine_seams.mirrored = true;
    return open_engine(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_copies_are_made_again),
        cmocka_unit_test(what_runs_behind_a_failed_batch_fails),
        cmocka_unit_test(refused_feeds_are_copied_from_the_host),
        cmocka_unit_test(only_plans_without_state_take_the_second_queue),
        cmocka_unit_test(the_second_queue_waits_for_copies_on_the_first),
        cmocka_unit_test(rows_of_many_items),
        cmocka_unit_test(presence_follows_when_a_batch_reads_it),
        cmocka_unit_test(counts_begin_at_zero),
    };
    return cmocka_run_group_tests(tests, open_mirrored, close_engine);
}
