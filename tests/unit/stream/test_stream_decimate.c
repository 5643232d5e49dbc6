/*
 * A stream that decimates: which frames are kept, how they are numbered, timed and flagged, and
 * that the ledgers hold. The engine of stream_world.h keeps frames by the definition.
 */
#include "tests/support/stream_world.h"

static void open_decimating(const struct stream_options *options, uint32_t decimate, uint32_t phase)
{
    world_decimate = decimate;
    world_phase = phase;
    world_open(options);
}

static void close_decimating(void)
{
    world_close();
    world_decimate = 1;
    world_phase = 0;
}

/* Output frame n·D of the model's epoch, by definition. */
static float defined(int epoch, uint64_t frame, int channel)
{
    double sum = 0;
    for (uint64_t k = 0; k < TAPS && k <= frame; k++)
        if (world->placed[epoch][frame - k])
            sum += world->plan.taps[k] * world->sent[epoch][frame - k][channel];
    return (float)sum;
}

/* Frames [0, frames) of the epoch were convolved; every D-th of them came out, from `phase` on. */
static void check_kept(int epoch, uint64_t frames, uint32_t decimate, uint64_t shift)
{
    uint64_t kept = 0;
    for (uint64_t n = shift; n < frames; n += decimate, kept++) {
        if (world->got.seen[epoch][kept] != 1)
            fail_msg("output frame %llu was seen %d times", (unsigned long long)kept,
                     world->got.seen[epoch][kept]);
        for (int c = 0; c < CHANNELS; c++)
            if (world->got.samples[epoch][kept][c] != defined(epoch, n, c))
                fail_msg("output frame %llu is not input frame %llu", (unsigned long long)kept,
                         (unsigned long long)n);
    }
    assert_int_equal(world->got.frames[epoch], kept);
}

static const uint32_t decimations[] = {1, 2, 3, 7, 31, 32, 33, 64, 100, 1000};

enum { DECIMATIONS = sizeof decimations / sizeof decimations[0] };

/* Packets of any size, gaps, idle flushes inside blocks, two epochs. */
static void test_kept_frames_are_multiples_of_the_decimation(void **state)
{
    (void)state;
    for (int i = 0; i < DECIMATIONS; i++) {
        const uint32_t decimate = decimations[i];
        struct stream_options options = default_options();
        open_decimating(&options, decimate, 0);
        struct random_state random = {decimate};
        uint64_t places[2] = {0, 1000003}, frames[2];
        for (int epoch = 0; epoch < 2; epoch++) {
            uint64_t n = 0;
            while (n < 3000) {
                uint32_t size = 1 + (uint32_t)(random_u64(&random) % 90);
                uint64_t dice = random_u64(&random) % 12;
                if (dice != 0 || n == 0)
                    put(epoch, n, size, places[epoch] + n, n == 0 ? PACKET_DISCONTINUITY : 0);
                n += size;
                world->now_ns += dice == 1 ? 20 * NS_PER_MS : 300 * NS_PER_US;
                turn((int)(dice % (BATCHES + 1)));
            }
            put(epoch, n, 50, places[epoch] + n, 0);
            frames[epoch] = n + 50;
            world->now_ns += NS_PER_SECOND; /* what is missing is given up */
            turn(BATCHES);
        }
        stream_end(world->stream);
        drain();
        check_kept(0, frames[0] + TAPS - 1, decimate, 0);
        check_kept(1, frames[1] + TAPS - 1, decimate, 0);
        assert_int_equal(world->got.starts, 2);
        assert_int_equal(world->got.ends, 2);
        assert_false(world->got.out_of_order);
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.timeline_out, stats.out + stats.shed[SHED_DECIMATED]);
        close_decimating();
    }
}

static void take_ranges(void *context, const struct result *result)
{
    (void)context;
    for (uint32_t i = 0; i < result->invalid_count; i++)
        assert_true(result->invalid[i].from < result->invalid[i].until);
}

/* An output frame is flagged when the frame it keeps is; a range that holds none is not told. */
static void test_ranges_are_in_output_frames(void **state)
{
    (void)state;
    for (int i = 0; i < DECIMATIONS; i++) {
        const uint32_t decimate = decimations[i];
        struct stream_options options = default_options();
        options.ring_frames_min = 8192;
        open_decimating(&options, decimate, 0);
        struct result_port port = {.context = &options, .put = take_ranges};
        assert_int_equal(stream_add_port(world->stream, &port), 0);
        put(0, 0, 500, 0, 0);
        put(0, 517, 1483, 517, 0);
        world->now_ns += NS_PER_SECOND;
        turn(BATCHES);
        stream_end(world->stream);
        drain();
        uint64_t flagged = 0, gap = 0;
        for (uint64_t m = 0; m * decimate < 2000 + TAPS - 1; m++) {
            uint64_t n = m * decimate;
            uint16_t want = 0;
            want |= n < TAPS - 1 ? bit(INVALID_SETTLING) : 0;
            want |= n >= 500 && n < 517 + TAPS - 1 ? bit(INVALID_NETWORK) : 0;
            want |= n >= 2000 ? bit(INVALID_TAIL) : 0;
            if (world->got.causes[0][m] != want)
                fail_msg("D = %u: output frame %llu has causes %x, want %x", decimate,
                         (unsigned long long)m, world->got.causes[0][m], want);
            flagged += want != 0;
            gap += want & bit(INVALID_NETWORK) ? 1 : 0;
        }
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.invalid_frames, flagged);
        assert_int_equal(stats.invalid[INVALID_NETWORK], gap);
        close_decimating();
    }
}

static struct result last_result;
static int results;

