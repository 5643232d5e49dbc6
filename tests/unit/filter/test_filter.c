/*
 * Filters from their descriptions: what each type makes, the rule of delays, gains, warnings, and
 * the response of taps whose response is known on paper.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "filter/filter.h"

#define RATE_HZ 500e3

static void test_types(void **state)
{
    (void)state;
    struct filter_spec lowpass, bandpass, chirp, identity, barker;
    filter_defaults(&lowpass, FILTER_LOWPASS);
    lowpass.design.cutoff_hz = 50e3;
    lowpass.design.taps = 101;
    filter_defaults(&bandpass, FILTER_BANDPASS);
    bandpass.design.low_hz = 95e3;
    bandpass.design.high_hz = 150e3;
    bandpass.design.taps = 255;
    bandpass.analytic = true;
    filter_defaults(&chirp, FILTER_CHIRP);
    chirp.replica.start_hz = 50e3;
    chirp.replica.stop_hz = 150e3;
    chirp.replica.length_s = 200e-6;
    filter_defaults(&barker, FILTER_BARKER);
    barker.replica.barker_length = 13;
    barker.replica.carrier_hz = 100e3;
    barker.replica.cycles_per_chip = 2;
    barker.analytic = true;
    filter_defaults(&identity, FILTER_IDENTITY);
    const struct {
        const struct filter_spec *spec;
        uint32_t taps;
        double delay_frames;
        bool complex_taps;
    } table[] = {
        {&lowpass, 101, 50, false}, {&bandpass, 255, 127, true}, {&chirp, 100, 99, false},
        {&barker, 130, 129, true},  {&identity, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *name = filter_type_name(table[i].spec->type);
        struct taps **sets;
        uint32_t count;
        struct filter_measure measure;
        struct problem problem;
        if (filter_make(table[i].spec, RATE_HZ, &sets, &count, &measure, &problem) != 0)
            fail_msg("%s: %s", name, problem.text);
        assert_int_equal(count, 1);
        if (sets[0]->count != table[i].taps || sets[0]->delay_frames != table[i].delay_frames)
            fail_msg("%s: %u taps, delay %g", name, sets[0]->count, sets[0]->delay_frames);
        assert_int_equal(sets[0]->delay_source, DELAY_DESIGN);
        assert_int_equal(sets[0]->im != NULL, table[i].complex_taps);
        assert_int_equal(filter_is_complex(table[i].spec), table[i].complex_taps);
        assert_int_equal(measure.analytic, table[i].complex_taps);
        assert_string_equal(measure.warning, "");
        assert_int_equal(isnan(measure.matched.mainlobe_frames),
                         !filter_type_is_matched(table[i].spec->type));
        struct filter_measure again; /* the same by the other way */
        assert_int_equal(filter_measure_set(table[i].spec, RATE_HZ, sets[0], &again, &problem), 0);
        assert_true(again.response.noise_gain == measure.response.noise_gain);
        taps_sets_free(sets, count);
    }
}

