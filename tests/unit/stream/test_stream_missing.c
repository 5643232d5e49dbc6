/*
 * What a plan has to have seen of the blocks before a block (a delay line, say) goes ahead in parts
 * that fit the budget of a batch: after blocks that were shed, and for a plan that takes over in
 * the middle of an epoch. Nothing else changes: frames, ledgers, the ring, other streams.
 */
#include "tests/support/stream_world.h"

#include "stream/move.h"

enum { KEEPS = 40, BUDGET_NS = 3000 }; /* three blocks of the definition */

static uint32_t parts, most;

static void complete_all(void)
{
    struct batch *batch;
    world->engine.completable = BATCHES;
    while ((batch = engine_completed(&world->engine)) != NULL) {
        for (uint32_t k = 0; k < batch->count; k++)
            if (batch->items[k].owner != NULL)
                stream_complete(world->stream, batch, &batch->items[k]);
        engine_batch_release(&world->engine, batch);
        check_ledgers();
    }
}

/* Submits what is ready, each batch within the budget, and completes all of it. */
static void work_off(void)
{
    complete_all();
    for (int i = 0; i < 10000 && !stream_drained(world->stream); i++) {
        stream_tick(world->stream, world->now_ns);
        struct batch *batch = engine_batch_take(&world->engine);
        if (stream_fill(world->stream, batch, BUDGET_NS, true) == 0) {
            engine_batch_release(&world->engine, batch);
            world->now_ns += NS_PER_MS;
            continue;
        }
        most = batch->cost_ns > most ? (uint32_t)batch->cost_ns : most;
        for (uint32_t k = 0; k < batch->count; k++)
            parts += batch->items[k].blocks == 0;
        engine_submit(&world->engine, batch);
        check_ledgers();
        complete_all();
    }
    assert_true(stream_drained(world->stream));
}

static void open_world(uint64_t ring_frames)
{
    struct stream_options options = default_options();
    options.ring_frames_min = ring_frames;
    parts = most = 0;
    world_open(&options);
    world->plan.keeps = world->other.keeps = KEEPS;
}

/* Every frame that came out is right, and each was handed on or reported as missing. */
static void check_frames(uint64_t frames, const struct plan *plan, uint64_t from)
{
    for (uint64_t n = from; n < frames; n++) {
        if (world->got.seen[0][n] + world->got.holes[0][n] != 1)
            fail_msg("frame %llu: handed on %d times, reported missing %d times",
                     (unsigned long long)n, world->got.seen[0][n], world->got.holes[0][n]);
        for (int c = 0; c < CHANNELS && world->got.seen[0][n]; c++) {
            double sum = 0;
            for (uint64_t k = 0; k < TAPS && k <= n; k++)
                if (world->placed[0][n - k])
                    sum += plan->taps[k] * world->sent[0][n - k][c];
            assert_true((float)sum == world->got.samples[0][n][c]);
        }
    }
}

static void test_after_shed_blocks(void **state)
{
    (void)state;
    open_world(4096);
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    uint64_t n = 320;
    for (; n < 12000; n += 80) { /* nobody computes: the ring sheds */
        world->now_ns += 80 * NS_PER_US;
        put(0, n, 80, n, 0);
    }
    struct overload_work work;
    assert_true(stream_work(world->stream, world->now_ns, &work));
    assert_true(work.cost_ns > KEEPS * 1000 && work.block_ns == 1000);
    world->plan.unseen = 0;
    stream_end(world->stream);
    work_off();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 0);
    assert_int_equal(world->plan.unseen, 0);
    assert_true(parts >= KEEPS / 3 && most <= BUDGET_NS);
    check_frames(n + TAPS - 1, &world->plan, 0);
    world_close();
}

/* More is shed while the parts are in flight: what they read stays in the ring until then. */
static void test_shed_meanwhile(void **state)
{
    (void)state;
    open_world(4096);
    uint64_t n = 0, accepted = 0;
    for (int step = 0; n < 24000; step++, n += 80) {
        world->now_ns += 80 * NS_PER_US;
        if (put(0, n, 80, n, 0) == VERDICT_ACCEPTED)
            accepted = n + 80;
        if (step % 3 == 0)
            turn(1);
    }
    stream_end(world->stream);
    work_off();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 0);
    assert_int_equal(stats.epochs, 1);
    assert_true(parts > 0);
    check_frames(accepted + TAPS - 1, &world->plan, 0);
    world_close();
}

/* All that was left is shed while a part is in flight, which has no frames: the stream is not
 * drained before it is back. */
