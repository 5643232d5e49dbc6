/*
 * Vibration against closed forms: sines, whose RMS is A/√2, kurtosis 1.5 and velocity A/(2πf);
 * amplitude modulation, whose envelope has the line A·m; noise and constant tones, whose spectral
 * kurtosis is 0 and -1; a bearing struck at its BPFO. Segments with invalid frames are left out;
 * nothing depends on how the frames are cut into runs, nor on where the state is saved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include <jansson.h>

#include "analysis/analyses.h"
#include "analysis/condition.h"
#include "tests/support/analysis_world.h"

#define PI 3.14159265358979323846

static const struct condition *body(const struct analysis_world *world, size_t event)
{
    assert_true(event < world->count);
    return world->events[event].event.body;
}

/* Opens, puts x[frames] of one channel as one epoch. */
static void run(struct analysis_world *world, double rate_hz, const char *unit, const float *x,
                uint64_t frames, const char *const *settings)
{
    const struct analysis_stream stream = analysis_world_stream(1, rate_hz, unit);
    analysis_world_open_good(world, &analysis_vibration, &stream, settings);
    const struct analysis_signal signal = {
        .channels = 1, .frames = frames, .samples = x, .rate_hz = rate_hz};
    analysis_world_put(world, &signal, 0, frames);
}

/* ---- overall values ------------------------------------------------------------------------ */

/* Of a whole number of cycles; the mean is taken off, as a sensor's bias is. */
static void test_overall_values_of_a_sine(void **state)
{
    (void)state;
    enum { M = 4096, F = 4 * M };
    const double amplitude = 3, bias = 40;
    float *x = analysis_world_floats(F);
    for (int i = 0; i < F; i++)
        x[i] = (float)(bias + amplitude * sin(2 * PI * 64 * i / M + PI / 2));
    struct analysis_world world;
    run(&world, M, "V", x, F, (const char *const[]){"segment = 4096 frames", "segments = 7", NULL});
    assert_int_equal(world.count, 1);
    const struct condition *c = body(&world, 0);
    assert_int_equal(c->live, F);
    assert_int_equal(c->segments, 7);
    assert_true(c->bin_hz == 1);
    assert_true(fabs(c->rms / (amplitude / sqrt(2)) - 1) <= 2e-6);
    assert_true(fabs(c->peak / amplitude - 1) <= 2e-6);
    assert_true(fabs(c->crest / sqrt(2) - 1) <= 2e-6);
    assert_true(fabs(c->kurtosis / 1.5 - 1) <= 2e-6);
    assert_true(isnan(c->velocity_mms) && isnan(c->speed_hz) && isnan(c->lines[0].amplitude));
    const struct analysis_event *event = &world.events[0].event;
    assert_int_equal(event->sample_count, M / 2 + 1);
    for (uint32_t k = 0; k < event->sample_count; k++) {
        const double want = k == 64 ? amplitude : k == 63 || k == 65 ? amplitude / 2 : 0;
        if (!(fabs(event->samples[k] - want) <= 1e-5))
            fail_msg("bin %u: %g", k, event->samples[k]);
    }
    analysis_world_close(&world);
    free(x);
}

/* v = a / (2 pi f), whatever the unit and wherever in its bin the line lies. */
static void test_velocity_of_a_sine(void **state)
{
    (void)state;
    enum { M = 4096, F = 2 * M + M / 2 };
    static const struct {
        const char *unit;
        double hz, factor; /* m/s² of one unit; 0: it is a velocity, of 1e-3 m/s */
        double tolerance;
    } cases[] = {
        {"m/s2", 50, 1, 1e-5},      {"m/s2", 50.37, 1, 1e-5}, {"m/s\u00b2", 159.155, 1, 1e-5},
        {"mm/s2", 900, 1e-3, 1e-5}, {"g", 80, 9.80665, 1e-5}, {"mg", 80, 9.80665e-3, 1e-5},
        {"mm/s", 33.3, 0, 1e-5},    {"m/s2", 12, 1, 2e-4},    {"m/s2", 12.5, 1, 2e-4},
        {"m/s2", 4.9, 1, 1},        {"m/s2", 1100, 1, 1},
    };
    float *x = analysis_world_floats(F);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double amplitude = 7;
        for (int n = 0; n < F; n++)
            x[n] = (float)(amplitude * sin(2 * PI * cases[i].hz * n / M));
        const double velocity = cases[i].factor > 0
                                    ? 1e3 * amplitude * cases[i].factor / (2 * PI * cases[i].hz)
                                    : amplitude;
        struct analysis_world world;
        run(&world, M, cases[i].unit, x, F,
            (const char *const[]){"segment = 4096 frames", "segments = 4", NULL});
        const double got = body(&world, 0)->velocity_mms, want = velocity / sqrt(2);
        if (cases[i].tolerance == 1) /* outside of the band: the window's skirt only */
            assert_true(got < 0.05 * want);
        else if (!(fabs(got / want - 1) <= cases[i].tolerance))
            fail_msg("case %zu: %.9g mm/s, not %.9g", i, got, want);
        analysis_world_close(&world);
    }
    free(x);
}

