/*
 * The ground floor: histogram, SPSC ring, errors, clocks, powers of two, random numbers. Each
 * oracle is the definition: a sorted list for quantiles, a counter for the ring.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/histogram.h"
#include "core/power.h"
#include "core/random.h"
#include "core/spsc.h"

/* ---- histogram --------------------------------------------------------------------------- */

static void histogram_quantile_of_one_value(void **state)
{
    (void)state;
    static const int64_t values[] = {
        0, 1, 31, 32, 63, 64, 65, 1000, 65535, 1234567, 1000000000, 1000000000000, 1099511627775};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct histogram histogram;
        histogram_reset(&histogram);
        histogram_record(&histogram, values[i]);
        /* The only value is its own maximum, so every quantile is exact. */
        assert_int_equal(histogram_quantile(&histogram, 0.5), values[i]);
        assert_int_equal(histogram_quantile(&histogram, 1), values[i]);
        /* With a larger one beside it, the lower half is right within 1/32. */
        histogram_record(&histogram, 2 * values[i] + 100);
        int64_t got = histogram_quantile(&histogram, 0.5);
        if (got < values[i] || got > values[i] + values[i] / 32)
            fail_msg("median of {%lld, larger}: %lld", (long long)values[i], (long long)got);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void histogram_quantiles_of_many(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static int64_t values[COUNT];
    struct random_state random = {20};
    struct histogram histogram, half, merged;
    histogram_reset(&histogram);
    histogram_reset(&half);
    histogram_reset(&merged);
    int64_t sum_ns = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (int64_t)(random_u64(&random) >> (24 + random_below(&random, 40)));
        sum_ns += values[i];
        histogram_record(&histogram, values[i]);
        histogram_record(i % 2 ? &half : &merged, values[i]);
    }
    histogram_merge(&merged, &half);
    qsort(values, COUNT, sizeof *values, by_value);
    assert_int_equal(histogram.count, COUNT);
    assert_int_equal(histogram.sum_ns, sum_ns);
    assert_int_equal(histogram.max_ns, values[COUNT - 1]);
    assert_memory_equal(&merged, &histogram, sizeof merged);
    static const double quantiles[] = {0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        int rank = (int)(quantiles[i] * COUNT + 0.999999);
        int64_t exact = values[rank > 0 ? rank - 1 : 0];
        int64_t got = histogram_quantile(&histogram, quantiles[i]);
        if (got < exact || got > exact + exact / 32)
            fail_msg("quantile %g: %lld, exact %lld", quantiles[i], (long long)got,
                     (long long)exact);
    }
}

/* As Prometheus wants them: of each bound, how many records lie up to it. */
static void histogram_cumulates(void **state)
{
    (void)state;
    static const int64_t bounds[] = {0, 63, 1000, 2000, 1000000, INT64_MAX};
    static const uint64_t want[] = {1, 3, 4, 6, 7, 8};
    static const int64_t values[] = {0, 1, 63, 960, 1200, 1900, 2100, INT64_MAX};
    struct histogram histogram;
    uint64_t got[6];
    histogram_reset(&histogram);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        histogram_record(&histogram, values[i]);
    histogram_cumulate(&histogram, bounds, 6, got);
    assert_memory_equal(got, want, sizeof want);
}

static void histogram_edges(void **state)
{
    (void)state;
    struct histogram histogram;
    histogram_reset(&histogram);
    assert_int_equal(histogram_quantile(&histogram, 0.99), 0);
    histogram_record(&histogram, -5);
    assert_int_equal(histogram_quantile(&histogram, 1), 0);
    /* Beyond the last bin: counted there, the maximum exact. */
    histogram_record(&histogram, INT64_MAX);
    assert_int_equal(histogram.max_ns, INT64_MAX);
    assert_int_equal(histogram.count, 2);
    assert_int_equal(histogram.bins[HISTOGRAM_BINS - 1], 1);
}

/* ---- SPSC ring --------------------------------------------------------------------------- */

static void spsc_is_a_bounded_queue(void **state)
{
    (void)state;
    static const struct {
        size_t asked, holds;
    } cases[] = {{0, 2}, {1, 2}, {2, 2}, {3, 4}, {64, 64}, {65, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct spsc ring;
        assert_int_equal(spsc_open(&ring, cases[i].asked), 0);
        assert_null(spsc_pop(&ring));
        /* Several rounds, so that the indices wrap. */
        for (uintptr_t round = 0; round < 5; round++) {
            for (uintptr_t n = 1; n <= cases[i].holds; n++)
                assert_true(spsc_push(&ring, (void *)(round * 1000 + n)));
            assert_false(spsc_push(&ring, &ring));
            for (uintptr_t n = 1; n <= cases[i].holds; n++)
                assert_ptr_equal(spsc_pop(&ring), (void *)(round * 1000 + n));
            assert_null(spsc_pop(&ring));
        }
        spsc_close(&ring);
    }
}

enum { HANDED_OVER = 200000 };

static void *produce(void *argument)
{
    struct spsc *ring = argument;
    for (uintptr_t n = 1; n <= HANDED_OVER; n++)
        while (!spsc_push(ring, (void *)n))
            sched_yield();
    return NULL;
}

static void spsc_between_two_threads(void **state)
{
    (void)state;
    struct spsc ring;
    assert_int_equal(spsc_open(&ring, 16), 0);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &ring), 0);
    for (uintptr_t n = 1; n <= HANDED_OVER; n++) {
        void *item;
        while ((item = spsc_pop(&ring)) == NULL)
            sched_yield();
        if (item != (void *)n)
            fail_msg("item %lu came as %lu", (unsigned long)n, (unsigned long)(uintptr_t)item);
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_null(spsc_pop(&ring));
    spsc_close(&ring);
}

