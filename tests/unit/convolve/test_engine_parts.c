/*
 * A batch in parts: how it is cut, what overtakes it between two parts, that its results are those
 * of the whole to the bit, and what becomes of it when a part fails or the device is lost
 * meanwhile. On the CPU's own memory and through a mirror.
 *
 * takes: 0 s CPU in 1 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "convolve/lost.h"
#include "core/clock.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"
#include "tests/support/launch_log.h"

enum { HOP = 64, BLOCKS = 16, CHANNELS = 8, LAUNCHES_MAX = 64 };

/* ---- a stream of blocks ---------------------------------------------------------------------- */

struct scene {
    struct test_signal *signal;
    struct test_plan plan;
    struct ring *ring;
};

static void scene_open(struct engine *on, struct scene *scene, const char *variant,
                       uint32_t channels, uint32_t taps)
{
    struct problem problem;
    scene->signal = signal_noise("s16le", channels, HOP * BLOCKS, 5);
    test_plan_diagonal(&scene->plan, scene->signal, HOP, taps, false, OUTPUT_REAL);
    scene->plan.spec.variant = variant;
    scene->plan.spec.blocks_max = BLOCKS;
    test_plan_prepare(on, &scene->plan, scene->signal);
    assert_int_equal(engine_ring_open(on, 4096, channels * 2, &scene->ring, &problem), 0);
    memcpy(scene->ring->bytes, scene->signal->bytes, (size_t)HOP * BLOCKS * channels * 2);
    memset(scene->ring->present, 0xFF, HOP * BLOCKS / 8);
}

static void scene_close(struct engine *on, struct scene *scene)
{
    engine_ring_close(on, scene->ring);
    test_plan_free(&scene->plan);
    signal_free(scene->signal);
}

/* Submits blocks [block, block + blocks), in `parts` parts or, with 0, whole. */
static struct batch *submit(struct engine *on, struct scene *scene, uint32_t block, uint32_t blocks,
                            int64_t parts)
{
    struct batch *batch = engine_batch_take(on);
    const struct batch_item item = {
        .plan = scene->plan.plan,
        .ring = scene->ring,
        .position = (uint64_t)block * HOP,
        .epoch_block = block,
        .blocks = blocks,
        .write_until = blocks * HOP,
        .fresh_until = HOP * BLOCKS,
        .absent = true,
    };
    assert_int_equal(engine_batch_add(on, batch, &item), 0);
    if (parts > 0)
        batch->part_ns = batch->cost_ns / parts + 1;
    engine_submit(on, batch);
    return batch;
}

static size_t bytes_of(const struct batch *batch)
{
    const struct batch_item *item = &batch->items[0];
    return (size_t)item->blocks * HOP * plan_info(item->plan)->output_floats * sizeof(float);
}

/* What the batch's blocks are when they are computed whole. */
static void expect_whole(struct scene *scene, const struct batch *batch)
{
    const struct batch_item *item = &batch->items[0];
    struct batch *whole = submit(engine, scene, (uint32_t)item->epoch_block, item->blocks, 0);
    assert_ptr_equal(harness_wait(engine), whole);
    assert_memory_equal(item->samples, whole->items[0].samples, bytes_of(batch));
    engine_batch_release(engine, whole);
}

/* The counts here are of the CPU's kernels, whose groups compute one row each; a GPU's compute
 * several. That parts are the whole to the bit there: test_bit_identity. */