/* ---- envelopes ----------------------------------------------------------------------------- */

/* A (1 + m cos) has the line A·m and the mean A, on a stream of envelopes as well as where the
 * analysis takes the envelope of the modulated carrier itself. */
static void test_the_envelope_line_of_amplitude_modulation(void **state)
{
    (void)state;
    enum { M = 8192, F = 3 * M };
    static const double depths[] = {0.1, 0.5, 1.0};
    for (int taken = 0; taken < 2; taken++)
        for (size_t d = 0; d < 3; d++) {
            const double amplitude = 2.5;
            float *x = analysis_world_floats(F);
            for (int i = 0; i < F; i++) {
                const double envelope =
                    amplitude * (1 + depths[d] * cos(2 * PI * 37 * i / M + 0.3));
                x[i] = (float)(taken ? envelope * sin(2 * PI * 2000 * i / M) : envelope);
            }
            struct analysis_stream stream = analysis_world_stream(1, M, "m/s2");
            stream.envelope = !taken;
            struct analysis_world world;
            analysis_world_open_good(
                &world, &analysis_vibration, &stream,
                taken ? (const char *const[]){"segment = 8192 frames", "segments = 5",
                                              "envelope low = 1 kHz", "envelope high = 3 kHz",
                                              "highest = 100 Hz", NULL}
                      : (const char *const[]){"segment = 8192 frames", "segments = 5",
                                              "highest = 100 Hz", NULL});
            const struct analysis_signal signal = {
                .channels = 1, .frames = F, .samples = x, .rate_hz = M};
            analysis_world_put(&world, &signal, 0, F);
            const struct analysis_event *event = &world.events[0].event;
            assert_int_equal(event->sample_count, 101);
            for (uint32_t k = 0; k <= 100; k++) {
                const double line = amplitude * depths[d];
                const double want = k == 37 ? line : k == 36 || k == 38 ? line / 2 : 0;
                /* At m = 1 the envelope has a corner, where the float's noise decides. */
                if (!(fabs(event->samples[k] - want) <= (depths[d] < 1 ? 2e-6 : 1e-4) * amplitude))
                    fail_msg("m = %g, bin %u: %g", depths[d], k, event->samples[k]);
            }
            assert_true(isnan(body(&world, 0)->velocity_mms) == !taken);
            analysis_world_close(&world);
            free(x);
        }
}

/* Impacts at BPFO, each ringing at 3 kHz, with 1 % of jitter, under noise of their own height: the
 * line stands out, spectral kurtosis points at the resonance. (3 BSF lies within the slip of 2
 * BPFO.)
 */
static void test_a_struck_outer_race(void **state)
{
    (void)state;
    enum { RATE = 16384, F = 4 * RATE };
    float *x = analysis_world_floats(F);
    struct random_state random = {11};
    const double speed = 29.5, bpfo = 3.5848 * speed * 0.99; /* 1 % of slip */
    for (int i = 0; i < F; i++)
        x[i] = (float)(0.3 * random_normal(&random) + sin(2 * PI * speed * i / RATE));
    for (double at = 0.01; at < (double)F / RATE; at += (1 + 0.01 * random_normal(&random)) / bpfo)
        for (int n = (int)(at * RATE) + 1; n < F && n < at * RATE + 200; n++) {
            const double t = n / (double)RATE - at;
            x[n] += (float)(2 * exp(-t * 600) * sin(2 * PI * 3000 * t));
        }
    struct analysis_world world;
    run(&world, RATE, "g", x, F,
        (const char *const[]){"segment = 16384 frames", "segments = 7", "envelope low = 2 kHz",
                              "envelope high = 4 kHz", "speed = 1770 rpm", "elements = 9",
                              "element diameter = 7.94 mm", "pitch diameter = 39.04 mm",
                              "kurtosis segment = 64 frames", NULL});
    assert_int_equal(world.count, 1);
    const struct condition *c = body(&world, 0);
    assert_true(c->speed_hz == 29.5);
    const struct condition_line *outer = &c->lines[CONDITION_bpfo];
    assert_true(fabs(outer->expected_hz - 3.5848 * speed) <= 0.02);
    assert_true(fabs(outer->found_hz - bpfo) <= 1);
    for (int d = 0; d < CONDITION_DEFECTS; d++)
        if (d != CONDITION_bpfo)
            assert_true(outer->amplitude > 2 * c->lines[d].amplitude);
    assert_true(c->spectral_kurtosis > 1);
    /* The window's main lobe is two bins of 256 Hz to both sides. */
    assert_true(fabs(c->spectral_kurtosis_hz - 3000) <= 512);
    analysis_world_close(&world);
    free(x);
}