/* ---- errors, clocks, numbers ------------------------------------------------------------- */

static void errors_have_names_and_sentences(void **state)
{
    (void)state;
    static const int errors[] = {
#define X(name, value, sentence) ERROR_##name,
        ERROR_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        assert_true(errors[i] < 0);
        assert_string_not_equal(error_name(errors[i]), "?");
        assert_true(strlen(error_sentence(errors[i])) > 5);
    }
    assert_string_equal(error_name(ERROR_CONFIG), "CONFIG");
    assert_string_equal(error_name(-1000), "?");
}

static void problem_text_is_terminated_and_prefixed(void **state)
{
    (void)state;
    struct problem problem;
    assert_int_equal(problem_set(&problem, ERROR_LIMIT, "%d taps", 5), ERROR_LIMIT);
    assert_string_equal(problem.text, "5 taps");
    assert_int_equal(problem_prefix(&problem, ERROR_CONFIG, "filter %s", "bp"), ERROR_CONFIG);
    assert_string_equal(problem.text, "filter bp: 5 taps");
    char longer[2 * sizeof problem.text];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    problem_set(&problem, ERROR_LIMIT, "%s", longer);
    assert_int_equal(strlen(problem.text), sizeof problem.text - 1);
    problem_prefix(&problem, ERROR_LIMIT, "p");
    assert_memory_equal(problem.text, "p: x", 4);
    assert_int_equal(strlen(problem.text), sizeof problem.text - 1);
    assert_int_equal(problem_set(NULL, ERROR_FULL, "no one reads this"), ERROR_FULL);
    assert_int_equal(problem_prefix(NULL, ERROR_FULL, "nor this"), ERROR_FULL);
}

static int64_t simulated_ns;

static int64_t simulated_monotonic_ns(void)
{
    return simulated_ns += 100;
}

static int64_t simulated_realtime_ns(void)
{
    return simulated_ns + 50 + 7 * NS_PER_SECOND;
}

static void clock_offset_is_realtime_less_monotonic(void **state)
{
    (void)state;
    static const struct clock_functions simulated = {simulated_monotonic_ns, simulated_realtime_ns};
    clock_replace(&simulated);
    int64_t offset_ns = clock_offset_ns();
    clock_replace(NULL);
    assert_int_equal(offset_ns, 7 * NS_PER_SECOND);
    int64_t before_ns = clock_monotonic_ns();
    assert_true(clock_monotonic_ns() >= before_ns);
    int64_t error_ns = clock_realtime_ns() - clock_monotonic_ns() - clock_offset_ns();
    assert_true(llabs(error_ns) < 50 * NS_PER_MS);
}

static void random_numbers_are_seeded_and_bounded(void **state)
{
    (void)state;
    /* The first outputs of splitmix64 from 0, as published with the algorithm. */
    struct random_state random = {0};
    assert_true(random_u64(&random) == UINT64_C(0xE220A8397B1DCDAF));
    assert_true(random_u64(&random) == UINT64_C(0x6E789E6AA1B965F4));
    double sum = 0, squares = 0;
    enum { COUNT = 100000 };
    for (int i = 0; i < COUNT; i++) {
        double unit = random_unit(&random);
        assert_true(unit >= 0 && unit < 1);
        assert_true(random_below(&random, 7) < 7);
        double normal = random_normal(&random);
        sum += normal;
        squares += normal * normal;
    }
    /* Five standard errors of the mean and of the variance. */
    assert_true(sum / COUNT < 5 / 316.2 && sum / COUNT > -5 / 316.2);
    assert_true(squares / COUNT > 1 - 5 * 1.4143 / 316.2 &&
                squares / COUNT < 1 + 5 * 1.4143 / 316.2);
}

static void powers_of_two_are_the_least_that_suffice(void **state)
{
    (void)state;
    static const struct {
        uint64_t start, least, expect;
    } cases[] = {
        {1, 0, 1},
        {1, 1, 1},
        {1, 2, 2},
        {1, 3, 4},
        {64, 1, 64},
        {64, 64, 64},
        {64, 65, 128},
        {1, UINT64_C(1) << 62, UINT64_C(1) << 62},
        {1, (UINT64_C(1) << 62) + 1, UINT64_C(1) << 63},
        {1, UINT64_MAX, UINT64_C(1) << 63},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(power_of_two_from(cases[i].start, cases[i].least), cases[i].expect);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histogram_quantile_of_one_value),
        cmocka_unit_test(histogram_quantiles_of_many),
        cmocka_unit_test(histogram_edges),
        cmocka_unit_test(histogram_cumulates),
        cmocka_unit_test(spsc_is_a_bounded_queue),
        cmocka_unit_test(spsc_between_two_threads),
        cmocka_unit_test(errors_have_names_and_sentences),
        cmocka_unit_test(problem_text_is_terminated_and_prefixed),
        cmocka_unit_test(clock_offset_is_realtime_less_monotonic),
        cmocka_unit_test(powers_of_two_are_the_least_that_suffice),
        cmocka_unit_test(random_numbers_are_seeded_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
