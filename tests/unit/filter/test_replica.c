/*
 * Matched filters against the definition: an echo a·s through y[n] = sum h[k] x[n-k] peaks at a,
 * S-1 frames after its onset; Barker codes have the autocorrelation that makes them Barker codes,
 * Golay pairs cancel, and energy means noise gain 1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "filter/replica.h"
#include "signal/waveform.h"

#define RATE_HZ 1e6

static struct taps *make(const struct replica_spec *spec, bool matched)
{
    struct taps **sets;
    uint32_t count;
    struct problem problem;
    int error = matched ? replica_matched(spec, RATE_HZ, &sets, &count, &problem)
                        : replica_make(spec, RATE_HZ, &sets, &count, &problem);
    if (error != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(count, 1);
    struct taps *taps = sets[0];
    free(sets);
    return taps;
}

/* The definition, complex taps over a real input. */
static double complex convolve_at(const struct taps *h, const double *x, int64_t frames, int64_t n)
{
    double complex sum = 0;
    for (int64_t k = 0; k < h->count; k++)
        if (n - k >= 0 && n - k < frames)
            sum += (h->re[k] + (h->im == NULL ? 0 : I * h->im[k])) * x[n - k];
    return sum;
}

#define CHIRP .kind = REPLICA_CHIRP, .start_hz = 100e3, .stop_hz = 300e3, .length_s = 200e-6
#define BURST .kind = REPLICA_TONE_BURST, .carrier_hz = 100e3, .cycles = 5
#define BARKER13                                                                                   \
    .kind = REPLICA_BARKER, .barker_length = 13, .carrier_hz = 200e3, .cycles_per_chip = 4
#define GOLAY .kind = REPLICA_GOLAY, .golay_order = 4, .carrier_hz = 250e3, .chip_rate_hz = 62.5e3

/* clang-format off */
static const struct {
    const char *name;
    struct replica_spec spec;
    uint32_t frames;
} pulses[] = {
    {"chirp", {CHIRP}, 200},
    {"chirp down, Hann", {.kind = REPLICA_CHIRP, .start_hz = 300e3, .stop_hz = 100e3,
                          .length_s = 99.5e-6, .window = PULSE_WINDOW_HANN}, 100},
    {"chirp, Tukey", {CHIRP, .window = PULSE_WINDOW_TUKEY, .tukey_alpha = 0.4}, 200},
    {"tone burst, Hann", {BURST, .window = PULSE_WINDOW_HANN}, 50},
    {"tone burst of 17.5 frames", {.kind = REPLICA_TONE_BURST, .carrier_hz = 200e3, .cycles = 3.5,
                                   .window = PULSE_WINDOW_TUKEY, .tukey_alpha = 0.5}, 18},
    {"tone burst, analytic", {BURST, .window = PULSE_WINDOW_HANN, .analytic = true}, 50},
    {"Barker 13", {BARKER13}, 260},
    {"Barker 7, bare chips", {.kind = REPLICA_BARKER, .barker_length = 7, .chip_rate_hz = 200e3},
     35},
    {"Golay a", {GOLAY}, 256},
    {"Golay b", {GOLAY, .golay_b = true}, 256},
    {"chirp, analytic", {CHIRP, .analytic = true}, 200},
    {"chirp, Hann, analytic", {CHIRP, .window = PULSE_WINDOW_HANN, .analytic = true}, 200},
    {"Barker 13, analytic", {BARKER13, .analytic = true}, 260},
    {"Golay b, analytic", {GOLAY, .golay_b = true, .analytic = true}, 256},
};
/* clang-format on */

