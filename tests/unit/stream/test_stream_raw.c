/*
 * Raw input of a stream: exactly the frames that are missing are flagged, each with its cause,
 * whatever the length of the filter.
 */
#include "tests/support/stream_world.h"

#include "stream/gaps.h"
#include "stream/move.h"

/* The longest filter of the plan in use, which says nothing about the input. */
static void open_ports(uint32_t taps, uint64_t ring_frames, bool live, bool with_raw)
{
    struct stream_options options = default_options();
    options.ring_frames_min = ring_frames;
    options.live = live;
    world_open(&options);
    stream_close(world->stream);
    world->plan.info.taps_longest = taps;
    world->plan.info.history_frames = taps;
    struct problem problem;
    assert_int_equal(stream_open(&world->engine, &options, &world->plan, &world->stream, &problem),
                     0);
    struct result_port port = {.context = &world->got, .put = take};
    struct result_port raw = {.context = &world->got, .put = take_raw, .raw = true};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    if (with_raw)
        assert_int_equal(stream_add_port(world->stream, &raw), 0);
}

static void open_with_taps(uint32_t taps, uint64_t ring_frames, bool live)
{
    open_ports(taps, ring_frames, live, true);
}

static void check_raw(uint64_t frames, uint64_t from, uint64_t until, uint16_t causes)
{
    assert_int_equal(world->got.raw_frames[0], frames);
    for (uint64_t n = 0; n < frames; n++) {
        uint16_t want = n >= from && n < until ? causes : 0;
        if (world->got.raw_causes[0][n] != want)
            fail_msg("raw frame %llu has causes %x, not %x", (unsigned long long)n,
                     world->got.raw_causes[0][n], want);
        assert_int_equal(world->got.raw_absent[0][n], want != 0);
    }
}

/* {taps, frames before the gap, frames of the gap} */
static const uint32_t gaps[][3] = {{1, 320, 2},   {1, 333, 10},  {37, 320, 2},
                                   {37, 330, 10}, {500, 320, 2}, {500, 350, 10}};

static void one_gap(const uint32_t gap[3], enum invalid_cause cause)
{
    open_with_taps(gap[0], 2048, true);
    put(0, 0, gap[1], 0, 0);
    turn(BATCHES);
    if (cause != INVALID_NETWORK)
        stream_lost(world->stream, gap[2], cause);
    const uint64_t end = gap[1] + gap[2];
    put(0, end, 7, end, 0);
    world->now_ns += NS_PER_MS;
    turn(BATCHES); /* the results of these frames are out before the raw input is */
    put(0, end + 7, 60, end + 7, 0);
    turn(BATCHES);
    put(0, end + 67, 300, end + 67, 0);
    stream_end(world->stream);
    drain();
    check_raw(end + 367, gap[1], end, bit(cause));
    world_close();
}

static void test_exactly_the_missing_frames(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        one_gap(gaps[i], INVALID_NETWORK);
        one_gap(gaps[i], INVALID_CAPTURE);
        one_gap(gaps[i], INVALID_OVERLOAD);
    }
}

/* A gap that comes in one packet after another: many more than one result lists, all in one block.
 */
static void test_many_gaps_in_one_block(void **state)
{
    (void)state;
    open_with_taps(37, 2048, true);
    uint64_t n = 0;
    for (; n < 1200; n += 3)
        put(0, n, 1, n, 0);
    world->now_ns += NS_PER_MS;
    turn(BATCHES);
    put(0, n, 100, n, 0);
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.raw_frames[0], n + 100);
    for (uint64_t i = 0; i < n + 100; i++) {
        const bool missing = i < n && i % 3 != 0;
        assert_int_equal(world->got.raw_causes[0][i], missing ? bit(INVALID_NETWORK) : 0);
        assert_int_equal(world->got.raw_absent[0][i], missing);
    }
    world_close();
}

/* What an upstream stream declares invalid is invalid in the recording of this one's input, and no
 * further. */
