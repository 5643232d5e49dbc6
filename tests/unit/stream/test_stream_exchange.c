/*
 * Exchange of a stream's plan at one frame: hard, cross-faded, with cleared history; with more
 * history than the ring held. Oracle: the definition, frame by frame, over simulated time.
 */
#include "tests/support/stream_world.h"

enum { FRAMES = 2400, LONG = 700 };

static const double pi = 3.14159265358979323846;
static int retired;

static void on_retired(void *context, struct plan *old)
{
    (void)context;
    assert_ptr_equal(old, &world->plan);
    retired++;
}

/* Frame n of channel c by a plan that sees input frames from `since` on. */
static double by_definition(const double *taps, uint32_t count, uint64_t n, int c, uint64_t since)
{
    double sum = 0;
    for (uint64_t k = 0; k < count && k <= n && n - k >= since; k++)
        if (world->placed[0][n - k])
            sum += taps[k] * world->sent[0][n - k][c];
    return sum;
}

static double weight(uint64_t n, uint64_t at, uint32_t fade)
{
    return n < at ? 0 : n >= at + fade ? 1 : 0.5 * (1 - cos(pi * ((double)(n - at) + 0.5) / fade));
}

static int prepare_ring(struct stream_change *exchange)
{
    struct problem problem;
    const struct ring_like now = stream_ring_now(world->stream);
    return stream_ring_prepare(&world->engine, &now, &world->other, &exchange->ring, &problem);
}

static void put_all(uint64_t n, uint32_t frames)
{
    assert_int_equal(put(0, n, frames, n, 0), VERDICT_ACCEPTED);
}

/* Pieces of `piece` frames, `complete` batches after each; the exchange is asked for after 320. */
static void play(const struct stream_change *exchange, uint32_t piece, int complete)
{
    retired = 0;
    bool asked = false;
    for (uint64_t n = 0; n < FRAMES; n += piece) {
        if (n >= 320 && !asked) {
            assert_int_equal(stream_change(world->stream, exchange), 0);
            asked = true;
        }
        uint64_t rest = FRAMES - n;
        put_all(n, (uint32_t)(rest < piece ? rest : piece));
        turn(complete);
    }
    stream_end(world->stream);
    drain();
    assert_int_equal(retired, 1);
}

static void expect(uint64_t n, int c, double want)
{
    assert_int_equal(world->got.seen[0][n], 1);
    double got = world->got.samples[0][n][c];
    if (fabs(got - want) > 1e-6 * (fabs(want) + 1e4))
        fail_msg("frame %llu channel %d: got %g, want %g", (unsigned long long)n, c, got, want);
}

static const struct {
    uint64_t at;
    uint32_t fade, piece;
    int complete;
} fades[] = {
    {512, 64, 60, 1}, {512, 64, 320, 4}, {500, 100, 60, 1}, {500, 100, 333, 2},
    {513, 7, 60, 4},  {512, 1, 60, 1},   {530, 333, 32, 1}, {530, 333, 1000, 4},
};

static void test_fade(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fades / sizeof fades[0]; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        const struct stream_change exchange = {.plan = &world->other,
                                               .frame = 1000 + fades[i].at,
                                               .how = CHANGE_FADE,
                                               .fade_frames = fades[i].fade,
                                               .retired = on_retired};
        play(&exchange, fades[i].piece, fades[i].complete);
        for (uint64_t n = 0; n < FRAMES; n++) {
            double w = weight(n, exchange.frame, exchange.fade_frames);
            for (int c = 0; c < CHANNELS; c++)
                expect(n, c,
                       (1 - w) * by_definition(world->plan.taps, TAPS, n, c, 0) +
                           w * by_definition(world->other.taps, TAPS, n, c, 0));
            bool inside = n >= exchange.frame && n < exchange.frame + exchange.fade_frames;
            assert_int_equal(world->got.mixed[0][n], inside);
            assert_int_equal((world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE)) != 0, inside);
        }
        world_close();
    }
}

