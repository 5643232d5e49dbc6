/*
 * Results that the device has encoded: they go to the ports as they are, wherever blocks, batches
 * and epochs end, what was clipped is counted once for each sample that a port gets, and a
 * cross-fade, which mixes floats, takes plans that give them.
 */
#include "tests/support/stream_world.h"

enum { FRAMES = 2400 };

static const struct result_format s16be = {{SAMPLE_SIGNED, 2, 16, true, false}, 1e-5};
static const struct result_format s24le = {{SAMPLE_SIGNED, 3, 24, false, false}, 1e-5};

static void on_retired(void *context, struct plan *old)
{
    (void)context, (void)old;
}

/* Output frame n of channel c. */
static float by_definition(const struct plan *plan, uint64_t n, int c)
{
    double sum = 0;
    for (uint64_t k = 0; k < TAPS && k <= n; k++)
        if (n - k < FRAMES)
            sum += plan->taps[k] * world->sent[0][n - k][c];
    return (float)sum;
}

/* Frame `n` of the epoch's output, which the port got as frame `at`: the code that `plan` gives.
 * True when it is clipped. */
static int expect_code(const struct plan *plan, uint64_t n, uint64_t at)
{
    const struct result_format *results = &plan->info.results;
    int clipped = 0;
    assert_int_equal(world->got.seen[0][at], 1);
    assert_int_equal(world->got.wire[0][at], !result_format_native(results));
    if (result_format_native(results)) {
        for (int c = 0; c < CHANNELS; c++)
            assert_true(world->got.samples[0][at][c] == by_definition(plan, n, c));
        return 0;
    }
    for (int c = 0; c < CHANNELS; c++) {
        uint8_t code[4];
        clipped += sample_encode(&results->format,
                                 (double)by_definition(plan, n, c) * results->factor, code);
        float want = (float)(sample_decode(&results->format, code) / results->factor);
        if (world->got.samples[0][at][c] != want)
            fail_msg("frame %llu channel %d: got %g, want %g", (unsigned long long)n, c,
                     (double)world->got.samples[0][at][c], (double)want);
    }
    return clipped;
}

/* Pieces of `piece` frames with silences between, so that blocks are also flushed in part. */
static void play(uint32_t piece, int complete)
{
    for (uint64_t n = 0; n < FRAMES; n += piece) {
        uint64_t rest = FRAMES - n;
        assert_int_equal(put(0, n, (uint32_t)(rest < piece ? rest : piece), n, 0),
                         VERDICT_ACCEPTED);
        if (n % 7 == 0)
            world->now_ns += 11 * NS_PER_MS;
        turn(complete);
    }
    stream_end(world->stream);
    drain();
}

static const struct {
    uint32_t piece;
    int complete;
} pieces[] = {{60, 1}, {32, 4}, {700, 4}};

static void test_codes_and_their_clips(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof pieces / sizeof pieces[0]; i++) {
        struct stream_options options = default_options();
        options.align = i % 2 == 1;
        options.delay_frames = 118; /* blocks of which alignment leaves out all, or a part */
        world_results = i % 2 == 1 ? s24le : s16be;
        world_open(&options);
        play(pieces[i / 2].piece, pieces[i / 2].complete);
        const uint64_t shift = options.align ? 118 : 0, frames = FRAMES + TAPS - 1;
        uint64_t clipped = 0;
        for (uint64_t n = shift; n < frames; n++)
            clipped += (uint64_t)expect_code(&world->plan, n, n - shift);
        assert_int_equal(world->got.delivered, frames - shift);
        assert_true(clipped > 0);
        assert_int_equal(world->got.saturated, clipped);
        world_close();
    }
}