static void test_delays(void **state)
{
    (void)state;
    const char *symmetric = scratch_write("symmetric.txt", "1\n2\n3\n2\n1\n");
    const char *other = scratch_write("other.txt", "1\n2\n3\n");
    /* clang-format off */
    static const struct {
        bool symmetric;
        double delay_frames, delay_s; /* asked */
        double expect;
        enum delay_source source;
        const char *warning;
    } table[] = {
        {true, NAN, NAN, 2, DELAY_SYMMETRY, ""},
        {true, 1.5, NAN, 1.5, DELAY_CONFIG, ""},
        {true, NAN, 10e-6, 5, DELAY_CONFIG, ""},
        {false, 0, NAN, 0, DELAY_CONFIG, ""},
        {false, NAN, NAN, 0, DELAY_ASSUMED, "write `delay`"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct filter_spec spec;
        filter_defaults(&spec, FILTER_FILE);
        spec.path = table[i].symmetric ? symmetric : other;
        spec.delay_frames = table[i].delay_frames;
        spec.delay_s = table[i].delay_s;
        struct taps **sets;
        uint32_t count;
        struct filter_measure measure;
        assert_int_equal(filter_make(&spec, RATE_HZ, &sets, &count, &measure, NULL), 0);
        if (sets[0]->delay_frames != table[i].expect || sets[0]->delay_source != table[i].source ||
            strstr(measure.warning, table[i].warning) == NULL ||
            (table[i].warning[0] == '\0' && measure.warning[0] != '\0'))
            fail_msg("row %zu: delay %g from %d, '%s'", i, sets[0]->delay_frames,
                     sets[0]->delay_source, measure.warning);
        taps_sets_free(sets, count);
    }
}

/* One channel symmetric and one not: all channels share one delay, so it counts as unknown. */
static void test_channels_share_one_delay(void **state)
{
    (void)state;
    const char *path = scratch_path("two.npy");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    char header[80];
    int length = snprintf(header, sizeof header,
                          "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}\n");
    fwrite("\x93NUMPY\1", 1, 7, out);
    fputc(0, out);
    fputc(length, out);
    fputc(0, out);
    fwrite(header, 1, (size_t)length, out);
    const double taps[] = {1, 2, 1, 1, 2, 3};
    fwrite(taps, sizeof taps, 1, out);
    fclose(out);
    struct filter_spec spec;
    filter_defaults(&spec, FILTER_FILE);
    spec.path = path;
    struct taps **sets;
    uint32_t count;
    struct filter_measure measure;
    struct problem problem;
    if (filter_make(&spec, RATE_HZ, &sets, &count, &measure, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(sets[i]->delay_frames == 0);
        assert_int_equal(sets[i]->delay_source, DELAY_ASSUMED);
    }
    assert_true(measure.warning[0] != '\0');
    taps_sets_free(sets, count);
}

static void test_gain(void **state)
{
    (void)state;
    struct filter_spec spec;
    filter_defaults(&spec, FILTER_BANDPASS);
    spec.design.low_hz = 95e3;
    spec.design.high_hz = 150e3;
    struct taps **plain, **louder;
    uint32_t count;
    struct filter_measure measure;
    assert_int_equal(filter_make(&spec, RATE_HZ, &plain, &count, NULL, NULL), 0);
    spec.gain = -10;
    assert_int_equal(filter_make(&spec, RATE_HZ, &louder, &count, &measure, NULL), 0);
    assert_true(fabs(response_at(louder[0], 122.5e3, RATE_HZ) - 10) < 1e-11);
    assert_true(fabs(measure.response.reference_gain - 10) < 1e-11);
    assert_true(measure.response.attenuation_db >= 60); /* against the reference, not absolute */
    assert_true(louder[0]->re[3] == -10 * plain[0]->re[3]);
    assert_string_not_equal(plain[0]->hash, louder[0]->hash);
    taps_sets_free(plain, 1);
    taps_sets_free(louder, 1);
}

static void test_refusals(void **state)
{
    (void)state;
    struct filter_spec spec;
    struct problem problem;
    filter_defaults(&spec, FILTER_FILE);
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "path:"));
    spec.path = "x";
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), 0);
    spec.analytic = true;
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "analytic:"));
    filter_defaults(&spec, FILTER_IDENTITY);
    spec.gain = 0;
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "gain:"));
    filter_defaults(&spec, FILTER_IDENTITY);
    spec.delay_frames = -1;
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "delay:"));
    spec.delay_frames = 1;
    spec.delay_s = 1;
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    filter_defaults(&spec, FILTER_HIGHPASS);
    spec.design.cutoff_hz = 251e3;
    assert_int_equal(filter_check(&spec, RATE_HZ, &problem), ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "cutoff:"));
    assert_non_null(strstr(problem.text, "Nyquist"));
}