static void test_upstream_ranges_are_not_widened(void **state)
{
    (void)state;
    open_with_taps(37, 2048, true);
    const struct invalid_range ranges[] = {{10, 20, INVALID_NETWORK}, {90, 130, INVALID_SETTLING}};
    struct packet packet = {.frames = 120,
                            .payload = (const uint8_t *)world->sent[0][0],
                            .receive_ns = world->now_ns,
                            .invalid = ranges,
                            .invalid_count = 2};
    assert_int_equal(stream_put(world->stream, &packet), VERDICT_ACCEPTED);
    put(0, 120, 120, 120, 0);
    stream_end(world->stream);
    drain();
    for (uint64_t n = 0; n < 240; n++) {
        assert_int_equal(world->got.raw_causes[0][n], n >= 10 && n < 20    ? bit(INVALID_NETWORK)
                                                      : n >= 90 && n < 130 ? bit(INVALID_SETTLING)
                                                                           : 0);
        assert_false(world->got.raw_absent[0][n]); /* they came */
    }
    world_close();
}

/* Frames that come after they were given up, but before the raw input was handed on, are late: one
 * cause, as in the ledger. */
static void test_late_frames_have_one_cause(void **state)
{
    (void)state;
    open_with_taps(37, 2048, true);
    put(0, 0, 100, 0, 0);
    put(0, 110, 7, 110, 0);
    world->now_ns += NS_PER_MS;
    turn(BATCHES);
    assert_int_equal(put(0, 102, 4, 102, 0), VERDICT_LATE);
    put(0, 117, 100, 117, 0);
    stream_end(world->stream);
    drain();
    for (uint64_t n = 0; n < 217; n++) {
        uint16_t gap = n >= 102 && n < 106 ? bit(INVALID_LATE) : bit(INVALID_NETWORK);
        assert_int_equal(world->got.raw_causes[0][n], n >= 100 && n < 110 ? gap : 0);
    }
    world_close();
}

/* Input waits for the raw ports while a hole is awaited: with a short filter no block reads it any
 * more, and what comes behind the hole must not take its slots. */
static void test_slots_are_kept_for_raw_input(void **state)
{
    (void)state;
    open_with_taps(1, 2048, false);
    put(0, 0, 40, 0, 0);
    put(0, 40, 31, 40, 0); /* one frame less than a block: not handed on yet */
    turn(BATCHES);
    assert_int_equal(world->got.raw_frames[0], 40);
    uint64_t n = 900;
    while (n < 8192 && put(0, n, 50, n, 0) == VERDICT_ACCEPTED)
        n += 50;
    assert_in_range(n, 2000, 8191);
    world->now_ns += NS_PER_MS;
    turn(BATCHES);
    stream_end(world->stream);
    drain();
    assert_memory_equal(world->got.raw[0], world->sent[0], 71 * sizeof world->sent[0][0]);
    assert_int_equal(world->got.raw_causes[0][70], 0);
    assert_int_equal(world->got.raw_causes[0][71], bit(INVALID_NETWORK)); /* refused: frame n */
    world_close();
}

/* A gap may be as long as `max gap`: only a raw port makes the loop write silence into it, and then
 * in long copies. */
static void test_a_gap_is_written_for_raw_ports_only(void **state)
{
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        open_ports(37, 2048, true, raw);
        put(0, 0, 320, 0, 0);
        put(0, 420, 60, 420, 0);
        world->now_ns += NS_PER_MS;
        turn(BATCHES), turn(BATCHES), turn(BATCHES);
        uint32_t silent = 0;
        static const uint8_t silence[CHANNELS * sizeof(int16_t)];
        for (uint32_t slot = 0; slot < newest_ring->frames; slot++)
            silent += memcmp(newest_ring->bytes + slot * newest_ring->frame_bytes, silence,
                             sizeof silence) == 0;
        assert_int_equal(silent, raw ? 100 : 0);
        world_close();
    }
}

