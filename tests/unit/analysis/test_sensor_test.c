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

/* A mark announces the first hit of its channel behind it, once, and for a time. */
static void test_marked_pulses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t epoch, frame; /* of the mark; the hits lie at 100, 1000 and 1010 of epoch 0 */
        uint32_t pulser;       /* 0: none */
    } cases[] = {
        {"pulse 2", 0, 150, 2}, {"pulse 1", 0, 0, 1},    {"pulse", 0, 1000, 3},
        {"pulse", 0, 99, 1},    {"pulse 2", 0, 1011, 0}, {"pulse 4", 0, 0, 0},
        {"pulse 0", 0, 0, 0},   {"pulses", 0, 0, 0},     {"pulse 2 now", 0, 0, 0},
        {"a pulse 2", 0, 0, 0}, {"pulse 2", 0, 500, 0}, /* 510 frames before: too old */
        {"pulse 2", 1, 0, 0},   {"", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        open_test(&world, 3,
                  (const char *[]){"answers within = 200", "marked within = 505",
                                   i == 0 ? "marked within = 10000" : NULL, NULL});
        analysis_sensor_test.mark(world.analysis, cases[i].epoch, cases[i].frame, cases[i].text);
        put_hit(&world, 0, 100, 0, 60);
        put_hit(&world, 0, 1000, 2, 60);
        put_hit(&world, 0, 1010, 1, 60);
        put_hit(&world, 0, 5000, 1, 60); /* the mark is spent */
        world.ops->advance(world.analysis, 0, UINT64_MAX);
        if (world.count != (cases[i].pulser > 0 ? 2 : 0))
            fail_msg("case %zu: %zu events", i, world.count);
        if (cases[i].pulser > 0)
            assert_int_equal(coupling(&world, 0)->pulser, cases[i].pulser);
        analysis_world_close(&world);
    }
}

/* Behind the end of its epoch a mark holds for as long from the begin of a later one. */
static void test_marks_of_an_epoch_before(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct analysis_world world;
        open_test(&world, 2, (const char *[]){"marked within = 500", NULL});
        analysis_sensor_test.mark(world.analysis, 3, 100000, "pulse 1");
        put_hit(&world, 4, late ? 501 : 500, 0, 60);
        world.ops->advance(world.analysis, 4, UINT64_MAX);
        assert_int_equal(world.count, !late);
        analysis_world_close(&world);
    }
}

/* Shots at frames 10.5 + 1000 k, whose filters delay them by 5, from channels 2 and 1 in turn. */
static void open_shots(struct analysis_world *world)
{
    struct analysis_stream stream = analysis_world_stream(3, RATE, "V");
    stream.excited = true;
    stream.excitation_frame = 10.5;
    stream.excitation_period_frames = 1000;
    stream.delay_frames = 5;
    analysis_world_open(world, &analysis_sensor_test, &stream,
                        (const char *[]){"pulsers = 2, 1", "answers within = 100", NULL});
    if (world->analysis == NULL)
        fail_msg("%s", world->errors);
}

static void test_shots_are_pulses(void **state)
{
    (void)state;
    struct analysis_world world;
    open_shots(&world);
    world.ops->advance(world.analysis, 0, 1500); /* nothing was heard: when that was is not known */
    assert_int_equal(world.advanced, 1400);
    put_hit(&world, 0, 2030, 0, 60);
    put_hit(&world, 0, 2031, 1, 70); /* the pulser itself */
    put_hit(&world, 0, 2500, 2, 70); /* no answer */
    world.ops->advance(world.analysis, 0, 4500);
    put_hit(&world, 0, 4600, 0, 60);
    world.ops->advance(world.analysis, 0, UINT64_MAX);
    static const struct {
        uint64_t frame;
        uint32_t channel, pulser;
        double peak, delay;
        uint64_t pulses, answers;
    } expected[] = {
        {2016, 0, 2, 60, 14.5, 1, 1}, {2016, 2, 2, NAN, NAN, 1, 0}, {3016, 1, 1, NAN, NAN, 1, 0},
        {3016, 2, 1, NAN, NAN, 1, 0}, {4016, 0, 2, NAN, NAN, 2, 1}, {4016, 2, 2, NAN, NAN, 2, 0},
    };
    assert_int_equal(world.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < world.count; i++) {
        const struct coupling *got = coupling(&world, i);
        assert_int_equal(world.events[i].event.frame, expected[i].frame);
        assert_int_equal(world.events[i].event.channel, expected[i].channel);
        assert_int_equal(world.events[i].event.flags, ANALYSIS_PULSE);
        assert_int_equal(got->pulser, expected[i].pulser);
        assert_int_equal(got->pulses, expected[i].pulses);
        assert_int_equal(got->answers, expected[i].answers);
        near(got->peak_db, expected[i].peak);
        near(got->delay_us, expected[i].delay);
    }
    analysis_world_close(&world);
}

