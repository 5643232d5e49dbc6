/*
 * A stream that loses its device and goes on on another, at random instants: against the
 * definition, frame by frame, over simulated time. The simulated engine stands for both devices.
 */
#include "tests/support/stream_world.h"

#include "stream/move.h"

enum { FRAMES = 8000 };

static struct plan elsewhere;
static int retired;

static void on_retired(void *context, struct plan *old)
{
    (void)context, (void)old;
    retired++;
}

/* What was in flight never comes back. */
static void lose(void)
{
    stream_halt(world->stream);
    world->engine.queued = 0;
    memset(world->engine.taken, 0, sizeof world->engine.taken);
    check_ledgers();
    assert_int_equal(stream_ready_deadline_ns(world->stream), INT64_MAX);
}

/* The other device's plan computes the same filter, and reads `history` frames. */
static void move_on(struct plan *plan, uint32_t history)
{
    struct problem problem;
    struct stream_home to = {&world->engine, plan, NULL}, from;
    plan->info.history_frames = history;
    const struct ring_like like = stream_ring_now(world->stream);
    assert_int_equal(stream_ring_like(&world->engine, &like, plan, &to.ring, &problem), 0);
    stream_move(world->stream, &to, &from);
    stream_ring_free(from.ring);
    check_ledgers();
}

static uint32_t below(struct random_state *random, uint32_t limit)
{
    return (uint32_t)(random_u64(random) % limit);
}

/* Losses at random instants, up to four batches in flight, a few blocks halted: no frame is
 * missing, none comes twice, all are right. */
static void nothing_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random_state random = {seed};
        struct stream_options options = default_options();
        world_open(&options);
        elsewhere = world->plan;
        int epoch = 0, losses = 0;
        uint64_t lengths[EPOCHS] = {0};
        for (uint64_t n = 0, place = 0; place < FRAMES;) {
            const uint32_t frames = 1 + below(&random, 90);
            put(epoch, n, frames, place, n == 0 && epoch > 0 ? PACKET_DISCONTINUITY : 0);
            n += frames;
            place += frames;
            lengths[epoch] = n;
            world->now_ns += frames * 1000;
            turn((int)below(&random, 3));
            if (below(&random, 12) == 0) {
                lose();
                losses++;
                for (uint32_t more = below(&random, 4); more > 0; more--, n += 50, place += 50) {
                    put(epoch, n, 50, place, 0);
                    world->now_ns += 50000;
                    turn(0);
                    lengths[epoch] = n + 50;
                }
                move_on(losses % 2 == 1 ? &elsewhere : &world->plan,
                        losses % 2 == 1 ? HISTORY + 64 : HISTORY);
            }
            if (epoch + 1 < EPOCHS && below(&random, 40) == 0) {
                stream_end(world->stream);
                epoch++;
                n = 0;
            }
        }
        stream_end(world->stream);
        drain();
        assert_true(losses > 5);
        for (int e = 0; e <= epoch; e++)
            if (lengths[e] > 0)
                check_epoch(e, lengths[e] + TAPS - 1, world->plan.taps, 0);
        assert_int_equal(world->got.hole_frames[INVALID_DEVICE], 0);
        assert_false(world->got.out_of_order);
        world_close();
    }
}

/* Halted for longer than the ring holds: what falls out of it is missing, each frame reported once
 * as `device`, and the rest is right. */
static void long_halts_are_flagged(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    struct stream_stats stats;
    world_open(&options);
    elsewhere = world->plan;
    for (uint64_t n = 0; n < FRAMES; n += 40) {
        if (n == 1000)
            lose();
        if (n == 6000)
            move_on(&elsewhere, HISTORY + 32);
        put(0, n, 40, n, 0);
        world->now_ns += 40000;
        turn(n >= 920 && n < 1000 ? 0 : 2);
    }
    stream_end(world->stream);
    drain();
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_OVERLOAD], 0);
    assert_true(stats.shed[SHED_DEVICE] > 2000);
    assert_int_equal(world->got.hole_frames[INVALID_DEVICE], stats.shed[SHED_DEVICE]);
    for (uint64_t n = 0; n < FRAMES; n++)
        assert_int_equal(world->got.seen[0][n] + world->got.holes[0][n], 1);
    assert_true(stats.batches_failed > 0);
    world_close();
}

/* Lost in the middle of an overload: what was in flight before shed blocks is missing with them,
 * each frame reported once, and what was behind them is computed elsewhere. */
static void shed_blocks_stay_shed(void **state)
{
    (void)state;
    for (int behind = 0; behind < 2; behind++) {
        struct stream_options options = default_options();
        struct stream_stats stats;
        world_open(&options);
        elsewhere = world->plan;
        put(0, 0, 320, 0, 0);
        turn(0);
        for (uint64_t n = 320; n < 2960; n += 80)
            put(0, n, 80, n, 0);
        if (behind)
            turn(1);
        lose();
        move_on(&elsewhere, HISTORY);
        stream_end(world->stream);
        drain();
        stream_stats(world->stream, &stats);
        assert_true(stats.shed[SHED_OVERLOAD] > 0 && stats.shed[SHED_DEVICE] > 0);
        uint64_t until = stats.timeline_out;
        for (uint64_t n = 0; n < until; n++)
            assert_int_equal(world->got.seen[0][n] + world->got.holes[0][n], 1);
        world_close();
    }
}