/* Bit by bit the same, however it came. */
static void test_fade_is_the_same_in_any_batches(void **state)
{
    (void)state;
    static float first[FRAMES][CHANNELS];
    static const struct {
        uint32_t piece;
        int complete;
    } runs[] = {{60, 1}, {32, 4}, {700, 4}, {1000, 4}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct stream_options options = default_options();
        options.live = false;
        world_open(&options);
        const struct stream_change exchange = {.plan = &world->other,
                                               .frame = 700,
                                               .how = CHANGE_FADE,
                                               .fade_frames = 500,
                                               .retired = on_retired};
        retired = 0;
        put(0, 0, 32, 0, 0);
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        for (uint64_t n = 32; n < 2000; n += runs[i].piece) {
            put_all(n, (uint32_t)(2000 - n < runs[i].piece ? 2000 - n : runs[i].piece));
            turn(runs[i].complete);
        }
        stream_end(world->stream);
        drain();
        if (i == 0)
            memcpy(first, world->got.samples[0], sizeof first);
        assert_memory_equal(first, world->got.samples[0], 2000 * sizeof first[0]);
        world_close();
    }
}

static void make_complex(struct plan *plan, enum output_form form, uint64_t seed)
{
    struct random_state random = {seed};
    plan->form = form;
    plan->info.output_floats = form == OUTPUT_COMPLEX ? 2 * CHANNELS : CHANNELS;
    for (int k = 0; k < TAPS; k++)
        plan->imaginary[k] = random_normal(&random);
}

/* The envelope is that of the mix, not a mix of envelopes. */
static void test_envelope_after_the_fade(void **state)
{
    (void)state;
    static const enum output_form forms[CHANNELS] = {OUTPUT_ENVELOPE, OUTPUT_ENVELOPE};
    struct stream_options options = default_options();
    world_open(&options);
    struct plan raw_old, raw_new;
    make_complex(&world->plan, OUTPUT_ENVELOPE, 31);
    make_complex(&world->other, OUTPUT_ENVELOPE, 32);
    raw_old = world->plan;
    raw_new = world->other;
    make_complex(&raw_old, OUTPUT_COMPLEX, 31);
    make_complex(&raw_new, OUTPUT_COMPLEX, 32);
    const struct stream_change exchange = {.plan = &world->other,
                                           .frame = 777,
                                           .how = CHANGE_FADE,
                                           .fade_frames = 300,
                                           .raw_old = &raw_old,
                                           .raw_new = &raw_new,
                                           .forms = forms,
                                           .forms_count = CHANNELS,
                                           .retired = on_retired};
    play(&exchange, 60, 2);
    for (uint64_t n = 0; n < FRAMES; n++) {
        double w = weight(n, 777, 300);
        for (int c = 0; c < CHANNELS; c++) {
            double re = (1 - w) * by_definition(world->plan.taps, TAPS, n, c, 0) +
                        w * by_definition(world->other.taps, TAPS, n, c, 0);
            double im = (1 - w) * by_definition(world->plan.imaginary, TAPS, n, c, 0) +
                        w * by_definition(world->other.imaginary, TAPS, n, c, 0);
            expect(n, c, hypot(re, im));
        }
    }
    world_close();
}

/* Every frame of the input is in the levels once, whatever the exchange made of its block. */
static void check_levels(void)
{
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0;
        for (int n = 0; n < FRAMES; n++)
            sum += world->sent[0][n][c];
        assert_int_equal(stats.levels[c].frames, FRAMES);
        assert_true(fabs(stats.levels[c].sum - sum) < 1e-3 * FRAMES);
    }
}

static void test_clear(void **state)
{
    (void)state;
    static const uint64_t at[] = {1024, 1025, 1300, 1055};
    for (size_t i = 0; i < 2 * sizeof at / sizeof at[0]; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        const struct stream_change exchange = {
            .plan = &world->other, .frame = at[i / 2], .how = CHANGE_CLEAR, .retired = on_retired};
        play(&exchange, i % 2 ? 60 : 512, 1 + (int)(i % 3));
        for (uint64_t n = 0; n < FRAMES; n++) {
            for (int c = 0; c < CHANNELS; c++)
                expect(n, c,
                       n < exchange.frame
                           ? by_definition(world->plan.taps, TAPS, n, c, 0)
                           : by_definition(world->other.taps, TAPS, n, c, exchange.frame));
            bool settling = n >= exchange.frame && n < exchange.frame + TAPS - 1;
            assert_int_equal((world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE)) != 0, settling);
        }
        check_levels();
        world_close();
    }
}

/* A filter longer than what the ring was made for: the ring is exchanged too, with what it holds.
 */
