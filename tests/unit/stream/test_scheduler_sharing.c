/*
 * What streams leave each other of one device, with scheduler, streams and a real engine: a
 * saturating stream must not make a modest one late, one of lower priority leaves nearly all of the
 * device to those above it, and what takes longer than others can wait goes in parts that they
 * overtake.
 *
 * takes: 4 s CPU in 4 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "convolve/lost.h"
#include "core/clock.h"
#include "stream/move.h"
#include "tests/support/engine_harness.h"
#include "tests/support/house.h"
#include "tests/support/launch_log.h"

/* ---- a saturated device ------------------------------------------------------------------ */

enum { MODEST_HOP = 96, GREEDY_HOP = 1024, GREEDY_BLOCKS = 64, GREEDY_BLOCK_NS = 300000 };

/* Each turn of the loop reads for `most_ns` for the lower one of two streams. */
static void check_reading(struct house *house, struct stream *high, struct stream *low,
                          int64_t most_ns)
{
    for (int turn = 0; turn < 2; turn++) {
        uv_run(&house->loop, UV_RUN_NOWAIT);
        scheduler_has_read(house->scheduler, high, most_ns);
        scheduler_has_read(house->scheduler, low, most_ns / 4);
        assert_int_equal(scheduler_may_read_ns(house->scheduler, high), INT64_MAX);
        assert_int_equal(scheduler_may_read_ns(house->scheduler, low), most_ns - most_ns / 4);
    }
}

/* The expected device time of what the first round queues of a stream with 64 blocks ready, each of
 * which takes 0.3 ms. `modest_hz`: the rate of a live stream beside it; 0: there is none. `behind`:
 * the first one is live, of lower priority, and cannot be in time. `late_ms`: so long ago a block
 * of the one beside it was ready, which still waits. `launch_ns`: what each of its batches takes
 * besides. */
static int64_t queued_beside_late_ns(double modest_hz, bool behind, unsigned late_ms,
                                     int64_t launch_ns)
{
    const bool shared = modest_hz > 0;
    struct house house;
    house_open(&house);
    struct feed modest = {.channels = 1, .rate_hz = modest_hz, .live = true, .chunk = MODEST_HOP};
    struct feed greedy = {.channels = 1, .rate_hz = 1e6, .ahead = 2 * GREEDY_BLOCKS};
    greedy.plan = house_plan(house.engine, NULL, 1, GREEDY_HOP, 100, GREEDY_BLOCKS, 6);
    greedy.total = GREEDY_BLOCKS * GREEDY_HOP;
    greedy.live = behind;
    feed_open(&greedy, &house, "greedy");
    uv_timer_stop(&greedy.timer);
    if (shared) {
        modest.plan = house_plan(house.engine, NULL, 1, MODEST_HOP, 50, 4, 5);
        modest.total = 4 * MODEST_HOP;
        feed_open(&modest, &house, "modest");
        uv_timer_stop(&modest.timer); /* it only has to be there */
        stream_set_priority(modest.stream, behind);
    }
    alarm(60); /* a block that starves is never computed */
    harness_set_cost(greedy.plan, GREEDY_BLOCK_NS);
    harness_set_launch_cost(greedy.plan, launch_ns);
    if (late_ms > 0) {
        feed_put(&modest, MODEST_HOP);
        usleep(1000 * late_ms);
    }
    while (greedy.frames < greedy.total)
        feed_put(&greedy, GREEDY_HOP);
    uv_run(&house.loop, UV_RUN_NOWAIT); /* one round of the scheduler */
    struct stream_stats stats;
    stream_stats(greedy.stream, &stats);
    if (behind)
        check_reading(&house, modest.stream, greedy.stream, (int64_t)(6e9 / modest_hz));
    if (shared)
        uv_timer_start(&modest.timer, feed_on_time, 1, 1);
    while (!feed_done(&greedy) || (shared && !feed_done(&modest)))
        uv_run(&house.loop, UV_RUN_ONCE);
    if (shared)
        feed_close(&modest);
    feed_close(&greedy);
    house_close(&house);
    alarm(0);
    assert_int_equal(stats.out, 0);
    return (int64_t)(stats.submitted / GREEDY_HOP) * GREEDY_BLOCK_NS;
}

