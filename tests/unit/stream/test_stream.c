/*
 * Input of a stream: placing, gaps, lateness, epochs, records and idle flushes, in the
 * simulated world; every output frame is compared with the definition at its own number.
 */
#include "tests/support/stream_world.h"

static void test_in_order(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 7, 31, 32, 33, 100, 700};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct stream_options options = default_options();
        world_open(&options);
        uint64_t total = 0;
        for (; total < 5000; total += sizes[s]) {
            world->now_ns += (int64_t)sizes[s] * 1000;
            assert_int_equal(put(0, total, sizes[s], 12345 + total, 0), VERDICT_ACCEPTED);
            turn(BATCHES);
            turn(BATCHES);
        }
        stream_end(world->stream);
        drain();
        assert_int_equal(world->got.frames[0], total + TAPS - 1);
        check_epoch(0, total + TAPS - 1, world->plan.taps, 0);
        assert_int_equal(world->got.starts, 1);
        assert_int_equal(world->got.ends, 1);
        for (uint64_t n = 0; n < total + TAPS - 1; n++) {
            uint16_t want = (uint16_t)((n < TAPS - 1 ? bit(INVALID_SETTLING) : 0) |
                                       (n >= total ? bit(INVALID_TAIL) : 0));
            assert_int_equal(world->got.causes[0][n], want);
        }
        assert_int_equal(world->got.raw_frames[0], total);
        assert_memory_equal(world->got.raw[0], world->sent[0], total * sizeof world->sent[0][0]);
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.levels[0].frames, total);
        world_close();
    }
}

static void test_no_tail(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.tail = false;
    world_open(&options);
    put(0, 0, 100, 0, 0);
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.frames[0], 100);
    assert_int_equal(world->got.ends, 1);
    check_epoch(0, 100, world->plan.taps, 0);
    world_close();
}

static void test_gap_is_flagged_and_counted(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    stream_socket_drops(world->stream, 0);
    put(0, 420, 300, 420, 0); /* 100 frames missing */
    turn(4);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.awaited, 100);
    assert_int_equal(stats.out, 320); /* the blocks before the hole do not wait */
    world->now_ns += 200 * NS_PER_US;
    turn(4);
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.awaited, 0);
    assert_int_equal(stats.gap[INVALID_NETWORK], 100);
    assert_true(stats.last_gap_realtime_ns > 0);
    put(0, 720, 80, 720, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 800 + TAPS - 1, world->plan.taps, 0);
    for (uint64_t n = TAPS; n < 800; n++) {
        bool flagged = n >= 320 && n < 420 + TAPS - 1;
        assert_int_equal(world->got.causes[0][n], flagged ? bit(INVALID_NETWORK) : 0);
    }
    /* absent frames show as zero code in the raw input */
    for (uint64_t n = 320; n < 420; n++)
        assert_int_equal(world->got.raw[0][n][0], 0);
    world_close();
}

static void test_gap_of_max_gap_fits_the_ring(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 0;
    options.rate_hz = 10e3; /* by rule: 0.5 s of waiting alone would not hold the gap */
    options.max_gap_ns = NS_PER_SECOND;
    options.idle_flush_ns = 0;
    world_open(&options);
    uint64_t n = 0;
    for (; n < 3000; n += 100) {
        put(0, n, 100, n, 0);
        turn(4);
    }
    n += 9990;
    for (uint64_t end = n + 4000; n < end; n += 100) {
        assert_int_equal(put(0, n, 100, n, 0), VERDICT_ACCEPTED);
        world->now_ns += 10 * NS_PER_MS;
        turn(4);
    }
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.epochs, 1);
    assert_int_equal(stats.gap[INVALID_NETWORK], 9990);
    assert_int_equal(stats.shed[SHED_OVERLOAD], 0);
    check_epoch(0, n + TAPS - 1, world->plan.taps, 0);
    world_close();
}

/* A ring by rule for which there is no room is smaller, as long as it holds what batches read. */
static void test_a_ring_without_room_is_smaller(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 0;
    ring_room = 4096; /* by rule: half a second, 2^19 frames */
    world_open(&options);
    assert_int_equal(newest_ring->frames, 4096);
    for (uint64_t n = 0; n < 20000; n += 100) {
        assert_int_equal(put(0, n, 100, n, 0), VERDICT_ACCEPTED);
        turn(4);
    }
    stream_end(world->stream);
    drain();
    check_epoch(0, 20000 + TAPS - 1, world->plan.taps, 0);
    world_close();
    ring_room = 0;
}