static void test_longer_filter(void **state)
{
    (void)state;
    static const enum change_how hows[] = {CHANGE_HARD, CHANGE_FADE, CHANGE_CLEAR};
    for (size_t i = 0; i < 6; i++) {
        enum change_how how = hows[i % 3];
        struct stream_options options = default_options();
        options.ring_frames_min = 1024;
        world_open(&options);
        struct random_state random = {77};
        world->other.info.taps_longest = world->other.info.history_frames = LONG;
        for (int k = 0; k < LONG; k++)
            world->other.taps[k] = random_normal(&random);
        struct stream_change exchange = {.plan = &world->other,
                                         .frame = 1200,
                                         .how = how,
                                         .fade_frames = 100,
                                         .retired = on_retired};
        put(0, 0, 320, 0, 0);
        assert_int_equal(stream_change(world->stream, &exchange), ERROR_ARGUMENT);
        assert_int_equal(prepare_ring(&exchange), 0);
        assert_non_null(exchange.ring);
        retired = 0;
        uint32_t piece = i < 3 ? 60 : 200;
        for (uint64_t n = 320; n < FRAMES; n += piece) {
            put_all(n, (uint32_t)(FRAMES - n < piece ? FRAMES - n : piece));
            if (n < 900 && n + piece >= 900)
                assert_int_equal(stream_change(world->stream, &exchange), 0);
            turn(1);
        }
        stream_end(world->stream);
        drain();
        assert_int_equal(retired, 1);
        struct stream_ring *old = stream_ring_replaced(world->stream);
        assert_non_null(old);
        stream_ring_free(old);
        for (uint64_t n = 0; n < FRAMES; n++) {
            double w = weight(n, 1200, how == CHANGE_FADE ? 100 : 0);
            bool flagged = (world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE)) != 0;
            for (int c = 0; c < CHANNELS; c++) {
                uint64_t since = how == CHANGE_CLEAR ? 1200 : 0;
                double new = by_definition(world->other.taps, LONG, n, c, since);
                expect(n, c,
                       (1 - w) * by_definition(world->plan.taps, TAPS, n, c, 0) +
                           (w > 0 ? w * new : 0));
            }
            uint64_t invalid = how == CHANGE_HARD ? 1 : how == CHANGE_FADE ? 100 : LONG - 1;
            assert_int_equal(flagged, n >= 1200 && n < 1200 + invalid);
        }
        check_levels();
        world_close();
    }
}

/* At once, when nothing is under way: exactly the history that the new plan sees comes along. */
static void test_longer_filter_at_once(void **state)
{
    (void)state;
    static const uint32_t taps[] = {97, 128, 129, 150, 333, LONG};
    for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++) {
        struct stream_options options = default_options();
        options.ring_frames_min = 2048;
        world_open(&options);
        world->other.info.taps_longest = world->other.info.history_frames = taps[i];
        struct random_state random = {78};
        for (uint32_t k = 0; k < taps[i]; k++)
            world->other.taps[k] = random_normal(&random);
        put_all(0, 1024);
        turn(BATCHES), turn(BATCHES);
        assert_int_equal(stream_next_frame(world->stream), 1024);
        struct stream_change exchange = {
            .plan = &world->other, .frame = 1024, .retired = on_retired};
        assert_int_equal(prepare_ring(&exchange), 0);
        assert_non_null(exchange.ring);
        retired = 0;
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        put_all(1024, FRAMES - 1024);
        stream_end(world->stream);
        drain();
        assert_int_equal(retired, 1);
        stream_ring_free(stream_ring_replaced(world->stream));
        for (uint64_t n = 0; n < FRAMES; n++) {
            for (int c = 0; c < CHANNELS; c++)
                expect(n, c,
                       n < 1024 ? by_definition(world->plan.taps, TAPS, n, c, 0)
                                : by_definition(world->other.taps, taps[i], n, c, 0));
            assert_int_equal((world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE)) != 0,
                             n == 1024);
        }
        world_close();
    }
}