static int64_t queued_beside_ns(double modest_hz, bool behind)
{
    return queued_beside_late_ns(modest_hz, behind, 0, 0);
}

static void test_queue_leaves_room_for_live_streams(void **state)
{
    (void)state;
    const int64_t half_period_ns = (int64_t)(MODEST_HOP / 48000.0 * 1e9 / 2);
    const int64_t alone_ns = queued_beside_ns(0, false), shared_ns = queued_beside_ns(48000, false);
    assert_true(alone_ns > half_period_ns); /* else nothing is shown */
    assert_in_range(shared_ns, 1, half_period_ns);
    /* A block that takes longer than a batch may is not queued behind another one. */
    assert_int_equal(queued_beside_ns(480000, false), GREEDY_BLOCK_NS);
}

/* What a launch takes longer than others should wait is not worth one block. */
static void test_launches_are_worth_their_time(void **state)
{
    (void)state;
    const int64_t queued_ns = queued_beside_late_ns(480000, false, 0, 10 * GREEDY_BLOCK_NS);
    assert_in_range(queued_ns, 8 * GREEDY_BLOCK_NS, 2 * 10 * GREEDY_BLOCK_NS);
}

/* A stream that is late itself has batches grow, as far as it is late. */
static void test_queue_grows_beside_late_streams(void **state)
{
    (void)state;
    const int64_t half_period_ns = (int64_t)(MODEST_HOP / 48000.0 * 1e9 / 2);
    assert_true(queued_beside_late_ns(48000, false, 20, 0) > 3 * half_period_ns);
}

/* What falls behind leaves higher priorities nearly all of their time. */
static void test_lower_priority_takes_a_sixteenth(void **state)
{
    (void)state;
    const double modest_hz = 2000; /* a block lasts 48 ms */
    const int64_t period_ns = (int64_t)(MODEST_HOP / modest_hz * 1e9);
    assert_true(queued_beside_ns(modest_hz, false) > period_ns / 4);
    assert_in_range(queued_beside_ns(modest_hz, true), 1, period_ns / 16);
    assert_int_equal(queued_beside_ns(48000, true), GREEDY_BLOCK_NS); /* alone, but it goes */
}

/* ---- a modest stream beside a saturating one --------------------------------------------- */

enum { TURN_HOP = 4800, TURN_BLOCKS = 15 }; /* a block lasts 100 ms */

/* How many batches of the greedy stream were complete when each block of the modest one had come,
 * and how many more came before it. */
struct turns {
    struct feed modest, greedy;
    uint64_t seen; /* blocks of which all frames have come */
    uint64_t before[TURN_BLOCKS + 1], most;
};

static uint64_t batches_of(const struct feed *feed)
{
    struct stream_stats stats;
    stream_stats(feed->stream, &stats);
    return stats.batches;
}

static void count_turns(struct feed *feed, const struct result *result)
{
    struct turns *turns = (struct turns *)(void *)feed; /* its first member */
    const uint64_t block = result->first_frame / TURN_HOP;
    if (block >= TURN_BLOCKS)
        return;               /* the tail */
    if (turns->seen <= block) /* it has come in this turn of the loop */
        turns->before[block] = batches_of(&turns->greedy);
    const uint64_t more = batches_of(&turns->greedy) - turns->before[block];
    turns->most = more > turns->most ? more : turns->most;
}

/* A block waits for what is in the device's queue when it comes and no longer, however slow the
 * machine is: its own batch is the next one. */