/* The frame of a hard exchange lies inside a block: each plan's clips count for its own frames. */
static void test_exchange_inside_a_block(void **state)
{
    (void)state;
    static const uint64_t at[] = {500, 512, 31, 1999};
    for (size_t i = 0; i < 3 * sizeof at / sizeof at[0]; i++) {
        struct stream_options options = default_options();
        world_results = s16be;
        world_open(&options);
        /* A plan that gives floats may follow, or go before. */
        struct plan *floats = i % 3 == 0 ? NULL : i % 3 == 1 ? &world->plan : &world->other;
        if (floats != NULL) {
            floats->info.results = (struct result_format){0};
            floats->info.sample_bytes = sizeof(float);
        }
        const struct stream_change exchange = {
            .plan = &world->other, .frame = at[i / 3], .retired = on_retired};
        assert_int_equal(stream_change(world->stream, &exchange), 0);
        play(700, 4);
        uint64_t clipped = 0;
        for (uint64_t n = 0; n < FRAMES; n++)
            clipped += (uint64_t)expect_code(n < at[i / 3] ? &world->plan : &world->other, n, n);
        for (uint64_t n = FRAMES; n < FRAMES + TAPS - 1; n++)
            clipped += (uint64_t)expect_code(&world->other, n, n);
        assert_int_equal(world->got.saturated, clipped);
        world_close();
    }
}

/* Codes, the mix in floats, codes again. */
static void test_fade_mixes_floats(void **state)
{
    (void)state;
    static const enum output_form forms[CHANNELS] = {OUTPUT_REAL, OUTPUT_REAL};
    enum { AT = 700, FADE = 500 };
    struct stream_options options = default_options();
    world_results = s16be;
    world_open(&options);
    struct plan raw_old = world->plan, raw_new = world->other;
    raw_old.info.results = raw_new.info.results = (struct result_format){0};
    raw_old.info.sample_bytes = raw_new.info.sample_bytes = sizeof(float);
    struct stream_change exchange = {.plan = &world->other,
                                     .frame = AT,
                                     .how = CHANGE_FADE,
                                     .fade_frames = FADE,
                                     .retired = on_retired};
    /* Codes cannot be mixed, nor can one plan's. */
    assert_int_equal(stream_change(world->stream, &exchange), ERROR_ARGUMENT);
    exchange.raw_old = &raw_old;
    exchange.raw_new = &world->other;
    assert_int_equal(stream_change(world->stream, &exchange), ERROR_ARGUMENT);
    exchange.raw_new = &raw_new;
    exchange.forms = forms;
    exchange.forms_count = CHANNELS;
    assert_int_equal(stream_change(world->stream, &exchange), 0);
    play(60, 2);
    uint64_t clipped = 0;
    for (uint64_t n = 0; n < FRAMES + TAPS - 1; n++) {
        if (n < AT || n >= AT + FADE) {
            clipped += (uint64_t)expect_code(n < AT ? &world->plan : &world->other, n, n);
            continue;
        }
        double w = 0.5 * (1 - cos(3.14159265358979323846 * ((double)(n - AT) + 0.5) / FADE));
        assert_false(world->got.wire[0][n]);
        for (int c = 0; c < CHANNELS; c++)
            assert_true(world->got.samples[0][n][c] ==
                        (float)((1 - w) * (double)by_definition(&world->plan, n, c) +
                                w * (double)by_definition(&world->other, n, c)));
    }
    assert_int_equal(world->got.saturated, clipped);
    world_close();
}

/* Sinks take one format, or floats. */
static void test_another_format_is_not_alike(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_results = s16be;
    world_open(&options);
    const struct stream_change exchange = {.plan = &world->other, .retired = on_retired};
    world->other.info.results.factor *= 2;
    assert_int_equal(stream_change(world->stream, &exchange), ERROR_ARGUMENT);
    world->other.info.results = s16be;
    assert_int_equal(stream_change(world->stream, &exchange), 0);
    stream_end(world->stream);
    drain();
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_and_their_clips),
        cmocka_unit_test(test_exchange_inside_a_block),
        cmocka_unit_test(test_fade_mixes_floats),
        cmocka_unit_test(test_another_format_is_not_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
