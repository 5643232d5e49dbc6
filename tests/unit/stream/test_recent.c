/* Recent levels against their definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream/recent.h"

static const int64_t second_ns = 1000000000, start_ns = 77 * INT64_C(1000000000);

static void test_last_second(void **state)
{
    struct recent *recent = recent_open(2);
    struct recent_levels levels;
    (void)state;
    assert_non_null(recent);
    recent_read(recent, 0, start_ns, &levels);
    assert_false(levels.known);
    /* A loud second, then a quiet one: only the quiet one is left, and the peak is held. */
    for (int ms = 0; ms < 2000; ms += 10) {
        const double value = ms < 1000 ? 4 : 0.5;
        const struct recent_block block = {100, 100 * value * value, value};
        recent_add(recent, 1, &block, start_ns + ms * INT64_C(1000000));
    }
    recent_read(recent, 1, start_ns + 2 * second_ns - 1, &levels);
    assert_true(levels.known);
    assert_float_equal(levels.rms, 0.5, 1e-9);
    assert_float_equal(levels.peak, 0.5, 1e-9);
    assert_float_equal(levels.held, 4, 1e-9);
    recent_read(recent, 0, start_ns + 2 * second_ns - 1, &levels);
    assert_false(levels.known);
    /* Silence: nothing is known, the held peak stays until it is let go. */
    recent_read(recent, 1, start_ns + 4 * second_ns, &levels);
    assert_false(levels.known);
    assert_float_equal(levels.held, 4, 1e-9);
    recent_reset(recent);
    recent_read(recent, 1, start_ns + 4 * second_ns, &levels);
    assert_float_equal(levels.held, 0, 1e-9);
    recent_close(recent);
}

static void test_weighted_by_frames(void **state)
{
    struct recent *recent = recent_open(1);
    struct recent_levels levels;
    (void)state;
    assert_non_null(recent);
    recent_add(recent, 0, &(struct recent_block){300, 300 * 4.0, 2}, start_ns);
    recent_add(recent, 0, &(struct recent_block){100, 0, 0}, start_ns + second_ns / 2);
    recent_read(recent, 0, start_ns + second_ns / 2, &levels);
    assert_float_equal(levels.rms, sqrt(3.0), 1e-9);
    recent_close(recent);
    recent_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_second),
        cmocka_unit_test(test_weighted_by_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
