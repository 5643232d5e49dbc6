/*
 * The pulse-through check: which hits are pulses and which answers, the table of pairs, when it is
 * told, its state and its options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/coupling.h"
#include "analysis/hit.h"
#include "core/random.h"
#include "tests/support/analysis_world.h"

#define RATE 1e6

static void open_test(struct analysis_world *world, uint32_t channels, const char *const *settings)
{
    const struct analysis_stream stream = analysis_world_stream(channels, RATE, "V");
    analysis_world_open(world, &analysis_sensor_test, &stream, settings);
    if (world->analysis == NULL)
        fail_msg("%s", world->errors);
}

static void put_hit(struct analysis_world *world, uint64_t epoch, uint64_t frame, uint32_t channel,
                    double peak_db)
{
    const struct hit hit = {.amplitude = 1e-6 * pow(10, peak_db / 20),
                            .peak_db = peak_db,
                            .pick_frames = channel == 1 ? -0.5 : 0};
    const struct analysis_event event = {
        .kind = ANALYSIS_HIT,
        .ordered = true,
        .channel = channel,
        .epoch = epoch,
        .frame = frame,
        .body = &hit,
        .body_bytes = sizeof hit,
    };
    world->ops->put_event(world->analysis, &event);
}

static const struct coupling *coupling(const struct analysis_world *world, size_t i)
{
    assert_in_range(i, 0, world->count - 1);
    assert_int_equal(world->events[i].event.kind, ANALYSIS_COUPLING);
    assert_int_equal(world->events[i].event.body_bytes, sizeof(struct coupling));
    return world->events[i].body;
}

static void near(double got, double expected)
{
    if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) < 1e-9))
        fail_msg("%.12g instead of %.12g", got, expected);
}

static void test_table_of_pairs(void **state)
{
    (void)state;
    struct analysis_world world;
    open_test(&world, 3, (const char *[]){"pulse above = 90 dB", "answers within = 100", NULL});
    put_hit(&world, 0, 500, 2, 70); /* no pulse before it: nothing */
    put_hit(&world, 0, 1000, 0, 95);
    put_hit(&world, 0, 1040, 1, 60); /* picked half a frame before */
    put_hit(&world, 0, 1050, 1, 85); /* a second hit of the channel is an echo */
    put_hit(&world, 0, 1100, 2, 50); /* the last frame that counts */
    put_hit(&world, 0, 2000, 0, 96);
    put_hit(&world, 0, 2040, 1, 54);
    put_hit(&world, 0, 2101, 2, 50); /* too late */
    put_hit(&world, 0, 3000, 1, 90); /* exactly the level */
    put_hit(&world, 0, 3030, 0, 92); /* an answer, however loud */
    world.ops->advance(world.analysis, 0, UINT64_MAX);
    static const struct {
        uint64_t frame;
        uint32_t channel, pulser;
        double peak, delay, mean, least, most, change;
        uint64_t pulses, answers;
    } expected[] = {
        {1000, 1, 1, 60, 39.5, 60, 60, 60, NAN, 1, 1},
        {1000, 2, 1, 50, 100, 50, 50, 50, NAN, 1, 1},
        {2000, 1, 1, 54, 39.5, 57, 54, 60, -6, 2, 2},
        {2000, 2, 1, NAN, NAN, 50, 50, 50, NAN, 2, 1},
        {3000, 0, 2, 92, 30.5, 92, 92, 92, NAN, 1, 1},
        {3000, 2, 2, NAN, NAN, NAN, NAN, NAN, NAN, 1, 0},
    };
    assert_int_equal(world.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < world.count; i++) {
        const struct coupling *got = coupling(&world, i);
        assert_int_equal(world.events[i].event.frame, expected[i].frame);
        assert_int_equal(world.events[i].event.channel, expected[i].channel);
        assert_int_equal(world.events[i].event.number, i + 1);
        assert_int_equal(world.events[i].event.flags, ANALYSIS_PULSE);
        assert_int_equal(got->pulser, expected[i].pulser);
        assert_int_equal(got->pulses, expected[i].pulses);
        assert_int_equal(got->answers, expected[i].answers);
        near(got->peak_db, expected[i].peak);
        near(got->delay_us, expected[i].delay);
        near(got->mean_db, expected[i].mean);
        near(got->least_db, expected[i].least);
        near(got->most_db, expected[i].most);
        near(got->change_db, expected[i].change);
    }
    struct analysis_ledger ledger;
    analysis_sensor_test.ledger(world.analysis, &ledger);
    assert_int_equal(ledger.unused, 3);
    assert_int_equal(ledger.events[ANALYSIS_COUPLING], 6);
    analysis_world_close(&world);
}

static void test_told_when_no_answer_can_follow(void **state)
{
    (void)state;
    struct analysis_world world;
    open_test(&world, 2, (const char *[]){"pulse above = 1 V", "answers within = 100", NULL});
    put_hit(&world, 0, 1000, 0, 120);
    world.ops->advance(world.analysis, 0, 1100);
    assert_int_equal(world.count, 0);
    assert_int_equal(world.advanced, 1000);
    world.ops->advance(world.analysis, 0, 1101);
    assert_int_equal(world.count, 1);
    assert_int_equal(world.advanced, 1101);
    put_hit(&world, 0, 2000, 0, 120);
    put_hit(&world, 1, 10, 1, 70); /* another epoch: no answer */
    assert_int_equal(world.count, 2);
    near(coupling(&world, 1)->peak_db, NAN);
    analysis_world_close(&world);
}

static void test_state(void **state)
{
    (void)state;
    struct analysis_world whole, restored;
    const char *const settings[] = {"pulse above = 90 dB", "answers within = 300", NULL};
    open_test(&whole, 4, settings);
    open_test(&restored, 4, settings);
    struct random_state random = {11};
    uint64_t frame = 0;
    for (int i = 0; i < 2000; i++) {
        frame += random_below(&random, 100);
        const uint32_t channel = random_below(&random, 4);
        const double peak_db = 40 + 60 * random_unit(&random);
        put_hit(&whole, 0, frame, channel, peak_db);
        if (i % 7 == 0)
            analysis_world_restore(&restored);
        put_hit(&restored, 0, frame, channel, peak_db);
    }
    assert_true(whole.count > 300);
    analysis_world_equal(&whole, &restored);
    analysis_world_close(&whole);
    analysis_world_close(&restored);
}

static void test_check(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels;
        const char *settings[3];
        const char *error; /* NULL: none */
    } cases[] = {
        {2, {"pulse above = 90 dB"}, NULL},
        {2, {"pulse above = 90 dB, 80 dB"}, NULL},
        {1, {"pulse above = 90 dB"}, "has 1 channel; a pulse-through check needs 2 to 256"},
        {300, {"pulse above = 90 dB"}, "has 300 channels"},
        {2, {"pulse above = 3 Pa"}, "is in Pa, but the unit here is V"},
        {2, {"pulse above = 90 dB", "answers within = 10 ns"}, "is 0 frames"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct analysis_stream stream = analysis_world_stream(cases[i].channels, RATE, "V");
        struct analysis_world world;
        analysis_world_open(&world, &analysis_sensor_test, &stream, cases[i].settings);
        if (cases[i].error == NULL)
            assert_string_equal(world.errors, "");
        else if (strstr(world.errors, cases[i].error) == NULL)
            fail_msg("no “%s” in: %s", cases[i].error, world.errors);
        analysis_world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_of_pairs),
        cmocka_unit_test(test_told_when_no_answer_can_follow),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
