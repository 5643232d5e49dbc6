/*
 * Velocity filters of line arrays. The oracle is the plane wave itself: a sine that reaches channel
 * n (n - 0)·spacing/velocity later than channel 0 is sent through the taps by the sum that defines
 * the filter, sample by sample, and what comes out is compared with what the fan promises.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "filter/fk.h"

#define PI      3.14159265358979323846264338328
#define RATE_HZ 1e6

/* 24 sensors 5 mm apart: resolution 8.33 /m, spatial Nyquist 100 /m. */
static const struct fk_spec fan = {
    .channels = 24,
    .spacing_m = 5e-3,
    .velocity_low = 1600,
    .velocity_high = 5000,
    .low_hz = 40e3,
    .high_hz = 150e3,
    .taper = 0.5,
    .taps = 255,
};

static struct fk_spec with(void (*change)(struct fk_spec *spec))
{
    struct fk_spec spec = fan;
    if (change != NULL)
        change(&spec);
    return spec;
}

static struct taps **make(const struct fk_spec *spec)
{
    struct taps **sets;
    uint32_t count;
    struct problem problem = {0};
    if (fk_make(spec, RATE_HZ, &sets, &count, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(count, 2 * spec->channels - 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(sets[i]->count, spec->taps);
        assert_true(sets[i]->im == NULL);
        assert_true(sets[i]->delay_frames == (spec->taps - 1) / 2.0);
        assert_int_equal(sets[i]->delay_source, DELAY_DESIGN);
    }
    return sets;
}

static void drop(const struct fk_spec *spec, struct taps **sets)
{
    taps_sets_free(sets, 2 * spec->channels - 1);
}

/* y_m[t] = sum over n and k of h_(m-n)[k] x_n[t-k] for x_n(t) = sin(2 pi f (t -
 * n·spacing·slowness)), t in samples at `at`. */
static double filtered(const struct fk_spec *spec, struct taps *const *sets, uint32_t channel,
                       double frequency_hz, double slowness, double at)
{
    double sum = 0;
    for (uint32_t n = 0; n < spec->channels; n++) {
        const double *h = sets[channel - n + spec->channels - 1]->re;
        double late = n * spec->spacing_m * slowness * RATE_HZ;
        for (uint32_t k = 0; k < spec->taps; k++)
            sum += h[k] * sin(2 * PI * frequency_hz / RATE_HZ * (at - k - late));
    }
    return sum;
}

/* Complex gain of a plane wave at a channel against the wave there, the filter's delay taken out.
 */
static double gain_of(const struct fk_spec *spec, struct taps *const *sets, uint32_t channel,
                      double frequency_hz, double slowness, double *phase)
{
    double quarter = RATE_HZ / frequency_hz / 4, middle = (spec->taps - 1) / 2.0;
    /* At `at` the wave at this channel passes through zero upwards. */
    double at = channel * spec->spacing_m * slowness * RATE_HZ + middle + 1000 * 4 * quarter;
    double s = filtered(spec, sets, channel, frequency_hz, slowness, at);
    double c = filtered(spec, sets, channel, frequency_hz, slowness, at + quarter);
    if (phase != NULL)
        *phase = atan2(s, c);
    return hypot(s, c);
}

static double db(double gain)
{
    return 20 * log10(fmax(gain, 1e-15));
}

/* ---- waves ------------------------------------------------------------------------------- */

static void rejecting(struct fk_spec *spec)
{
    spec->reject = true;
}

static void backward(struct fk_spec *spec)
{
    spec->velocity_low = -1600;
    spec->velocity_high = -5000;
}

static void all_fast(struct fk_spec *spec)
{
    spec->velocity_low = 2000;
    spec->velocity_high = 0;
}

static void whole_band(struct fk_spec *spec)
{
    spec->low_hz = spec->high_hz = 0;
    spec->velocity_low = 6000;
    spec->velocity_high = -6000;
}

/* Waves of the middle channel and what the fan promises: -0.3 to 0.3 dB, or at most `most` dB. */
static void waves_pass_by_velocity_and_direction(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*change)(struct fk_spec *spec);
        double frequency_hz, slowness; /* [s/m] */
        double least_db, most_db;
    } waves[] = {
        {"in the fan", NULL, 100e3, 1 / 2500.0, -0.3, 0.3},
        {"in the fan, slow", NULL, 100e3, 1 / 2050.0, -0.5, 0.3},
        {"in the fan, low", NULL, 60e3, 1 / 2500.0, -0.3, 0.3},
        {"slow edge", NULL, 100e3, 1 / 1600.0, -6.4, -5.7},
        {"fast edge", NULL, 100e3, 1 / 5000.0, -6.4, -5.7},
        {"the other way", NULL, 100e3, -1 / 2500.0, -300, -40},
        {"all at once", NULL, 100e3, 0, -300, -30},
        {"too slow", NULL, 70e3, 1 / 1100.0, -300, -30},
        {"above the band", NULL, 180e3, 1 / 2500.0, -300, -55},
        {"below the band", NULL, 25e3, 1 / 2500.0, -300, -55},
        {"band edge", NULL, 150e3, 1 / 2500.0, -6.4, -5.7},
        {"backward", backward, 100e3, -1 / 2500.0, -0.3, 0.3},
        {"backward, the other way", backward, 100e3, 1 / 2500.0, -300, -40},
        {"rejected", rejecting, 100e3, 1 / 2500.0, -300, -38},
        {"rejected, the other way", rejecting, 100e3, -1 / 2500.0, -0.1, 0.1},
        {"rejected, above the band", rejecting, 300e3, 1 / 5000.0, -0.1, 0.1},
        {"all fast", all_fast, 100e3, 0, -0.1, 0.1},
        {"all fast, forward", all_fast, 100e3, 1 / 5000.0, -0.1, 0.1},
        {"all fast, backward", all_fast, 100e3, -1 / 5000.0, -0.1, 0.1},
        {"all fast, slow one", all_fast, 100e3, 1 / 1200.0, -300, -35},
        {"whole band", whole_band, 400e3, 1 / 20000.0, -0.1, 0.1},
        {"whole band, slow one", whole_band, 400e3, 1 / 4200.0, -300, -30},
    };
    for (size_t i = 0; i < sizeof waves / sizeof waves[0]; i++) {
        struct fk_spec spec = with(waves[i].change);
        struct taps **sets = make(&spec);
        double phase;
        double level = db(gain_of(&spec, sets, spec.channels / 2, waves[i].frequency_hz,
                                  waves[i].slowness, &phase));
        if (!(level >= waves[i].least_db && level <= waves[i].most_db))
            fail_msg("%s: %.2f dB at the middle channel, expected %g to %g dB", waves[i].name,
                     level, waves[i].least_db, waves[i].most_db);
        /* What passes is neither late nor early. */
        if (waves[i].least_db > -1 && fabs(phase) > 0.05)
            fail_msg("%s: comes out %g rad late", waves[i].name, -phase);
        drop(&spec, sets);
    }
}

