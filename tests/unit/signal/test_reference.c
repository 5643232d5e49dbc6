/*
 * The references against things simpler than themselves: a convolution worked out by hand, the
 * transform's defining sum, and direct dot products at many frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "signal/reference.h"

static double *noise(uint64_t count, uint64_t seed)
{
    struct random_state random = {seed};
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < count; i++)
        values[i] = random_normal(&random);
    return values;
}

static void test_by_hand(void **state)
{
    (void)state;
    static const double x[] = {1, 2, -3}, h[] = {4, 0, 5, -1};
    static const double expect[] = {4, 8, -7, 9, -17, 3};
    double y[6];
    reference_convolve_direct(x, 3, h, 4, y);
    assert_memory_equal(y, expect, sizeof y);
    for (unsigned n = 0; n < 6; n++)
        assert_true(reference_dot(x, 3, h, 4, n) == expect[n]);
    assert_true(reference_dot(x, 3, h, 4, 6) == 0.0);
    memset(y, 0, sizeof y);
    assert_int_equal(reference_convolve(x, 3, h, 4, y), 0);
    for (unsigned n = 0; n < 6; n++)
        assert_true(fabs(y[n] - expect[n]) < 1e-14);
}

static void test_dot_is_compensated(void **state)
{
    (void)state;
    static const double x[] = {1.0, 1e100, 1.0, -1e100}, ones[] = {1, 1, 1, 1};
    assert_true(reference_dot(x, 4, ones, 4, 3) == 2.0);
}

static void test_transform(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 256; n *= 2) {
        double *data = noise(2 * n, n), *original = malloc(2 * n * sizeof *original);
        assert_non_null(original);
        memcpy(original, data, 2 * n * sizeof *data);
        assert_int_equal(reference_fft(data, n, -1), 0);
        for (uint32_t k = 0; k < n; k++) { /* the definition */
            long double re = 0, im = 0;
            for (uint32_t i = 0; i < n; i++) {
                long double angle = -2.0L * 3.14159265358979323846264338327950288L *
                                    (long double)((uint64_t)i * k % n) / n;
                re += original[2 * i] * cosl(angle) - original[2 * i + 1] * sinl(angle);
                im += original[2 * i] * sinl(angle) + original[2 * i + 1] * cosl(angle);
            }
            assert_true(fabs(data[2 * k] - (double)re) < 1e-12);
            assert_true(fabs(data[2 * k + 1] - (double)im) < 1e-12);
        }
        assert_int_equal(reference_fft(data, n, 1), 0);
        for (uint32_t i = 0; i < 2 * n; i++)
            assert_true(fabs(data[i] / n - original[i]) < 1e-13);
        free(data);
        free(original);
    }
}

static void test_convolution(void **state)
{
    (void)state;
    static const struct {
        uint32_t frames, taps;
    } table[] = {{1, 1},    {1, 300},     {300, 1},     {2, 3},       {1023, 2},    {1024, 1},
                 {1025, 1}, {5000, 1025}, {1025, 5000}, {20000, 129}, {256, 60000}, {70000, 40000}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint32_t frames = table[i].frames, taps = table[i].taps, total = frames + taps - 1;
        double *x = noise(frames, 1), *h = noise(taps, 2);
        double *y = malloc((total + 1) * sizeof *y);
        assert_non_null(y);
        y[total] = 1234.5; /* guard */
        assert_int_equal(reference_convolve(x, frames, h, taps, y), 0);
        assert_true(y[total] == 1234.5);
        double scale = sqrt((double)(frames < taps ? frames : taps));
        struct random_state random = {3};
        for (uint32_t j = 0; j < 600; j++) {
            uint32_t n = j < 20 ? j : j < 40 ? total - 1 - (j - 20) : random_below(&random, total);
            if (n >= total)
                continue;
            double want = reference_dot(x, frames, h, taps, n);
            if (fabs(y[n] - want) > 1e-12 * scale)
                fail_msg("%u frames, %u taps: y[%u] = %.17g, want %.17g", frames, taps, n, y[n],
                         want);
        }
        free(x);
        free(h);
        free(y);
    }
    double *x = noise(777, 4), *h = noise(99, 5), direct[875], fast[875];
    reference_convolve_direct(x, 777, h, 99, direct);
    assert_int_equal(reference_convolve(x, 777, h, 99, fast), 0);
    for (int n = 0; n < 875; n++)
        assert_true(fabs(direct[n] - fast[n]) < 1e-12);
    free(x);
    free(h);
}

static void test_error_bound(void **state)
{
    (void)state;
    static const double want[4] = {1, -1, 1, 1}; /* ||want|| = 2 */
    static const struct {
        float error;
        double x2, x_max, h_max;
        bool expect;
    } table[] = {
        {0.0f, 0, 0, 0, true},        {1.5e-6f, 2, 1, 1, true}, /* within 1e-6 · 2 and 5e-6 */
        {2.5e-6f, 2, 1, 1, false},                              /* beyond 1e-6 · 2 */
        {2.5e-6f, 2, 1, 2, true},                               /* the filter's gain allows 4e-6 */
        {1e-3f, 1000, 1, 1, false}, /* in norm allowed, but one sample too far off */
        {1e-3f, 1000, 1000, 1, true}, {NAN, 1e9, 1e9, 1e9, false}, {INFINITY, 1e9, 1e9, 1e9, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        float got[8] = {1, 99, -1, 99, 1, 99, 1, 99}; /* stride 2 */
        got[2] += table[i].error;
        struct error_bound measured;
        bool within = error_bound_check(got, 2, want, 4, table[i].x2, table[i].x_max,
                                        table[i].h_max, &measured);
        if (within != table[i].expect)
            fail_msg("row %zu: within %d, want %d (e2 %g of %g, max %g of %g)", i, within,
                     table[i].expect, measured.e2, measured.limit2, measured.e_max,
                     measured.limit_max);
    }
    static const double zero[2] = {0, 0};
    static const float silent[2] = {0, 0}, speck[2] = {0, 1e-30f};
    assert_true(error_bound_check(silent, 1, zero, 2, 0, 0, 1, NULL));
    assert_false(error_bound_check(speck, 1, zero, 2, 0, 0, 1, NULL));
}

static void test_peak_response(void **state)
{
    (void)state;
    static const double mean[] = {0.25, 0.25, 0.25, 0.25}, alternate[] = {1, -1, 1, -1};
    static const double re[] = {1, 0, -1, 0},
                        im[] = {0, 1, 0, -1}; /* exp(i pi n / 2): 4 at a quarter */
    assert_true(fabs(taps_peak_response(mean, NULL, 4) - 1.0) < 1e-12);
    assert_true(fabs(taps_peak_response(alternate, NULL, 4) - 4.0) < 1e-12);
    assert_true(fabs(taps_peak_response(re, im, 4) - 4.0) < 1e-12);
    double one = -3.0;
    assert_true(fabs(taps_peak_response(&one, NULL, 1) - 3.0) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_dot_is_compensated),
        cmocka_unit_test(test_transform),   cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_error_bound), cmocka_unit_test(test_peak_response),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
