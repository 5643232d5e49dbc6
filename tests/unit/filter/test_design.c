/*
 * Filter designs against the definition: the response is summed here, sample by sample, and every
 * promise of design.h is looked at: edges at -6 dB, gain 1 at the centre, attenuation, ripple,
 * symmetry, and refusals that say what to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "filter/design.h"
#include "filter/kaiser.h"

#define TWO_PI 6.283185307179586476925286766559

/* The definition: H(f) = sum h[n] exp(-j 2 pi f n). */
static double complex transfer(const struct taps *taps, double f)
{
    double complex sum = 0;
    for (uint32_t n = 0; n < taps->count; n++) {
        double complex h = taps->re[n] + (taps->im == NULL ? 0 : I * taps->im[n]);
        sum += h * cexp(-I * TWO_PI * fmod(f * n, 1));
    }
    return sum;
}

static double gain_db(const struct taps *taps, double hz, double rate_hz)
{
    return 20 * log10(cabs(transfer(taps, hz / rate_hz)));
}

struct given {
    const char *name;
    double rate_hz;
    struct design_spec spec;
    double transition_hz;             /* to judge by */
    double attenuation_db, ripple_db; /* promised */
    uint32_t taps;                    /* expected, 0: whatever odd */
};

#define KAISER .method = DESIGN_KAISER
#define REMEZ  .method = DESIGN_REMEZ

/* clang-format off */
static const struct given designs[] = {
    {"low-pass", 500e3,
     {.band = BAND_LOWPASS, KAISER, .cutoff_hz = 50e3, .transition_hz = 10e3,
      .attenuation_db = 60}, 10e3, 60, 0.02, 0},
    {"low-pass, edge named high", 500e3,
     {.band = BAND_LOWPASS, KAISER, .high_hz = 50e3, .transition_hz = 10e3}, 10e3, 60, 0.02, 0},
    {"low-pass of even length", 48e3,
     {.band = BAND_LOWPASS, KAISER, .cutoff_hz = 6e3, .taps = 64, .transition_hz = 3e3,
      .attenuation_db = 50}, 3e3, 50, 0.05, 64},
    {"high-pass", 500e3,
     {.band = BAND_HIGHPASS, KAISER, .cutoff_hz = 50e3, .transition_hz = 10e3,
      .attenuation_db = 70}, 10e3, 70, 0.01, 0},
    {"high-pass near Nyquist", 500e3,
     {.band = BAND_HIGHPASS, KAISER, .low_hz = 230e3, .transition_hz = 10e3,
      .attenuation_db = 40}, 10e3, 40, 0.2, 0},
    {"band-pass", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 80}, 10e3, 80, 0.005, 0},
    {"band-pass of given length", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .taps = 101}, 18.2e3, 59.5,
     0.03, 101},
    {"band-pass of few taps: what fits", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .taps = 31}, 55e3, 50, 0.1,
     31},
    {"high-pass of given length, barely room", 500e3,
     {.band = BAND_HIGHPASS, KAISER, .cutoff_hz = 10e3, .taps = 101}, 18.2e3, 54, 0.03, 101},
    {"band-pass with ripple asked", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 30, .ripple_db = 0.001}, 10e3, 30, 0.001, 0},
    {"band-pass, no transition given", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3}, 55e3 / 4, 60, 0.03, 0},
    {"narrow band-pass, 120 dB", 1e6,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 100e3, .high_hz = 110e3, .transition_hz = 10e3,
      .attenuation_db = 120}, 10e3, 120, 1e-4, 0},
    {"loose band-pass", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 15}, 10e3, 15, 2, 0},
    {"band-stop", 500e3,
     {.band = BAND_BANDSTOP, KAISER, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 60}, 10e3, 60, 0.02, 0},
    {"analytic band-pass", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 80, .analytic = true}, 10e3, 80, 0.005, 0},
    {"analytic band-pass of even length", 500e3,
     {.band = BAND_BANDPASS, KAISER, .low_hz = 20e3, .high_hz = 120e3, .taps = 200,
      .analytic = true}, 10e3, 59, 0.03, 200},
    {"remez low-pass", 500e3,
     {.band = BAND_LOWPASS, REMEZ, .cutoff_hz = 50e3, .transition_hz = 10e3,
      .attenuation_db = 60}, 10e3, 60, 0.03, 0},
    {"remez high-pass", 500e3,
     {.band = BAND_HIGHPASS, REMEZ, .cutoff_hz = 100e3, .transition_hz = 10e3,
      .attenuation_db = 60, .ripple_db = 0.5}, 10e3, 60, 0.5, 0},
    {"remez band-pass", 500e3,
     {.band = BAND_BANDPASS, REMEZ, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 80}, 10e3, 80, 0.01, 0},
    {"remez band-pass, analytic", 500e3,
     {.band = BAND_BANDPASS, REMEZ, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 60, .analytic = true}, 10e3, 60, 0.03, 0},
    {"remez band-stop", 500e3,
     {.band = BAND_BANDSTOP, REMEZ, .low_hz = 95e3, .high_hz = 150e3, .transition_hz = 10e3,
      .attenuation_db = 60}, 10e3, 60, 0.03, 0},
};
/* clang-format on */

