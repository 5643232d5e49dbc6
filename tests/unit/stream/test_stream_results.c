/*
 * Output of a stream: overload, back-pressure, device failure, exchange of the filter, delay,
 * capture time, and a seeded random world.
 */
#include "tests/support/stream_world.h"

static void test_tail_is_due_when_the_epoch_ends(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    world->now_ns += 10 * NS_PER_MS;
    turn(4); /* the partial block */
    world->now_ns += NS_PER_SECOND;
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    /* the silence before the end is nobody's latency */
    assert_true(stats.total->max_ns < 20 * NS_PER_MS);
    world_close();
}

static void on_retired(void *context, struct plan *old)
{
    (void)context;
    assert_ptr_equal(old, world->retired == 0 ? &world->plan : &world->other);
    world->retired++;
}

/* ---- samples that are not finite --------------------------------------------------------- */

enum { LIMIT = 0x3fff, BEYOND = 0x7000 };

/* A stream of filters so short that blocks have valid frames between two samples beyond the limit.
 */
static void open_limited(uint32_t taps)
{
    struct stream_options options = default_options();
    options.ring_frames_min = 8192;
    world_taps = taps;
    world_limit = LIMIT;
    world_open(&options);
    for (int n = 0; n < FRAMES_MAX; n++)
        for (int c = 0; c < CHANNELS; c++)
            world->sent[0][n][c] = (int16_t)(world->sent[0][n][c] / 2);
}

static void close_limited(void)
{
    world_close();
    world_taps = TAPS;
    world_limit = 0;
}

/* Exactly the results that depend on a sample beyond the limit are flagged, and no others. */
static void expect_nonfinite(uint64_t from, uint64_t until, uint32_t taps, int limit)
{
    for (uint64_t n = from; n < until; n++) {
        bool bad = false;
        for (uint64_t k = 0; k < taps && k <= n; k++)
            for (int c = 0; c < CHANNELS; c++)
                bad = bad || abs(world->sent[0][n - k][c]) > limit;
        if (bad != ((world->got.causes[0][n] & bit(INVALID_NONFINITE)) != 0))
            fail_msg("frame %llu is %sflagged", (unsigned long long)n, bad ? "not " : "");
    }
}

static void run_limited(uint64_t frames)
{
    for (uint64_t n = 0; n < frames; n += 100) {
        put(0, n, 100, n, 0);
        turn(BATCHES);
        world->now_ns += 100 * NS_PER_US;
    }
}

static void test_nonfinite_ranges_are_exact(void **state)
{
    (void)state;
    static const uint32_t taps[] = {1, 2, 5, TAPS};
    for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++) {
        open_limited(taps[i]);
        rescanned = 0;
        /* both ends of a block, neighbours, two of one block, each channel, dense and sparse */
        static const int places[] = {64,  95,  96,  100, 131, 200, 201, 202, 210, 223,
                                     224, 255, 640, 643, 648, 651, 659, 661, 671};
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++)
            world->sent[0][places[p]][p % CHANNELS] = p % 3 ? BEYOND : -BEYOND;
        struct random_state random = {i};
        for (int n = 800; n < 1600; n++)
            if (random_below(&random, 12) == 0)
                world->sent[0][n][random_below(&random, CHANNELS)] = BEYOND;
        run_limited(2000);
        stream_end(world->stream);
        drain();
        expect_nonfinite(0, 2000, taps[i], LIMIT);
        assert_true((rescanned > 0) == (taps[i] < HOP));
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_true(stats.levels[0].nonfinite > 0);
        close_limited();
    }
}

/* A plan with more gain takes smaller samples as not finite. Those before its first frame, which
 * the old plan took as numbers, are flagged as far as the new plan reads them. */