static void only_on_cpus(void)
{
    if (!harness_runs(engine, "lanes"))
        skip();
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Launches of `blocks` blocks in so many parts. */
static uint32_t count_parts(struct scene *scene, uint32_t blocks, int64_t parts)
{
    uint32_t other;
    harness_set_cost(scene->plan.plan, NS_PER_MS);
    launches_follow(0);
    struct batch *batch = submit(engine, scene, 0, blocks, parts);
    assert_ptr_equal(harness_wait(engine), batch);
    const uint32_t count = launches_of_first(&other);
    launches_forget();
    expect_whole(scene, batch);
    engine_batch_release(engine, batch);
    return count;
}

static void parts_are_rows_then_groups(void **state)
{
    (void)state;
    only_on_cpus();
    struct scene scene, narrow;
    scene_open(engine, &scene, "local", CHANNELS, 129);
    assert_int_equal(count_parts(&scene, 1, 0), 1);
    assert_int_equal(count_parts(&scene, 1, 1), 1);
    assert_int_equal(count_parts(&scene, 1, 2), 2);
    assert_int_equal(count_parts(&scene, 1, 3), 4); /* of 8 rows 2 fit a third of the time */
    assert_int_equal(count_parts(&scene, 1, 8), 8);
    assert_int_equal(count_parts(&scene, 1, 1000), 8); /* what a group computes is not cut */
    assert_int_equal(count_parts(&scene, 4, 32), 32);
    scene_open(engine, &narrow, "local", 1, 129);
    assert_int_equal(count_parts(&narrow, 1, 9), 1);
    assert_int_equal(count_parts(&narrow, 4, 2), 2);
    assert_int_equal(count_parts(&narrow, 5, 2), 3);
    assert_int_equal(count_parts(&narrow, 4, 9), 4);
    scene_close(engine, &narrow);
    scene_close(engine, &scene);
}

/* ---- overtaking ------------------------------------------------------------------------------ */

static void others_overtake_between_two_parts(void **state)
{
    (void)state;
    only_on_cpus();
    struct scene lengthy, brief;
    scene_open(engine, &lengthy, "local", CHANNELS, 129);
    scene_open(engine, &brief, "direct", 1, 9);
    harness_set_cost(lengthy.plan.plan, NS_PER_MS);
    int64_t given_ns;
    launches_follow(launches_ahead() + 1);
    struct batch *parted = submit(engine, &lengthy, 3, 1, CHANNELS);
    launches_await();
    const uint64_t first = engine_oldest(engine, &given_ns);
    launches_go(launches_ahead() + 3);
    launches_await();
    /* Two parts are complete: that is progress, and the time of the next one begins. */
    assert_int_equal(engine_oldest(engine, &given_ns), first + 2);
    struct batch *overtaking[2];
    for (uint32_t i = 0; i < 2; i++)
        overtaking[i] = submit(engine, &brief, 5 + i, 1, 0);
    assert_int_equal(engine_in_flight(engine), 3);
    launches_go(0);
    struct batch *done[3];
    for (int i = 0; i < 3; i++)
        done[i] = harness_wait(engine);
    assert_int_equal(engine_in_flight(engine), 0);
    uint32_t other_at;
    assert_int_equal(launches_of_first(&other_at), CHANNELS);
    assert_int_equal(other_at, 4); /* behind the part that was being launched */
    assert_int_equal(launches_count(), CHANNELS + 2 + 3 * launches_ahead());
    assert_int_equal(engine_oldest(engine, &given_ns), 0);
    launches_forget();
    /* Among themselves those that overtake keep their order. */
    int at[2] = {-1, -1};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            at[j] = done[i] == overtaking[j] ? i : at[j];
    assert_true(at[0] >= 0 && at[0] < at[1]);
    assert_true(parted->overtaken_ns >= 0 &&
                parted->overtaken_ns < parted->completed_ns - parted->started_ns);
    expect_whole(&lengthy, parted);
    for (int j = 0; j < 2; j++)
        expect_whole(&brief, overtaking[j]);
    for (int i = 0; i < 3; i++)
        engine_batch_release(engine, done[i]);
    scene_close(engine, &lengthy);
    scene_close(engine, &brief);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The device refuses or fails part n: the batch fails, once, and what comes next is whole. */
static void a_part_fails(bool refused)
{
    struct scene lengthy, brief;
    scene_open(engine, &lengthy, "partitioned", CHANNELS, 1000); /* it keeps a delay line */
    scene_open(engine, &brief, "direct", 1, 9);
    for (uint32_t n = 1; n <= CHANNELS + (refused ? launches_ahead() : 0); n++) {
        harness_set_cost(lengthy.plan.plan, NS_PER_MS);
        if (refused)
            engine_seams.refused_launch = n;
        else
            atomic_store(&engine_seams.failed_completion, n);
        struct batch *parted = submit(engine, &lengthy, 4, 1, CHANNELS);
        assert_ptr_equal(harness_wait_any(engine), parted);
        assert_int_equal(parted->status, BATCH_FAILED);
        assert_int_equal(engine_in_flight(engine), 0);
        engine_batch_release(engine, parted);
        /* Nothing is left of it: not its parts, not what it should have kept. */
        struct batch *next = submit(engine, &brief, 5, 1, 0);
        assert_ptr_equal(harness_wait(engine), next);
        engine_batch_release(engine, next);
        parted = submit(engine, &lengthy, 5, 1, CHANNELS);
        assert_ptr_equal(harness_wait(engine), parted);
        expect_whole(&lengthy, parted);
        engine_batch_release(engine, parted);
    }
    scene_close(engine, &lengthy);
    scene_close(engine, &brief);
}

static void a_part_is_refused(void **state)
{
    (void)state;
    only_on_cpus();
    a_part_fails(true);
}

static void a_part_fails_while_it_runs(void **state)
{
    (void)state;
    only_on_cpus();
    a_part_fails(false);
}

/* The device is lost while parts are outstanding: nothing of it comes back to LOOP, and once the
 * rest is through it is closed. */
static void an_engine_is_left_with_parts(void **state)
{
    (void)state;
    only_on_cpus();
    const uint32_t before = engines_abandoned();
    struct engine *lost = harness_engine();
    struct scene lengthy, brief;
    scene_open(lost, &lengthy, "local", CHANNELS, 129);
    scene_open(lost, &brief, "direct", 1, 9);
    harness_set_cost(lengthy.plan.plan, NS_PER_MS);
    launches_follow(launches_ahead() + 3);
    submit(lost, &lengthy, 3, 1, CHANNELS);
    launches_await();
    submit(lost, &brief, 5, 1, 0);
    engine_declare_lost(lost, ENGINE_LOSS_STALLED, "a test");
    engine_abandon(lost);
    assert_int_equal(engine_in_flight(lost), 0);
    assert_null(engine_completed(lost));
    scene_close(lost, &lengthy);
    scene_close(lost, &brief);
    engine_close(lost);
    engines_reclaim();
    assert_int_equal(engines_abandoned(), before + 1);
    launches_go(0);
    const int64_t deadline_ns = clock_monotonic_ns() + 60 * NS_PER_SECOND;
    while (engines_abandoned() > before && clock_monotonic_ns() < deadline_ns) {
        engines_reclaim();
        usleep(1000);
    }
    assert_int_equal(engines_abandoned(), before);
    launches_forget();
    engines_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_rows_then_groups),
        cmocka_unit_test(others_overtake_between_two_parts),
        cmocka_unit_test(a_part_is_refused),
        cmocka_unit_test(a_part_fails_while_it_runs),
        cmocka_unit_test(an_engine_is_left_with_parts),
    };
    const struct CMUnitTest mirrored[] = {
        cmocka_unit_test(others_overtake_between_two_parts),
        cmocka_unit_test(a_part_is_refused),
        cmocka_unit_test(a_part_fails_while_it_runs),
    };
    int failed = cmocka_run_group_tests_name("engine: parts", tests, open_engine, close_engine);
    engine_seams.mirrored = true;
    failed +=
        cmocka_run_group_tests_name("engine: parts, mirrored", mirrored, open_engine, close_engine);
    return failed;
}