static void test_all_shed_behind_a_part(void **state)
{
    (void)state;
    open_world(4096);
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    for (uint64_t n = 320; n < 12000; n += 80) {
        world->now_ns += 80 * NS_PER_US;
        put(0, n, 80, n, 0);
    }
    stream_end(world->stream);
    struct batch *batch = engine_batch_take(&world->engine);
    assert_true(stream_fill(world->stream, batch, BUDGET_NS, true) > 0);
    assert_int_equal(batch->items[0].blocks, 0);
    engine_submit(&world->engine, batch);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    for (int i = 0; i < 100 && stats.waiting > 0; i++) {
        world->now_ns += 100 * NS_PER_MS;
        stream_keep_up(world->stream, world->now_ns);
        stream_stats(world->stream, &stats);
    }
    assert_int_equal(stats.waiting + stats.submitted, 0);
    assert_false(stream_drained(world->stream));
    complete_all();
    assert_true(stream_drained(world->stream));
    world_close();
}

static void on_retired(void *context, struct plan *old)
{
    (void)old;
    (*(int *)context)++;
}

/* A plan that takes over has seen nothing; its first block lies inside a block of the old one, so
 * the change can be cancelled no more once it has begun to look back. */
static void test_takes_over_in_parts(void **state)
{
    (void)state;
    for (int cancels = 0; cancels < 2; cancels++) {
        open_world(4096);
        int retired = 0;
        for (uint64_t n = 0; n < 2000; n += 80) {
            world->now_ns += 80 * NS_PER_US;
            put(0, n, 80, n, 0);
            turn(BATCHES);
        }
        const uint64_t at = stream_next_frame(world->stream) + 7;
        const struct stream_change change = {.plan = &world->other,
                                             .frame = at,
                                             .how = CHANGE_HARD,
                                             .retired = on_retired,
                                             .context = &retired};
        assert_int_equal(stream_change(world->stream, &change), 0);
        for (uint64_t n = 2000; n < 2400; n += 80)
            put(0, n, 80, n, 0);
        struct batch *batch = engine_batch_take(&world->engine);
        if (cancels) {
            assert_int_equal(stream_change_cancel(world->stream), 0);
            engine_batch_release(&world->engine, batch);
        } else {
            assert_int_equal(stream_fill(world->stream, batch, BUDGET_NS, true), BUDGET_NS);
            assert_int_equal(batch->items[0].blocks, 0);
            assert_ptr_equal(batch->items[0].plan, &world->other);
            engine_submit(&world->engine, batch);
            assert_int_equal(stream_change_cancel(world->stream), ERROR_ARGUMENT);
            turn(BATCHES);
        }
        stream_end(world->stream);
        work_off();
        assert_int_equal(world->other.unseen, 0);
        assert_int_equal(retired, !cancels);
        check_frames(cancels ? 2400 : at, &world->plan, 0);
        check_frames(2400, cancels ? &world->plan : &world->other, cancels ? 0 : at);
        world_close();
    }
}

/* A part that fails costs no frame. */
static void test_a_part_fails(void **state)
{
    (void)state;
    open_world(4096);
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    world->plan.seen_origin++; /* as after a move: the device has seen nothing */
    put(0, 320, 640, 320, 0);
    struct batch *batch = engine_batch_take(&world->engine);
    assert_int_equal(stream_fill(world->stream, batch, BUDGET_NS, true), BUDGET_NS);
    assert_int_equal(batch->items[0].blocks, 0);
    engine_submit(&world->engine, batch);
    world->engine.fail_next = true;
    turn(BATCHES);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_DEVICE], 0);
    stream_end(world->stream);
    work_off();
    check_frames(960 + TAPS - 1, &world->plan, 0);
    world_close();
}

/* A lost device takes a part with it. Blocks shed behind that part stay shed. */
static void test_halted_meanwhile(void **state)
{
    (void)state;
    open_world(2048);
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    world->plan.seen_origin++;
    put(0, 320, 320, 320, 0);
    struct batch *batch = engine_batch_take(&world->engine);
    assert_int_equal(stream_fill(world->stream, batch, BUDGET_NS, true), BUDGET_NS);
    engine_submit(&world->engine, batch);
    for (uint64_t n = 640; n < 2960; n += 80)
        put(0, n, 80, n, 0);
    const uint64_t next = stream_next_frame(world->stream);
    assert_true(next > 320);
    stream_halt(world->stream);
    assert_int_equal(stream_next_frame(world->stream), next);
    check_ledgers();
    stream_end(world->stream);
    stream_give_up(world->stream);
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_shed_blocks),      cmocka_unit_test(test_shed_meanwhile),
        cmocka_unit_test(test_all_shed_behind_a_part), cmocka_unit_test(test_takes_over_in_parts),
        cmocka_unit_test(test_a_part_fails),           cmocka_unit_test(test_halted_meanwhile),
    };
    return cmocka_run_group_tests_name("stream_missing", tests, NULL, NULL);
}