static void test_a_lower_limit_flags_what_came_before(void **state)
{
    (void)state;
    static const uint64_t places[] = {999, 990, 950, 940, 1003};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        open_limited(TAPS);
        world->other.limit = LIMIT / 2.0 + 1000;
        world->other.info.input_limit = LIMIT / 2.0 + 1000;
        for (int n = 0; n < 2000; n++)
            for (int c = 0; c < CHANNELS; c++)
                world->sent[0][n][c] = (int16_t)(world->sent[0][n][c] / 2);
        world->sent[0][places[i]][1] = LIMIT - 5;
        run_limited(900);
        const struct stream_change change = {
            .plan = &world->other, .frame = 1000, .delay_frames = 18, .retired = on_retired};
        assert_int_equal(stream_change(world->stream, &change), 0);
        for (uint64_t n = 900; n < 1500; n += 100)
            put(0, n, 100, n, 0), turn(BATCHES);
        stream_end(world->stream);
        drain();
        expect_nonfinite(0, 1000 / HOP * HOP, TAPS, LIMIT); /* the new plan reports that block */
        expect_nonfinite(1000, 1500, TAPS, LIMIT / 2 + 1000);
        close_limited();
    }
}

/* The block of the change is reported by the new plan, which takes larger samples as numbers. */
static void test_a_higher_limit_flags_what_the_old_one_left_out(void **state)
{
    (void)state;
    open_limited(TAPS);
    world->other.limit = BEYOND + 1;
    world->other.info.input_limit = BEYOND + 1;
    world->sent[0][995][1] = BEYOND;
    run_limited(900);
    const struct stream_change change = {
        .plan = &world->other, .frame = 1000, .delay_frames = 18, .retired = on_retired};
    assert_int_equal(stream_change(world->stream, &change), 0);
    for (uint64_t n = 900; n < 1500; n += 100)
        put(0, n, 100, n, 0), turn(BATCHES);
    stream_end(world->stream);
    drain();
    expect_nonfinite(0, 1000, TAPS, LIMIT);
    close_limited();
}

static void test_overload_sheds_whole_blocks(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    const struct stream_stats stats = overload(8000);
    assert_int_equal(stats.shed[SHED_OVERLOAD] % HOP, 0);
    assert_int_equal(stats.received, 8000);
    uint64_t first_seen = 0;
    while (!world->got.seen[0][first_seen])
        first_seen++;
    assert_int_equal(first_seen, stats.shed[SHED_OVERLOAD]);
    check_epoch(0, 8000 + TAPS - 1, world->plan.taps, first_seen); /* with the true history */
    for (uint64_t i = 0; i < first_seen; i++)
        assert_true(world->got.causes[0][i] & bit(INVALID_OVERLOAD));
    world_close();
}

/* A packet missing from blocks that are shed before its reorder window has passed is a gap all the
 * same. */
static void test_overload_gives_up_what_it_sheds(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.reorder_ns = NS_PER_SECOND;
    world_open(&options);
    for (uint64_t n = 0; n < 8000; n += 100) {
        world->now_ns += 100 * NS_PER_US;
        if (n != 1000 && n != 1100)
            put(0, n, 100, n, 0);
    }
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 1200);
    assert_int_equal(stats.timeline_in, 8000);
    assert_int_equal(stats.received, 7800);
    assert_int_equal(stats.awaited, 0);
    assert_int_equal(stats.gap[INVALID_NETWORK], 200);
    world_close();
}

static void test_back_pressure_loses_nothing(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.live = false;
    world_open(&options);
    uint64_t n = 0;
    while (n < 20000) {
        uint64_t room = stream_room(world->stream);
        uint32_t frames = room < 150 ? (uint32_t)room : 150;
        if (frames > 0) {
            assert_int_equal(put(0, n, frames, n, 0), VERDICT_ACCEPTED);
            n += frames;
        }
        if (room < 100)
            turn(1);
    }
    stream_end(world->stream);
    drain();
    check_epoch(0, 20000 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static void test_device_failure_is_counted(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    world->engine.fail_next = true;
    turn(1);
    put(0, 320, 320, 320, 0);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_DEVICE] > 0);
    uint64_t lost = stats.shed[SHED_DEVICE];
    assert_int_equal(world->got.delivered + lost, 640 + TAPS - 1);
    assert_true(world->got.causes[0][0] & bit(INVALID_DEVICE));
    check_epoch(0, 640 + TAPS - 1, world->plan.taps, lost);
    world_close();
}