/* A change of filters under way when the device is lost: it takes effect at once, flagged; frames
 * of neither filter pass as the other's. */
static void a_change_is_cut_short(void **state)
{
    (void)state;
    for (uint64_t at = 320; at < 640; at += 16) {
        struct stream_options options = default_options();
        world_open(&options);
        elsewhere = world->other;
        retired = 0;
        const struct stream_change change = {
            .plan = &world->other, .frame = 480, .how = CHANGE_HARD, .retired = on_retired};
        for (uint64_t n = 0; n < 2000; n += 16) {
            if (n == 304)
                assert_int_equal(stream_change(world->stream, &change), 0);
            put(0, n, 16, n, 0);
            world->now_ns += 16000;
            turn(n % 64 == 0 ? 2 : 0);
            if (n == at) {
                lose();
                move_on(&elsewhere, HISTORY);
            }
        }
        stream_end(world->stream);
        drain();
        assert_int_equal(retired, 1);
        bool new = false;
        for (uint64_t n = 0; n < 2000; n++) {
            new = new || n >= 480 || (world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE));
            assert_int_equal(world->got.seen[0][n] + world->got.holes[0][n], 1);
            if (world->got.seen[0][n] == 0 || world->got.causes[0][n] != 0)
                continue;
            const double *taps = new ? world->other.taps : world->plan.taps;
            double sum = 0;
            for (uint64_t k = 0; k < TAPS && k <= n; k++)
                sum += taps[k] * world->sent[0][n - k][0];
            if ((float)sum != world->got.samples[0][n][0])
                fail_msg("lost at %llu: frame %llu is not the %s filter's", (unsigned long long)at,
                         (unsigned long long)n, new ? "new" : "old");
        }
        assert_true(new);
        world_close();
    }
}

/* Frames from `from` on are the filter's, as far as they are valid. */
static void expect_filter(const struct plan *plan, uint64_t from, uint64_t until)
{
    for (uint64_t n = from; n < until; n++) {
        assert_int_equal(world->got.seen[0][n] + world->got.holes[0][n], 1);
        if (world->got.seen[0][n] == 0 || world->got.causes[0][n] != 0)
            continue;
        double sum = 0;
        for (uint64_t k = 0; k < TAPS && k <= n; k++)
            sum += plan->taps[k] * world->sent[0][n - k][0];
        if ((float)sum != world->got.samples[0][n][0])
            fail_msg("frame %llu is not the filter's", (unsigned long long)n);
    }
}

/* A change whose frame is told when its epoch begins. */
static void prepare_later(void)
{
    struct stream_options options = default_options();
    world_open(&options);
    elsewhere = world->other;
    retired = 0;
    const struct stream_change change = {
        .plan = &world->other, .later = true, .how = CHANGE_HARD, .retired = on_retired};
    assert_int_equal(stream_change(world->stream, &change), 0);
}

static void a_later_change_comes_at_its_frame(void **state)
{
    (void)state;
    prepare_later();
    stream_change_place(world->stream, 480, 0, 0);
    for (uint64_t n = 0; n < 2000; n += 16) {
        put(0, n, 16, n, 0);
        world->now_ns += 16000;
        turn(n % 64 == 0 ? 2 : 0);
    }
    stream_end(world->stream);
    drain();
    assert_int_equal(retired, 1);
    expect_filter(&world->plan, 0, 480);
    expect_filter(&world->other, 480, 2000);
    world_close();
}

/* The loop sleeps until the frame is told; then the change is through, and the stream moves. */
static void a_later_change_loses_its_device(void **state)
{
    (void)state;
    prepare_later();
    lose();
    assert_int_equal(stream_next_tick_ns(world->stream), INT64_MAX);
    stream_tick(world->stream, world->now_ns);
    assert_int_equal(retired, 0);
    assert_false(stream_can_move(world->stream));
    stream_change_place(world->stream, 480, 0, 0);
    put(0, 0, 16, 0, 0);
    assert_true(stream_next_tick_ns(world->stream) <= world->now_ns);
    stream_tick(world->stream, world->now_ns);
    assert_int_equal(retired, 1);
    assert_true(stream_can_move(world->stream));
    move_on(&elsewhere, HISTORY);
    for (uint64_t n = 16; n < 2000; n += 16) {
        put(0, n, 16, n, 0);
        world->now_ns += 16000;
        turn(2);
    }
    stream_end(world->stream);
    drain();
    assert_true(world->got.causes[0][0] & bit(INVALID_FILTER_CHANGE));
    expect_filter(&world->other, 0, 2000);
    world_close();
}