static void test_modest_beside_saturating(void **state)
{
    (void)state;
    struct house house;
    house_open(&house);
    static struct turns turns;
    struct feed *modest = &turns.modest, *greedy = &turns.greedy;
    *modest = (struct feed){.channels = 2, .rate_hz = 48000, .live = true, .chunk = 96};
    *greedy = (struct feed){.channels = 16, .rate_hz = 1e6, .chunk = 4096};
    modest->ahead = 64; /* of a machine that stands still for seconds it loses nothing */
    modest->each = count_turns;
    modest->plan = house_plan(house.engine, NULL, 2, TURN_HOP, TURN_HOP + 1, 4, 5);
    /* its largest batch takes far longer than a block of the other one lasts */
    greedy->plan = house_plan(house.engine, NULL, 16, 1024, 30000, 128, 6);
    modest->total = (uint64_t)TURN_HOP * TURN_BLOCKS;
    greedy->total = UINT64_MAX;
    feed_open(greedy, &house, "greedy");
    feed_open(modest, &house, "modest");
    while (!feed_done(modest)) {
        uv_run(&house.loop, UV_RUN_ONCE);
        for (; turns.seen < modest->frames / TURN_HOP; turns.seen++)
            turns.before[turns.seen] = batches_of(greedy);
    }
    struct stream_stats stats, load;
    stream_stats(modest->stream, &stats);
    assert_int_equal(stats.received, modest->total);
    assert_int_equal(stats.out, modest->total + TURN_HOP);
    for (int why = 0; why < SHEDS; why++)
        assert_int_equal(stats.shed[why], 0);
    stream_stats(greedy->stream, &load);
    print_message("modest: %llu blocks, at most %llu batches before one; beside it %llu blocks\n",
                  (unsigned long long)stats.blocks, (unsigned long long)turns.most,
                  (unsigned long long)load.blocks);
    assert_true(load.batches > TURN_BLOCKS);
    assert_true(turns.most <= engine_depth(house.engine) + 1);
    greedy->total = greedy->frames;
    while (!feed_done(greedy))
        uv_run(&house.loop, UV_RUN_ONCE);
    feed_close(modest);
    feed_close(greedy);
    house_close(&house);
}

/* ---- a block in parts -------------------------------------------------------------------- */

enum { LONG_HOP = 256, LONG_TAPS = 129, LONG_CHANNELS = 8, LONG_BLOCKS = 2 };

/* A stream whose block takes 10 ms, in a part for each channel, where the second one is of higher
 * priority; a third one is the first one's equal. */
struct parts {
    struct house house;
    struct feed lengthy, brief, equal;
    struct engine *other;  /* engine */
    struct plan *plans[2]; /* of `lengthy` and `brief` on it */
    bool lost;
};

static void parts_open(struct parts *parts, uint8_t brief_priority)
{
    memset(parts, 0, sizeof *parts);
    house_open(&parts->house);
    alarm(60);
    parts->lengthy = (struct feed){.channels = LONG_CHANNELS, .rate_hz = 1e6, .live = true};
    parts->brief = (struct feed){.channels = 1, .rate_hz = 48000, .live = true};
    parts->equal = (struct feed){.channels = 1, .rate_hz = 48000, .live = true};
    parts->lengthy.plan =
        house_plan(parts->house.engine, "local", LONG_CHANNELS, LONG_HOP, LONG_TAPS, 4, 6);
    parts->brief.plan = house_plan(parts->house.engine, "direct", 1, MODEST_HOP, 50, 4, 5);
    parts->equal.plan = house_plan(parts->house.engine, "direct", 1, MODEST_HOP, 50, 4, 5);
    parts->lengthy.total = LONG_BLOCKS * LONG_HOP;
    parts->brief.total = parts->equal.total = MODEST_HOP;
    parts->lengthy.got =
        calloc((LONG_BLOCKS * LONG_HOP + LONG_TAPS) * LONG_CHANNELS, sizeof(float));
    struct feed *const feeds[] = {&parts->lengthy, &parts->brief, &parts->equal};
    static const char *const names[] = {"lengthy", "brief", "equal"};
    for (int i = 0; i < 3; i++) {
        feed_open(feeds[i], &parts->house, names[i]);
        uv_timer_stop(&feeds[i]->timer);
    }
    stream_set_priority(parts->brief.stream, brief_priority);
    harness_set_cost(parts->lengthy.plan, 10 * NS_PER_MS);
}

static void put_all(struct feed *feed)
{
    feed_put(feed, (uint32_t)(feed->total - feed->frames));
    stream_end(feed->stream);
    scheduler_kick(feed->house->scheduler);
}