static void test_echo_peaks_at_its_amplitude(void **state)
{
    (void)state;
    enum { ONSET = 300, FRAMES = 1200 };
    for (size_t i = 0; i < sizeof pulses / sizeof pulses[0]; i++) {
        struct taps *s = make(&pulses[i].spec, false), *h = make(&pulses[i].spec, true);
        if (h->count != pulses[i].frames || s->count != h->count)
            fail_msg("%s: %u frames instead of %u", pulses[i].name, h->count, pulses[i].frames);
        assert_int_equal(h->im != NULL, pulses[i].spec.analytic);
        assert_true(h->delay_frames == h->count - 1.0);
        assert_int_equal(h->delay_source, DELAY_DESIGN);
        double x[FRAMES] = {0}, amplitude = 0.037;
        for (uint32_t n = 0; n < s->count; n++)
            x[ONSET + n] = amplitude * s->re[n];
        double peak = 0;
        int64_t where = -1;
        for (int64_t n = 0; n < FRAMES; n++) {
            double here = cabs(convolve_at(h, x, FRAMES, n));
            if (here > peak * (1 + 1e-12)) {
                peak = here;
                where = n;
            }
        }
        if (fabs(peak - amplitude) > 1e-12 || where - (int64_t)h->delay_frames != ONSET)
            fail_msg("%s: peak %.15g at frame %lld", pulses[i].name, peak, (long long)where);
        taps_free(s);
        taps_free(h);
    }
}

static void test_reversed_and_conjugated(void **state)
{
    (void)state;
    struct replica_spec spec = {CHIRP, .normalise = NORMALISE_NONE, .analytic = true};
    struct taps *s = make(&spec, false), *h = make(&spec, true);
    for (uint32_t n = 0; n < h->count; n++) {
        assert_true(h->re[n] == s->re[h->count - 1 - n]);
        assert_true(h->im[n] == -s->im[h->count - 1 - n]);
    }
    taps_free(s);
    taps_free(h);
}

static void test_energy(void **state)
{
    (void)state;
    for (int analytic = 0; analytic < 2; analytic++) {
        struct replica_spec spec = {CHIRP, .normalise = NORMALISE_ENERGY, .analytic = analytic};
        struct taps *h = make(&spec, true);
        double power = 0;
        for (uint32_t n = 0; n < h->count; n++)
            power += h->re[n] * h->re[n] + (analytic ? h->im[n] * h->im[n] : 0);
        assert_true(fabs(power - 1) < 1e-12);
        taps_free(h);
    }
}

/* The chirp is the generator's chirp. */
static void test_same_pulse_as_the_generator(void **state)
{
    (void)state;
    struct replica_spec spec = {CHIRP};
    struct taps *s = make(&spec, false);
    struct waveform_spec wave;
    waveform_defaults(&wave, WAVEFORM_CHIRP);
    wave.rate_hz = RATE_HZ;
    wave.channels = 1;
    wave.amplitude = 1;
    wave.frequency_hz = 100e3;
    wave.frequency_end_hz = 300e3;
    wave.length_s = 200e-6;
    wave.period_s = 1e-3;
    struct waveform *waveform;
    double x[250];
    assert_int_equal(waveform_create(&wave, &waveform, NULL), 0);
    waveform_fill(waveform, 0, 250, x);
    for (uint32_t n = 0; n < 250; n++) {
        double expect = n < 200 ? s->re[n] : 0;
        double t = n / RATE_HZ; /* and both are the definition */
        double phase = 6.283185307179586 * (100e3 * t + 200e3 / 200e-6 * t * t / 2);
        assert_true(fabs(x[n] - expect) < 1e-12);
        assert_true(n >= 200 || fabs(s->re[n] - sin(phase)) < 1e-9);
    }
    waveform_free(waveform);
    taps_free(s);
}

/* All off-peak values of a Barker code's aperiodic autocorrelation are -1, 0 or 1. */
static void test_barker(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {2, 3, 4, 5, 7, 11, 13};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct replica_spec spec = {
            .kind = REPLICA_BARKER, .barker_length = lengths[i], .chip_rate_hz = RATE_HZ};
        struct taps *s = make(&spec, false);
        assert_int_equal(s->count, lengths[i]);
        for (uint32_t lag = 0; lag < s->count; lag++) {
            double sum = 0;
            for (uint32_t n = lag; n < s->count; n++)
                sum += s->re[n] * s->re[n - lag];
            if (lag == 0 ? sum != lengths[i] : fabs(sum) > 1)
                fail_msg("Barker %u: %g at lag %u", lengths[i], sum, lag);
        }
        taps_free(s);
    }
}