/* What is computed is nobody's any more: the change that waits is through at once. */
static void a_change_is_hurried(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    retired = 0;
    const struct stream_change change = {
        .plan = &world->other, .frame = 1600, .how = CHANGE_HARD, .retired = on_retired};
    put(0, 0, 64, 0, 0);
    turn(2);
    assert_int_equal(stream_change(world->stream, &change), 0);
    turn(2);
    assert_int_equal(retired, 0);
    stream_change_hurry(world->stream);
    stream_change_hurry(world->stream); /* there is none any more */
    drain();
    assert_int_equal(retired, 1);
    const uint64_t from = stream_next_frame(world->stream);
    for (uint64_t n = 64; n < 1000; n += 16)
        put(0, n, 16, n, 0);
    stream_end(world->stream);
    drain();
    expect_filter(&world->other, from, 1000);
    world_close();
}

/* Back to a device that works: the stream pauses until nothing is in flight, and moves. */
static void a_pause_moves(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    elsewhere = world->plan;
    int moves = 0;
    for (uint64_t n = 0; n < FRAMES; n += 48) {
        put(0, n, n + 48 <= FRAMES ? 48 : (uint32_t)(FRAMES - n), n, 0);
        world->now_ns += 48000;
        if (n % 480 == 0)
            stream_pause(world->stream, true);
        turn(1);
        if (n % 480 >= 240 && moves < (int)(n / 480) && stream_can_move(world->stream))
            move_on(++moves % 2 == 1 ? &elsewhere : &world->plan, HISTORY);
        if (n % 480 == 432)
            stream_pause(world->stream, false);
    }
    stream_end(world->stream);
    drain();
    assert_true(moves > 5);
    check_epoch(0, FRAMES + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static uint64_t flagged(int epoch, uint64_t until)
{
    uint64_t count = 0;
    for (uint64_t n = 0; n < until; n++)
        count += (world->got.causes[epoch][n] & bit(INVALID_UNCERTAIN)) != 0;
    return count;
}

static uint64_t first_base; /* ring position of epoch 0 */

static void find_base(void *context, const struct batch_item *item)
{
    (void)context;
    if (first_base == 0)
        first_base = item->position - item->epoch_block * HOP;
}

/* A device is found to compute wrong: of what was delivered, exactly the results since the last
 * check that held are flagged, over epochs, with the next result; what was in flight comes from the
 * other device and is not. */
static void results_since_the_last_check_are_doubted(void **state)
{
    (void)state;
    static const struct {
        uint64_t checked, first, second; /* frames; of epoch 0, or of epochs 0 and 1 */
    } cases[] = {{0, 640, 0}, {320, 640, 0}, {333, 1000, 0}, {320, 640, 640}, {640, 640, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        elsewhere = world->plan;
        first_base = 0;
        stream_inspect(world->stream, find_base, NULL);
        put(0, 0, (uint32_t)cases[i].first, 0, 0);
        if (cases[i].second > 0)
            put(1, 0, (uint32_t)cases[i].second, cases[i].first, PACKET_DISCONTINUITY);
        turn(BATCHES - 1);
        const uint64_t ends[] = {world->got.frames[0], world->got.frames[1]};
        struct doubted doubted;
        stream_doubt(world->stream, first_base + cases[i].checked, &doubted);
        lose();
        move_on(&elsewhere, HISTORY + 64);
        const int last = cases[i].second > 0;
        const uint64_t length = last ? cases[i].second : cases[i].first;
        put(last, length, 320, cases[i].first + cases[i].second, 0);
        stream_end(world->stream);
        drain();
        const uint64_t whole = cases[i].first + TAPS - 1;
        uint64_t doubts = 0;
        for (int e = 0; e <= last; e++) {
            check_epoch(e, e == last ? length + 320 + TAPS - 1 : whole, world->plan.taps, 0);
            /* an epoch that is through has no result left to carry the range */
            const bool through = e < last && ends[e] == whole;
            const uint64_t from = e == 0 ? cases[i].checked : 0;
            const uint64_t want = !through && ends[e] > from ? ends[e] - from : 0;
            assert_int_equal(flagged(e, FRAMES_MAX), want);
            for (uint64_t n = from; want > 0 && n < ends[e]; n++)
                assert_true(world->got.causes[e][n] & bit(INVALID_UNCERTAIN));
            doubts += want;
        }
        assert_int_equal(doubted.frames, doubts);
        world_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(results_since_the_last_check_are_doubted),
        cmocka_unit_test(long_halts_are_flagged),
        cmocka_unit_test(shed_blocks_stay_shed),
        cmocka_unit_test(a_change_is_cut_short),
        cmocka_unit_test(a_later_change_comes_at_its_frame),
        cmocka_unit_test(a_later_change_loses_its_device),
        cmocka_unit_test(a_change_is_hurried),
        cmocka_unit_test(a_pause_moves),
    };
    return cmocka_run_group_tests_name("stream: move", tests, NULL, NULL);
}