static void test_a_ring_is_never_too_small(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    struct plan plan;
    make_plan(&plan, 1);
    struct problem problem;
    struct stream *stream = NULL;
    options.ring_frames_min = 0;
    ring_room = 64;
    assert_int_equal(stream_open(NULL, &options, &plan, &stream, &problem), ERROR_FULL);
    options.ring_frames_min = 2048; /* a size that the user names does not give way */
    ring_room = 1024;
    assert_int_equal(stream_open(NULL, &options, &plan, &stream, &problem), ERROR_FULL);
    ring_room = 0;
}

static void test_reordered_within_window(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    static const int order[] = {0, 2, 1, 5, 3, 4, 6, 7, 9, 8};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        world->now_ns += 50 * NS_PER_US;
        assert_int_equal(put(0, (uint64_t)order[i] * 50, 50, (uint64_t)order[i] * 50, 0),
                         VERDICT_ACCEPTED);
        turn(2);
    }
    stream_end(world->stream);
    drain();
    check_epoch(0, 500 + TAPS - 1, world->plan.taps, 0);
    for (uint64_t n = TAPS; n < 500; n++)
        assert_int_equal(world->got.causes[0][n], 0);
    world_close();
}

static void test_late_and_duplicate(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    assert_int_equal(put(0, 0, 100, 0, 0), VERDICT_DUPLICATE);
    put(0, 200, 100, 200, 0);
    world->now_ns += NS_PER_MS;
    turn(4);
    memset(&world->placed[0][100], 0, 100);
    assert_int_equal(put(0, 100, 100, 100, 0), VERDICT_LATE);
    assert_int_equal(put(0, 100, 100, 100, 0),
                     VERDICT_LATE); /* a late duplicate moves nothing more */
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_LATE], 100);
    assert_int_equal(stats.gap[INVALID_NETWORK], 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 300 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static void test_overlapping_packets(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    assert_int_equal(put(0, 0, 100, 0, 0), VERDICT_ACCEPTED);
    assert_int_equal(put(0, 50, 100, 50, 0), VERDICT_ACCEPTED); /* its second half is new */
    put(0, 200, 50, 200, 0);
    assert_int_equal(put(0, 140, 80, 140, 0),
                     VERDICT_ACCEPTED); /* fills the hole from both sides */
    stream_end(world->stream);
    drain();
    check_epoch(0, 250 + TAPS - 1, world->plan.taps, 0);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.received, 250);
    world_close();
}

static void test_socket_loss_is_told_apart(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 50, 0, 0);
    put(0, 50, 50, 50, 0);
    stream_socket_drops(world->stream, 2); /* two datagrams of 50 frames */
    put(0, 350, 50, 350, 0);               /* 250 missing: 100 socket, 150 network */
    world->now_ns += NS_PER_MS;
    turn(4);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_SOCKET], 100);
    assert_int_equal(stats.gap[INVALID_NETWORK], 150);
    stream_end(world->stream);
    drain();
    world_close();
}

/* Two losses that are awaited at the same time: what the socket dropped belongs to the frames
 * missing before the next packet, and to no other. */
static void test_debts_belong_to_their_interval(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        uint64_t drops_before[3]; /* each of three packets */
        uint64_t socket[2];       /* frames of the first loss; of both */
    } table[] = {
        {"none", {0, 0, 0}, {0, 0}},
        {"at the first loss", {1, 0, 0}, {50, 50}},
        {"at the second loss", {0, 1, 0}, {0, 50}},
        {"at both", {1, 1, 0}, {50, 100}},
        {"more than the first loss holds", {5, 0, 0}, {50, 50}},
        {"behind both: of another sender", {0, 0, 3}, {0, 0}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        static const uint64_t at[] = {250, 350, 400};
        struct stream_options options = default_options();
        struct stream_stats stats;
        options.reorder_ns = 600 * NS_PER_MS;
        world_open(&options);
        put(0, 0, 150, 0, 0);
        put(0, 150, 50, 150, 0);
        for (int packet = 0; packet < 3; packet++) {
            stream_socket_drops(world->stream, table[i].drops_before[packet]);
            put(0, at[packet], 50, at[packet], 0);
            world->now_ns += 10 * NS_PER_MS;
        }
        world->now_ns += 575 * NS_PER_MS;
        for (int loss = 0; loss < 2; loss++, world->now_ns += 10 * NS_PER_MS) {
            stream_tick(world->stream, world->now_ns);
            stream_stats(world->stream, &stats);
            if (stats.gap[INVALID_SOCKET] != table[i].socket[loss])
                fail_msg("%s: socket %llu after loss %d", table[i].given,
                         (unsigned long long)stats.gap[INVALID_SOCKET], loss);
            assert_int_equal(stats.gap[INVALID_NETWORK] + stats.gap[INVALID_SOCKET],
                             50 * (loss + 1));
        }
        stream_end(world->stream);
        drain();
        world_close();
    }
}