/* ---- spectral kurtosis --------------------------------------------------------------------- */

static void test_spectral_kurtosis_of_noise_and_of_a_tone(void **state)
{
    (void)state;
    enum { M = 4096, F = 16 * M, POINTS = 64 };
    float *x = analysis_world_floats(F);
    struct random_state random = {12};
    for (int i = 0; i < F; i++)
        x[i] = (float)(random_normal(&random) + 1e3 * sin(2 * PI * i / 4) + 1e5);
    struct analysis_world world;
    run(&world, M, "V", x, F,
        (const char *const[]){"segment = 4096 frames", "segments = 31", "trace = kurtosis",
                              "kurtosis segment = 64 frames", NULL});
    const struct analysis_event *event = &world.events[0].event;
    assert_int_equal(event->sample_count, POINTS / 2 + 1);
    assert_true(body(&world, 0)->bin_hz == (double)M / POINTS);
    /* Segments overlap by half, which leaves about two thirds of 2047 of them independent; the
     * spread of the estimate is √(4/K), 0.054. */
    for (uint32_t k = 2; k < POINTS / 2 - 1; k++) {
        const bool tone = k >= 15 && k <= 17;
        if (!(fabs((double)event->samples[k] - (tone ? -1 : 0)) <= (tone ? 0.01 : 5 * 0.054)))
            fail_msg("bin %u: %g", k, event->samples[k]);
    }
    analysis_world_close(&world);
    free(x);
}

/* ---- tacho --------------------------------------------------------------------------------- */

static void test_speed_of_a_tacho(void **state)
{
    (void)state;
    enum { RATE = 8192, F = 2 * RATE };
    const double speed = 24.173;
    float *x = analysis_world_floats(2 * F);
    for (int i = 0; i < F; i++) {
        const double turn = 2 * PI * speed * i / RATE;
        x[2 * i] = (float)sin(3.1 * turn);         /* a line at 3.1 times the speed */
        x[2 * i + 1] = (float)(5 * sin(2 * turn)); /* two pulses a turn */
    }
    const struct analysis_stream stream = analysis_world_stream(2, RATE, "V");
    struct analysis_world world;
    analysis_world_open_good(
        &world, &analysis_vibration, &stream,
        (const char *const[]){"segment = 8192 frames", "segments = 2", "tacho = 2", "pulses = 2",
                              "tacho level = 500 mV", "bpfo = 3.1", "harmonics = 1", NULL});
    const struct analysis_signal signal = {
        .channels = 2, .frames = F, .samples = x, .rate_hz = RATE};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 2); /* 1.5 s, and what is left; no event of the tacho */
    const struct condition *c = body(&world, 0);
    assert_int_equal(world.events[0].event.channel, 0);
    /* A sine is no straight line: its crossings lie within 1e-4 frames of it. */
    assert_true(fabs(c->speed_hz / speed - 1) <= 1e-6);
    assert_true(c->speed_change < 1e-4);
    assert_true(fabs(c->lines[CONDITION_bpfo].expected_hz - 3.1 * speed) <= 1e-4);
    assert_true(fabs(c->lines[CONDITION_bpfo].found_hz - 3.1 * speed) <= 0.5);
    assert_true(c->lines[CONDITION_bpfo].amplitude > 0.84); /* Hann: 1.42 dB between two bins */
    analysis_world_close(&world);
    free(x);
}

/* ---- groups -------------------------------------------------------------------------------- */