static void test_exchange_at_a_frame(void **state)
{
    (void)state;
    static const uint64_t at[] = {96, 100, 127, 128, 129, 500, 0};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        if (at[i] > 0) {
            put(0, 0, 64, 0, 0);
            turn(4);
        }
        struct stream_change exchange = {
            .plan = &world->other, .frame = at[i], .delay_frames = 18, .retired = on_retired};
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        for (uint64_t n = at[i] > 0 ? 64 : 0; n < 1000; n += 60)
            put(0, n, 60, n, 0), turn(1);
        stream_end(world->stream);
        drain();
        assert_int_equal(world->retired, 1);
        check_epoch(0, 1024, world->other.taps, at[i]);
        if (at[i] > 0)
            check_epoch(0, at[i], world->plan.taps, 0);
        exchange.plan = &world->plan;
        exchange.frame = 0;
        assert_int_equal(stream_change(world->stream, &exchange),
                         world->got.frames[0] > 0 ? 0 : ERROR_ARGUMENT);
        world_close();
    }
}

static void test_align_applies_the_delay(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.align = true;
    world_open(&options);
    put(0, 0, 320, 0, 0);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_ALIGNED], 18);
    assert_int_equal(world->got.frames[0], 320 + TAPS - 1 - 18);
    for (uint64_t n = 0; n < 320; n++) {
        double sum = 0;
        for (uint64_t k = 0; k < TAPS && k <= n + 18; k++) {
            if (n + 18 - k < 320)
                sum += world->plan.taps[k] * world->sent[0][n + 18 - k][0];
        }
        assert_true((float)sum == world->got.samples[0][n][0]);
    }
    world_close();
}

static void test_capture_time(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    int64_t begin_ns = world->now_ns;
    struct random_state random = {5};
    for (uint64_t n = 0; n < 20000; n += 100) {
        /* jitter of up to 400 µs on a line: the line is found underneath */
        int64_t line_ns = begin_ns + (int64_t)(n + 100) * 1000;
        world->now_ns = line_ns + (int64_t)random_below(&random, 20) * 1000;
        put(0, n, 100, n, 0);
        turn(4);
    }
    stream_end(world->stream);
    drain();
    int64_t error_ns = world->got.capture_ns[0] - (begin_ns + 1700000000 * NS_PER_SECOND);
    assert_in_range(error_ns + 20000, 0, 40000);
    world_close();
}

/* A sender that pauses: the results' times lie within their bound, packets later also where a
 * result holds frames of both sides; after a second times begin again. `counted`: the frame numbers
 * pass. */
static void test_capture_time_across_a_pause(void **state)
{
    (void)state;
    enum { PACKET = 100, PACKETS = 300, BEFORE = 101 };
    for (int counted = 0; counted < 2; counted++) {
        const int64_t pause_ns = 200 * NS_PER_MS, frame_ns = 100 * NS_PER_US;
        struct stream_options options = default_options();
        options.rate_hz = 1e4;
        world_open(&options);
        const uint64_t left_out = counted ? (uint64_t)(pause_ns / frame_ns) : 0;
        const int64_t begin_ns = simulated_realtime_ns();
        for (int i = 0; i < PACKETS; i++) {
            const uint64_t n = (uint64_t)i * PACKET + (i >= BEFORE ? left_out : 0);
            world->now_ns += PACKET * frame_ns + (i == BEFORE ? pause_ns : 0);
            assert_int_equal(put(0, n, PACKET, n, 0), VERDICT_ACCEPTED);
            turn(4), turn(4);
            const uint64_t first = world->got.capture_end_frame[0];
            const int64_t late_ns = first >= BEFORE * PACKET && !counted ? pause_ns : 0;
            const int64_t off_ns =
                world->got.capture_end_ns[0] - begin_ns - late_ns - (int64_t)first * frame_ns;
            if (world->got.frames[0] > 0 && llabs(off_ns) > world->got.clock_error_ns)
                fail_msg("packet %d, frame %llu: off by %lld ns with a bound of %lld ns", i,
                         (unsigned long long)first, (long long)off_ns,
                         (long long)world->got.clock_error_ns);
        }
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.clock_step.count, !counted);
        if (!counted) {
            assert_int_equal(stats.clock_step.frame, BEFORE * PACKET);
            assert_in_range(stats.clock_step.step_ns, pause_ns - 1000, pause_ns + 1000);
        }
        assert_true(world->got.clock_error_ns < 10 * NS_PER_MS);
        stream_end(world->stream);
        drain();
        world_close();
    }
}