/* 1: the frequency passes, -1: it must not, 0: transition. Negative frequencies pass nothing. */
static int passes(const struct given *g, double hz)
{
    const struct design_spec *s = &g->spec;
    double half = g->transition_hz / 2 * (1 + 1e-9);
    double low = s->band == BAND_HIGHPASS ? fmax(s->cutoff_hz, s->low_hz) : s->low_hz;
    double high = s->band == BAND_LOWPASS ? fmax(s->cutoff_hz, s->high_hz) : s->high_hz;
    switch (s->band) {
    case BAND_LOWPASS:
        return hz <= high - half ? 1 : hz >= high + half ? -1 : 0;
    case BAND_HIGHPASS:
        return hz >= low + half ? 1 : hz <= low - half ? -1 : 0;
    case BAND_BANDPASS:
        return hz >= low + half && hz <= high - half   ? 1
               : hz <= low - half || hz >= high + half ? -1
                                                       : 0;
    default:
        return hz >= low + half && hz <= high - half   ? -1
               : hz <= low - half || hz >= high + half ? 1
                                                       : 0;
    }
}

static void check_edges_and_centre(const struct given *g, const struct taps *taps)
{
    const struct design_spec *s = &g->spec;
    double reference = s->analytic ? 2 : 1;
    double centre = s->band == BAND_HIGHPASS   ? g->rate_hz / 2
                    : s->band == BAND_BANDPASS ? (s->low_hz + s->high_hz) / 2
                                               : 0;
    double at_centre = cabs(transfer(taps, centre / g->rate_hz));
    if (fabs(at_centre - reference) > 1e-12)
        fail_msg("%s: gain at the centre is %.15g", g->name, at_centre);
    const double edges[] = {s->cutoff_hz, s->low_hz, s->high_hz};
    for (int i = 0; i < 3; i++) {
        if (edges[i] == 0)
            continue;
        double db = gain_db(taps, edges[i], g->rate_hz) - 20 * log10(reference);
        double within = s->method == DESIGN_KAISER ? 1e-3 : 0.1;
        if (fabs(db + 6.0206) > within)
            fail_msg("%s: %.3f dB at the edge %.0f Hz", g->name, db, edges[i]);
    }
}

static void check_bands(const struct given *g, const struct taps *taps)
{
    double reference_db = g->spec.analytic ? 20 * log10(2) : 0;
    int points = 3 * (int)taps->count;
    for (int k = g->spec.analytic ? -points : 0; k <= points; k++) {
        double hz = g->rate_hz / 2 * k / points;
        double db = gain_db(taps, hz, g->rate_hz) - reference_db;
        int pass = passes(g, hz);
        if (pass > 0 && fabs(db) > g->ripple_db)
            fail_msg("%s: %.4f dB in the pass-band at %.0f Hz", g->name, db, hz);
        if (pass < 0 && db > -g->attenuation_db)
            fail_msg("%s: %.4f dB in the stop-band at %.0f Hz", g->name, db, hz);
    }
}

static void test_designs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof designs / sizeof designs[0]; i++) {
        const struct given *g = &designs[i];
        struct taps *taps = NULL;
        struct response response;
        struct problem problem;
        if (design_check(&g->spec, g->rate_hz, &problem) != 0 ||
            design_make(&g->spec, g->rate_hz, &taps, &response, &problem) != 0 || taps == NULL) {
            fail_msg("%s: %s", g->name, problem.text);
            return;
        }
        if (g->taps != 0 ? taps->count != g->taps : taps->count % 2 != 1)
            fail_msg("%s: %u taps", g->name, taps->count);
        assert_int_equal(taps->im != NULL, g->spec.analytic);
        assert_int_equal(taps->delay_source, DELAY_DESIGN);
        assert_true(taps->delay_frames == (taps->count - 1) / 2.0);
        assert_true(taps_symmetry_delay(taps) == taps->delay_frames);
        assert_int_equal(strlen(taps->hash), 64);
        check_edges_and_centre(g, taps);
        check_bands(g, taps);
        if (response.attenuation_db < g->attenuation_db - 0.5 || response.ripple_db > g->ripple_db)
            fail_msg("%s: reports %g dB attenuation, %g dB ripple", g->name,
                     response.attenuation_db, response.ripple_db);
        taps_free(taps);
    }
}

