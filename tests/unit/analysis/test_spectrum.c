/*
 * Spectra against the definition: the DFT summed term by term in long double. Also the inverse, the
 * windows' formulas, lines of windowed sines in closed form, and equal bits from equal input.
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

#include "analysis/spectrum.h"
#include "core/random.h"

static double *doubles(uint64_t count)
{
    double *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static void fill(struct random_state *random, double *x, uint32_t points)
{
    for (uint32_t i = 0; i < points; i++)
        x[i] = 2 * random_unit(random) - 1;
}

/* One bin by definition. The product i·k is reduced in integers, so the angle is as good as its
 * type. */
static void direct(const double *x, uint32_t points, uint32_t k, long double *re, long double *im)
{
    *re = *im = 0;
    for (uint32_t i = 0; i < points; i++) {
        const uint64_t turned = (uint64_t)i * k % points;
        const long double angle = 2 * 3.14159265358979323846264338327950288L * turned / points;
        *re += x[i] * cosl(angle);
        *im -= x[i] * sinl(angle);
    }
}

static void test_forward_is_the_dft(void **state)
{
    (void)state;
    struct random_state random = {7};
    for (uint32_t points = 2; points <= 65536; points *= 2) {
        struct spectrum_plan *s;
        assert_int_equal(spectrum_plan_open(points, &s), 0);
        const uint32_t bins = spectrum_bins(points);
        double *x = doubles(points), *re = doubles(bins), *im = doubles(bins);
        fill(&random, x, points);
        spectrum_forward(s, x, re, im);
        assert_true(im[0] == 0 && im[bins - 1] == 0);
        double norm = 0;
        for (uint32_t i = 0; i < points; i++)
            norm += x[i] * x[i];
        const double scale = sqrt(norm); /* of a bin: its expectation over all bins, squared */
        const uint32_t step = points <= 256 ? 1 : points / 32 + 1;
        for (uint32_t k = 0; k < bins; k += step) {
            long double want_re, want_im;
            direct(x, points, k, &want_re, &want_im);
            const double error = hypot(re[k] - (double)want_re, im[k] - (double)want_im);
            if (!(error <= 1e-13 * scale))
                fail_msg("M = %u, bin %u: %g of %g", points, k, error, scale);
        }
        spectrum_plan_close(s);
        free(x), free(re), free(im);
    }
}

static void test_inverse_undoes_forward(void **state)
{
    (void)state;
    struct random_state random = {8};
    for (uint32_t points = 2; points <= 65536; points *= 2) {
        struct spectrum_plan *s;
        assert_int_equal(spectrum_plan_open(points, &s), 0);
        const uint32_t bins = spectrum_bins(points);
        double *x = doubles(points), *y = doubles(points), *re = doubles(bins), *im = doubles(bins);
        fill(&random, x, points);
        spectrum_forward(s, x, re, im);
        im[0] = im[bins - 1] = NAN; /* not read */
        spectrum_inverse(s, re, im, y);
        for (uint32_t i = 0; i < points; i++)
            if (!(fabs(y[i] - x[i]) <= 1e-14))
                fail_msg("M = %u, point %u: %.17g, not %.17g", points, i, y[i], x[i]);
        spectrum_plan_close(s);
        free(x), free(y), free(re), free(im);
    }
}

/* A sine of a whole number of cycles behind Hann's window: A·M/4 in its bin, A·M/8 beside it,
 * nothing elsewhere; the mean: M/2 of it in bin 0. */
static void test_hann_reads_amplitudes(void **state)
{
    (void)state;
    enum { M = 1024, B = M / 2 + 1 };
    const double pi = 3.14159265358979323846, amplitude = 0.7, mean = 0.3;
    double w[M], x[M], re[B], im[B];
    spectrum_window(SPECTRUM_HANN, M, w);
    for (int i = 0; i < M; i++)
        x[i] = w[i] * (mean + amplitude * sin(2 * pi * 100 * i / M + 0.4));
    struct spectrum_plan *s;
    assert_int_equal(spectrum_plan_open(M, &s), 0);
    spectrum_forward(s, x, re, im);
    for (int k = 0; k < B; k++) {
        const double want = k == 0                ? mean * M / 2
                            : k == 1              ? mean * M / 4
                            : k == 100            ? amplitude * M / 4
                            : k == 99 || k == 101 ? amplitude * M / 8
                                                  : 0;
        if (!(fabs(hypot(re[k], im[k]) - want) <= 1e-11))
            fail_msg("bin %d: %.15g, not %.15g", k, hypot(re[k], im[k]), want);
    }
    spectrum_plan_close(s);
}

static void test_windows_have_their_formulas(void **state)
{
    (void)state;
    double w[5];
    spectrum_window(SPECTRUM_HAMMING, 5, w);
    const double hamming[] = {0.08, 0.54, 1, 0.54, 0.08};
    for (int i = 0; i < 5; i++)
        assert_true(fabs(w[i] - hamming[i]) <= 1e-16);
    spectrum_window(SPECTRUM_HANN, 4, w);
    const double hann[] = {0, 0.5, 1, 0.5};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(w[i] - hann[i]) <= 1e-16);
}

/* Bits of the result are those of the input: not of the plan, nor of what it computed before. */
static void test_equal_input_gives_equal_bits(void **state)
{
    (void)state;
    enum { M = 4096, B = M / 2 + 1 };
    struct random_state random = {9};
    double *x = doubles(M), *first = doubles(2 * B), *second = doubles(2 * B);
    struct spectrum_plan *a, *b;
    assert_int_equal(spectrum_plan_open(M, &a), 0);
    assert_int_equal(spectrum_plan_open(M, &b), 0);
    fill(&random, x, M);
    spectrum_forward(b, x, second, second + B);
    fill(&random, x, M);
    spectrum_forward(a, x, first, first + B);
    spectrum_forward(b, x, second, second + B);
    assert_memory_equal(first, second, 2 * B * sizeof(double));
    assert_true(spectrum_memory(M) >= 4 * M * sizeof(double) / 2);
    spectrum_plan_close(a), spectrum_plan_close(b), spectrum_plan_close(NULL);
    free(x), free(first), free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_is_the_dft),
        cmocka_unit_test(test_inverse_undoes_forward),
        cmocka_unit_test(test_hann_reads_amplitudes),
        cmocka_unit_test(test_windows_have_their_formulas),
        cmocka_unit_test(test_equal_input_gives_equal_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
