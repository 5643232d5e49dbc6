/*
 * What a stream upstream has lost: the stream that reads it flags and counts the same frames under
 * the cause that the upstream's results report, and under no other.
 */
#include "tests/support/stream_world.h"

/* Puts frames [first, first + frames) of an epoch, as a result that reports `range`. */
static enum verdict put_result(int epoch, uint64_t first, uint32_t frames, uint32_t flags,
                               struct invalid_range range)
{
    const struct packet packet = {
        .first_frame = first,
        .frames = frames,
        .flags = flags,
        .payload = (const uint8_t *)world->sent[epoch][first],
        .receive_ns = world->now_ns,
        .receive_realtime_ns = simulated_realtime_ns(),
        .invalid = &range,
        .invalid_count = range.from < range.until,
    };
    const enum verdict verdict = stream_put(world->stream, &packet);
    if (verdict == VERDICT_ACCEPTED)
        memset(&world->placed[epoch][first], 1, frames);
    check_ledgers();
    return verdict;
}

static const struct invalid_range nothing = {0, 0, INVALID_NETWORK};

static struct stream_options chain_options(void)
{
    struct stream_options options = default_options();
    options.reorder_ns = 0;
    return options;
}

/* Of frames [from, until) of an epoch each has the cause, and no cause of `others`. */
static void check_cause(int epoch, uint64_t from, uint64_t until, enum invalid_cause cause)
{
    for (uint64_t n = from; n < until; n++)
        if ((world->got.causes[epoch][n] & ~(bit(INVALID_SETTLING) | bit(INVALID_TAIL))) !=
            bit(cause))
            fail_msg("frame %llu: causes %#x, expected %s", (unsigned long long)n,
                     world->got.causes[epoch][n], invalid_cause_name(cause));
}

static void expect_gap(uint64_t frames, enum invalid_cause cause)
{
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    for (int c = 0; c < INVALID_CAUSES; c++)
        if (stats.gap[c] != ((int)cause == c ? frames : 0))
            fail_msg("%llu frames lost by cause %s", (unsigned long long)stats.gap[c],
                     invalid_cause_name(c));
}

static void test_shed_by_the_device(void **state)
{
    (void)state;
    static const enum invalid_cause causes[] = {INVALID_DEVICE, INVALID_OVERLOAD, INVALID_UPSTREAM};
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        struct stream_options options = chain_options();
        world_open(&options);
        put_result(0, 0, 320, 0, nothing);
        turn(BATCHES);
        put_result(0, 400, 320, 0, (struct invalid_range){320, 400, causes[i]});
        turn(BATCHES);
        stream_end(world->stream);
        drain();
        check_cause(0, 320, 400 + TAPS - 1, causes[i]);
        assert_int_equal(world->got.causes[0][400 + TAPS - 1], 0);
        assert_int_equal(world->got.causes[0][319], 0);
        expect_gap(80, causes[i]);
        world_close();
    }
}

/* Results that the upstream stream finds uncertain behind them: what rests on them is flagged, also
 * where it was delivered already, and nothing of it counts as lost. */
static void test_found_uncertain_later(void **state)
{
    (void)state;
    struct stream_options options = chain_options();
    world_open(&options);
    put_result(0, 0, 640, 0, nothing);
    turn(BATCHES);
    put_result(0, 640, 320, 0, (struct invalid_range){200, 600, INVALID_UNCERTAIN});
    turn(BATCHES);
    stream_end(world->stream);
    drain();
    check_epoch(0, 960 + TAPS - 1, world->plan.taps, 0);
    check_cause(0, 200, 600 + TAPS - 1, INVALID_UNCERTAIN);
    assert_int_equal(world->got.causes[0][600 + TAPS - 1], 0);
    assert_int_equal(world->got.causes[0][199], 0);
    expect_gap(0, INVALID_UNCERTAIN);
    world_close();
}

/* The result that reports the range finds no room; what comes after it is missing for lack of it.
 */
static void test_the_report_is_refused(void **state)
{
    (void)state;
    struct stream_options options = chain_options();
    world_open(&options);
    put_result(0, 0, 320, 0, nothing);
    turn(0); /* in flight: what lies behind it cannot be shed */
    uint64_t first = 320;
    while (put_result(0, first, 320, 0, nothing) == VERDICT_ACCEPTED)
        first += 320;
    /* The refused packet was [first, first + 320); then the upstream sheds 64 frames. */
    const struct invalid_range range = {first + 320, first + 384, INVALID_DEVICE};
    assert_int_equal(put_result(0, first + 384, 320, 0, range), VERDICT_OUT_OF_WINDOW);
    turn(BATCHES);
    turn(BATCHES);
    assert_int_equal(put_result(0, first + 704, 320, 0, nothing), VERDICT_ACCEPTED);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_DEVICE], 64);
    assert_int_equal(stats.gap[INVALID_OVERLOAD], 640);
    assert_int_equal(stats.gap[INVALID_NETWORK], 0);
    world_close();
}

/* What is shed first and last of an epoch is part of it downstream too. */
static void test_shed_at_both_ends(void **state)
{
    (void)state;
    struct stream_options options = chain_options();
    world_open(&options);
    put_result(0, 64, 320, 0, (struct invalid_range){0, 64, INVALID_DEVICE});
    turn(BATCHES);
    const struct invalid_range last = {384, 480, INVALID_DEVICE};
    const struct packet end = {.first_frame = 480,
                               .flags = PACKET_LAST,
                               .receive_ns = world->now_ns,
                               .receive_realtime_ns = simulated_realtime_ns(),
                               .invalid = &last,
                               .invalid_count = 1};
    stream_end_at(world->stream, &end);
    check_ledgers();
    drain();
    expect_gap(64 + 96, INVALID_DEVICE);
    assert_int_equal(world->got.frames[0], 480 + TAPS - 1);
    check_cause(0, 0, 64 + TAPS - 1, INVALID_DEVICE);
    check_cause(0, 384, 480 + TAPS - 1, INVALID_DEVICE);
    check_epoch(0, 480 + TAPS - 1, world->plan.taps, 0);
    /* An epoch of which nothing came. */
    const struct invalid_range all = {0, 200, INVALID_DEVICE};
    const struct packet none = {.first_frame = 200,
                                .flags = PACKET_LAST | PACKET_DISCONTINUITY,
                                .receive_ns = world->now_ns,
                                .receive_realtime_ns = simulated_realtime_ns(),
                                .invalid = &all,
                                .invalid_count = 1};
    stream_end_at(world->stream, &none);
    check_ledgers();
    drain();
    expect_gap(64 + 96 + 200, INVALID_DEVICE);
    check_cause(1, 0, 200 + TAPS - 1, INVALID_DEVICE);
    assert_int_equal(world->got.ends, 2);
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shed_by_the_device),
        cmocka_unit_test(test_found_uncertain_later),
        cmocka_unit_test(test_the_report_is_refused),
        cmocka_unit_test(test_shed_at_both_ends),
    };
    return cmocka_run_group_tests_name("stream_upstream", tests, NULL, NULL);
}
