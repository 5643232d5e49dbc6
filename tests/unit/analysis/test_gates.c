/*
 * Gates of A-scans: lines as users write them, and echoes against exact shapes: parabolas, whose
 * vertex is known, and straight flanks, whose crossing is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "analysis/gates.h"

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name, *after;
        double start_s, width_s, gap_s;
        const char *level;
        enum gate_measure measure;
        bool absent;
    } good[] = {
        {"a: width 1 us, level 3 mV", "a", "", 0, 1e-6, 0, "3 mV", GATE_PEAK, false},
        {" back-wall :  start 8us , width 6 us,level 20 %, flank,alarm absent", "back-wall", "",
         8e-6, 6e-6, 0, "20 %", GATE_FLANK, true},
        {"b: after a, start 0, width 1 ms, level 40 dB, j-flank, gap 2 us, alarm present", "b", "a",
         0, 1e-3, 2e-6, "40 dB", GATE_J_FLANK, false},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct gate_line gate;
        struct problem problem;
        if (gate_parse(good[i].text, &gate, &problem) != 0)
            fail_msg("%s", problem.text);
        assert_string_equal(gate.name, good[i].name);
        assert_string_equal(gate.after, good[i].after);
        assert_string_equal(gate.level, good[i].level);
        assert_true(gate.start_s == good[i].start_s && gate.width_s == good[i].width_s &&
                    gate.gap_s == good[i].gap_s);
        assert_int_equal(gate.measure, good[i].measure);
        assert_int_equal(gate.alarm_absent, good[i].absent);
    }
}

static void test_bad_lines_say_what_to_write(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"a", "write its name, a colon"},
        {"a b: width 1 us, level 1 V", "no name of a gate"},
        {"a: level 1 V", "has no width"},
        {"a: width 0, level 1 V", "has no width"},
        {"a: width 1 us", "has no level"},
        {"a: width 1 us, level 0 V", "more than 0"},
        {"a: width 1 us, level 0 %", "more than 0"},
        {"a: width 1 us, level -1 V", "below 0"},
        {"a: width 1 us, level 5 us", "a time"},
        {"a: width 5 kHz, level 1 V", "no time"},
        {"a: width 2 h, level 1 V", "at most an hour"},
        {"a: width 1 us, level 1 V, hight", "no part of a gate"},
        {"a: width 1 us, level 1 V,", ""},
        {"a: width 1 us, level 1 V, peak, flank", "a second `flank`"},
        {"a: width 1 us, level 1 V, peak 3", "nothing follows"},
        {"a: width 1 us, level 1 V, alarm maybe", "alarm present or alarm absent"},
        {"a: width 1 us, level 1 V, after ", "no name of a gate"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct gate_line gate;
        struct problem problem = {.text = ""};
        const int error = gate_parse(bad[i].text, &gate, &problem);
        if (bad[i].says[0] == '\0') {
            assert_int_equal(error, 0); /* nothing behind the last comma */
            continue;
        }
        if (error == 0 || strstr(problem.text, bad[i].says) == NULL)
            fail_msg("%s: %d, %s", bad[i].text, error, problem.text);
    }
    char line[2000];
    memset(line, 'x', sizeof line);
    line[1] = ':';
    line[sizeof line - 1] = '\0';
    struct gate_line gate;
    struct problem problem;
    assert_int_not_equal(gate_parse(line, &gate, &problem), 0);
}

static void test_levels(void **state)
{
    (void)state;
    static const struct {
        const char *level, *unit;
        double full_scale, want;
    } cases[] = {
        {"3 mV", "V", 0, 3e-3},    {"40 dB", "V", 0, 1e-4}, /* dB(AE) */
        {"20 %", "V", 5, 1.0},     {"40 dB(AE)", "V", 0, 1e-4},
        {"-20 dBFS", "V", 5, 0.5}, {"0.5", "FS", 0, 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gate_line gate = {.name = "a"};
        snprintf(gate.level, sizeof gate.level, "%s", cases[i].level);
        double level = 0;
        const struct level_scale scale = {cases[i].unit, cases[i].full_scale, 0};
        assert_true(gate_level(NULL, &gate, &scale, &level));
        assert_true(fabs(level - cases[i].want) <= 1e-15 * cases[i].want);
    }
}

/* x[i] = height - bend (i - at)², not below 0. */
static void parabola(double *x, uint32_t count, double at, double height, double bend)
{
    for (uint32_t i = 0; i < count; i++) {
        const double y = fabs(height) - bend * (i - at) * (i - at);
        if (y > 0)
            x[i] += height < 0 ? -y : y;
    }
}

enum { COUNT = 200 };

static struct gate_echo find(const struct gate *gate, const double *x, enum gate_rectify rectify,
                             double level)
{
    const struct gate_trace trace = {x, COUNT, -12.5, rectify}; /* x[0] at 12.5 frames */
    return gate_find(gate, &trace, 0, level);
}

static void test_a_peak_is_timed_between_samples(void **state)
{
    (void)state;
    static const double heights[] = {1, -1};
    for (int i = 0; i < 2; i++)
        for (double at = 99.5; at <= 100.5; at += 0.125) {
            double x[COUNT] = {0};
            parabola(x, COUNT, at, heights[i], 0.01);
            const struct gate gate = {.after = -1, .start = 90, .width = 60};
            const struct gate_echo echo = find(&gate, x, GATE_FULL, 0.5);
            const double nearest = fabs(at - floor(at) - 0.5) < 1e-9 ? 0.5 : fabs(at - round(at));
            assert_true(fabs(echo.time - (at + 12.5)) <= 1e-12);
            assert_true(fabs(echo.height - (1 - 0.01 * nearest * nearest)) <= 1e-12);
            const enum gate_rectify half = heights[i] > 0 ? GATE_POSITIVE : GATE_NEGATIVE;
            const enum gate_rectify other = heights[i] > 0 ? GATE_NEGATIVE : GATE_POSITIVE;
            assert_true(find(&gate, x, half, 0.5).time == echo.time);
            assert_true(isnan(find(&gate, x, other, 0.5).time));
        }
}

static void test_a_flank_is_timed_on_its_line(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2)
        for (double level = 0.05; level < 1; level += 0.09) {
            double x[COUNT] = {0};
            for (int i = 0; i < 11; i++) /* -0.2 … 0.9 over ten frames */
                x[100 + i] = sign * (-0.2 + 0.11 * i);
            x[111] = sign * 3.0; /* the highest comes later */
            const struct gate gate = {.after = -1, .start = 90, .width = 60, .measure = GATE_FLANK};
            const double at =
                level <= 0.9 ? 100 + (level + 0.2) / 0.11 : 110 + (level - 0.9) / (3.0 - 0.9);
            const struct gate_echo echo = find(&gate, x, GATE_FULL, level);
            /* |x| passes 0.2 downwards where the level is lower: the first sample is above it. */
            const double want = level < 0.2 ? 99 + level / 0.2 : at;
            if (!(fabs(echo.time - (want + 12.5)) <= 1e-12))
                fail_msg("level %g: %.15g, not %.15g", level, echo.time - 12.5, want);
            assert_true(echo.height == 3.0);
        }
}