/* Times that the source gives may step, too: frames before the step keep theirs. */
static void test_given_capture_times_step(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    const int64_t begin_ns = simulated_realtime_ns();
    for (uint64_t n = 0; n < 1000; n += 100) {
        struct packet packet = {.first_frame = n,
                                .frames = 100,
                                .flags = PACKET_CAPTURE,
                                .payload = (const uint8_t *)world->sent[0][n],
                                .receive_ns = world->now_ns += 100 * NS_PER_US,
                                .receive_realtime_ns = simulated_realtime_ns(),
                                .capture_ns =
                                    begin_ns + (int64_t)n * 1000 + (n >= 500 ? NS_PER_SECOND : 0),
                                .clock_error_ns = NS_PER_US,
                                .clock = CLOCK_SOURCE_SOURCE};
        assert_int_equal(stream_put(world->stream, &packet), VERDICT_ACCEPTED);
        memset(&world->placed[0][n], 1, 100);
    }
    while (world->got.frames[0] < 900) { /* all of it is delivered behind the newest packet */
        turn(1);
        const int64_t first = (int64_t)world->got.capture_end_frame[0];
        const int64_t off_ns = world->got.capture_end_ns[0] - begin_ns - first * 1000 -
                               (first >= 500 ? NS_PER_SECOND : 0);
        assert_true(llabs(off_ns) <= world->got.clock_error_ns);
        const bool crosses = first < 500 && world->got.frames[0] > 500;
        assert_int_equal(world->got.clock_error_ns, NS_PER_US + (crosses ? NS_PER_SECOND : 0));
    }
    stream_end(world->stream);
    drain();
    world_close();
}

/* The last results of an epoch come after the next one has begun: their times are still those of
 * their own epoch. And a recorder's count that stands still between records, or leaps, is no clock:
 * each record was captured when it came. Every record is sent with a pause of 30 ms before it. */
static void test_capture_time_of_each_epoch(void **state)
{
    (void)state;
    static const struct {
        const char *count;
        uint64_t step; /* of the source's numbering from record to record */
        bool records;
        uint32_t flags;
    } table[] = {
        {"goes on by the time that passes", 31000, true, PACKET_RECORD},
        {"stands still", 1000, true, PACKET_RECORD},
        {"leaps", 10000000, true, PACKET_RECORD},
        {"begins anew", 1ull << 33, false, PACKET_DISCONTINUITY},
    };
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        struct stream_options options = default_options();
        options.records = table[t].records;
        world_open(&options);
        int64_t begin_ns[4];
        for (int r = 0; r < 4; r++) {
            begin_ns[r] = simulated_realtime_ns();
            for (uint64_t n = 0; n < 1000; n += 100) {
                world->now_ns += 100 * NS_PER_US;
                uint32_t flags = n == 0 ? table[t].flags : 0;
                assert_int_equal(put(r, n, 100, (uint64_t)r * table[t].step + n, flags),
                                 VERDICT_ACCEPTED);
                if (n < 800)
                    turn(4); /* the last ones wait for the next record */
            }
            world->now_ns += 30 * NS_PER_MS;
        }
        stream_end(world->stream);
        drain();
        for (int r = 0; r < 4; r++) {
            int64_t first_ns = world->got.capture_ns[r] - begin_ns[r];
            int64_t last_ns = world->got.capture_end_ns[r] - begin_ns[r] -
                              (int64_t)world->got.capture_end_frame[r] * 1000;
            if (llabs(first_ns) > 2000 || llabs(last_ns) > 2000)
                fail_msg("count %s, epoch %d: first result %lld ns off, last %lld ns",
                         table[t].count, r, (long long)first_ns, (long long)last_ns);
        }
        world_close();
    }
}