static void test_segments_with_invalid_frames_are_left_out(void **state)
{
    (void)state;
    enum { M = 64, F = 1000 }; /* groups of 4 segments, 32 frames apart: 160 frames */
    float *x = analysis_world_floats(F);
    for (int i = 0; i < F; i++)
        x[i] = (float)sin(2 * PI * 8 * i / M);
    static const struct invalid_range invalid[] = {
        {0, 3, INVALID_SETTLING},    /* segment 0 of group 0 */
        {223, 225, INVALID_NETWORK}, /* group 1, frame 63 … 64: segments 0, 1 and 2 */
        {320, 480, INVALID_DEVICE},  /* group 2 */
        {630, 650, INVALID_LATE},    /* group 3, segment 3; and of group 4 segment 0 */
    };
    static const struct {
        uint64_t frame, dead;
        uint32_t segments, flags, causes;
    } want[] = {
        {0, 3, 3, ANALYSIS_INCOMPLETE, 1u << INVALID_SETTLING},
        {160, 2, 1, ANALYSIS_INCOMPLETE, 1u << INVALID_NETWORK},
        {480, 10, 3, ANALYSIS_INCOMPLETE, 1u << INVALID_LATE},
        {640, 10, 3, ANALYSIS_INCOMPLETE, 1u << INVALID_LATE},
        {800, 0, 4, 0, 0},
        {960, 0, 0, ANALYSIS_INCOMPLETE | ANALYSIS_CUT, 0},
    };
    const struct analysis_stream stream = analysis_world_stream(1, 1e3, "V");
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_vibration, &stream,
                             (const char *const[]){"segment = 64 frames", "segments = 4", NULL});
    const struct analysis_signal signal = {.channels = 1,
                                           .frames = F,
                                           .samples = x,
                                           .rate_hz = 1e3,
                                           .invalid = invalid,
                                           .invalid_count = 4};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 6);
    for (size_t e = 0; e < 6; e++) {
        const struct analysis_event *event = &world.events[e].event;
        const struct condition *c = event->body;
        assert_int_equal(event->frame, want[e].frame);
        assert_int_equal(c->dead, want[e].dead);
        assert_int_equal(c->live, (e < 5 ? 160 : 40) - want[e].dead);
        assert_int_equal(c->segments, want[e].segments);
        assert_int_equal(event->flags, want[e].flags);
        assert_int_equal(event->causes, want[e].causes);
        assert_int_equal(event->sample_count, want[e].segments > 0 ? M / 2 + 1 : 0);
        if (want[e].segments > 0) /* the mean over those that are left */
            assert_true(fabs((double)event->samples[8] - 1) <= 1e-6);
    }
    analysis_world_close(&world);
    free(x);
}

static void test_cuts_and_state_change_nothing(void **state)
{
    (void)state;
    static const char *const settings[][10] = {
        {"segment = 256 frames", "segments = 3", NULL},
        {"segment = 512 frames", "segments = 2", "overlap = 75 %", "envelope low = 100 Hz",
         "envelope high = 300 Hz", "kurtosis segment = 32 frames", "speed = 10 Hz", "bpfi = 4",
         "trace = kurtosis", NULL},
        {"segment = 64 frames", "segments = 1", "overlap = 0 %", "tacho = 2", "ftf = 0.4",
         "tacho level = 0.3 m/s2", "velocity low = 100 Hz", NULL},
    };
    enum { CHANNELS = 3, F = 5000, EPOCHS = 3 };
    float *x = analysis_world_floats(EPOCHS * F * CHANNELS);
    struct random_state noise = {13};
    for (uint64_t i = 0; i < EPOCHS * F * CHANNELS; i++)
        x[i] = (float)random_normal(&noise);
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct random_state random = {seed};
            const struct analysis_stream stream = analysis_world_stream(CHANNELS, 1e3, "m/s2");
            struct analysis_world whole, cut;
            analysis_world_open(&whole, &analysis_vibration, &stream, settings[s]);
            analysis_world_open(&cut, &analysis_vibration, &stream, settings[s]);
            for (uint64_t e = 0; e < EPOCHS; e++) {
                struct invalid_range invalid[16];
                struct analysis_saturation saturated[2] = {{100, 130, 0}, {1000, 1001, 1}};
                const struct analysis_signal signal = {
                    .channels = CHANNELS,
                    .frames = F - random_below(&random, F / 2),
                    .samples = x + e * F * CHANNELS,
                    .rate_hz = 1e3,
                    .epoch = e,
                    .invalid = invalid,
                    .invalid_count = analysis_world_ranges(&random, F / 2, invalid, 2 * seed),
                    .saturated = saturated,
                    .saturated_count = 2,
                };
                analysis_world_put(&whole, &signal, 0, signal.frames);
                analysis_world_put_cut(&cut, &signal, &random, true);
            }
            assert_true(whole.count > 3);
            analysis_world_equal(&whole, &cut);
            analysis_world_close(&whole);
            analysis_world_close(&cut);
        }
    free(x);
}

