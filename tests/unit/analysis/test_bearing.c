/*
 * Bearings and tachos: kinematic frequencies of a published bearing, lines found within their slip,
 * and pulses timed on straight flanks, where the crossing is known exactly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "analysis/bearing.h"
#include "analysis/tacho.h"

/* The ball bearing of the data of Case Western Reserve University, and its frequencies in multiples
 * of the speed as published with them (bearing data center, "Bearing information": 6205-2RS JEM
 * SKF): sizes in inches. A rolling element strikes twice in a turn of its own. */
static void test_orders_of_a_published_bearing(void **state)
{
    (void)state;
    const struct bearing_geometry geometry = {9, 0.3126 * 25.4e-3, 1.537 * 25.4e-3, 0};
    double orders[CONDITION_DEFECTS];
    bearing_orders(&geometry, orders);
    assert_true(fabs(orders[CONDITION_bpfi] - 5.4152) <= 1e-4);
    assert_true(fabs(orders[CONDITION_bpfo] - 3.5848) <= 1e-4);
    assert_true(fabs(orders[CONDITION_ftf] - 0.39828) <= 5e-5);
    assert_true(fabs(2 * orders[CONDITION_bsf] - 4.7135) <= 5e-4);
}

/* The outer and inner race share the elements between them, whatever the angle. */
static void test_orders_of_an_angular_contact_bearing(void **state)
{
    (void)state;
    for (double angle = 0; angle <= 60; angle += 15) {
        const struct bearing_geometry geometry = {14, 12e-3, 70e-3, angle};
        double orders[CONDITION_DEFECTS];
        bearing_orders(&geometry, orders);
        const double g = 12.0 / 70 * cos(angle * acos(-1) / 180);
        assert_true(fabs(orders[CONDITION_bpfo] + orders[CONDITION_bpfi] - 14) <= 1e-12);
        assert_true(fabs(orders[CONDITION_bpfo] - 14 * orders[CONDITION_ftf]) <= 1e-12);
        assert_true(fabs(orders[CONDITION_bpfo] - 7 * (1 - g)) <= 1e-12);
        assert_true(fabs(orders[CONDITION_bsf] - 70.0 / 24 * (1 - g * g)) <= 1e-12);
    }
}

static void test_a_line_is_the_largest_bin_within_the_slip(void **state)
{
    (void)state;
    enum { BINS = 200 };
    double a[BINS] = {[0] = 100};
    a[40] = 3, a[41] = 2; /* 40 · 0.5 Hz = 20 Hz */
    a[80] = 1, a[82] = 5;
    a[120] = 7;
    static const struct {
        double frequency_hz, slip;
        uint32_t harmonics;
        double found_hz, amplitude;
    } cases[] = {
        {20, 0, 1, 20, 3},
        {20.1, 0, 1, 20, 3}, /* the nearest bin */
        {20.3, 0, 1, 20.5, 2},
        {20.5, 0.02, 1, 20.5, 2},  /* bins 41 only: 20.09 … 20.91 Hz */
        {20.5, 0.03, 1, 20, 3},    /* bins 40 … 42 */
        {20, 0.02, 2, 20, 3 + 1},  /* bins 79 … 81 */
        {20, 0.025, 2, 20, 3 + 5}, /* bins 78 … 82 */
        {20, 0.025, 3, 20, 3 + 5 + 7},
        {20, 0.025, 9, 20, 3 + 5 + 7}, /* beyond the last bin there is none */
        {60, 0.0, 1, 60, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct condition_line line =
            bearing_line(a, BINS, 0.5, cases[i].frequency_hz, cases[i].slip, cases[i].harmonics);
        if (line.expected_hz != cases[i].frequency_hz || line.found_hz != cases[i].found_hz ||
            line.amplitude != cases[i].amplitude)
            fail_msg("case %zu: %g at %g Hz", i, line.amplitude, line.found_hz);
    }
    const struct condition_line beyond = bearing_line(a, BINS, 0.5, 150, 0.02, 3);
    assert_true(isnan(beyond.found_hz) && isnan(beyond.amplitude));
    /* The nearest bin is that of the mean. */
    assert_true(isnan(bearing_line(a, BINS, 0.5, 0.1, 0.02, 3).amplitude));
}

/* ---- tacho --------------------------------------------------------------------------------- */

static const struct tacho_rules rules = {1.0, 0.5};

static void put(struct tacho *tacho, const float *samples, uint64_t first, uint64_t frames)
{
    tacho_add(tacho, &rules, samples, 1, first, frames);
}

/* Sawtooths that rise by 2 over 8 frames: the level lies half the way up. */
static void test_pulses_are_timed_between_samples(void **state)
{
    (void)state;
    enum { F = 4000 };
    float x[F] = {0};
    double at[8];
    for (int p = 0; p < 8; p++) {
        at[p] = 100.375 + p * 451.0625;
        for (int i = 0; i < F; i++) {
            const double rise = 1 + (i - at[p]) / 4;
            if (rise > 0 && rise <= 2)
                x[i] = (float)rise;
        }
    }
    struct tacho tacho = {0};
    tacho_cut(&tacho);
    for (int i = 0; i < F; i++)
        put(&tacho, x + i, i, 1);
    assert_int_equal(tacho.count, 7);
    assert_true(fabs(1 / tacho_rate(&tacho) - 451.0625) <= 1e-9);
    assert_true(tacho_change(&tacho) <= 1e-9);
    assert_true(fabs((double)tacho.frame + tacho.fraction - at[7]) <= 1e-9);
}

static void test_a_pulse_needs_the_hysteresis(void **state)
{
    (void)state;
    struct tacho tacho = {0};
    tacho_cut(&tacho);
    static const float x[] = {2, 0, 2, 0.6f, 2, 0.5f, 2, 0.4f, 1, 2, 0.4f, 2};
    put(&tacho, x, 0, sizeof x / sizeof x[0]);
    /* It begins above the level: no pulse. Then pulses behind samples 1, 8 and 10 only. */
    assert_int_equal(tacho.count, 2);
    assert_true(tacho.shortest > 0 && tacho.longest > tacho.shortest);
    assert_true(tacho.total == (8 - 1.5) + ((10 + 0.6 / 1.6) - 8) ||
                fabs(tacho.total - (10.375 - 1.5)) <= 1e-6);
}

static void test_no_distance_spans_a_cut(void **state)
{
    (void)state;
    struct tacho tacho = {0};
    tacho_cut(&tacho);
    static const float x[] = {0, 2, 0, 2};
    put(&tacho, x, 0, 4);
    assert_int_equal(tacho.count, 1);
    tacho_cut(&tacho);
    put(&tacho, x, 100, 4);
    assert_int_equal(tacho.count, 2);
    assert_true(tacho_rate(&tacho) == 0.5);
    tacho_clear(&tacho);
    assert_true(isnan(tacho_rate(&tacho)) && isnan(tacho_change(&tacho)));
    put(&tacho, x, 104, 4); /* the pulse before the clearing still is one before */
    assert_int_equal(tacho.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_of_a_published_bearing),
        cmocka_unit_test(test_orders_of_an_angular_contact_bearing),
        cmocka_unit_test(test_a_line_is_the_largest_bin_within_the_slip),
        cmocka_unit_test(test_pulses_are_timed_between_samples),
        cmocka_unit_test(test_a_pulse_needs_the_hysteresis),
        cmocka_unit_test(test_no_distance_spans_a_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