static uint64_t submitted_of(const struct feed *feed)
{
    struct stream_stats stats;
    stream_stats(feed->stream, &stats);
    return stats.submitted;
}

static void run_until_done(struct parts *parts)
{
    while (!feed_done(&parts->lengthy) || !feed_done(&parts->brief) || !feed_done(&parts->equal))
        uv_run(&parts->house.loop, UV_RUN_ONCE);
}

/* Returns all results of the long stream. */
static float *parts_close(struct parts *parts)
{
    feed_close(&parts->lengthy);
    feed_close(&parts->brief);
    feed_close(&parts->equal);
    house_close(&parts->house);
    alarm(0);
    return parts->lengthy.got;
}

/* What the long stream gives when nobody overtakes it. */
static float *whole_results(void)
{
    struct parts parts;
    parts_open(&parts, 0);
    put_all(&parts.lengthy);
    put_all(&parts.brief);
    put_all(&parts.equal);
    run_until_done(&parts);
    return parts_close(&parts);
}

/* Its first block is at its second part. */
static void begin_parts(struct parts *parts)
{
    launches_follow(2);
    feed_put(&parts->lengthy, LONG_HOP);
    while (!launches_held())
        uv_run(&parts->house.loop, UV_RUN_NOWAIT);
    assert_int_equal(submitted_of(&parts->lengthy), LONG_HOP);
}

static void turn_loop(struct parts *parts)
{
    for (int i = 0; i < 4; i++) {
        scheduler_kick(parts->house.scheduler);
        uv_run(&parts->house.loop, UV_RUN_NOWAIT);
    }
}

static bool on_the_cpu(void)
{
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    return device == NULL || strcmp(device, "cpu") == 0;
}

static void expect_same_bits(float *got)
{
    float *whole = whole_results();
    assert_memory_equal(got, whole,
                        (LONG_BLOCKS * LONG_HOP + LONG_TAPS - 1) * LONG_CHANNELS * sizeof(float));
    free(whole);
    free(got);
}

/* While a block is computed in parts, blocks of higher priority overtake it, those of its own
 * priority and its stream's next one wait; its epoch ends meanwhile, and nothing is missing. */
static void test_higher_overtakes_between_parts(void **state)
{
    (void)state;
    if (!on_the_cpu())
        skip();
    struct parts parts;
    parts_open(&parts, 1);
    begin_parts(&parts);
    put_all(&parts.lengthy);
    put_all(&parts.equal);
    turn_loop(&parts);
    stream_set_priority(parts.lengthy.stream, 2);
    turn_loop(&parts);
    assert_int_equal(submitted_of(&parts.equal), 0);
    assert_int_equal(submitted_of(&parts.lengthy), LONG_HOP); /* it never overtakes itself */
    stream_set_priority(parts.lengthy.stream, 0);
    put_all(&parts.brief);
    turn_loop(&parts);
    assert_true(submitted_of(&parts.brief) > 0);
    assert_int_equal(submitted_of(&parts.equal), 0);
    launches_go(0);
    run_until_done(&parts);
    uint32_t other_at;
    launches_of_first(&other_at);
    launches_forget();
    assert_int_equal(other_at, 3);
    expect_same_bits(parts_close(&parts));
}

/* Without a stream of higher priority nobody needs parts. */
static void test_equals_get_no_parts(void **state)
{
    (void)state;
    if (!on_the_cpu())
        skip();
    struct parts parts;
    parts_open(&parts, 0);
    launches_follow(1);
    feed_put(&parts.lengthy, LONG_HOP);
    while (!launches_held())
        uv_run(&parts.house.loop, UV_RUN_NOWAIT);
    put_all(&parts.brief);
    turn_loop(&parts);
    assert_int_equal(submitted_of(&parts.brief), 0);
    launches_go(0);
    put_all(&parts.lengthy);
    put_all(&parts.equal);
    run_until_done(&parts);
    uint32_t other_at;
    launches_of_first(&other_at);
    launches_forget();
    assert_int_equal(other_at, 2);
    free(parts_close(&parts));
}