static void take_last(void *context, const struct result *result)
{
    (void)context;
    last_result = *result;
    results++;
}

static void test_rate_delay_and_times(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.upstream_delay_frames = 5;
    open_decimating(&options, 10, 0);
    struct result_port port = {.context = &last_result, .put = take_last};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    for (uint64_t n = 0; n < 3000; n += 100) {
        world->now_ns += 100 * NS_PER_US;
        put(0, n, 100, n, 0);
    }
    turn(BATCHES);
    turn(BATCHES);
    assert_true(last_result.rate_hz == 1e5);
    assert_true(fabs(last_result.delay_frames - 2.3) < 1e-12);
    /* Frame m is captured when input frame 10 m is: 10 us each from the start of the first. */
    int64_t start_ns = NS_PER_SECOND + 1700000000 * NS_PER_SECOND;
    int64_t want_ns = start_ns + (int64_t)last_result.first_frame * 10 * NS_PER_US;
    assert_true(llabs(last_result.capture_ns - want_ns) <= 1000);
    /* A new epoch begins on the grid of the output's clock, later than all before. */
    uint64_t before = last_result.timeline_frame + last_result.frames;
    put(1, 0, 100, 70000, PACKET_DISCONTINUITY);
    world->now_ns += 20 * NS_PER_MS;
    results = 0;
    drain();
    stream_end(world->stream);
    drain();
    assert_true(results > 0);
    assert_false(world->got.out_of_order);
    assert_true(last_result.timeline_frame >= before);
    check_kept(1, 100 + TAPS - 1, 10, 0);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(fabs(stats.delay_frames - 2.3) < 1e-12);
    close_decimating();
}

/* With `align` frame m answers input frame m·D: what is kept follows from the delay. */
static void test_aligned(void **state)
{
    (void)state;
    static const struct {
        uint32_t decimate;
        double delay;
    } cases[] = {{2, 18}, {4, 18}, {5, 18}, {7, 18}, {64, 18}, {5, 18.5}, {1, 18}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t shift = (uint64_t)cases[i].delay;
        struct stream_options options = default_options();
        options.align = true;
        options.delay_frames = cases[i].delay;
        open_decimating(&options, cases[i].decimate, (uint32_t)(shift % cases[i].decimate));
        for (uint64_t n = 0; n < 2000; n += 100) {
            world->now_ns += 100 * NS_PER_US;
            put(0, n, 100, n, 0);
            turn(BATCHES);
        }
        stream_end(world->stream);
        drain();
        check_kept(0, 2000 + TAPS - 1, cases[i].decimate, shift);
        assert_int_equal(world->got.ends, 1);
        /* The first one answers input frame 0 and was captured with it. */
        int64_t start_ns = NS_PER_SECOND + 1700000000 * NS_PER_SECOND;
        double early_us = cases[i].delay - (double)shift;
        assert_true(llabs(world->got.capture_ns[0] - start_ns + (int64_t)(1000 * early_us)) <=
                    1000);
        close_decimating();
    }
}

static void test_shed_blocks_are_told_in_output_frames(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    open_decimating(&options, 10, 0);
    const struct stream_stats stats = overload(8000);
    uint64_t first = (stats.shed[SHED_OVERLOAD] + 9) / 10;
    for (uint64_t m = 0; m < first; m++) {
        assert_int_equal(world->got.seen[0][m], 0);
        assert_true(world->got.causes[0][m] & bit(INVALID_OVERLOAD));
    }
    assert_int_equal(world->got.seen[0][first], 1);
    assert_false(world->got.causes[0][first] & bit(INVALID_OVERLOAD));
    close_decimating();
}

static uint64_t room_left;

static uint64_t port_room(void *context)
{
    (void)context;
    return room_left;
}

static void take_from_room(void *context, const struct result *result)
{
    (void)context;
    assert_true(result->frames <= room_left);
    room_left -= result->frames;
}

/* A sink's room counts what it will get: kept frames. */
static void test_room_counts_kept_frames(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.live = false;
    open_decimating(&options, 16, 0);
    struct result_port port = {.context = &room_left, .put = take_from_room, .room = port_room};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    room_left = 4; /* of two blocks of 32 frames */
    put(0, 0, 500, 0, 0);
    for (int i = 0; i < 10; i++)
        turn(BATCHES);
    assert_int_equal(room_left, 0);
    assert_int_equal(world->got.delivered, 4);
    room_left = UINT64_MAX;
    stream_end(world->stream);
    drain();
    check_kept(0, 500 + TAPS - 1, 16, 0);
    close_decimating();
}

static int exchange_at_50(void)
{
    return stream_change(
        world->stream,
        &(struct stream_change){.plan = &world->other, .frame = 50, .delay_frames = 18});
}

/* Plans that keep other frames cannot take over in mid-stream. */
static void test_exchange_keeps_the_grid(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    open_decimating(&options, 4, 0);
    put(0, 0, 100, 0, 0);
    world->other.info.decimate_phase = 1;
    assert_int_equal(exchange_at_50(), ERROR_ARGUMENT);
    world->other.info.decimate_phase = 0;
    world->other.info.decimate = 2;
    assert_int_equal(exchange_at_50(), ERROR_ARGUMENT);
    stream_end(world->stream);
    drain();
    close_decimating();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_frames_are_multiples_of_the_decimation),
        cmocka_unit_test(test_ranges_are_in_output_frames),
        cmocka_unit_test(test_rate_delay_and_times),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_shed_blocks_are_told_in_output_frames),
        cmocka_unit_test(test_room_counts_kept_frames),
        cmocka_unit_test(test_exchange_keeps_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