/* ---- options ------------------------------------------------------------------------------- */

static void test_checks(void **state)
{
    (void)state;
    static const struct {
        const char *settings[6];
        const char *says;
    } cases[] = {
        {{"segment = 1000 frames"}, "write 512 frames or 1024 frames"},
        {{"segment = 1024 frames", "kurtosis segment = 2048 frames"}, "write fewer"},
        {{"trace = kurtosis"}, "needs `kurtosis segment`"},
        {{"envelope low = 1 kHz"}, "needs two ends"},
        {{"envelope low = 2 kHz", "envelope high = 1 kHz"}, "needs two ends"},
        {{"envelope low = 20 kHz", "envelope high = 30 kHz"}, "needs two ends"},
        {{"segment = 1024 frames"}, "warning: segment: no RMS velocity"},
        {{"tacho = 4"}, "has 3 channels"},
        {{"tacho = 2", "speed = 25 Hz"}, "remove one of them"},
        {{"tacho = 2", "tacho level = 2 Pa"}, "unit here is m/s2"},
        {{"pulses = 2"}, "`pulses` needs `tacho`"},
        {{"elements = 9", "speed = 25 Hz"}, "write all three"},
        {{"elements = 9", "speed = 25 Hz", "element diameter = 40 mm", "pitch diameter = 8 mm"},
         "exchange"},
        {{"bpfo = 3.5"}, "need the speed"},
        {{"bpfo = 105 Hz", "speed = 1500 rpm"}, "at 25 Hz, its speed, write bpfo = 4.2"},
        {{"ftf = 10 Hz", "speed = 25 Hz"}, "write ftf = 0.4"},
        {{"bpfi = 0.105 kHz", "tacho = 2"}, "divide it by the speed"},
        {{"bpfo = 105", "speed = 1500 rpm"},
         "warning: bpfo: `bpfo = 105` is 105 times the speed, "
         "2625 Hz; where 105 Hz are meant, write bpfo = 4.2"},
        {{"bpfo = 105", "tacho = 2"}, "warning: bpfo: `bpfo = 105` is 105 events in a turn"},
        {{"tacho = 2", "tacho level = 2"}, "has no unit; write 2 dB or 2 m/s2"},
        {{"segment = 8192 frames", "ftf = 0.4", "speed = 60 rpm"}, "slowest line, 0.4 Hz"},
    };
    const struct analysis_stream stream = analysis_world_stream(3, 1e4, "m/s2");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        analysis_world_open(&world, &analysis_vibration, &stream, cases[i].settings);
        if (strstr(world.errors, cases[i].says) == NULL)
            fail_msg("case %zu: `%s`, not `%s`", i, world.errors, cases[i].says);
        analysis_world_close(&world);
    }
    struct analysis_stream envelope = stream;
    envelope.envelope = true;
    struct analysis_world world;
    analysis_world_open(&world, &analysis_vibration, &envelope,
                        (const char *const[]){"envelope low = 1 kHz", "velocity low = 2 Hz", NULL});
    assert_non_null(strstr(world.errors, "gives the envelope already"));
    assert_non_null(strstr(world.errors, "has no velocity"));
    analysis_world_close(&world);
    const struct analysis_stream volts = analysis_world_stream(1, 1e4, "V");
    analysis_world_open(&world, &analysis_vibration, &volts,
                        (const char *const[]){"velocity high = 2 kHz", "tacho = 1", NULL});
    assert_non_null(strstr(world.errors, "has no velocity"));
    assert_non_null(strstr(world.errors, "has 1 channel;"));
    analysis_world_close(&world);
}

static void test_speeds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double hz; /* 0: refused */
    } cases[] = {
        {"1500 rpm", 25}, {"1500rpm", 25}, {"90 1/min", 1.5}, {"90 r/min", 1.5}, {"25 Hz", 25},
        {"0.5 Hz", 0.5},  {"-3 rpm", 0},   {"0 rpm", 0},      {"25 rpm rpm", 0}, {"rpm", 0},
        {"25 mm", 0},     {"1e9 rpm", 0},  {"25", 0},
    };
    const struct option_row *row =
        option_find(analysis_vibration.options, analysis_vibration.option_count, "speed");
    assert_non_null(row);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct option_value value;
        struct problem problem;
        const int error = option_parse(row, cases[i].text, &value, &problem);
        if ((error == 0) != (cases[i].hz > 0) || (error == 0 && value.number != cases[i].hz))
            fail_msg("%s: %d, %g", cases[i].text, error, value.number);
    }
}