/* ---- a device lost with half a block computed -------------------------------------------- */

static void move_feed(struct parts *parts, struct feed *feed, struct plan *plan)
{
    struct problem problem;
    const struct ring_like like = stream_ring_now(feed->stream);
    struct stream_home to = {parts->other, plan, NULL}, from;
    if (stream_ring_like(parts->other, &like, plan, &to.ring, &problem) != 0)
        fail_msg("%s", problem.text);
    stream_move(feed->stream, &to, &from);
    stream_ring_free(from.ring);
    plan_close(from.plan);
    feed->plan = plan;
}

static void on_lost(void *context)
{
    struct parts *parts = context;
    stream_halt(parts->lengthy.stream);
    stream_halt(parts->brief.stream);
    engine_abandon(parts->house.engine);
    parts->lost = true;
}

/* Some parts are complete, and a block that overtakes them is under way: all of it is computed
 * again on the other device, and each frame comes out once. */
static void test_loss_with_half_a_block(void **state)
{
    (void)state;
    if (!on_the_cpu())
        skip();
    const uint32_t before = engines_abandoned();
    struct parts parts;
    parts_open(&parts, 1);
    put_all(&parts.equal);
    while (!feed_done(&parts.equal))
        uv_run(&parts.house.loop, UV_RUN_ONCE);
    feed_close(&parts.equal);
    parts.other = house_engine(&parts.house, 0);
    parts.plans[0] = house_plan(parts.other, "local", LONG_CHANNELS, LONG_HOP, LONG_TAPS, 4, 6);
    parts.plans[1] = house_plan(parts.other, "direct", 1, MODEST_HOP, 50, 4, 5);
    scheduler_on_lost(parts.house.scheduler, on_lost, &parts);
    begin_parts(&parts);
    put_all(&parts.brief);
    turn_loop(&parts);
    assert_true(submitted_of(&parts.brief) > 0);
    struct engine *lost = parts.house.engine;
    engine_declare_lost(lost, ENGINE_LOSS_STALLED, "a test");
    while (!parts.lost)
        uv_run(&parts.house.loop, UV_RUN_ONCE);
    assert_int_equal(submitted_of(&parts.lengthy), 0); /* it waits again */
    assert_int_equal(submitted_of(&parts.brief), 0);
    launches_forget();
    parts.house.engine = parts.other;
    move_feed(&parts, &parts.lengthy, parts.plans[0]);
    move_feed(&parts, &parts.brief, parts.plans[1]);
    scheduler_take_engine(parts.house.scheduler, parts.other);
    put_all(&parts.lengthy);
    while (!feed_done(&parts.lengthy) || !feed_done(&parts.brief))
        uv_run(&parts.house.loop, UV_RUN_ONCE);
    struct stream_stats stats;
    stream_stats(parts.lengthy.stream, &stats);
    for (int why = 0; why < SHEDS; why++)
        assert_int_equal(stats.shed[why], 0);
    assert_int_equal(stats.out, LONG_BLOCKS * LONG_HOP + LONG_TAPS - 1);
    launches_go(0); /* the lost device comes back */
    feed_close(&parts.lengthy);
    feed_close(&parts.brief);
    house_close(&parts.house);
    engine_close(lost);
    while (engines_abandoned() > before) {
        engines_reclaim();
        usleep(1000);
    }
    engines_forget();
    alarm(0);
    expect_same_bits(parts.lengthy.got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_leaves_room_for_live_streams),
        cmocka_unit_test(test_launches_are_worth_their_time),
        cmocka_unit_test(test_queue_grows_beside_late_streams),
        cmocka_unit_test(test_lower_priority_takes_a_sixteenth),
        cmocka_unit_test(test_modest_beside_saturating),
        cmocka_unit_test(test_higher_overtakes_between_parts),
        cmocka_unit_test(test_equals_get_no_parts),
        cmocka_unit_test(test_loss_with_half_a_block),
    };
    return cmocka_run_group_tests_name("scheduler: sharing", tests, NULL, NULL);
}