/* A sender with faults against the model, many seeds: every frame out is right at its number, every
 * ledger holds. */
static void test_random_world(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct random_state random = {seed * 7919};
        struct stream_options options = default_options();
        options.ring_frames_min = seed % 3 == 0 ? 1024 : 4096;
        world_open(&options);
        struct {
            uint64_t first;
            uint32_t frames;
            int64_t at_ns;
        } waiting[8];
        int count = 0;
        uint64_t next = 0;
        while (next < 12000 || count > 0) {
            if (next < 12000 && count < 8) {
                uint32_t frames = 1 + random_below(&random, 120);
                bool lost = random_unit(&random) < 0.05;
                int copies = random_unit(&random) < 0.03 ? 2 : 1;
                for (int i = 0; i < copies && !lost && count < 8; i++) {
                    int64_t delay_ns =
                        random_unit(&random) < 0.1 ? (int64_t)random_below(&random, 500) * 1000 : 0;
                    waiting[count].first = next;
                    waiting[count].frames = frames;
                    waiting[count++].at_ns = world->now_ns + delay_ns;
                }
                next += frames;
                world->now_ns += frames * 1000;
            } else {
                world->now_ns += 50000;
            }
            for (int i = 0; i < count;) {
                if (waiting[i].at_ns > world->now_ns) {
                    i++;
                    continue;
                }
                put(0, waiting[i].first, waiting[i].frames, waiting[i].first, 0);
                waiting[i] = waiting[--count];
            }
            turn((int)random_below(&random, 3));
        }
        stream_end(world->stream);
        drain();
        /* frames: seen exactly once unless shed; values by the model of what was placed */
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        uint64_t seen = 0;
        for (uint64_t n = 0; n < world->got.frames[0]; n++)
            seen += world->got.seen[0][n];
        assert_int_equal(seen, stats.out);
        /* what was late is not in the result: the model marks only accepted packets, whose late
         * part was dropped */
        assert_false(world->got.out_of_order);
        assert_int_equal(stats.awaited, 0);
        if (stats.gap[INVALID_LATE] == 0 && stats.shed[SHED_OVERLOAD] == 0 &&
            stats.gap[INVALID_OVERLOAD] == 0)
            check_epoch(0, world->got.frames[0], world->plan.taps, 0);
        world_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail_is_due_when_the_epoch_ends),
        cmocka_unit_test(test_nonfinite_ranges_are_exact),
        cmocka_unit_test(test_a_lower_limit_flags_what_came_before),
        cmocka_unit_test(test_a_higher_limit_flags_what_the_old_one_left_out),
        cmocka_unit_test(test_overload_sheds_whole_blocks),
        cmocka_unit_test(test_overload_gives_up_what_it_sheds),
        cmocka_unit_test(test_back_pressure_loses_nothing),
        cmocka_unit_test(test_device_failure_is_counted),
        cmocka_unit_test(test_exchange_at_a_frame),
        cmocka_unit_test(test_align_applies_the_delay),
        cmocka_unit_test(test_capture_time),
        cmocka_unit_test(test_capture_time_across_a_pause),
        cmocka_unit_test(test_given_capture_times_step),
        cmocka_unit_test(test_capture_time_of_each_epoch),
        cmocka_unit_test(test_random_world),
    };
    return cmocka_run_group_tests_name("stream_results", tests, NULL, NULL);
}