static void test_reports(void **state)
{
    (void)state;
    char report[800] = {0};
    const struct analysis_stream stream = analysis_world_stream(1, 16384, "g");
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_vibration, &stream,
                             (const char *const[]){"segment = 1 s", "segments = 3",
                                                   "envelope low = 2 kHz", "envelope high = 4 kHz",
                                                   "speed = 1500 rpm", "bpfo = 3.5", "bpfi = 5.5",
                                                   "kurtosis segment = 256 frames", NULL});
    FILE *out = fmemopen(report, sizeof report, "w");
    world.ops->report(&world.options, out);
    fclose(out);
    assert_string_equal(report,
                        "envelope spectra of 16384 points, bins of 1 Hz, 3 averages; one result in "
                        "2 s\n"
                        "                   envelope of 2000 … 4000 Hz\n"
                        "                   RMS velocity of 10 … 1000 Hz\n"
                        "                   spectral kurtosis of 256 points, bins of 64 Hz\n"
                        "                   bpfi 137.5 Hz, bpfo 87.5 Hz, slip 2 %, 3 harmonics\n");
    json_t *object = world.ops->describe(&world.options);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(text, "{\"trace\":\"spectrum\",\"envelope\":true,\"envelope_hz\":[2000.0,"
                              "4000.0],\"velocity_hz\":[10.0,1000.0],\"orders\":{\"bpfo\":3.5,"
                              "\"bpfi\":5.5},\"slip\":0.02,\"harmonics\":3}");
    free(text);
    json_decref(object);
    assert_true(world.ops->history(&world.options) >= 16384);
    assert_true(world.ops->memory(&world.options) > 16384 * 8 * sizeof(double));
    uint32_t count;
    assert_string_equal(world.ops->fields(&world.options, &count)->name, "live");
    assert_int_equal(count, 13 + 3 * CONDITION_DEFECTS);
    analysis_world_close(&world);
}

/* 1024 channels; rates from 1/3 Hz to 200 MHz; silence; the largest floats. */
static void test_extremes(void **state)
{
    (void)state;
    enum { CHANNELS = 1024, F = 64 };
    static const double rates[] = {1.0 / 3, 2e8};
    float *x = analysis_world_floats(CHANNELS * F);
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; kind > 0 && i < CHANNELS * F; i++)
            x[i] = (i / CHANNELS) % 2 ? 3.4e38f : -3.4e38f;
        for (int r = 0; r < 2; r++) {
            const struct analysis_stream stream = analysis_world_stream(CHANNELS, rates[r], "m/s2");
            struct analysis_world world;
            analysis_world_open(&world, &analysis_vibration, &stream,
                                (const char *const[]){"segment = 32 frames", "segments = 2",
                                                      "kurtosis segment = 16 frames",
                                                      "speed = 10 kHz", "bpfo = 100", NULL});
            const struct analysis_signal signal = {
                .channels = CHANNELS, .frames = F, .samples = x, .rate_hz = rates[r]};
            analysis_world_put(&world, &signal, 0, F);
            assert_int_equal(world.count, 2 * CHANNELS);
            const struct condition *c = body(&world, 0);
            if (kind == 0)
                assert_true(c->rms == 0 && c->peak == 0 && isnan(c->crest) && isnan(c->kurtosis) &&
                            isnan(c->spectral_kurtosis));
            else
                assert_true(isfinite(c->rms) && isfinite(c->kurtosis));
            analysis_world_close(&world);
        }
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overall_values_of_a_sine),
        cmocka_unit_test(test_velocity_of_a_sine),
        cmocka_unit_test(test_the_envelope_line_of_amplitude_modulation),
        cmocka_unit_test(test_a_struck_outer_race),
        cmocka_unit_test(test_spectral_kurtosis_of_noise_and_of_a_tone),
        cmocka_unit_test(test_speed_of_a_tacho),
        cmocka_unit_test(test_segments_with_invalid_frames_are_left_out),
        cmocka_unit_test(test_cuts_and_state_change_nothing),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