/* Responses known on paper. */
static void test_response(void **state)
{
    (void)state;
    struct taps *taps;
    struct response r;
    assert_int_equal(taps_create(2, false, &taps, NULL), 0); /* 2 cos(pi f / rate) */
    taps->re[0] = taps->re[1] = 1;
    assert_int_equal(response_measure(taps, 1000, NULL, &r, NULL), 0);
    assert_true(fabs(r.peak_gain - 2) < 1e-12 && r.peak_hz == 0);
    assert_true(fabs(r.edge_high_hz - 1000 / 3.0) < 1e-6); /* cos(pi/3) = 1/2 */
    assert_true(isnan(r.edge_low_hz) && isnan(r.attenuation_db) && isnan(r.image_db));
    assert_true(fabs(r.noise_gain - sqrt(2)) < 1e-15);
    assert_true(r.minimum_gain < 1e-9);
    taps_free(taps);

    assert_int_equal(taps_create(9, false, &taps, NULL), 0); /* running mean: first sidelobe */
    for (int n = 0; n < 9; n++)
        taps->re[n] = 1 / 9.0;
    struct response_bands bands = {.reference_hz = 0,
                                   .pass_until_hz = {20},
                                   .stop_from_hz = {120},
                                   .stop_until_hz = {500},
                                   .edge_hz = {NAN, 67}};
    assert_int_equal(response_measure(taps, 1000, &bands, &r, NULL), 0);
    double side = 0; /* |sin(9 pi f) / (9 sin(pi f))| on a grid 1000 times finer */
    for (int k = 120000; k < 500000; k++) {
        double f = 1e-6 * k;
        side = fmax(side, fabs(sin(9 * M_PI * f) / (9 * sin(M_PI * f))));
    }
    assert_true(fabs(r.attenuation_db + 20 * log10(side)) < 0.005);
    double at = 20 * log10(sin(9 * M_PI * 0.067) / (9 * sin(M_PI * 0.067)));
    assert_true(fabs(r.edge_db[1] - at) < 1e-9 && isnan(r.edge_db[0]));
    double droop = -20 * log10(sin(9 * M_PI * 0.02) / (9 * sin(M_PI * 0.02)));
    assert_true(fabs(r.ripple_db - droop) < 1e-6);
    taps_free(taps);

    /* the same at the grid's coarsest, 16 points per tap: tops lie between the points */
    for (uint32_t count = 500; count < 512; count++) {
        assert_int_equal(taps_create(count, false, &taps, NULL), 0);
        for (uint32_t n = 0; n < count; n++)
            taps->re[n] = 1.0 / count;
        bands.stop_from_hz[0] = 1.2 / count * 1000;
        assert_int_equal(response_measure(taps, 1000, &bands, &r, NULL), 0);
        side = 0;
        for (int k = 12000; k < 20000; k++) {
            double f = 1e-4 * k / count;
            side = fmax(side, fabs(sin(count * M_PI * f) / (count * sin(M_PI * f))));
        }
        if (fabs(r.attenuation_db + 20 * log10(side)) > 0.006)
            fail_msg("%u taps: attenuation %.4f dB instead of %.4f dB", count, r.attenuation_db,
                     -20 * log10(side));
        taps_free(taps);
    }

    assert_int_equal(taps_create(4, true, &taps, NULL), 0); /* exp(j 2 pi n/4): peak at rate/4 */
    const double re[] = {1, 0, -1, 0}, im[] = {0, 1, 0, -1};
    memcpy(taps->re, re, sizeof re);
    memcpy(taps->im, im, sizeof im);
    assert_int_equal(response_measure(taps, 1000, NULL, &r, NULL), 0);
    assert_true(fabs(r.peak_gain - 4) < 1e-12 && r.peak_hz == 250);
    assert_true(response_at(taps, -250, 1000) < 1e-12);
    taps_free(taps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_channels_share_one_delay),
        cmocka_unit_test(test_gain),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_response),
    };
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
