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
        clock_line_add(&line, end, frames, origin_ns + (int64_t)(at_ns + delay_ns));
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
    clock_line_add(&line, 100, 100, 1000000);
    assert_false(clock_line_rate(&line, &rate, &ppm));
    /* the first frame of a 100-frame packet at 1 MHz lies 100 µs before the packet was received */
    assert_int_equal(clock_line_time_ns(&line, 0), 900000);
    clock_line_add(&line, 200, 100, 1050000); /* 50 µs less delayed than the first */
    assert_int_equal(clock_line_time_ns(&line, 0), 850000);
}

/* ---- the error bound ------------------------------------------------------------------------- */

enum { FRAMES = 500, EARLY_PACKETS = 64 };
static const double packet_ns = 1e6;

/* The delay of packet n in shares of a packet's duration. Its lower limit is 0, which a line cannot
 * tell from the way's constant delay; whether a packet comes close to it is a matter of chance. */
static double delay_uniform(struct random_state *random, int n)
{
    (void)n;
    return 0.9 * random_unit(random);
}

static double delay_small(struct random_state *random, int n)
{
    (void)n;
    return fmin(-0.05 * log(1 - random_unit(random)), 0.9);
}

/* A queue stands on the way while the stream begins, then it is worked off. */
static double delay_queue_first(struct random_state *random, int n)
{
    return (n < 48 ? 0.8 : 0.0) + 0.05 * random_unit(random);
}

/* A queue comes and goes: 30 packets with, 30 without, and the first packets meet it. */
static double delay_queue_often(struct random_state *random, int n)
{
    return (n / 30 % 2 == 0 ? 0.7 : 0.0) + 0.02 * random_unit(random);
}

/* Returns how many of the packets had a capture time farther off than the bound said; *least_ns:
 * the least bound before the 64th packet. */
static int run_bound(double (*delay)(struct random_state *random, int n), uint64_t seed,
                     int packets, int64_t *least_ns, int64_t *last_ns)
{
    struct clock_line line;
    struct random_state random = {seed};
    clock_line_reset(&line, FRAMES / packet_ns * 1e9);
    const int64_t origin_ns = INT64_C(5000000000);
    int outside = 0;
    *least_ns = INT64_MAX;
    for (int n = 0; n < packets; n++) {
        const uint64_t end = (uint64_t)(n + 1) * FRAMES;
        const double at_ns = (double)(n + 1) * packet_ns;
        clock_line_add(&line, end, FRAMES,
                       origin_ns + (int64_t)(at_ns + packet_ns * delay(&random, n)));
        const double off_ns = (double)(clock_line_time_ns(&line, (double)end) - origin_ns) - at_ns;
        const int64_t bound_ns = clock_line_error_ns(&line);
        outside += fabs(off_ns) > (double)bound_ns;
        if (n + 1 < EARLY_PACKETS && bound_ns < *least_ns)
            *least_ns = bound_ns;
        *last_ns = bound_ns;
    }
    return outside;
}

static void test_bound_holds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double (*delay)(struct random_state *random, int n);
        double last_at_most; /* the bound after 20 s, in shares of a packet's duration */
    } table[] = {
        {"uniform", delay_uniform, 1.0},
        {"small", delay_small, 0.4},
        {"a queue at the start", delay_queue_first, 1.0},
        {"a queue that comes and goes", delay_queue_often, 1.0},
    };
    enum { PACKETS = 20000, SEEDS = 5 };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            int64_t least_ns, last_ns;
            const int outside = run_bound(table[i].delay, seed, PACKETS, &least_ns, &last_ns);
            if (outside > 0)
                fail_msg("%s: %d of %d capture times lie outside of their bound", table[i].name,
                         outside, PACKETS);
            if (least_ns < (int64_t)packet_ns)
                fail_msg("%s: bound of %lld ns before the 64th packet", table[i].name,
                         (long long)least_ns);
            if ((double)last_ns > table[i].last_at_most * packet_ns)
                fail_msg("%s: bound of %lld ns after %d packets", table[i].name, (long long)last_ns,
                         PACKETS);
        }
    }
}

/* One datagram in each slot of the line: no slot sees any spread. */
static void test_bound_of_few_packets(void **state)
{
    (void)state;
    struct clock_line line;
    struct random_state random = {7};
    clock_line_reset(&line, 1000);
    for (int n = 1; n <= 200; n++) {
        const int64_t at_ns = n * 100 * NS_PER_MS;
        clock_line_add(&line, (uint64_t)n * 100, 100,
                       at_ns + (int64_t)(20e6 * random_unit(&random)));
        const int64_t off_ns = clock_line_time_ns(&line, n * 100.0) - at_ns;
        const int64_t bound_ns = clock_line_error_ns(&line);
        assert_true(off_ns <= bound_ns && -off_ns <= bound_ns);
        if (n < EARLY_PACKETS)
            assert_true(bound_ns >= 100 * NS_PER_MS);
    }
}

/* A sender may number a frame as it likes: its time is far, and a time. */
static void test_far_frames(void **state)
{
    (void)state;
    static const struct {
        double frame;
        int64_t from_origin_ns;
    } table[] = {
        {0x1p63, CLOCK_FAR_NS},   {1e300, CLOCK_FAR_NS},      {INFINITY, CLOCK_FAR_NS},
        {-0x1p63, -CLOCK_FAR_NS}, {-INFINITY, -CLOCK_FAR_NS}, {NAN, 0},
    };
    struct clock_line line;
    clock_line_reset(&line, 10e3);
    clock_line_add(&line, 0, 1, NS_PER_SECOND);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(clock_line_time_ns(&line, table[i].frame) - NS_PER_SECOND,
                         table[i].from_origin_ns);
    line.open.spread_ns = 1e300;
    assert_int_equal(clock_line_error_ns(&line), CLOCK_FAR_NS + NS_PER_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),       cmocka_unit_test(test_before_three_slots),
        cmocka_unit_test(test_bound_holds), cmocka_unit_test(test_bound_of_few_packets),
        cmocka_unit_test(test_far_frames),
    };
    return cmocka_run_group_tests_name("clock_line", tests, NULL, NULL);
}
