/*
 * Aliases of a decimated filter, against the definition: gains summed frequency by frequency, and
 * filters whose responses are known on paper.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/random.h"
#include "filter/response.h"

#define PI 3.14159265358979323846

static struct taps *noise(uint32_t count, bool complex_taps, uint64_t seed)
{
    struct taps *taps;
    struct problem problem;
    struct random_state random = {seed};
    assert_int_equal(taps_create(count, complex_taps, &taps, &problem), 0);
    for (uint32_t n = 0; n < count; n++) {
        taps->re[n] = random_normal(&random);
        if (complex_taps)
            taps->im[n] = random_normal(&random);
    }
    return taps;
}

static double fold(double hz, double output_hz)
{
    return hz - round(hz / output_hz) * output_hz;
}

/* The largest gain outside against the largest inside, on a fine grid. */
static void gains_are_those_of_the_definition(void **state)
{
    (void)state;
    enum { STEPS = 20000 };
    const double rate_hz = 48000;
    static const uint32_t decimations[] = {2, 3, 8, 25};
    for (int i = 0; i < 8; i++) {
        const uint32_t decimate = decimations[i / 2];
        const bool two_sided = i % 2 == 1;
        struct taps *taps = noise(21, two_sided, 5 + (uint64_t)i);
        const double output_hz = rate_hz / decimate;
        double inside = 0, outside = 0, from_hz = 0;
        for (int k = two_sided ? -STEPS : 0; k <= STEPS; k++) {
            const double hz = rate_hz / 2 * k / STEPS, gain = response_at(taps, hz, rate_hz);
            if (fabs(hz) <= output_hz / 2)
                inside = fmax(inside, gain);
            if (fabs(hz) >= output_hz / 2 && gain > outside) {
                outside = gain;
                from_hz = hz;
            }
        }
        struct response_alias alias;
        struct problem problem;
        assert_int_equal(response_alias(taps, rate_hz, decimate,
                                        two_sided ? ALIAS_COMPLEX : ALIAS_REAL, &alias, &problem),
                         0);
        const double want_db = 20 * log10(outside / inside);
        if (fabs(alias.worst_db - want_db) > 0.02 || fabs(alias.from_hz - from_hz) > 40)
            fail_msg("D = %u: %g dB at %g Hz, wanted %g dB at %g Hz", decimate, alias.worst_db,
                     alias.from_hz, want_db, from_hz);
        const double at_hz =
            two_sided ? fold(alias.from_hz, output_hz) : fabs(fold(alias.from_hz, output_hz));
        assert_true(fabs(fabs(alias.at_hz) - fabs(at_hz)) < 1e-6);
        assert_true(fabs(alias.kept_hz - output_hz / 2) < 1e-9);
        assert_true(alias.pass_db <= alias.worst_db + 1e-9);
        if (alias.pass_db > -INFINITY) {
            const double gain = response_at(taps, alias.pass_at_hz, rate_hz);
            assert_true(gain > inside / 2 * 0.98);
        }
        taps_free(taps);
    }
}

/* A real output sees the real taps alone. */
static void imaginary_taps_do_not_count_for_a_real_output(void **state)
{
    (void)state;
    struct taps *both = noise(33, true, 70), *real = noise(33, false, 1);
    for (int n = 0; n < 33; n++)
        real->re[n] = both->re[n];
    struct response_alias a, b;
    struct problem problem;
    assert_int_equal(response_alias(both, 1000, 4, ALIAS_REAL, &a, &problem), 0);
    assert_int_equal(response_alias(real, 1000, 4, ALIAS_REAL, &b, &problem), 0);
    assert_true(a.worst_db == b.worst_db && a.from_hz == b.from_hz && a.at_hz == b.at_hz);
    taps_free(both);
    taps_free(real);
}

/* The mean of D frames: |H| = sin(pi D f) / (D sin(pi f)). */
static void means_of_frames(void **state)
{
    (void)state;
    for (uint32_t decimate = 2; decimate <= 64; decimate *= 2) {
        struct taps *taps = noise(decimate, false, 1);
        for (uint32_t n = 0; n < decimate; n++)
            taps->re[n] = 1.0 / decimate;
        struct response_alias alias;
        struct problem problem;
        assert_int_equal(response_alias(taps, 1, decimate, ALIAS_REAL, &alias, &problem), 0);
        const double edge = 1 / (decimate * sin(PI / (2 * decimate)));
        assert_true(fabs(alias.worst_db - 20 * log10(edge)) < 1e-6);
        assert_true(fabs(alias.at_hz - 0.5 / decimate) < 1e-12);
        taps_free(taps);
    }
}

/* White noise through taps h: the power spectrum of |z|² without its mean is sum_v |H(v)|²|H(v +
 * f)|². */
static void envelopes_by_definition(void **state)
{
    (void)state;
    enum { POINTS = 2048 };
    static double power[POINTS], spectrum[POINTS];
    struct taps *taps = noise(24, true, 9);
    for (int k = 0; k < POINTS; k++) {
        const double gain = response_at(taps, (double)k / POINTS, 1);
        power[k] = gain * gain;
    }
    for (int f = 0; f < POINTS; f++) {
        spectrum[f] = 0;
        for (int v = 0; v < POINTS; v++)
            spectrum[f] += power[v] * power[(v + f) % POINTS];
    }
    double inside = 0, outside = 0;
    for (int k = 0; k <= POINTS / 2; k++) {
        if ((double)k / POINTS <= 0.125)
            inside = fmax(inside, spectrum[k]);
        if ((double)k / POINTS >= 0.125)
            outside = fmax(outside, spectrum[k]);
    }
    struct response_alias alias;
    struct problem problem;
    assert_int_equal(response_alias(taps, 1, 4, ALIAS_ENVELOPE, &alias, &problem), 0);
    assert_true(fabs(alias.worst_db - 10 * log10(outside / inside)) < 0.05);
    taps_free(taps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_those_of_the_definition),
        cmocka_unit_test(imaginary_taps_do_not_count_for_a_real_output),
        cmocka_unit_test(means_of_frames),
        cmocka_unit_test(envelopes_by_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