static void test_a_level_is_passed_strictly(void **state)
{
    (void)state;
    double x[COUNT] = {0};
    x[100] = 0.5;
    const struct gate gate = {.after = -1, .start = 90, .width = 60};
    assert_true(isnan(find(&gate, x, GATE_FULL, 0.5).time));
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 0.5);
    assert_true(!isnan(find(&gate, x, GATE_FULL, nextafter(0.5, 0)).time));
}

static void test_the_j_flank_takes_the_first_echo(void **state)
{
    (void)state;
    double x[COUNT] = {0};
    parabola(x, COUNT, 100, 1, 0.1);
    parabola(x, COUNT, 112, 2, 0.1); /* |x| ≤ 0.5 over samples 103 … 108 */
    struct gate gate = {.after = -1, .start = 90, .width = 60, .measure = GATE_J_FLANK};
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 1);
    gate.gap = 5;
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 1);
    gate.gap = 6;
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 2);
    gate.gap = 0;
    gate.measure = GATE_FLANK;
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 2);
    const double flank = find(&gate, x, GATE_FULL, 0.5).time;
    gate.measure = GATE_J_FLANK;
    assert_true(find(&gate, x, GATE_FULL, 0.5).time == flank);
}

static void test_gates_hold_their_samples_only(void **state)
{
    (void)state;
    double x[COUNT] = {0};
    x[99] = 7, x[100] = 1, x[119] = 2, x[120] = 8;
    const struct gate gate = {.after = -1, .start = 112.5, .width = 20};
    assert_true(find(&gate, x, GATE_FULL, 0.5).height == 2);
    /* It begins above the level: the crossing is its first sample. */
    const struct gate flank = {.after = -1, .start = 112.5, .width = 20, .measure = GATE_FLANK};
    assert_true(find(&flank, x, GATE_FULL, 0.5).time == 112.5);
    /* Outside of the trace there is nothing, and at its edges no neighbour. */
    static const struct gate outside[] = {{.after = -1, .start = 0, .width = 12},
                                          {.after = -1, .start = 1e9, .width = 12},
                                          {.after = -1, .start = 212.5, .width = 1e12}};
    for (int i = 0; i < 3; i++) {
        const struct gate_echo echo = find(&outside[i], x, GATE_FULL, 0.5);
        assert_true(isnan(echo.time) && isnan(echo.height));
    }
    x[0] = x[COUNT - 1] = 9;
    const struct gate all = {.after = -1, .start = 0, .width = 1e12};
    assert_true(find(&all, x, GATE_FULL, 0.5).time == 12.5);
    x[0] = 0;
    assert_true(find(&all, x, GATE_FULL, 0.5).time == 12.5 + COUNT - 1);
}

static void test_alarms(void **state)
{
    (void)state;
    const struct gate present = {.alarm_absent = false}, absent = {.alarm_absent = true};
    const struct gate_echo none = {1, NAN}, one = {1, 3};
    assert_true(gate_alarms(&present, &one) && !gate_alarms(&present, &none));
    assert_true(gate_alarms(&absent, &none) && !gate_alarms(&absent, &one));
}

/* A gate behind one without an echo finds nothing. */
static void test_no_base_no_echo(void **state)
{
    (void)state;
    double x[COUNT] = {[100] = 1};
    const struct gate gate = {.after = 0, .start = 0, .width = 1e6};
    const struct gate_trace trace = {x, COUNT, 0, GATE_FULL};
    const struct gate_echo echo = gate_find(&gate, &trace, NAN, 0.5);
    assert_true(isnan(echo.time) && isnan(echo.height));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bad_lines_say_what_to_write),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_a_peak_is_timed_between_samples),
        cmocka_unit_test(test_a_flank_is_timed_on_its_line),
        cmocka_unit_test(test_a_level_is_passed_strictly),
        cmocka_unit_test(test_the_j_flank_takes_the_first_echo),
        cmocka_unit_test(test_gates_hold_their_samples_only),
        cmocka_unit_test(test_alarms),
        cmocka_unit_test(test_no_base_no_echo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
