/* The clock line against simulated senders whose true clock is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "stream/clock_line.h"

struct given {
    double ppm; /* the sender's clock against nominal */
    double seconds;
    double jitter_ns;  /* mean of an exponential delay */
    double outlier;    /* share of packets delayed by 30 ms more */
    double ppm_within; /* expect */
    double time_within_ns;
};

static void run(const struct given *given)
{
    struct clock_line line;
    struct random_state random = {(uint64_t)(given->ppm * 10 + 12345)};
    const double rate = 500e3;
    const uint32_t frames = 500;
    clock_line_reset(&line, rate);
    const double true_rate = rate * (1 + given->ppm * 1e-6);
    const int64_t origin_ns = INT64_C(5000000000);
    uint64_t first = UINT64_C(1) << 40; /* frame numbers of a stream that has run for weeks */
    uint64_t end = first;
    while ((double)(end - first) < given->seconds * rate) {
        end += frames;
        double at_ns = (double)(end - first) / true_rate * 1e9;
        double delay_ns = -given->jitter_ns * log(1 - random_unit(&random));
        if (random_unit(&random) < given->outlier)
            delay_ns += 30e6;
        clock_line_add(&line, end, origin_ns + (int64_t)(at_ns + delay_ns));
    }
    double measured_hz, ppm;
    assert_true(clock_line_rate(&line, &measured_hz, &ppm));
    if (fabs(ppm - given->ppm) > given->ppm_within)
        fail_msg("%g s at %g ppm: measured %g ppm", given->seconds, given->ppm, ppm);
    double want_ns = (double)origin_ns + (double)(end - first) / true_rate * 1e9;
    double got_ns = (double)clock_line_time_ns(&line, (double)end);
    if (fabs(got_ns - want_ns) > given->time_within_ns)
        fail_msg("%g ppm: time off by %g ns", given->ppm, got_ns - want_ns);
    assert_true(clock_line_error_ns(&line) + (int64_t)given->jitter_ns >=
                (int64_t)fabs(got_ns - want_ns));
}

static void test_lines(void **state)
{
    (void)state;
    static const struct given table[] = {
        {0, 1, 0, 0, 0.01, 2000},        {150, 2, 20e3, 0, 60, 60e3},
        {150, 120, 50e3, 0.05, 2, 20e3}, {-150, 120, 50e3, 0.05, 2, 20e3},
        {-3, 120, 200e3, 0.2, 2, 60e3},  {1000, 10, 1e3, 0.01, 5, 20e3},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        run(&table[i]);
}

static void test_before_three_slots(void **state)
{
    (void)state;
    struct clock_line line;
    clock_line_reset(&line, 1e6);
    double rate, ppm;
    clock_line_add(&line, 100, 1000000);
    assert_false(clock_line_rate(&line, &rate, &ppm));
    /* the first frame of a 100-frame packet at 1 MHz lies 100 µs before the packet was received */
    assert_int_equal(clock_line_time_ns(&line, 0), 900000);
    clock_line_add(&line, 200, 1050000); /* 50 µs less delayed than the first */
    assert_int_equal(clock_line_time_ns(&line, 0), 850000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_before_three_slots),
    };
    return cmocka_run_group_tests_name("clock_line", tests, NULL, NULL);
}
