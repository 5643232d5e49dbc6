/*
 * What a stream sheds: each frame that is missing from the results is reported as missing once,
 * with its cause, however many faults overlap; and every epoch that began ends.
 */
#include "tests/support/stream_world.h"

/* Every output frame below `until` was handed on once, or reported as missing once. */
static void check_told(int epoch, uint64_t until)
{
    for (uint64_t n = 0; n < until; n++)
        if (world->got.seen[epoch][n] + world->got.holes[epoch][n] != 1)
            fail_msg("epoch %d frame %llu: handed on %d times, reported missing %d times", epoch,
                     (unsigned long long)n, world->got.seen[epoch][n], world->got.holes[epoch][n]);
}

/* The ledger and the results agree on what was shed, by cause. */
static void check_causes(void)
{
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(world->got.hole_frames[INVALID_OVERLOAD], stats.shed[SHED_OVERLOAD]);
    assert_int_equal(world->got.hole_frames[INVALID_DEVICE], stats.shed[SHED_DEVICE]);
}

/* Puts packets of 80 frames, [from, until) of the epoch, in real time. Returns the first frame
 * after the last one accepted: what a full ring refuses at the end of an epoch is no part of it. */
static uint64_t feed_frames(int epoch, uint64_t from, uint64_t until)
{
    uint64_t accepted = 0;
    for (uint64_t n = from; n < until; n += 80) {
        world->now_ns += 80 * NS_PER_US;
        uint32_t flags = epoch > 0 && n == 0 ? PACKET_DISCONTINUITY : 0;
        if (put(epoch, n, 80, n, flags) == VERDICT_ACCEPTED)
            accepted = n + 80;
    }
    return accepted;
}

/* Blocks are shed behind a batch in flight, then that batch fails: two causes wait for one result.
 */
static void test_two_causes_wait_together(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    turn(0); /* submitted, not completed */
    feed_frames(0, 320, 2400);
    world->engine.fail_next = true;
    turn(BATCHES);
    feed_frames(0, 2400, 4000);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 0);
    assert_true(stats.shed[SHED_DEVICE] > 0);
    check_told(0, 4000 + TAPS - 1);
    check_causes();
    world_close();
}

/* Every other batch fails while blocks are shed between them. */
static void test_alternating_failures(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 8192;
    world_open(&options);
    uint64_t accepted = 0;
    for (uint64_t n = 0; n < 24000; n += 80) {
        uint64_t end = feed_frames(0, n, n + 80);
        accepted = end > 0 ? end : accepted;
        world->engine.fail_next = n / 80 % 2 == 0;
        turn(n / 80 % 5 == 4);
    }
    stream_end(world->stream);
    drain();
    check_told(0, accepted + TAPS - 1);
    check_causes();
    assert_int_equal(world->got.ends, 1);
    world_close();
}

/* The last batches of an epoch fail: its end still comes, with what is missing. */
static void test_the_end_comes_without_the_last_batches(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    put(0, 320, 320, 320, 0);
    stream_end(world->stream);
    world->engine.failing = 1;
    drain();
    assert_int_equal(world->got.starts, 1);
    assert_int_equal(world->got.ends, 1);
    check_told(0, 640 + TAPS - 1);
    check_causes();
    world_close();
}

/* Not one batch of an epoch succeeds: it begins and ends all the same, before the next one. */
static void test_an_epoch_without_results(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    world->engine.failing = 1;
    put(0, 0, 320, 0, 0);
    turn(BATCHES);
    put(1, 0, 320, 0, PACKET_DISCONTINUITY);
    turn(2 * BATCHES);
    world->engine.failing = 0;
    put(1, 320, 320, 320, 0);
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.starts, 2);
    assert_int_equal(world->got.ends, 2);
    assert_false(world->got.out_of_order);
    check_told(0, 320 + TAPS - 1);
    check_told(1, 640 + TAPS - 1);
    check_causes();
    world_close();
}

/* The rest of an ended epoch is shed while the device computes nothing: its end comes when what was
 * in flight is through. */
static void test_the_end_comes_without_the_last_blocks(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    turn(0);
    put(0, 320, 320, 320, 0);
    uint64_t accepted = feed_frames(1, 0, 8000);
    assert_true(accepted > 0);
    assert_int_equal(world->got.ends, 0); /* the first batch is still in flight */
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.ends, 2);
    assert_false(world->got.out_of_order);
    check_told(0, 640 + TAPS - 1);
    check_told(1, accepted + TAPS - 1);
    check_causes();
    world_close();
}