/* What the old ring no longer held is silence to the new filter, and that is said. */
static void test_history_that_is_gone(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 256;
    world_open(&options);
    world->other.info.taps_longest = world->other.info.history_frames = LONG;
    struct random_state random = {79};
    for (int k = 0; k < LONG; k++)
        world->other.taps[k] = random_normal(&random);
    struct stream_change exchange = {
        .plan = &world->other, .how = CHANGE_HARD, .retired = on_retired};
    assert_int_equal(prepare_ring(&exchange), 0);
    retired = 0;
    for (uint64_t n = 0; n < FRAMES; n += 40) {
        put_all(n, 40);
        turn(1);
        if (n != 1000)
            continue;
        exchange.frame = stream_next_frame(world->stream);
        assert_int_equal(stream_change(world->stream, &exchange), 0);
    }
    stream_end(world->stream);
    drain();
    stream_ring_free(stream_ring_replaced(world->stream));
    uint64_t end = exchange.frame;
    while (world->got.causes[0][end] & bit(INVALID_FILTER_CHANGE))
        end++;
    uint64_t since = end - (LONG - 1);
    assert_true(since > exchange.frame - 256 && since < exchange.frame - TAPS + 1);
    for (uint64_t n = 0; n < FRAMES; n++)
        for (int c = 0; c < CHANNELS; c++)
            expect(n, c,
                   n < exchange.frame ? by_definition(world->plan.taps, TAPS, n, c, 0)
                                      : by_definition(world->other.taps, LONG, n, c, since));
    world_close();
}

/* The larger ring is filled a part at a time while the stream runs: the exchange then copies only
 * what came since, however long the history is. */
static void test_the_ring_is_copied_in_parts(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 1024;
    world_open(&options);
    const struct ring *small = newest_ring;
    world->other.info.taps_longest = world->other.info.history_frames = LONG;
    struct random_state random = {78};
    for (int k = 0; k < LONG; k++)
        world->other.taps[k] = random_normal(&random);
    struct stream_change exchange = {
        .plan = &world->other, .how = CHANGE_HARD, .retired = on_retired};
    assert_int_equal(prepare_ring(&exchange), 0);
    retired = 0;
    uint32_t parts = 0;
    uint64_t n = 0;
    for (; n < 1536; n += 64) {
        put_all(n, 64);
        turn(BATCHES);
        if (n < 600)
            continue;
        parts += !stream_ring_copy(world->stream, exchange.ring, 64 * small->frame_bytes);
    }
    assert_in_range(parts, 5, 15);
    while (!stream_ring_copy(world->stream, exchange.ring, 64 * small->frame_bytes))
        continue;
    /* All that is settled has been copied: the exchange reads nothing of it from here again. */
    memset(small->bytes, 0x77, (size_t)small->frames * small->frame_bytes);
    memset(small->present, 0, small->frames / 8);
    put_all(n, 64);
    n += 64;
    exchange.frame = stream_next_frame(world->stream);
    const uint64_t at = exchange.frame;
    assert_int_equal(stream_change(world->stream, &exchange), 0);
    for (; n < FRAMES; n += 50)
        put_all(n, (uint32_t)(FRAMES - n < 50 ? FRAMES - n : 50));
    stream_end(world->stream);
    drain();
    assert_int_equal(retired, 1);
    stream_ring_free(stream_ring_replaced(world->stream));
    for (n = at + HOP; n < FRAMES; n++)
        for (int c = 0; c < CHANNELS; c++)
            expect(n, c, by_definition(world->other.taps, LONG, n, c, 0));
    world_close();
}

/* What the old filter no longer saw, a longer one does: a gap and the beginning are flagged again.
 */
static void test_reach_of_a_longer_filter(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.ring_frames_min = 2048;
    world_open(&options);
    world->other.info.taps_longest = world->other.info.history_frames = LONG;
    struct stream_change exchange = {.plan = &world->other, .frame = 640, .retired = on_retired};
    assert_int_equal(prepare_ring(&exchange), 0);
    retired = 0;
    for (uint64_t n = 0; n < FRAMES; n += 50) {
        if (n == 300 || n == 400) /* lost */
            continue;
        put(0, n, 50, n, 0);
        world->now_ns += 300000;
        turn(2);
        if (n == 500)
            assert_int_equal(stream_change(world->stream, &exchange), 0);
    }
    stream_end(world->stream);
    drain();
    stream_ring_free(stream_ring_replaced(world->stream));
    for (uint64_t n = 0; n < FRAMES; n++) {
        bool reaches = n >= 640 && n < 450 + LONG - 1;
        assert_int_equal((world->got.causes[0][n] & bit(INVALID_FILTER_CHANGE)) != 0, reaches);
        assert_int_equal((world->got.causes[0][n] & bit(INVALID_NETWORK)) != 0,
                         (n >= 300 && n < 350 + TAPS - 1) || (n >= 400 && n < 450 + TAPS - 1));
    }
    world_close();
}