/* A sine of amplitude a has envelope a, and the real part is the band-pass of the same length. */
static void test_analytic(void **state)
{
    (void)state;
    struct design_spec spec = {.band = BAND_BANDPASS,
                               KAISER,
                               .low_hz = 95e3,
                               .high_hz = 150e3,
                               .taps = 255,
                               .attenuation_db = 80};
    struct taps *real, *analytic;
    struct response response;
    assert_int_equal(design_make(&spec, 500e3, &real, NULL, NULL), 0);
    spec.analytic = true;
    assert_int_equal(design_make(&spec, 500e3, &analytic, &response, NULL), 0);
    for (int k_hz = 101; k_hz < 145; k_hz += 7) {
        double hz = 1e3 * k_hz;
        for (uint32_t at = 300; at < 310; at++) {
            double complex y = 0;
            for (uint32_t k = 0; k < analytic->count; k++)
                y += (analytic->re[k] + I * analytic->im[k]) * 0.7 *
                     sin(TWO_PI * hz / 500e3 * (at - k) + 0.3);
            if (fabs(cabs(y) - 0.7) > 0.7 * 3e-4)
                fail_msg("envelope %.6f at %.0f Hz", cabs(y), hz);
        }
    }
    for (uint32_t n = 0; n < real->count; n++)
        assert_true(fabs(real->re[n] - analytic->re[n]) < 3e-4);
    double image = 0;
    for (int k = 0; k <= 1600; k++)
        image = fmax(image, cabs(transfer(analytic, -(100e3 + 45e3 * k / 1600) / 500e3)));
    if (fabs(response.image_db + 20 * log10(image / 2)) > 1 || response.image_db < 80)
        fail_msg("image rejection: reported %.2f dB, measured %.2f dB", response.image_db,
                 -20 * log10(image / 2));
    taps_free(real);
    taps_free(analytic);
}

static void test_window(void **state)
{
    (void)state;
    /* numpy.kaiser(7, 5.65326), numpy.kaiser(8, 8.6) */
    static const double seven[] = {
        0.020388000239333876, 0.2773527130048801, 0.7466517788883148,  1.0,
        0.7466517788883148,   0.2773527130048801, 0.020388000239333876};
    static const double eight[] = {0.0013325139979024198, 0.09113651292826536,  0.45964377459338085,
                                   0.9204615832581574,    0.9204615832581574,   0.45964377459338085,
                                   0.09113651292826536,   0.0013325139979024198};
    double w[8];
    kaiser_window(w, 7, 5.65326);
    for (int n = 0; n < 7; n++)
        assert_true(fabs(w[n] - seven[n]) < 1e-14);
    kaiser_window(w, 8, 8.6);
    for (int n = 0; n < 8; n++)
        assert_true(fabs(w[n] - eight[n]) < 1e-14);
    kaiser_window(w, 1, 3);
    assert_true(w[0] == 1);
    /* Kaiser 1974: 60 dB needs beta 5.65326, 20 dB a rectangle */
    assert_true(fabs(kaiser_beta(60) - 5.65326) < 1e-9);
    assert_true(kaiser_beta(20) == 0);
}