/* Behind for too long, with room in the ring: what is overdue is given up and told, what is not is
 * computed; a standstill of the device is no reason. */
static void test_behind_for_too_long(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.idle_flush_ns = 0;
    world_open(&options);
    stream_keep_up(world->stream, world->now_ns);
    put(0, 0, 320, 0, 0);
    struct stream_stats stats;
    for (int i = 0; i < 2; i++) {
        world->now_ns += NS_PER_SECOND;
        stream_excuse(world->stream, world->now_ns);
        stream_keep_up(world->stream, world->now_ns);
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.shed[SHED_OVERLOAD], 0);
    }
    world->now_ns += NS_PER_SECOND;
    put(0, 320, 200, 320, 0);
    stream_keep_up(world->stream, world->now_ns);
    check_ledgers();
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_OVERLOAD], 320);
    /* Until it has lost nothing for a second it is not given the half second again. */
    world->now_ns += 200 * NS_PER_MS;
    stream_keep_up(world->stream, world->now_ns);
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_OVERLOAD], 320);
    world->now_ns += 100 * NS_PER_MS;
    put(0, 520, 120, 520, 0);
    stream_keep_up(world->stream, world->now_ns);
    check_ledgers();
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_OVERLOAD], 512);
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.hole_frames[INVALID_OVERLOAD], 512);
    check_told(0, 640 + TAPS - 1);
    check_causes();
    world_close();
}

/* Faults of all kinds at once, many seeds: lost and late packets, kernel drops, overload, failing
 * batches, new epochs, idle flushes, with and without alignment. */
static void random_faults(uint64_t seed)
{
    struct random_state random = {seed * 104729};
    struct stream_options options = default_options();
    options.ring_frames_min = seed % 3 == 0 ? 1024 : 4096;
    options.align = seed % 4 == 1;
    world_open(&options);
    world->engine.chance = (struct random_state){seed};
    uint64_t ends[EPOCHS] = {0}; /* of the input, by epoch */
    uint64_t next = 0, origin = 0, epochs = 0;
    for (int step = 0; step < 600 && epochs < EPOCHS; step++) {
        uint32_t count = 1 + random_below(&random, 120);
        bool begins = epochs < EPOCHS - 1 && next > origin + 500 && random_unit(&random) < 0.01;
        if (step % 60 == 0)
            world->engine.failing = random_below(&random, 3) * 0.4;
        bool lost = !begins && next > 0 && random_unit(&random) < 0.05;
        if (lost && random_below(&random, 2) == 0)
            stream_lost(world->stream, count, INVALID_CAPTURE);
        world->now_ns += count * 1000;
        if (!lost && put(0, next % 20000, count, next, begins ? PACKET_DISCONTINUITY : 0) ==
                         VERDICT_ACCEPTED) {
            struct stream_stats stats;
            stream_stats(world->stream, &stats);
            if (stats.epochs > epochs) /* asked for, or refused packets left too long a gap */
                origin = next;
            epochs = stats.epochs;
            ends[epochs - 1] = next + count - origin;
        }
        next += count;
        if (random_unit(&random) < 0.02)
            world->now_ns += 20 * NS_PER_MS; /* an idle flush */
        if (random_unit(&random) < 0.02)
            world->now_ns += 700 * NS_PER_MS; /* behind for too long */
        stream_keep_up(world->stream, world->now_ns);
        check_ledgers();
        turn(step / 50 % 3 == 2 ? 0 : (int)random_below(&random, 4)); /* overload, now and then */
    }
    stream_end(world->stream);
    drain();
    assert_false(world->got.out_of_order);
    assert_int_equal(world->got.starts, epochs);
    assert_int_equal(world->got.ends, epochs);
    for (uint64_t e = 0; e < epochs; e++)
        check_told((int)e, ends[e] + TAPS - 1 - (options.align ? 18 : 0));
    if (!options.align)
        check_causes();
    world_close();
}

static void test_random_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++)
        random_faults(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_causes_wait_together),
        cmocka_unit_test(test_alternating_failures),
        cmocka_unit_test(test_the_end_comes_without_the_last_batches),
        cmocka_unit_test(test_an_epoch_without_results),
        cmocka_unit_test(test_the_end_comes_without_the_last_blocks),
        cmocka_unit_test(test_behind_for_too_long),
        cmocka_unit_test(test_random_faults),
    };
    return cmocka_run_group_tests_name("stream_sheds", tests, NULL, NULL);
}
