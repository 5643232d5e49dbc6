/* The ground floor: SPSC ring, histogram, ranges, errors. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/error.h"
#include "core/histogram.h"
#include "core/random.h"
#include "core/spsc.h"
#include "stream/ranges.h"

/* ---- histogram: quantiles against a sorted list ------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void test_histogram_quantiles(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static int64_t values[COUNT];
    static struct histogram histogram;
    struct random_state random = {3};
    histogram_reset(&histogram);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (int64_t)exp(random_unit(&random) * 25); /* 1 ns … 72 s */
        histogram_record(&histogram, values[i]);
    }
    qsort(values, COUNT, sizeof values[0], compare);
    static const double quantiles[] = {0, 0.01, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof quantiles / sizeof quantiles[0]; i++) {
        int rank = (int)ceil(quantiles[i] * COUNT);
        int64_t want = values[rank > 0 ? rank - 1 : 0];
        int64_t got = histogram_quantile(&histogram, quantiles[i]);
        assert_true(got >= want);
        assert_true((double)got <= (double)want * (1 + 1.0 / 32) + 1);
    }
    assert_int_equal(histogram_quantile(&histogram, 1), values[COUNT - 1]);
    assert_int_equal(histogram.count, COUNT);
}

static void test_histogram_edges(void **state)
{
    (void)state;
    static struct histogram histogram, other;
    histogram_reset(&histogram);
    assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
    histogram_record(&histogram, -5);
    assert_int_equal(histogram_quantile(&histogram, 1), 0);
    histogram_record(&histogram, INT64_MAX); /* beyond the last bin: counted, max exact */
    assert_true(histogram_quantile(&histogram, 1) > INT64_C(1) << 35);
    assert_int_equal(histogram.max_ns, INT64_MAX);
    histogram_reset(&other);
    histogram_record(&other, 7);
    histogram_merge(&histogram, &other);
    assert_int_equal(histogram.count, 3);
    for (int64_t value = 0; value < 64; value++) { /* small durations are exact */
        histogram_reset(&other);
        histogram_record(&other, value);
        histogram_record(&other, 1000);
        assert_int_equal(histogram_quantile(&other, 0.5), value);
    }
}

/* ---- SPSC ring: every item once, in order, across two threads -------------------------------------- */

enum { ITEMS = 200000 };

static void *produce(void *context)
{
    struct spsc *ring = context;
    for (uintptr_t i = 1; i <= ITEMS; i++) {
        while (!spsc_push(ring, (void *)i))
            sched_yield();
    }
    return NULL;
}

static void test_spsc_two_threads(void **state)
{
    (void)state;
    struct spsc ring;
    assert_int_equal(spsc_open(&ring, 5), 0); /* rounded up to 8 */
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &ring), 0);
    for (uintptr_t want = 1; want <= ITEMS; want++) {
        void *item;
        while ((item = spsc_pop(&ring)) == NULL)
            sched_yield();
        assert_int_equal((uintptr_t)item, want);
    }
    pthread_join(producer, NULL);
    assert_null(spsc_pop(&ring));
    for (uintptr_t i = 1; i <= 8; i++)
        assert_true(spsc_push(&ring, (void *)i));
    assert_false(spsc_push(&ring, (void *)9)); /* full says so */
    spsc_close(&ring);
}

/* ---- ranges against a map of frames ------------------------------------------------------------------ */

static void test_ranges_never_flag_less(void **state)
{
    (void)state;
    enum { FRAMES = 4096 };
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct random_state random = {seed};
        static struct ranges ranges;
        static uint8_t map[INVALID_CAUSES][FRAMES];
        memset(&ranges, 0, sizeof ranges);
        memset(map, 0, sizeof map);
        bool overflowed = false;
        for (int i = 0; i < (seed % 2 ? 60 : 900); i++) {
            uint64_t from = random_below(&random, FRAMES - 40);
            uint64_t until = from + random_below(&random, seed % 2 ? 40 : 3);
            enum invalid_cause cause = random_below(&random, 3);
            ranges_add(&ranges, from, until, cause);
            memset(&map[cause][from], 1, until - from);
            overflowed = overflowed || ranges.count == RANGES_MAX;
            assert_true(ranges.count <= RANGES_MAX);
        }
        static uint8_t got[INVALID_CAUSES][FRAMES];
        memset(got, 0, sizeof got);
        struct invalid_range clipped[RANGES_MAX];
        uint32_t count = ranges_clip(&ranges, 100, FRAMES - 100, clipped, RANGES_MAX);
        for (uint32_t i = 0; i < count; i++)
            memset(&got[clipped[i].cause][clipped[i].from], 1, clipped[i].until - clipped[i].from);
        uint64_t any = 0;
        for (int n = 100; n < FRAMES - 100; n++) {
            bool flagged = false;
            for (int cause = 0; cause < 3; cause++) {
                assert_true(got[cause][n] >= map[cause][n]);
                if (!overflowed)
                    assert_int_equal(got[cause][n], map[cause][n]);
                flagged = flagged || got[cause][n];
            }
            any += flagged;
        }
        assert_int_equal(ranges_union(clipped, count), any);
        /* too small a list covers the rest, never drops it */
        struct invalid_range few[2];
        uint32_t kept = ranges_clip(&ranges, 0, FRAMES, few, 2);
        uint64_t reach = 0;
        for (uint32_t i = 0; i < kept; i++)
            reach = few[i].until > reach ? few[i].until : reach;
        uint64_t last = 0;
        for (uint32_t i = 0; i < ranges.count; i++)
            last = ranges.list[i].until > last ? ranges.list[i].until : last;
        assert_int_equal(reach, last);
    }
}

static void test_errors_have_names_and_sentences(void **state)
{
    (void)state;
    assert_string_equal(error_name(ERROR_NO_DEVICE), "NO_DEVICE");
    assert_string_equal(error_name(0), "NONE");
    assert_string_equal(error_name(-9999), "?");
    struct problem problem;
    assert_int_equal(problem_set(&problem, ERROR_FULL, "%d of %d", 3, 3), ERROR_FULL);
    problem_prefix(&problem, ERROR_FULL, "stream %s", "a");
    assert_string_equal(problem.text, "stream a: 3 of 3");
    assert_int_equal(problem_set(NULL, ERROR_FULL, "nobody reads this"), ERROR_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram_quantiles),
        cmocka_unit_test(test_histogram_edges),
        cmocka_unit_test(test_spsc_two_threads),
        cmocka_unit_test(test_ranges_never_flag_less),
        cmocka_unit_test(test_errors_have_names_and_sentences),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