static void test_refusals(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        struct design_spec spec;
        int error;
        const char *words[3];
    } table[] = {
        {{.band = BAND_LOWPASS}, ERROR_CONFIG, {"cutoff:", "above 0 Hz"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 300e3}, ERROR_CONFIG, {"cutoff:", "250000 Hz"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = NAN}, ERROR_CONFIG, {"cutoff:"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 1e3, .low_hz = 5}, ERROR_CONFIG, {"low:", "one edge"}},
        {{.band = BAND_BANDPASS, .low_hz = 150e3, .high_hz = 95e3}, ERROR_CONFIG,
         {"low:", "exchange"}},
        {{.band = BAND_BANDPASS, .low_hz = 95e3}, ERROR_CONFIG, {"high:"}},
        {{.band = BAND_BANDPASS, .low_hz = 95e3, .high_hz = 251e3}, ERROR_CONFIG,
         {"high:", "Nyquist"}},
        {{.band = BAND_BANDSTOP, .cutoff_hz = 95e3}, ERROR_CONFIG, {"cutoff:", "two edges"}},
        {{.band = BAND_BANDPASS, .low_hz = 5e3, .high_hz = 95e3, .transition_hz = 12e3},
         ERROR_CONFIG, {"transition:", "at most 10000 Hz"}},
        {{.band = BAND_HIGHPASS, .cutoff_hz = 50e3, .taps = 100}, ERROR_CONFIG,
         {"taps:", "even length", "99 or 101"}},
        {{.band = BAND_BANDSTOP, .low_hz = 50e3, .high_hz = 60e3, .taps = 1000}, ERROR_CONFIG,
         {"taps:", "even length"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .taps = 2}, ERROR_CONFIG, {"taps:", "at least"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .taps = TAPS_MAX + 1}, ERROR_CONFIG, {"taps:"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .transition_hz = 0.1}, ERROR_CONFIG,
         {"transition:", "needs", "1048576"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .attenuation_db = 5}, ERROR_CONFIG,
         {"attenuation:", "10 dB"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .attenuation_db = 200}, ERROR_CONFIG,
         {"attenuation:"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .ripple_db = -1}, ERROR_CONFIG, {"ripple:"}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .analytic = true}, ERROR_CONFIG,
         {"analytic:", "bandpass"}},
        {{.band = BAND_LOWPASS, REMEZ, .cutoff_hz = 50e3, .taps = 2001}, ERROR_CONFIG,
         {"taps:", "method = kaiser"}},
        {{.band = BAND_LOWPASS, REMEZ, .cutoff_hz = 50e3, .transition_hz = 500}, ERROR_CONFIG,
         {"transition:", "method = kaiser"}},
        /* asked against achieved */
        {{.band = BAND_BANDPASS, .low_hz = 95e3, .high_hz = 150e3, .taps = 31,
          .attenuation_db = 60}, ERROR_CONFIG, {"taps:", "31 taps", "write taps ="}},
        {{.band = BAND_BANDPASS, .low_hz = 95e3, .high_hz = 96e3, .taps = 31}, ERROR_CONFIG,
         {"taps:", "31 taps", "write taps ="}},
        {{.band = BAND_BANDPASS, .low_hz = 95e3, .high_hz = 150e3, .taps = 101,
          .transition_hz = 5e3, .attenuation_db = 60}, ERROR_ACCURACY,
         {"asked 60 dB", "achieved", "taps ="}},
        {{.band = BAND_LOWPASS, .cutoff_hz = 50e3, .taps = 101, .transition_hz = 10e3,
          .ripple_db = 0.001, .attenuation_db = 10}, ERROR_ACCURACY, {"asked", "achieved"}},
        {{.band = BAND_LOWPASS, REMEZ, .cutoff_hz = 50e3, .transition_hz = 10e3,
          .attenuation_db = 121}, ERROR_CONFIG, {"attenuation:", "120 dB", "kaiser"}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct taps untouched = {0}, *taps = &untouched;
        struct problem problem = {0};
        int error = design_make(&table[i].spec, 500e3, &taps, NULL, &problem);
        if (error != table[i].error)
            fail_msg("row %zu: error %d instead of %d (%s)", i, error, table[i].error,
                     problem.text);
        assert_null(taps);
        for (int w = 0; w < 3 && table[i].words[w] != NULL; w++)
            if (strstr(problem.text, table[i].words[w]) == NULL)
                fail_msg("row %zu: '%s' lacks '%s'", i, problem.text, table[i].words[w]);
    }
}

/* What a refusal advises must work. */
static void test_advice(void **state)
{
    (void)state;
    struct design_spec spec = {.band = BAND_BANDPASS,
                               KAISER,
                               .low_hz = 95e3,
                               .high_hz = 150e3,
                               .taps = 101,
                               .transition_hz = 5e3,
                               .attenuation_db = 60};
    struct taps *taps;
    struct problem problem;
    assert_int_equal(design_make(&spec, 500e3, &taps, NULL, &problem), ERROR_ACCURACY);
    const char *advice = strstr(problem.text, "write taps = ");
    assert_non_null(advice);
    assert_int_equal(sscanf(advice, "write taps = %u", &spec.taps), 1);
    if (design_make(&spec, 500e3, &taps, NULL, &problem) != 0)
        fail_msg("with %u taps as advised: %s", spec.taps, problem.text);
    taps_free(taps);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(design_method_name(DESIGN_REMEZ), "remez");
    assert_null(design_method_name(DESIGN_METHODS));
    assert_null(design_method_name(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),   cmocka_unit_test(test_designs),
        cmocka_unit_test(test_analytic), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_advice),   cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("design", tests, NULL, NULL);
}