/* ---- the taps ---------------------------------------------------------------------------- */

static void what_is_rejected_is_what_would_pass(void **state)
{
    (void)state;
    struct fk_spec pass = fan, reject = with(rejecting);
    struct taps **kept = make(&pass), **left = make(&reject);
    for (uint32_t set = 0; set < 2 * fan.channels - 1; set++)
        for (uint32_t n = 0; n < fan.taps; n++) {
            /* The two add up to the unchanged signal: 1 at distance 0 and the delay. */
            double whole = set == fan.channels - 1 && n == (fan.taps - 1) / 2 ? 1 : 0;
            double sum = kept[set]->re[n] + left[set]->re[n];
            if (fabs(sum - whole) > 1e-12)
                fail_msg("set %u tap %u: the parts add up to %g, expected %g", set, n, sum, whole);
        }
    drop(&pass, kept);
    drop(&reject, left);
}

static void seen_from_the_other_end_time_runs_backwards(void **state)
{
    (void)state;
    struct taps **sets = make(&fan);
    uint32_t last = 2 * fan.channels - 2;
    for (uint32_t set = 0; set <= last; set++)
        for (uint32_t n = 0; n < fan.taps; n++)
            assert_true(fabs(sets[set]->re[n] - sets[last - set]->re[fan.taps - 1 - n]) < 1e-15);
    drop(&fan, sets);
}

static double energy(const struct taps *taps)
{
    double sum = 0;
    for (uint32_t n = 0; n < taps->count; n++)
        sum += taps->re[n] * taps->re[n];
    return sum;
}