/* Autocorrelations of a and b add to a single peak, whatever the carrier. */
static void test_golay(void **state)
{
    (void)state;
    for (uint32_t order = 1; order <= 9; order++) {
        for (int carrier = 0; carrier < 2; carrier++) {
            struct replica_spec spec = {.kind = REPLICA_GOLAY,
                                        .golay_order = order,
                                        .chip_rate_hz = 125e3,
                                        .carrier_hz = carrier ? 125e3 : 0};
            struct taps *a = make(&spec, false);
            spec.golay_b = true;
            struct taps *b = make(&spec, false);
            assert_int_equal(a->count, 8u << order);
            double peak = 0;
            for (uint32_t lag = 0; lag < a->count; lag++) {
                double sum = 0;
                for (uint32_t n = lag; n < a->count; n++)
                    sum += a->re[n] * a->re[n - lag] + b->re[n] * b->re[n - lag];
                if (lag == 0)
                    peak = sum;
                else if (lag >= 8 && fabs(sum) > 1e-12 * peak) /* 8 frames are one chip */
                    fail_msg("order %u: %g of %g at lag %u", order, sum, peak, lag);
            }
            taps_free(a);
            taps_free(b);
        }
    }
}

static void test_windows(void **state)
{
    (void)state;
    /* a bare one-chip-per-frame code of ones would do, but Barker 5 has a -1: look at magnitudes */
    static const double hann5[] = {0, 0.5, 1, 0.5, 0};
    static const double tukey5[] = {0, 1, 1, 1, 0}; /* alpha 0.5: flat from 0.25 to 0.75 */
    const double *expects[] = {hann5, tukey5};
    for (int w = 0; w < 2; w++) {
        struct replica_spec spec = {.kind = REPLICA_BARKER,
                                    .barker_length = 5,
                                    .chip_rate_hz = RATE_HZ,
                                    .window = w == 0 ? PULSE_WINDOW_HANN : PULSE_WINDOW_TUKEY,
                                    .tukey_alpha = 0.5};
        struct taps *s = make(&spec, false);
        for (int n = 0; n < 5; n++)
            assert_true(fabs(fabs(s->re[n]) - expects[w][n]) < 1e-12);
        taps_free(s);
    }
}

/* s(t) = (1 - cos(2 pi f t / n)) / 2 sin(2 pi f t), 0 ≤ t < n / f. */
static void test_tone_burst(void **state)
{
    (void)state;
    struct replica_spec spec = {BURST, .window = PULSE_WINDOW_HANN};
    struct taps *s = make(&spec, false);
    assert_int_equal(s->count, 50);
    for (uint32_t n = 0; n < s->count; n++) {
        double turns = 100e3 * n / RATE_HZ;
        double want = (1 - cos(2 * M_PI * turns / 5)) / 2 * sin(2 * M_PI * turns);
        assert_true(fabs(s->re[n] - want) < 1e-14);
    }
    taps_free(s);
}

/* Sent by the generator and matched by the filter: the same numbers. */
static void test_replica_is_what_the_generator_sends(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int window = 0; window < PULSE_WINDOWS; window++) {
            struct replica_spec spec = {BURST, .window = (enum pulse_window)window,
                                        .tukey_alpha = 0.3};
            struct waveform_spec sent;
            waveform_defaults(&sent, kind == 0 ? WAVEFORM_TONE_BURST : WAVEFORM_CHIRP);
            if (kind == 1)
                spec = (struct replica_spec){CHIRP, .window = (enum pulse_window)window,
                                             .tukey_alpha = 0.3};
            sent.rate_hz = RATE_HZ;
            sent.channels = 1;
            sent.amplitude = 1;
            sent.frequency_hz = 100e3;
            sent.frequency_end_hz = 300e3;
            sent.length_s = 200e-6;
            sent.period_s = 1e-3;
            sent.window = (enum pulse_window)window;
            sent.taper = 0.3;
            struct waveform *waveform;
            assert_int_equal(waveform_create(&sent, &waveform, NULL), 0);
            struct taps *s = make(&spec, false);
            double values[200];
            waveform_fill(waveform, 7000, s->count, values);
            for (uint32_t n = 0; n < s->count; n++)
                assert_true(s->re[n] == values[n]);
            taps_free(s);
            waveform_free(waveform);
        }
}