/* Before or behind the packet that ends it, whole or in part, with a loss beside it. */
static void test_unsent_frames_are_the_senders(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct stream_options options = default_options();
        options.reorder_ns = 10 * NS_PER_MS;
        world_open(&options);
        put(0, 0, 200, 1000, 0);
        if (!late)
            stream_unsent(world->stream, 1250, 1300);
        stream_socket_drops(world->stream, 1); /* a datagram of 200 frames */
        put(0, 300, 50, 1300, 0);
        if (late)
            stream_unsent(world->stream, 1250, 1300);
        put(0, 400, 50, 1400, 0);
        world->now_ns += 11 * NS_PER_MS;
        stream_tick(world->stream, world->now_ns);
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.gap[INVALID_SENDER], 50);
        assert_int_equal(stats.gap[INVALID_SOCKET], 50);
        assert_int_equal(stats.gap[INVALID_NETWORK], 50);
        stream_end(world->stream);
        drain();
        world_close();
    }
}

static void test_discontinuity_begins_an_epoch(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 333, 5000, 0);
    turn(1);
    world->now_ns += 5 * NS_PER_MS;
    put(1, 0, 333, 77, PACKET_DISCONTINUITY);
    put(1, 333, 300, 77 + 333, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 333 + TAPS - 1, world->plan.taps, 0);
    check_epoch(1, 633 + TAPS - 1, world->plan.taps, 0); /* zero history */
    assert_int_equal(world->got.starts, 2);
    assert_int_equal(world->got.ends, 2);
    assert_false(world->got.out_of_order);
    /* 5 ms at 1 MHz: time stamps advance by elapsed time (first packets began 333 µs before
     * receipt) */
    assert_int_equal(world->got.timeline_next, 5000 + 633 + TAPS - 1);
    world_close();
}

static void test_records_are_convolved_alone(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.records = true;
    world_open(&options);
    for (int r = 0; r < 10; r++) {
        for (uint64_t n = 0; n < 500; n += 100) {
            world->now_ns += 100 * NS_PER_US;
            assert_int_equal(put(r, n, 100, (uint64_t)r * 100000 + n, n == 0 ? PACKET_RECORD : 0),
                             VERDICT_ACCEPTED);
            turn(1);
        }
    }
    stream_end(world->stream);
    drain();
    for (int r = 0; r < 10; r++) {
        check_epoch(r, 500 + TAPS - 1, world->plan.taps, 0);
        assert_int_equal(world->got.frames[r], 500 + TAPS - 1);
        assert_int_equal(world->got.record[r], r);
    }
    assert_int_equal(world->got.starts, 10);
    assert_int_equal(world->got.ends, 10);
    world_close();
}

static void test_idle_flush(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    turn(4);
    assert_int_equal(world->got.frames[0], 96);
    world->now_ns += 10 * NS_PER_MS;
    turn(4);
    assert_int_equal(world->got.frames[0], 100); /* the partial block */
    put(0, 100, 60, 100, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 160 + TAPS - 1, world->plan.taps, 0); /* every frame once, none twice */
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.levels[1].frames, 160); /* the block computed twice is counted once */
    world_close();
}