static void the_ends_of_the_array_do_not_wrap(void **state)
{
    (void)state;
    struct taps **sets = make(&fan);
    double here = energy(sets[fan.channels - 1]);
    /* From one end to the other there is next to nothing; a wrap would bring what neighbours get.
     */
    double far = energy(sets[0]) + energy(sets[2 * fan.channels - 2]);
    double near = energy(sets[fan.channels]);
    if (!(far < 1e-3 * here && near > 0.1 * here))
        fail_msg("energy %g at the sensor itself, %g from its neighbour, %g from the far ends",
                 here, near, far);
    drop(&fan, sets);
}

static void an_edge_finds_its_set(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < 5; m++)
        for (uint32_t n = 0; n < 5; n++)
            assert_int_equal(fk_set(5, n, m), 4 + (int)m - (int)n);
}

/* ---- the figures ------------------------------------------------------------------------- */

static void gains_are_those_of_waves(void **state)
{
    (void)state;
    struct taps **sets = make(&fan);
    double spectra[2 * (2 * 24 - 1)], gains[24];
    static const double slownesses[] = {1 / 2500.0, 1 / 1650.0, -1 / 3000.0, 0};
    for (size_t i = 0; i < sizeof slownesses / sizeof slownesses[0]; i++) {
        fk_spectra(&fan, sets, RATE_HZ, 90e3, spectra);
        fk_gains(&fan, spectra, slownesses[i] * 90e3, gains);
        for (uint32_t m = 0; m < fan.channels; m += 5) {
            double wave = gain_of(&fan, sets, m, 90e3, slownesses[i], NULL);
            if (fabs(gains[m] - wave) > 1e-9)
                fail_msg("channel %u: gain %g, the wave has %g", m, gains[m], wave);
        }
    }
    drop(&fan, sets);
}

static void figures_hold_for_every_wave_they_cover(void **state)
{
    (void)state;
    struct taps **sets = make(&fan);
    struct fk_measure m;
    struct problem problem;
    assert_int_equal(fk_measure(&fan, RATE_HZ, sets, &m, &problem), 0);
    assert_true(fabs(m.resolution_per_m - 1 / (24 * 5e-3)) < 1e-12);
    assert_true(fabs(m.nyquist_per_m - 100) < 1e-9);
    assert_true(m.passed > 20 && m.stopped > 500);
    if (!(m.middle_ripple_db < 1 && m.middle_rejection_db > 20 && m.rejection_db[12] > 28))
        fail_msg("ripple %g dB, rejection %g dB, at channel 13 %g dB", m.middle_ripple_db,
                 m.middle_rejection_db, m.rejection_db[12]);
    assert_int_equal(m.middle_from, 6);
    assert_int_equal(m.middle_until, 18);
    /* The ends see neighbours on one side only. */
    assert_true(m.rejection_db[0] < m.middle_rejection_db);
    assert_true(m.ripple_db[0] > m.middle_ripple_db);
    assert_true(fabs(m.rejection_db[0] - m.rejection_db[23]) < 0.5);
    /* Waves between those it was measured with: none does worse by more than 1 dB. */
    for (int i = 0; i < 200; i++) {
        double f = m.pass_from_hz + (m.pass_until_hz - m.pass_from_hz) * (i + 0.37) / 200;
        double slowness = -1 / 2000.0 - i * 1e-6;
        if (f * -slowness > 90)
            continue;
        double level = -db(gain_of(&fan, sets, 12, f, slowness, NULL));
        if (level < m.rejection_db[12] - 1)
            fail_msg("%g Hz at %g m/s: %.2f dB, but %.2f dB are promised", f, 1 / slowness, level,
                     m.rejection_db[12]);
    }
    drop(&fan, sets);
}

static void a_fan_below_the_resolution_has_no_ripple(void **state)
{
    (void)state;
    struct fk_spec spec = fan;
    spec.channels = 4;
    struct taps **sets = make(&spec);
    struct fk_measure m;
    struct problem problem;
    assert_int_equal(fk_measure(&spec, RATE_HZ, sets, &m, &problem), 0);
    assert_int_equal(m.passed, 0);
    assert_true(isnan(m.middle_ripple_db));
    drop(&spec, sets);
}