struct handed {
    uint64_t until, most, missing; /* frames */
};

static void count_handed(void *context, const struct result *result)
{
    struct handed *handed = context;
    assert_int_equal(result->first_frame, handed->until);
    handed->until += result->frames;
    handed->most = result->frames > handed->most ? result->frames : handed->most;
    for (uint32_t i = 0; i < result->invalid_count; i++)
        handed->missing += result->invalid[i].until - result->invalid[i].from;
}

/* Beyond the frames that a world knows the samples of. */
static enum verdict put_far(uint64_t first, uint32_t frames)
{
    const struct packet packet = {
        .first_frame = first,
        .frames = frames,
        .payload = (const uint8_t *)world->sent[0][0],
        .receive_ns = world->now_ns,
        .receive_realtime_ns = simulated_realtime_ns(),
    };
    return stream_put(world->stream, &packet);
}

/* A long gap is handed to raw ports in several turns of the loop, each bounded, one after the other
 * without waiting; what comes late into it is noticed wherever it belongs. */
static void test_a_long_gap_takes_several_turns(void **state)
{
    (void)state;
    enum { GAP = 1 << 21, TURN = GAPS_TURN_BYTES / (CHANNELS * sizeof(int16_t)) };
    struct handed handed = {0};
    const struct result_port raw = {.context = &handed, .put = count_handed, .raw = true};
    open_ports(37, 2 * GAP, true, false);
    assert_int_equal(stream_add_port(world->stream, &raw), 0);
    put_far(0, 320);
    put_far(320 + GAP, 60);
    handed.most = 0;
    world->now_ns += NS_PER_SECOND;
    int turns = 0;
    while (handed.until < GAP && turns < 100) {
        assert_true(stream_next_tick_ns(world->stream) <= world->now_ns);
        const uint64_t before = handed.until;
        stream_tick(world->stream, world->now_ns);
        assert_true(handed.until > before && handed.until - before <= TURN);
        turns++;
    }
    assert_int_equal(turns, GAP / TURN);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_NETWORK], GAP);
    /* In the middle of it, far behind the first turn. */
    put_far(320 + GAP / 2, 60);
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_LATE], 60);
    stream_end(world->stream);
    assert_int_equal(handed.until, 320 + GAP + 60);
    assert_int_equal(handed.missing, GAP);
    world_close();
}

/* What a raw port was handed of each epoch, and in which order. */
struct handed_epochs {
    uint64_t until[9], missing[9], ends[9], now; /* frames; now: the epoch of the last */
    uint64_t wrong;                              /* samples that are neither sent nor silence */
    uint64_t merged;                             /* missing frames whose cause is not known */
};

static void count_epochs(void *context, const struct result *result)
{
    struct handed_epochs *epochs = context;
    const uint64_t epoch = result->epoch;
    assert_true(epoch < 9 && (epoch == epochs->now || epoch == epochs->now + 1));
    assert_int_equal(result->first_frame, epochs->until[epoch]);
    assert_int_equal(epochs->ends[epoch], 0);
    epochs->now = epoch;
    epochs->until[epoch] += result->frames;
    epochs->ends[epoch] += (result->flags & RESULT_EPOCH_END) != 0;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        epochs->missing[epoch] += range->until - range->from;
        if (range->cause == INVALID_UPSTREAM)
            epochs->merged += range->until - range->from;
    }
    const int16_t(*raw)[CHANNELS] = (const void *)result->raw;
    for (uint32_t n = 0; n < result->frames; n++) {
        bool missing = false;
        for (uint32_t i = 0; i < result->invalid_count; i++)
            missing = missing || (result->first_frame + n >= result->invalid[i].from &&
                                  result->first_frame + n < result->invalid[i].until);
        epochs->wrong += (raw[n][0] == 0 && raw[n][1] == 0) != missing;
    }
}

static void count_results(void *context, const struct result *result)
{
    ((struct capture *)context)->delivered += result->frames;
}