/* The epoch ends before the frame comes, or while it fades: the next one has the new plan from its
 * start. */
static void test_epoch_ends_first(void **state)
{
    (void)state;
    static const uint64_t ends[] = {500, 630};
    for (size_t i = 0; i < 6; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        struct stream_change exchange = {.plan = &world->other,
                                         .frame = 600,
                                         .how = (enum change_how)(i / 2),
                                         .fade_frames = 200,
                                         .retired = on_retired};
        retired = 0;
        put(0, 0, 320, 0, 0);
        turn(2);
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        put(0, 320, (uint32_t)(ends[i % 2] - 320), 320, 0);
        turn(1);
        stream_end(world->stream);
        put(1, 0, 500, 5000, PACKET_DISCONTINUITY);
        turn(1);
        stream_end(world->stream);
        drain();
        assert_int_equal(retired, 1);
        check_epoch(0, 500, world->plan.taps, 0);
        check_epoch(1, 500 + TAPS - 1, world->other.taps, 0);
        world_close();
    }
}

/* A stream that stands still takes the new plan at once: another change need not wait. */
static void test_standing_still(void **state)
{
    (void)state;
    static const enum change_how hows[] = {CHANGE_HARD, CHANGE_CLEAR};
    for (size_t i = 0; i < 4; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        retired = 0;
        if (i >= 2) {
            put_all(0, 320);
            turn(BATCHES), turn(BATCHES);
        }
        struct stream_change exchange = {.plan = &world->other,
                                         .frame = stream_next_frame(world->stream),
                                         .how = hows[i % 2],
                                         .retired = on_retired};
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        assert_int_equal(retired, 1);
        uint64_t from = i >= 2 ? 320 : 0;
        for (uint64_t n = from; n < 1000; n += 40)
            put_all(n, 40), turn(1);
        stream_end(world->stream);
        drain();
        for (uint64_t n = 0; n < 1000; n++)
            for (int c = 0; c < CHANNELS; c++)
                expect(n, c,
                       n < from ? by_definition(world->plan.taps, TAPS, n, c, 0)
                                : by_definition(world->other.taps, TAPS, n, c, i % 2 ? from : 0));
        world_close();
    }
}

/* Results carry the gains from exactly the frame of their change on, also into the next epoch, and
 * a change of the filter alone leaves them. */
static void test_gains_are_carried_from_their_frame(void **state)
{
    (void)state;
    static const uint64_t frames[] = {321, 352, 500, 1023};
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        for (int complete = 0; complete <= 4; complete += 2) {
            struct stream_options options = default_options();
            world_open(&options);
            const float factors[CHANNELS] = {2, 1};
            const bool muted[CHANNELS] = {false, true};
            const struct result_gains gains = {1, false, CHANNELS, factors, muted, "anna"};
            struct stream_change change = {.plan = &world->other,
                                           .frame = frames[i],
                                           .delay_frames = 18,
                                           .gains = &gains,
                                           .retired = on_retired};
            retired = 0;
            for (uint64_t n = 0; n < 1200; n += 60) {
                if (n == 300)
                    assert_int_equal(stream_change(world->stream, &change), 0);
                put_all(n, 60);
                turn(complete);
            }
            put(1, 0, 300, 0, PACKET_DISCONTINUITY);
            stream_end(world->stream);
            drain();
            for (uint64_t n = 0; n < 1200; n++)
                assert_int_equal(world->got.gains[0][n], n >= frames[i]);
            for (uint64_t n = 0; n < 300; n++)
                assert_int_equal(world->got.gains[1][n], 1);
            world_close();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gains_are_carried_from_their_frame),
        cmocka_unit_test(test_fade),
        cmocka_unit_test(test_fade_is_the_same_in_any_batches),
        cmocka_unit_test(test_envelope_after_the_fade),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_longer_filter),
        cmocka_unit_test(test_longer_filter_at_once),
        cmocka_unit_test(test_history_that_is_gone),
        cmocka_unit_test(test_the_ring_is_copied_in_parts),
        cmocka_unit_test(test_reach_of_a_longer_filter),
        cmocka_unit_test(test_epoch_ends_first),
        cmocka_unit_test(test_standing_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