static void test_measure(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *name;
        struct replica_spec spec;
        double mainlobe_frames, mainlobe_within, sidelobe_db, sidelobe_within;
        double pair_db_min;
    } table[] = {
        /* triangle of ±5 frames, half height at ±2.5; 13:1 is 22.28 dB */
        {"Barker 13, bare", {.kind = REPLICA_BARKER, .barker_length = 13, .chip_rate_hz = 200e3},
         5, 1, 22.28, 0.01, 0},
        {"Barker 13", {BARKER13}, 20, 2, 22.28, 1.5, 0},
        {"Barker 13, analytic", {BARKER13, .analytic = true}, 20, 2, 22.28, 1.5, 0},
        /* sinc: half height at 1.207 / bandwidth full width, first sidelobe 13.26 dB */
        {"chirp", {.kind = REPLICA_CHIRP, .start_hz = 100e3, .stop_hz = 300e3, .length_s = 5e-3},
         1.207 / 200e3 * RATE_HZ, 0.5, 13.3, 0.8, 0},
        {"Golay", {GOLAY}, 16, 2, 9, 4, 200},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct taps *h = make(&table[i].spec, true);
        struct matched_measure m;
        struct problem problem;
        assert_int_equal(replica_measure(&table[i].spec, RATE_HZ, h, &m, &problem), 0);
        if (fabs(m.mainlobe_frames - table[i].mainlobe_frames) > table[i].mainlobe_within ||
            fabs(m.sidelobe_db - table[i].sidelobe_db) > table[i].sidelobe_within ||
            (table[i].pair_db_min > 0 ? !(m.pair_sidelobe_db > table[i].pair_db_min)
                                      : !isnan(m.pair_sidelobe_db)))
            fail_msg("%s: mainlobe %.2f frames, sidelobe %.2f dB, pair %.2f dB", table[i].name,
                     m.mainlobe_frames, m.sidelobe_db, m.pair_sidelobe_db);
        taps_free(h);
    }
}

static void test_file(void **state)
{
    (void)state;
    const char *path = scratch_write("replica.txt", "1\n2\n-4\n");
    struct replica_spec spec = {.kind = REPLICA_FILE, .path = path};
    struct taps *h = make(&spec, true);
    assert_int_equal(h->count, 3);
    assert_true(fabs(h->re[0] + 4.0 / 21) < 1e-15 && fabs(h->re[2] - 1.0 / 21) < 1e-15);
    taps_free(h);
    scratch_write("replica.txt", "0\n0\n");
    struct taps **sets;
    uint32_t count;
    struct problem problem;
    assert_int_equal(replica_matched(&spec, RATE_HZ, &sets, &count, &problem), ERROR_FORMAT);
    assert_non_null(strstr(problem.text, "no energy"));
    unlink(path);
    assert_int_equal(replica_matched(&spec, RATE_HZ, &sets, &count, &problem), ERROR_NO_FILE);
    assert_null(sets);
}

/* A chirp may fall to 0 Hz, as the generator's. Its phase there is that of the definition. */
static void test_chirp_down_to_zero(void **state)
{
    (void)state;
    struct replica_spec spec = {CHIRP};
    struct problem problem = {0};
    spec.stop_hz = 0;
    assert_int_equal(replica_check(&spec, RATE_HZ, &problem), 0);
    struct taps *s = make(&spec, false);
    assert_int_equal(s->count, 200);
    for (uint32_t n = 0; n < 200; n++) {
        const double t = n / RATE_HZ;
        const double phase = 6.283185307179586 * (100e3 * t - 100e3 / 200e-6 * t * t / 2);
        assert_true(fabs(s->re[n] - sin(phase)) < 1e-9);
    }
    taps_free(s);
}