/* All results that are due, in one turn of the loop. */
static void compute(void)
{
    while (stream_ready_deadline_ns(world->stream) != INT64_MAX) {
        struct batch *batch = engine_batch_take(&world->engine);
        assert_non_null(batch);
        assert_true(stream_fill(world->stream, batch, NS_PER_SECOND, true) > 0);
        engine_submit(&world->engine, batch);
        world->engine.completable = 1;
        assert_ptr_equal(engine_completed(&world->engine), batch);
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->items[i].owner != NULL)
                stream_complete(world->stream, batch, &batch->items[i]);
        engine_batch_release(&world->engine, batch);
    }
}

enum { RAW_RING = 1 << 20, RAW_TURN = GAPS_TURN_BYTES / (CHANNELS * sizeof(int16_t)) };

static struct handed_epochs handed;

/* A live stream with one raw port, whose results are counted only: a world holds fewer. */
static void open_long(void)
{
    const struct result_port raw = {.context = &handed, .put = count_epochs, .raw = true};
    open_ports(37, RAW_RING, true, false);
    stream_remove_port(world->stream, &world->got);
    const struct result_port results = {.context = &world->got, .put = count_results};
    assert_int_equal(stream_add_port(world->stream, &results), 0);
    assert_int_equal(stream_add_port(world->stream, &raw), 0);
    memset(&handed, 0, sizeof handed);
}

static uint64_t handed_in_all(void)
{
    uint64_t frames = 0;
    for (size_t i = 0; i < sizeof handed.until / sizeof handed.until[0]; i++)
        frames += handed.until[i];
    return frames;
}

/* One packet hands on no more than a turn and itself. */
static enum verdict put_bounded(uint64_t first, uint32_t frames)
{
    const uint64_t before = handed_in_all();
    const enum verdict verdict = put_far(first, frames);
    assert_true(handed_in_all() - before <= RAW_TURN + frames);
    return verdict;
}

static void end_bounded(void)
{
    const uint64_t before = handed_in_all();
    stream_end(world->stream);
    assert_true(handed_in_all() - before <= RAW_TURN);
}

/* The ticks that are due at once; returns how many. */
static int tick_bounded(void)
{
    int turns = 0;
    for (; stream_next_tick_ns(world->stream) <= world->now_ns && turns < 100; turns++) {
        const uint64_t before = handed_in_all();
        stream_tick(world->stream, world->now_ns);
        assert_in_range(handed_in_all() - before, 1, RAW_TURN);
    }
    return turns;
}

/* An epoch that ends while a long hole is still awaited: its input is handed on in turns of the
 * loop, each bounded, while the next epoch begins and goes on; nothing is out of order. `narrow`:
 * the next epoch needs the slots meanwhile. `again`: it ends in a hole as well, and a third one
 * begins. */