/* The first live frame of an epoch dates its shots, before any hit and without one. */
static void test_shots_before_the_first_hit(void **state)
{
    (void)state;
    static const struct {
        uint64_t live;  /* frame */
        uint64_t first; /* shot that counts: its 100 frames reach the live one */
    } cases[] = {{0, 16}, {16, 16}, {115, 16}, {116, 1016}, {1116, 2016}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        open_shots(&world);
        const struct analysis_event live = {.kind = ANALYSIS_HIT,
                                            .epoch = 3,
                                            .frame = cases[i].live,
                                            .capture_ns = 1000 * (int64_t)cases[i].live,
                                            .flags = ANALYSIS_NO_PARAMETER};
        analysis_sensor_test.live(world.analysis, &live);
        world.ops->advance(world.analysis, 3, 2500);
        analysis_world_restore(&world);
        /* A later run, by whose clock frames come 1 us later. */
        analysis_sensor_test.live(
            world.analysis,
            &(struct analysis_event){.epoch = 3, .frame = 2600, .capture_ns = 2601000});
        world.ops->advance(world.analysis, 3, 3020);
        put_hit(&world, 3, 3030, 2, 60);
        world.ops->advance(world.analysis, 3, UINT64_MAX);
        assert_int_equal(world.count, 2 * (1 + (3016 - cases[i].first) / 1000));
        for (size_t k = 0; k < world.count; k++) {
            const struct analysis_event *event = &world.events[k].event;
            assert_int_equal(event->epoch, 3);
            assert_int_equal(event->frame, cases[i].first + 1000 * (k / 2));
            const bool late = event->frame > 3000;
            assert_int_equal(event->capture_ns, 1000 * ((int64_t)event->frame + late));
            assert_int_equal(coupling(&world, k)->answers, late && k == world.count - 1);
            assert_int_equal(event->flags, ANALYSIS_PULSE | ANALYSIS_NO_PARAMETER);
        }
        near(coupling(&world, world.count - 1)->peak_db, 60);
        analysis_world_close(&world);
    }
}

/* Its state travels in the middle of marks and shots. */
static void test_state_of_shots(void **state)
{
    (void)state;
    struct analysis_world whole, restored;
    open_shots(&whole);
    open_shots(&restored);
    struct random_state random = {5};
    uint64_t frame = 0;
    for (int i = 0; i < 1000; i++) {
        frame += random_below(&random, 400);
        const uint32_t channel = random_below(&random, 3);
        const char *const text = i % 3 == 0 ? "pulse 3" : "pulse";
        analysis_sensor_test.mark(whole.analysis, 0, frame, text);
        analysis_sensor_test.mark(restored.analysis, 0, frame, text);
        if (i % 7 == 0)
            analysis_world_restore(&restored);
        put_hit(&whole, 0, frame, channel, 60);
        put_hit(&restored, 0, frame, channel, 60);
    }
    assert_true(whole.count > 300);
    analysis_world_equal(&whole, &restored);
    analysis_world_close(&whole);
    analysis_world_close(&restored);
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
        {2, {"marked within = 1 s"}, NULL},
        {2, {"pulsers = 1"}, "warning: pulsers: stream vessel says nothing of pulses"},
        {2, {"pulsers = 1, 3"}, "has no channel 3"},
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
        cmocka_unit_test(test_marked_pulses),
        cmocka_unit_test(test_marks_of_an_epoch_before),
        cmocka_unit_test(test_shots_are_pulses),
        cmocka_unit_test(test_shots_before_the_first_hit),
        cmocka_unit_test(test_state_of_shots),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