static void test_jump_longer_than_the_ring_is_a_discontinuity(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 64, 0, 0);
    put(1, 0, 64, 1000000,
        0); /* no source should do this; no zero fill of a million frames comes of it */
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.epochs, 2);
    assert_int_equal(stats.timeline_in, 128);
    check_epoch(1, 64 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

/* Four packets a train, all received when the last one was complete: capture times are those of a
 * source whose packets are received one by one. */
static void test_one_stamp_covers_a_train(void **state)
{
    (void)state;
    enum { PACKET = 40, TRAIN = 4, PACKETS = 400 };
    struct stream_options options = default_options();
    world_open(&options);
    const int64_t begun_ns = simulated_realtime_ns();
    for (uint32_t i = 0; i < PACKETS; i++) {
        if (i % TRAIN == 0)
            world->now_ns += TRAIN * PACKET * 1000;
        struct packet packet = {.first_frame = i * PACKET,
                                .frames = PACKET,
                                .frames_behind = (TRAIN - 1 - i % TRAIN) * PACKET,
                                .payload = (const uint8_t *)world->sent[0][i * PACKET],
                                .receive_ns = world->now_ns,
                                .receive_realtime_ns = simulated_realtime_ns(),
                                .clock = CLOCK_SOURCE_GRO};
        assert_int_equal(stream_put(world->stream, &packet), VERDICT_ACCEPTED);
        turn(BATCHES);
    }
    stream_end(world->stream);
    drain();
    int64_t last_ns = (int64_t)world->got.capture_end_frame[0] * 1000;
    assert_in_range(world->got.capture_ns[0], begun_ns - 100, begun_ns + 100);
    assert_in_range(world->got.capture_end_ns[0], begun_ns + last_ns - 100,
                    begun_ns + last_ns + 100);
    assert_int_equal(world->got.clock, CLOCK_SOURCE_GRO);
    /* The packets of a train show no jitter. A hundred trains leave a share of one for a queue. */
    const int64_t unseen_ns = TRAIN * PACKET * 1000 * 64 / (PACKETS / TRAIN + 1);
    assert_in_range(world->got.clock_error_ns, unseen_ns, unseen_ns + 2000);
    world_close();
}

/* Vacant slots: beyond everything received, free of everything that is still read, in one piece.
 * What is scribbled there counts for nothing; a packet whose payload lies at its place is not
 * moved. */
static void test_vacant_slots(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    uint64_t frames = 100;
    assert_null(stream_vacant(world->stream, 0, &frames)); /* no epoch yet */
    put(0, 0, 100, 0, 0);
    static const struct {
        uint64_t place, wanted;
        bool vacant;
    } rows[] = {{100, 100, true}, {150, 10, true}, {99, 10, false}, {0, 10, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        frames = rows[i].wanted;
        const uint8_t *at = stream_vacant(world->stream, rows[i].place, &frames);
        assert_int_equal(at != NULL, rows[i].vacant);
        assert_int_equal(frames, rows[i].wanted);
    }
    /* As much as is free, never what a batch may still read. */
    frames = UINT32_MAX;
    assert_non_null(stream_vacant(world->stream, 100, &frames));
    assert_in_range(frames, 1, 8192);
    const uint64_t most = frames;
    uint64_t total = 100;
    uint32_t in_one_piece = 0;
    while (total < 3 * most) {
        /* Every prediction misses; of three packets of 50 the second one is lost. */
        frames = UINT32_MAX;
        uint8_t *at = stream_vacant(world->stream, total, &frames);
        assert_non_null(at);
        memset(at, 0x77, frames * 2 * CHANNELS);
        world->now_ns += 150000;
        if (frames >= 50) {
            in_one_piece++;
            memcpy(at, world->sent[0][total], 50 * sizeof world->sent[0][0]);
            struct packet packet = {.first_frame = total,
                                    .frames = 50,
                                    .payload = at,
                                    .receive_ns = world->now_ns,
                                    .receive_realtime_ns = simulated_realtime_ns()};
            assert_int_equal(stream_put(world->stream, &packet), VERDICT_ACCEPTED);
            memset(world->placed[0] + total, 1, 50);
            world->put_accepted++;
        } else {
            put(0, total, 50, total, 0);
        }
        put(0, total + 100, 50, total + 100, 0);
        total += 150;
        turn(total / 150 % 4 == 0 ? 2 * BATCHES
                                  : 0); /* batches in flight still read their frames */
    }
    assert_true(in_one_piece > 3);
    stream_end(world->stream);
    drain();
    check_epoch(0, total + TAPS - 1, world->plan.taps, 0);
    assert_true(world->got.causes[0][150] & bit(INVALID_NETWORK));
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_no_tail),
        cmocka_unit_test(test_gap_is_flagged_and_counted),
        cmocka_unit_test(test_gap_of_max_gap_fits_the_ring),
        cmocka_unit_test(test_a_ring_without_room_is_smaller),
        cmocka_unit_test(test_a_ring_is_never_too_small),
        cmocka_unit_test(test_reordered_within_window),
        cmocka_unit_test(test_late_and_duplicate),
        cmocka_unit_test(test_overlapping_packets),
        cmocka_unit_test(test_socket_loss_is_told_apart),
        cmocka_unit_test(test_debts_belong_to_their_interval),
        cmocka_unit_test(test_unsent_frames_are_the_senders),
        cmocka_unit_test(test_discontinuity_begins_an_epoch),
        cmocka_unit_test(test_records_are_convolved_alone),
        cmocka_unit_test(test_idle_flush),
        cmocka_unit_test(test_jump_longer_than_the_ring_is_a_discontinuity),
        cmocka_unit_test(test_one_stamp_covers_a_train),
        cmocka_unit_test(test_vacant_slots),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
