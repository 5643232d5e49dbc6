/*
 * Options of A-scans: what the check and the report say of them, what the stream's excitation sets
 * where nothing is written, and how the page is told of gates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include <jansson.h>

#include "analysis/analyses.h"
#include "analysis/ascan.h"
#include "tests/support/analysis_world.h"

static void test_checks(void **state)
{
    (void)state;
    static const struct {
        const char *settings[5];
        const char *says;
    } cases[] = {
        {{"range = 10 us"}, "has no records"},
        {{"range = 10 us", "period = 10.5 us"}, "no whole number"},
        {{"range = 20 us", "period = 10 us"}, "longer than the period"},
        {{"range = 20 us", "period = 1 ms", "golay = yes"}, "are no pairs"},
        {{"range = 20 us", "period = 1 ms", "tcg = 10 us 1 dB, 10 us 2 dB"}, "in order"},
        {{"range = 20 us", "period = 1 ms", "gate = a: start 20 us, width 1 us, level 1 V"},
         "outside the A-scan"},
        {{"range = 20 us", "period = 1 ms", "gate = a: width 1 us, level 1 Pa"}, "unit here is V"},
        {{"range = 20 us", "period = 1 ms", "gate = a: width 1 us, level 10 %"}, "full scale"},
        {{"range = 20 us", "period = 1 ms", "gate = a: after b, width 1 us, level 1 V"},
         "starts after gate b"},
        {{"range = 20 us", "period = 1 ms", "gate = a: after a, width 1 us, level 1 V"},
         "starts after gate a"},
        {{"range = 20 us", "period = 1 ms", "gate = a: width 1 us, level 1 V",
          "gate = a: width 2 us, level 1 V"},
         "two gates are called a"},
        {{"range = 20 us", "period = 1 ms", "thickness = b"}, "no gate b"},
        {{"range = 20 us", "period = 1 ms", "gate = a: width 1 us, level 1 V", "thickness = a"},
         "needs the velocity"},
        {{"range = 20 us", "period = 1 ms", "probe separation = 1 m"}, "needs the velocity"},
    };
    const struct analysis_stream stream = analysis_world_stream(3, 1e6, "V");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        analysis_world_open(&world, &analysis_ascan, &stream, cases[i].settings);
        if (strstr(world.errors, cases[i].says) == NULL)
            fail_msg("case %zu: `%s`, not `%s`", i, world.errors, cases[i].says);
        analysis_world_close(&world);
    }
    struct analysis_stream envelope = stream;
    struct analysis_world world;
    envelope.envelope = true;
    analysis_world_open(
        &world, &analysis_ascan, &envelope,
        (const char *const[]){"range = 20 us", "period = 1 ms", "averages = 2", NULL});
    assert_non_null(strstr(world.errors, "warning: averages: stream vessel gives an envelope"));
    analysis_world_close(&world);
}

/* A long filter settles behind the start of every record: the report says so, and it does not open.
 */
static void test_a_filter_that_settles_too_late(void **state)
{
    (void)state;
    struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    stream.records = true;
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"range = 20 us", "from = 99 us", NULL});
    world.options.stream.taps_longest = 101; /* known later than the rest */
    struct analysis *none = NULL;
    struct problem problem;
    assert_int_equal(analysis_ascan.open(&world.options, &none, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "settles 1 frames behind the start"));
    char report[400] = {0};
    FILE *out = fmemopen(report, sizeof report, "w");
    world.ops->report(&world.options, out);
    fclose(out);
    assert_non_null(strstr(report, "no A-scans: the filter of 101 taps settles 1 frames behind"));
    world.options.stream.taps_longest = 100;
    assert_int_equal(analysis_ascan.open(&world.options, &none, &problem), 0);
    analysis_ascan.close(none);
    analysis_world_close(&world);
}

/* The stream's excitation gives period and start; memory and history are what is held. */
static void test_the_excitation_is_the_default(void **state)
{
    (void)state;
    struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    stream.excited = true;
    stream.excitation_frame = 5;
    stream.excitation_period_frames = 50;
    stream.delay_frames = 2.5;
    float x[200] = {0};
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"range = 20 frames", NULL});
    const struct analysis_signal signal = {
        .channels = 1, .frames = 200, .samples = x, .rate_hz = 1e6};
    analysis_world_put(&world, &signal, 0, 200);
    assert_int_equal(world.count, 4);
    assert_int_equal(world.events[1].event.frame, 50 + 8);
    const struct ascan *first = world.events[0].event.body;
    assert_true(fabs(first->start_us - 0.5) <= 1e-12);
    assert_true(world.ops->history(&world.options) >= 20);
    assert_true(world.ops->memory(&world.options) >= 20 * (3 * sizeof(double) + sizeof(float)));
    uint32_t count;
    const struct analysis_field *fields = world.ops->fields(&world.options, &count);
    assert_int_equal(count, 6); /* no gates, no fields of gates */
    assert_string_equal(fields[5].name, "thickness_mm");
    char report[400] = {0};
    FILE *out = fmemopen(report, sizeof report, "w");
    world.ops->report(&world.options, out);
    fclose(out);
    assert_string_equal(report, "A-scans from 0 s on, 20 us (20 frames), one result in 50 us\n");
    analysis_world_close(&world);
}

/* What the page draws: gates with the level of each channel. */
static void test_the_description(void **state)
{
    (void)state;
    struct analysis_stream stream = analysis_world_stream(2, 1e6, "V");
    const double full_scale[] = {1, 5};
    stream.full_scale = full_scale;
    struct analysis_world world;
    analysis_world_open_good(
        &world, &analysis_ascan, &stream,
        (const char *const[]){"period = 100 frames", "range = 90 frames",
                              "gate = a: start 5 us, width 20 us, level 30 %",
                              "gate = b: after a, width 10 us, level 20 mV, flank, alarm absent",
                              NULL});
    json_t *object = world.ops->describe(&world.options);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(text, "{\"gates\":[{\"name\":\"a\",\"start_us\":5.0,\"width_us\":20.0,"
                              "\"after\":null,\"measure\":\"peak\",\"alarm\":\"present\","
                              "\"levels\":[0.3,1.5]},{\"name\":\"b\",\"start_us\":0.0,"
                              "\"width_us\":10.0,\"after\":1,\"measure\":\"flank\","
                              "\"alarm\":\"absent\",\"levels\":[0.02,0.02]}],\"averages\":1,"
                              "\"golay\":false,\"velocity_m_s\":null}");
    free(text);
    json_decref(object);
    analysis_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_a_filter_that_settles_too_late),
        cmocka_unit_test(test_the_excitation_is_the_default),
        cmocka_unit_test(test_the_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