static void end_in_a_hole(bool narrow, bool again)
{
    const uint64_t gap = narrow ? RAW_RING - 8192 : RAW_RING * 3 / 4, packets = narrow ? 900 : 5;
    open_long();
    put_far(0, 320);
    put_far(320 + gap, 60);
    const uint64_t first = 320 + gap + 60;
    end_bounded();
    if (narrow)
        compute(); /* no block reads those slots any more */
    for (uint64_t i = 0; i < packets; i++)
        assert_int_equal(put_bounded(10 * first + 320 * i, 320), VERDICT_ACCEPTED);
    if (again) {
        put_bounded(10 * first + 320 * packets + 3000, 60);
        end_bounded();
        put_bounded(20 * first, 320);
    }
    assert_true(handed.until[0] < first && handed.until[1] == 0);
    assert_true(!stream_drained(world->stream));
    assert_in_range(tick_bounded(), narrow ? 2 : gap / RAW_TURN - 1, gap / RAW_TURN + 2);
    stream_end(world->stream);
    tick_bounded();
    assert_int_equal(handed.until[0], first);
    assert_int_equal(handed.missing[0], gap);
    assert_int_equal(handed.ends[0], 1);
    assert_int_equal(handed.until[1], 320 * packets + (again ? 3000 + 60 : 0));
    assert_int_equal(handed.missing[1], again ? 3000 : 0);
    assert_int_equal(handed.ends[1], again);
    assert_int_equal(handed.until[2], again ? 320 : 0);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

static void test_an_end_in_a_long_hole_takes_several_turns(void **state)
{
    (void)state;
    end_in_a_hole(false, false);
    end_in_a_hole(true, false);
    end_in_a_hole(false, true);
}

/* Eight epochs wait with their raw input; a ninth begins when the oldest of them is through. */
static void test_epochs_that_wait_are_bounded(void **state)
{
    (void)state;
    enum { GAP = RAW_RING / 2, WAITING = 8 };
    open_long();
    put_far(0, 320);
    put_far(320 + GAP, 60);
    end_bounded();
    for (uint64_t i = 1; i < WAITING; i++) {
        assert_int_equal(put_bounded(i * 10 * RAW_RING, 320), VERDICT_ACCEPTED);
        end_bounded();
    }
    assert_int_equal(stream_room(world->stream), 0);
    assert_int_equal(put_bounded(WAITING * 10 * RAW_RING, 320), VERDICT_OUT_OF_WINDOW);
    assert_true(handed.until[0] < GAP && handed.until[1] == 0);
    tick_bounded();
    assert_int_equal(put_bounded(WAITING * 10 * RAW_RING + 320, 320), VERDICT_ACCEPTED);
    end_bounded();
    for (uint64_t i = 1; i <= WAITING; i++)
        assert_int_equal(handed.until[i], 320);
    assert_int_equal(handed.missing[0], GAP);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

/* A packet beyond a hole that needs more slots than a turn hands on is refused, and the next one
 * finds them. */
static void test_slots_of_a_turn_for_a_packet(void **state)
{
    (void)state;
    const uint64_t gap = RAW_RING - 8192, first = 320 + gap + 60, next = 10 * first;
    open_long();
    put_far(0, 320);
    put_far(320 + gap, 60);
    end_bounded();
    compute();
    assert_int_equal(put_bounded(next, 320), VERDICT_ACCEPTED);
    const uint64_t before = handed_in_all();
    assert_int_equal(put_far(next + 320 + 2 * RAW_TURN + 16384, 320), VERDICT_OUT_OF_WINDOW);
    assert_int_equal(handed_in_all(), before);
    tick_bounded();
    assert_int_equal(put_bounded(next + 320 + 2 * RAW_TURN + 16384 + 320, 320), VERDICT_ACCEPTED);
    stream_end(world->stream);
    tick_bounded();
    assert_int_equal(handed.until[0], first);
    assert_int_equal(handed.until[1], 2 * RAW_TURN + 16384 + 960);
    assert_int_equal(handed.missing[1], 2 * RAW_TURN + 16384 + 320);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

/* So many holes behind a long one that the stream gives that up before its time. */
static void test_a_long_gap_given_up_early(void **state)
{
    (void)state;
    enum { GAP = RAW_RING * 3 / 4, HOLES = 1100 };
    open_long();
    put_far(0, 320);
    uint64_t n = 320 + GAP;
    for (int i = 0; i < HOLES; i++, n += 4)
        assert_int_equal(put_bounded(n, 3), VERDICT_ACCEPTED);
    assert_int_equal(handed.until[0], 320 + RAW_TURN); /* all of the packets */
    world->now_ns += NS_PER_SECOND;
    tick_bounded();
    end_bounded();
    tick_bounded();
    assert_int_equal(handed.until[0], n - 1);
    assert_int_equal(handed.missing[0], GAP + HOLES - 1);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

/* More gaps than the list of causes takes, behind a long one that the raw ports do not have yet: no
 * packet waits for that one, each missing frame is flagged, and no other. */
static void test_more_gaps_than_the_list_takes(void **state)
{
    (void)state;
    enum { GAP = RAW_RING * 3 / 4, HOLES = 1500 };
    open_long();
    put_far(0, 320);
    uint64_t n = 320 + GAP;
    for (int i = 0; i < HOLES; i++, n += 4)
        assert_int_equal(put_bounded(n, 3), VERDICT_ACCEPTED);
    world->now_ns += NS_PER_SECOND;
    tick_bounded();
    end_bounded();
    tick_bounded();
    assert_int_equal(handed.until[0], n - 1);
    assert_int_equal(handed.missing[0], GAP + HOLES - 1);
    assert_int_equal(handed.wrong, 0);
    assert_true(handed.merged > 0); /* the causes of these are not known any more */
    world_close();
}

static int plans_retired;

static void no_plan_retires(void *context, struct plan *old)
{
    (void)context, (void)old;
    plans_retired++;
}

/* A device that is lost with a change under way that makes the frames before it silent: the change
 * takes effect at once, but for raw input that is still to be handed on, in turns. */
static void test_a_clear_change_at_a_lost_device(void **state)
{
    (void)state;
    enum { GAP = RAW_RING * 3 / 4 };
    open_long();
    put_far(0, 320);
    put_far(320 + GAP, 60);
    end_bounded();
    compute();
    put_far(10 * RAW_RING, 320);
    world->other.info.history_frames = 37;
    const struct stream_change change = {.plan = &world->other,
                                         .frame = stream_next_frame(world->stream),
                                         .how = CHANGE_CLEAR,
                                         .retired = no_plan_retires};
    plans_retired = 0;
    assert_int_equal(stream_change(world->stream, &change), 0);
    const uint64_t before = handed_in_all();
    stream_halt(world->stream);
    assert_true(handed_in_all() - before <= RAW_TURN);
    assert_false(stream_can_move(world->stream));
    for (int turns = 0; plans_retired == 0 && turns < 100; turns++) {
        assert_true(stream_next_tick_ns(world->stream) <= world->now_ns);
        const uint64_t now = handed_in_all();
        stream_tick(world->stream, world->now_ns);
        assert_true(handed_in_all() - now <= RAW_TURN + 320);
    }
    assert_int_equal(plans_retired, 1);
    assert_true(stream_can_move(world->stream));
    assert_int_equal(handed.until[0], 320 + GAP + 60);
    assert_int_equal(handed.missing[0], GAP);
    assert_int_equal(handed.until[1], 320);
    assert_int_equal(handed.missing[1], 0);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

/* A change that makes the frames before it silent for its plan takes them from no recording: it
 * waits until the raw ports have what an epoch before it left, in turns like the rest. */
static void test_a_clear_change_takes_no_raw_input(void **state)
{
    (void)state;
    struct stream_change change = {.how = CHANGE_CLEAR, .retired = no_plan_retires};
    /* Some frames of the block are not handed on when the change comes. */
    open_with_taps(37, 2048, true);
    world->other.info.history_frames = 37; /* as open_ports has it */
    change.plan = &world->other;
    change.frame = 110;
    put(0, 0, 100, 0, 0);
    turn(BATCHES);
    assert_int_equal(stream_change(world->stream, &change), 0);
    put(0, 100, 20, 100, 0);
    put(0, 120, 10, 120, 0);
    for (int i = 0; i < 4; i++)
        turn(BATCHES);
    put(0, 130, 70, 130, 0);
    stream_end(world->stream);
    drain();
    check_raw(200, 0, 0, 0);
    world_close();

    enum { GAP = RAW_RING * 3 / 4 };
    open_long();
    put_far(0, 320);
    put_far(320 + GAP, 60);
    end_bounded();
    compute();
    put_far(10 * RAW_RING, 320);
    world->other.info.history_frames = 37;
    change.plan = &world->other;
    change.frame = stream_next_frame(world->stream);
    assert_int_equal(stream_change(world->stream, &change), 0);
    const uint64_t before = handed_in_all();
    struct batch *batch = engine_batch_take(&world->engine);
    assert_int_equal(stream_fill(world->stream, batch, NS_PER_SECOND, true), 0);
    assert_true(handed_in_all() - before <= RAW_TURN);
    engine_batch_release(&world->engine, batch);
    tick_bounded();
    compute();
    stream_end(world->stream);
    compute();
    tick_bounded();
    assert_int_equal(handed.until[0], 320 + GAP + 60);
    assert_int_equal(handed.missing[0], GAP);
    assert_int_equal(handed.until[1], 320);
    assert_int_equal(handed.wrong, 0);
    world_close();
}

/* Shed results are no fault of the raw input: what was received is recorded, and what was not is
 * flagged, also where the ring has no room. */
static void random_world(uint64_t seed)
{
    struct random_state random = {seed * 15485863};
    open_with_taps(seed % 3 == 0 ? 1 : 37, seed % 2 == 0 ? 2048 : 8192, true);
    world->engine.chance = (struct random_state){seed};
    world->engine.failing = 0.1;
    uint64_t next = 0;
    struct stream_stats stats;
    for (int step = 0; step < 300; step++) {
        uint32_t count = 1 + random_below(&random, 60);
        bool lost = next > 0 && random_unit(&random) < 0.1;
        if (lost && random_below(&random, 2) == 0)
            stream_lost(world->stream, count, INVALID_CAPTURE);
        world->now_ns += count * 1000;
        if (!lost)
            put(0, next, count, next, 0);
        next += count;
        if (random_unit(&random) < 0.02)
            world->now_ns += 20 * NS_PER_MS;
        turn(step / 30 % 3 == 2 ? 0 : 2);
    }
    stream_end(world->stream);
    drain();
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.epochs, 1);
    uint64_t flagged[INVALID_CAUSES] = {0};
    assert_int_equal(world->got.raw_frames[0], stats.timeline_in);
    for (uint64_t n = 0; n < stats.timeline_in; n++) {
        const int16_t *got = world->got.raw[0][n], *sent = world->sent[0][n];
        const uint16_t causes = world->got.raw_causes[0][n];
        bool missing = got[0] != sent[0] || got[1] != sent[1];
        if (missing != (causes != 0) || (missing && (got[0] != 0 || got[1] != 0)))
            fail_msg("seed %llu, raw frame %llu: %d, sent %d, causes %x", (unsigned long long)seed,
                     (unsigned long long)n, got[0], sent[0], causes);
        for (int cause = 0; cause < INVALID_CAUSES; cause++)
            flagged[cause] += causes >> cause & 1;
    }
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        assert_int_equal(flagged[cause], stats.gap[cause]);
    world_close();
}

static void test_random_worlds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++)
        random_world(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_the_missing_frames),
        cmocka_unit_test(test_many_gaps_in_one_block),
        cmocka_unit_test(test_upstream_ranges_are_not_widened),
        cmocka_unit_test(test_late_frames_have_one_cause),
        cmocka_unit_test(test_slots_are_kept_for_raw_input),
        cmocka_unit_test(test_a_gap_is_written_for_raw_ports_only),
        cmocka_unit_test(test_a_long_gap_takes_several_turns),
        cmocka_unit_test(test_an_end_in_a_long_hole_takes_several_turns),
        cmocka_unit_test(test_epochs_that_wait_are_bounded),
        cmocka_unit_test(test_slots_of_a_turn_for_a_packet),
        cmocka_unit_test(test_a_long_gap_given_up_early),
        cmocka_unit_test(test_more_gaps_than_the_list_takes),
        cmocka_unit_test(test_a_clear_change_takes_no_raw_input),
        cmocka_unit_test(test_a_clear_change_at_a_lost_device),
        cmocka_unit_test(test_random_worlds),
    };
    return cmocka_run_group_tests_name("stream_raw", tests, NULL, NULL);
}
