/*
 * Pickers against their definitions, evaluated term by term in long double; and against onsets that
 * are known. Extremes and columns of bits against a plain walk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/column.h"
#include "analysis/extremes.h"
#include "analysis/picker.h"
#include "core/random.h"

enum { N = 300 };

static long double variance(const float *x, uint32_t n)
{
    long double mean = 0, square = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += (long double)x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        square += ((long double)x[i] - mean) * ((long double)x[i] - mean) / n;
    return fmaxl(square, (long double)FLT_MIN);
}

static long double aic_at(const float *x, uint32_t n, uint32_t i)
{
    return (long double)(i + 1) * logl(variance(x, i + 1)) +
           ((long double)n - i - 2) * logl(variance(x + i + 1, n - i - 1));
}

static long double energy(const float *x, int64_t from, int64_t until)
{
    long double sum = 0;
    for (int64_t i = from; i <= until; i++)
        sum += (long double)x[i] * (long double)x[i];
    return sum;
}

/* Noise, then a burst that grows. */
static void make_onset(float *x, struct random_state *random, uint32_t onset)
{
    for (uint32_t i = 0; i < N; i++)
        x[i] = (float)(0.01 * random_normal(random) +
                       (i >= onset ? sin(0.4 * (i - onset)) * (1 - exp(-(double)(i - onset) / 20))
                                   : 0));
}

static void test_definitions(void **state)
{
    (void)state;
    float x[N];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct random_state random = {seed};
        const uint32_t onset = 60 + random_below(&random, 180);
        make_onset(x, &random, onset);
        const int64_t aic = picker_aic(x, N), hinkley = picker_hinkley(x, N, 5);
        const int64_t ratio = picker_energy_ratio(x, N, 40);
        for (uint32_t i = 0; i + 1 < N; i++)
            assert_true(aic_at(x, N, (uint32_t)aic) <= aic_at(x, N, i) + 1e-7L);
        for (uint32_t i = 0; i < N; i++)
            assert_true(energy(x, 0, hinkley) - hinkley * energy(x, 0, N - 1) / (5.0L * N) <=
                        energy(x, 0, i) - i * energy(x, 0, N - 1) / (5.0L * N) + 1e-12L);
        for (uint32_t i = 40; i < N - 40; i++)
            assert_true(energy(x, ratio + 1, ratio + 40) / energy(x, ratio - 39, ratio) >=
                        energy(x, i + 1, i + 40) / energy(x, (int64_t)i - 39, i) * (1 - 1e-9L));
        assert_in_range(aic, onset - 4, onset + 10);
    }
}

static void test_limits(void **state)
{
    (void)state;
    const float x[6] = {0, 0, 0, 1, -2, 3};
    assert_int_equal(picker_aic(x, 0), -1);
    assert_int_equal(picker_aic(x, 1), -1);
    assert_int_equal(picker_aic(x, 6), 2);
    assert_int_equal(picker_hinkley(x, 0, 5), -1);
    assert_int_equal(picker_hinkley(x, 6, 5), 2);
    assert_int_equal(picker_energy_ratio(x, 6, 3), -1);
    assert_int_equal(picker_energy_ratio(x, 2, 1), -1);
    assert_int_equal(picker_energy_ratio(x, 6, 2), 2);
    assert_true(picker_crossing(1, 3, 2) == -0.5);
    assert_true(picker_crossing(-1, -3, 1) == -1);
    assert_true(picker_crossing(-1, 3, 2) == 0);
    assert_true(picker_crossing(0, 3, 2) == 0);
}

static void test_extremes(void **state)
{
    (void)state;
    enum { FRAMES = 70, CHANNELS = 130 };
    float *x = malloc(FRAMES * CHANNELS * sizeof *x), low[CHANNELS], high[CHANNELS];
    struct random_state random = {9};
    for (int trial = 0; trial < 400; trial++) {
        const uint32_t channels = 1 + random_below(&random, CHANNELS);
        const uint32_t frames = 1 + random_below(&random, FRAMES);
        for (uint32_t i = 0; i < frames * channels; i++)
            x[i] = (float)random_normal(&random);
        extremes_find(x, frames, channels, low, high);
        for (uint32_t c = 0; c < channels; c++) {
            float least = x[c], most = x[c];
            for (uint32_t i = 0; i < frames; i++) {
                least = fminf(least, x[i * channels + c]);
                most = fmaxf(most, x[i * channels + c]);
            }
            assert_true(low[c] == least && high[c] == most);
        }
    }
    free(x);
}

static void test_columns(void **state)
{
    (void)state;
    struct random_state random = {11};
    for (int trial = 0; trial < 20000; trial++) {
        const uint32_t from = random_below(&random, 64),
                       until = from + random_below(&random, 65 - from);
        const uint64_t all = column_mask(from, until);
        const uint64_t first = random_u64(&random), second = random_u64(&random);
        uint64_t above = first & second;
        const uint64_t side = random_u64(&random);
        const uint32_t thin = random_below(&random, 3);
        for (uint32_t i = 0; i < thin; i++)
            above &= random_u64(&random);
        const uint64_t spending = above & side & all, arming = random_u64(&random) & ~side & all;
        const uint64_t hdt = random_below(&random, 80);
        const bool before = random_below(&random, 2) == 0;
        bool armed = before, expected_armed = before;
        const uint64_t counts = column_counts(spending, arming, all, &armed);
        uint64_t expected = 0, starts = 0, last = UINT64_MAX;
        for (uint32_t i = 0; i < 64; i++) {
            const uint64_t bit = (uint64_t)1 << i;
            assert_int_equal((all & bit) != 0, i >= from && i < until);
            if (spending & bit) {
                expected |= expected_armed ? bit : 0;
                expected_armed = false;
            } else if (arming & bit) {
                expected_armed = true;
            }
            if (above & bit) {
                starts |= last == UINT64_MAX || i - last > hdt ? bit : 0;
                last = i;
            }
        }
        assert_true(counts == expected);
        assert_true(from == until || armed == expected_armed);
        assert_true(column_starts(above, hdt) == starts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