/* ---- what is refused --------------------------------------------------------------------- */

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct fk_spec spec;
        const char *words; /* NULL: accepted */
    } cases[] = {
        {{24, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, NULL},
        /* 150 kHz / (2 · 5 mm)^-1 = 1500 m/s is the slowest that 100 /m can tell. */
        {{24, 5e-3, 1500, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, NULL},
        {{24, 5e-3, 1490, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "velocity low: at 150000 Hz"},
        {{24, 5e-3, 1490, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "at least 1500 m/s"},
        {{24, 5e-3, -1490, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "at least -1500 m/s"},
        {{24, 5e-3, 5000, 1490, 40e3, 150e3, false, 0.5, 0, 255, 0}, "velocity high: at 150000"},
        {{24, 5e-3, 1600, 5000, 0, 0, false, 0.5, 0, 255, 0}, "spatial Nyquist"},
        {{24, 5e-3, 1600, 5000, 0, 0, false, 0.5, 0, 255, 0}, "bound the band with `high"},
        {{1, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "2 to 512 sensors"},
        {{513, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "this one has 513"},
        {{24, 0, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "spacing: "},
        {{24, 5e-3, 0, 5000, 40e3, 150e3, false, 0.5, 0, 255, 0}, "velocity low: no wave"},
        {{24, 5e-3, 1600, 1600, 40e3, 150e3, false, 0.5, 0, 255, 0}, "velocity high: "},
        {{24, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 256, 0}, "write 257"},
        {{24, 5e-3, 1600, 5000, 150e3, 40e3, false, 0.5, 0, 255, 0}, "low: "},
        {{24, 5e-3, 1600, 5000, 40e3, 600e3, false, 0.5, 0, 255, 0}, "high: "},
        {{24, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 41, 0}, "taps: 41 taps smear"},
        {{24, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 22}, "write at least 23"},
        {{512, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 2047, 0}, "write at most 1907"},
        {{512, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 1907, 0}, NULL},
        {{24, 5e-3, 1600, 5000, 40e3, 150e3, false, 0.5, 0, 255, 23}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct problem problem = {0};
        int error = fk_check(&cases[i].spec, RATE_HZ, &problem);
        if (cases[i].words == NULL && error != 0)
            fail_msg("case %zu: refused: %s", i, problem.text);
        if (cases[i].words != NULL &&
            (error != ERROR_CONFIG || strstr(problem.text, cases[i].words) == NULL))
            fail_msg("case %zu: expected \"%s\", got %d: %s", i, cases[i].words, error,
                     problem.text);
    }
}

static void the_mask_is_a_tapered_fan(void **state)
{
    (void)state;
    double wide = 0.5 * (1 / 1600.0 - 1 / 5000.0); /* full width of each edge, in slowness */
    struct fk_spec reject = with(rejecting);
    static const struct {
        double velocity, shift; /* slowness = 1/velocity + shift · width of the edge */
        double gain;
    } points[] = {
        {1600, 0, 0.5},
        {1600, 0.5, 0},
        {1600, -0.5, 1},
        {5000, 0, 0.5},
        {5000, -0.5, 0},
        {5000, 0.5, 1},
        {1600, 0.25, 0.14644660940672624},
        {-2500, 0, 0},
    };
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        double k = 100e3 * (1 / points[i].velocity + points[i].shift * wide);
        assert_true(fabs(fk_mask(&fan, RATE_HZ, 100e3, k) - points[i].gain) < 1e-9);
        assert_true(fabs(fk_mask(&fan, RATE_HZ, -100e3, -k) - points[i].gain) < 1e-9);
        assert_true(fabs(fk_mask(&reject, RATE_HZ, 100e3, k) - (1 - points[i].gain)) < 1e-9);
    }
    assert_true(fk_mask(&fan, RATE_HZ, 20e3, 20e3 / 2500) == 0);
    assert_true(fk_mask(&reject, RATE_HZ, 20e3, 20e3 / 2500) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mask_is_a_tapered_fan),
        cmocka_unit_test(waves_pass_by_velocity_and_direction),
        cmocka_unit_test(what_is_rejected_is_what_would_pass),
        cmocka_unit_test(seen_from_the_other_end_time_runs_backwards),
        cmocka_unit_test(the_ends_of_the_array_do_not_wrap),
        cmocka_unit_test(an_edge_finds_its_set),
        cmocka_unit_test(gains_are_those_of_waves),
        cmocka_unit_test(figures_hold_for_every_wave_they_cover),
        cmocka_unit_test(a_fan_below_the_resolution_has_no_ripple),
        cmocka_unit_test(what_cannot_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