static void test_refusals(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        struct replica_spec spec;
        const char *words[2];
    } table[] = {
        {{.kind = REPLICA_CHIRP, .stop_hz = 1e5, .length_s = 1e-3}, {"start:"}},
        {{.kind = REPLICA_CHIRP, .start_hz = 1e5, .stop_hz = 6e5, .length_s = 1e-3},
         {"stop:", "500000"}},
        {{.kind = REPLICA_CHIRP, .start_hz = 1e5, .stop_hz = -1, .length_s = 1e-3}, {"stop:"}},
        {{.kind = REPLICA_CHIRP, .start_hz = 1e5, .stop_hz = 2e5}, {"length:"}},
        {{.kind = REPLICA_CHIRP, .start_hz = 1e5, .stop_hz = 2e5, .length_s = 1e-7}, {"length:"}},
        {{.kind = REPLICA_CHIRP, .start_hz = 1e5, .stop_hz = 2e5, .length_s = 100},
         {"length:", "1048576"}},
        {{.kind = REPLICA_TONE_BURST, .cycles = 5}, {"carrier:"}},
        {{.kind = REPLICA_TONE_BURST, .carrier_hz = 1e5}, {"cycles:", "as in 5"}},
        {{.kind = REPLICA_TONE_BURST, .carrier_hz = 1e5, .cycles = 0.1}, {"cycles:", "two frames"}},
        {{.kind = REPLICA_TONE_BURST, .carrier_hz = 1, .cycles = 5}, {"cycles:", "1048576"}},
        {{.kind = REPLICA_BARKER, .barker_length = 6, .chip_rate_hz = 1e5}, {"code:", "13"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13}, {"chip rate:"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13, .carrier_hz = 1e5}, {"chip rate:"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13, .carrier_hz = 1e5, .chip_rate_hz = 1e4,
          .cycles_per_chip = 5}, {"carrier:", "leave one"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13, .carrier_hz = 5e5, .cycles_per_chip = 5},
         {"carrier:", "half the rate"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13, .chip_rate_hz = 2e6}, {"chip rate:"}},
        {{.kind = REPLICA_BARKER, .barker_length = 13, .chip_rate_hz = 1e5, .analytic = true},
         {"analytic:", "carrier"}},
        {{.kind = REPLICA_GOLAY, .chip_rate_hz = 1e5}, {"order:", "16"}},
        {{.kind = REPLICA_GOLAY, .golay_order = 16, .chip_rate_hz = 1e4}, {"chip rate:", "frames"}},
        {{.kind = REPLICA_FILE}, {"path:"}},
        {{CHIRP, .window = PULSE_WINDOW_TUKEY, .tukey_alpha = 1.5}, {"window:"}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem = {0};
        if (replica_check(&table[i].spec, RATE_HZ, &problem) != ERROR_CONFIG)
            fail_msg("row %zu: not refused", i);
        for (int w = 0; w < 2 && table[i].words[w] != NULL; w++)
            if (strstr(problem.text, table[i].words[w]) == NULL)
                fail_msg("row %zu: '%s' lacks '%s'", i, problem.text, table[i].words[w]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo_peaks_at_its_amplitude),
        cmocka_unit_test(test_reversed_and_conjugated),
        cmocka_unit_test(test_energy),
        cmocka_unit_test(test_same_pulse_as_the_generator),
        cmocka_unit_test(test_barker),
        cmocka_unit_test(test_golay),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_tone_burst),
        cmocka_unit_test(test_replica_is_what_the_generator_sends),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_chirp_down_to_zero),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("replica", tests, NULL, NULL);
}
