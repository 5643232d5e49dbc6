/*
 * A-scans against exact echoes: averages sum by sum, pairs of codes whose sidelobes cancel, gain
 * over time, thickness and depth from parabolas whose vertices are known. Shots with invalid frames
 * are left out whole and stay counted; nothing depends on how the frames are cut into runs, nor on
 * where the state is saved and read back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <math.h>
#include <cmocka.h>

#include "analysis/analyses.h"
#include "analysis/ascan.h"
#include "tests/support/analysis_world.h"

static const struct ascan *body(const struct analysis_world *world, size_t event)
{
    assert_true(event < world->count);
    return world->events[event].event.body;
}

static void noise(float *x, uint64_t count, uint64_t seed)
{
    struct random_state random = {seed};
    for (uint64_t i = 0; i < count; i++)
        x[i] = (float)random_normal(&random);
}

/* Adds height - bend (i - at)² where that is above 0. */
static void echo(float *x, uint32_t frames, uint32_t channels, double at, double height,
                 double bend)
{
    for (uint32_t i = 0; i < frames; i++) {
        const double y = height - bend * (i - at) * (i - at);
        if (y > 0)
            x[(size_t)i * channels] += (float)y;
    }
}

/* ---- averages ------------------------------------------------------------------------------ */

static void test_an_average_is_the_sum_over_k(void **state)
{
    (void)state;
    enum { CHANNELS = 3, PERIOD = 500, RANGE = 120, START = 17, K = 16, SHOTS = 2 * K, F = 20000 };
    float *x = analysis_world_floats(F * CHANNELS);
    noise(x, F * CHANNELS, 1);
    const struct analysis_stream stream = analysis_world_stream(CHANNELS, 1e6, "V");
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"period = 500 us", "start = 17 frames",
                                                   "range = 120 frames", "from = 100 us",
                                                   "averages = 16", NULL});
    const struct analysis_signal signal = {
        .channels = CHANNELS, .frames = F, .samples = x, .rate_hz = 1e6};
    analysis_world_put(&world, &signal, 0, F);
    /* Shots 32 … 39 are a group of their own, which the epoch's end cuts. */
    assert_int_equal(world.count, 3 * CHANNELS);
    for (uint32_t e = 0; e < world.count; e++) {
        const struct analysis_event *event = &world.events[e].event;
        const struct ascan *a = event->body;
        const uint32_t group = e / CHANNELS, shots = group < 2 ? K : 8;
        assert_int_equal(event->channel, e % CHANNELS);
        assert_int_equal(event->frame, START + 100 + group * K * PERIOD);
        assert_int_equal(event->number, e + 1);
        assert_int_equal(event->flags, group < 2 ? 0 : ANALYSIS_INCOMPLETE);
        assert_int_equal(event->sample_count, RANGE);
        assert_int_equal(a->shots, K);
        assert_int_equal(a->averages, shots);
        assert_true(fabs(a->start_us - 100) <= 1e-9);
        double peak = 0;
        for (uint32_t i = 0; i < RANGE; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < shots; k++)
                sum += x[(event->frame + k * PERIOD + i) * CHANNELS + event->channel];
            assert_true(event->samples[i] == (float)(sum / shots));
            peak = fmax(peak, fabs(sum / shots));
        }
        assert_true(a->peak == peak);
    }
    analysis_world_close(&world);
    free(x);
}

/* The noise of an average of K is 10 lg K dB lower, within what its spread allows. */
static void test_noise_sinks_by_10_lg_k(void **state)
{
    (void)state;
    enum { PERIOD = 400, K = 100, F = PERIOD * K };
    float *x = analysis_world_floats(F);
    noise(x, F, 2);
    const struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    struct analysis_world world;
    analysis_world_open_good(
        &world, &analysis_ascan, &stream,
        (const char *const[]){"period = 400 frames", "range = 400 frames", "averages = 100", NULL});
    const struct analysis_signal signal = {
        .channels = 1, .frames = F, .samples = x, .rate_hz = 1e6};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 1);
    double square = 0;
    for (uint32_t i = 0; i < PERIOD; i++)
        square += pow(world.events[0].samples[i], 2);
    const double lower_db = -10 * log10(square / PERIOD);
    /* The estimate of a variance from 400 values has a spread of √(2/400), 0.31 dB. */
    assert_true(fabs(lower_db - 20) <= 4 * 0.31);
    analysis_world_close(&world);
    free(x);
}

/* Codes a and b of 2^order chips, by the recursion a' = a|b, b' = a|-b. */
static void golay(uint32_t order, double *a, double *b)
{
    a[0] = b[0] = 1;
    for (uint32_t n = 1; n < 1u << order; n *= 2)
        for (uint32_t i = 0; i < n; i++) {
            const double ai = a[i], bi = b[i];
            a[n + i] = bi;
            b[n + i] = -bi;
            a[i] = b[i] = ai;
        }
}

/* Of a pair of codes sidelobes cancel to nothing, and an echo of height h reads 2 N h, which it
 * cannot where a code meets the other one's filter. Shot 3 is dead: its code averages over less. */
static void test_sidelobes_of_a_golay_pair_cancel(void **state)
{
    (void)state;
    enum { ORDER = 5, N = 1 << ORDER, PERIOD = 200, SHOTS = 8, F = PERIOD * SHOTS, AT = 60 };
    const double height = 0.25;
    double code[2][N];
    golay(ORDER, code[0], code[1]);
    float *x = analysis_world_floats(2 * F);
    for (uint32_t shot = 0; shot < SHOTS; shot++) {
        double sent[PERIOD] = {0};
        for (uint32_t i = 0; i < N; i++)
            sent[AT + i] = height * code[shot % 2][i];
        for (uint32_t filter = 0; filter < 2; filter++)
            for (uint32_t n = 0; n < PERIOD; n++) {
                double sum = 0;
                for (uint32_t i = 0; i < N && i <= n; i++)
                    sum += code[filter][N - 1 - i] * sent[n - i];
                x[(size_t)(shot * PERIOD + n) * 2 + filter] = (float)sum;
            }
    }
    struct analysis_stream stream = analysis_world_stream(2, 1e6, "V");
    stream.delay_frames = N - 1;
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"period = 200 frames", "range = 160 frames",
                                                   "averages = 4", "golay = yes",
                                                   "gate = a: width 1 ms, level 1 V, peak", NULL});
    const struct invalid_range dead = {3 * PERIOD + 100, 3 * PERIOD + 101, INVALID_NETWORK};
    const struct analysis_signal signal = {.channels = 2,
                                           .frames = F,
                                           .samples = x,
                                           .rate_hz = 1e6,
                                           .invalid = &dead,
                                           .invalid_count = 1};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 1);
    const struct ascan *a = body(&world, 0);
    assert_int_equal(a->shots, SHOTS);
    assert_int_equal(a->averages, SHOTS - 1);
    assert_int_equal(a->dead, 1);
    assert_true(fabs(a->time_us[0] - AT) <= 1e-12);
    for (uint32_t i = 0; i < 160; i++)
        if (!(fabs(world.events[0].samples[i] - (i == AT ? 2 * N * height : 0)) <= 1e-6))
            fail_msg("%u: %g", i, world.events[0].samples[i]);
    analysis_world_close(&world);
    free(x);
}

/* ---- dead shots ---------------------------------------------------------------------------- */

static void test_a_shot_with_an_invalid_frame_is_left_out_whole(void **state)
{
    (void)state;
    enum { PERIOD = 100, RANGE = 50, F = 1000 };
    float *x = analysis_world_floats(F);
    noise(x, F, 3);
    const struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    /* A-scans of frames 10 … 59 of each period, four to a result. */
    static const struct invalid_range invalid[] = {
        {100, 110, INVALID_LATE},     /* ends before shot 1 */
        {160, 200, INVALID_LATE},     /* begins behind it */
        {310, 311, INVALID_NETWORK},  /* the first frame of shot 3 */
        {459, 460, INVALID_OVERLOAD}, /* the last of shot 4 */
        {500, 610, INVALID_DEVICE},   /* shot 5, not 6 */
    };
    static const struct {
        uint32_t averages, causes;
        uint64_t frame;
        uint32_t shots[4];
    } want[] = {
        {3, 1u << INVALID_NETWORK, 10, {0, 1, 2}},
        {2, 1u << INVALID_OVERLOAD | 1u << INVALID_DEVICE, 610, {6, 7}},
        {2, 0, 810, {8, 9}}, /* the epoch ends */
    };
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"period = 100 frames", "from = 10 frames",
                                                   "range = 50 frames", "averages = 4", NULL});
    const struct analysis_signal signal = {.channels = 1,
                                           .frames = F,
                                           .samples = x,
                                           .rate_hz = 1e6,
                                           .invalid = invalid,
                                           .invalid_count = 5};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 3);
    for (size_t e = 0; e < 3; e++) {
        const struct analysis_event *event = &world.events[e].event;
        const struct ascan *a = event->body;
        assert_int_equal(a->averages, want[e].averages);
        assert_int_equal(a->dead, e < 2 ? 4 - want[e].averages : 0);
        assert_int_equal(event->causes, want[e].causes);
        assert_int_equal(event->flags, ANALYSIS_INCOMPLETE);
        assert_int_equal(event->frame, want[e].frame);
        for (uint32_t i = 0; i < RANGE; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < want[e].averages; k++)
                sum += x[want[e].shots[k] * PERIOD + 10 + i];
            assert_true(event->samples[i] == (float)(sum / want[e].averages));
        }
    }
    struct analysis_ledger ledger;
    analysis_ascan.ledger(world.analysis, &ledger);
    assert_int_equal(ledger.frames, F);
    assert_int_equal(ledger.dead, 10 + 40 + 1 + 1 + 110);
    analysis_world_close(&world);
    free(x);
}

/* Records are shots; results rest on records [gK, (g+1)K), whatever became of one of them. */
static void test_records_are_grouped_by_their_numbers(void **state)
{
    (void)state;
    enum { FRAMES = 80, RECORDS = 10 };
    float *x = analysis_world_floats(RECORDS * FRAMES);
    noise(x, (uint64_t)RECORDS * FRAMES, 4);
    struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    stream.records = true;
    stream.excited = true;
    stream.excitation_frame = 8;
    struct analysis_world world;
    analysis_world_open_good(&world, &analysis_ascan, &stream,
                             (const char *const[]){"range = 60 frames", "averages = 3", NULL});
    for (uint64_t r = 0; r < RECORDS; r++) {
        if (r == 2)
            continue; /* lost */
        const struct analysis_signal signal = {.channels = 1,
                                               .frames = r == 4 ? 67 : FRAMES, /* too short */
                                               .samples = x + r * FRAMES,
                                               .rate_hz = 1e6,
                                               .epoch = 7 + r,
                                               .record = r};
        analysis_world_put(&world, &signal, 0, signal.frames);
    }
    /* Records 0, 1; 3, 5; 6, 7, 8. Record 9 waits for its group. */
    static const uint64_t shots[3][3] = {{0, 1}, {3, 5}, {6, 7, 8}};
    static const uint32_t counts[] = {2, 2, 3};
    assert_int_equal(world.count, 3);
    for (size_t e = 0; e < 3; e++) {
        const struct analysis_event *event = &world.events[e].event;
        assert_int_equal(body(&world, e)->averages, counts[e]);
        assert_int_equal(body(&world, e)->dead, e == 1);
        assert_int_equal(event->record, shots[e][0]);
        assert_int_equal(event->epoch, 7 + shots[e][0]);
        assert_int_equal(event->frame, 8);
        for (uint32_t i = 0; i < 60; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < counts[e]; k++)
                sum += x[shots[e][k] * FRAMES + 8 + i];
            assert_true(event->samples[i] == (float)(sum / counts[e]));
        }
    }
    analysis_world_close(&world);
    free(x);
}

static void test_saturation_reaches_as_far_as_the_filter(void **state)
{
    (void)state;
    enum { F = 400 };
    float *x = analysis_world_floats(2 * F);
    struct analysis_stream stream = analysis_world_stream(2, 1e6, "V");
    stream.taps_longest = 21;
    static const struct {
        struct analysis_saturation at;
        uint32_t flagged; /* results of channel 1 */
    } cases[] = {
        {{69, 70, 1}, 0},  {{70, 71, 1}, 0},   {{79, 80, 1}, 0},   {{80, 81, 1}, 2},
        {{99, 100, 1}, 2}, {{130, 131, 1}, 2}, {{149, 150, 1}, 2}, {{150, 151, 1}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        analysis_world_open_good(
            &world, &analysis_ascan, &stream,
            (const char *const[]){"period = 100 frames", "range = 50 frames", NULL});
        const struct analysis_signal signal = {.channels = 2,
                                               .frames = F,
                                               .samples = x,
                                               .rate_hz = 1e6,
                                               .saturated = &cases[i].at,
                                               .saturated_count = 1};
        analysis_world_put(&world, &signal, 0, 75);
        analysis_world_put(&world, &signal, 75, F);
        for (size_t e = 0; e < world.count; e++) {
            const struct analysis_event *event = &world.events[e].event;
            const bool flagged = cases[i].flagged > 0 && event->channel == 1 && event->frame == 100;
            if ((event->flags == ANALYSIS_SATURATED) != flagged)
                fail_msg("case %zu, event %zu: flags %u", i, e, event->flags);
        }
        analysis_world_close(&world);
    }
    free(x);
}

/* ---- gain, gates, paths -------------------------------------------------------------------- */

static void test_gain_is_linear_in_db(void **state)
{
    (void)state;
    enum { F = 100 };
    float *x = analysis_world_floats(F);
    for (int i = 0; i < F; i++)
        x[i] = 1;
    const struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    struct analysis_world world;
    analysis_world_open_good(
        &world, &analysis_ascan, &stream,
        (const char *const[]){"period = 100 frames", "range = 80 us", "start = 4 us",
                              "tcg = 10 us 0 dB, 30 us 20 dB, 40 us -6 dB",
                              "gate = a: start 0, width 30 us, level 9.5 V, flank", NULL});
    const struct analysis_signal signal = {
        .channels = 1, .frames = F, .samples = x, .rate_hz = 1e6};
    analysis_world_put(&world, &signal, 0, F);
    assert_int_equal(world.count, 1);
    for (int t = 0; t < 80; t++) {
        const double db = t < 10 ? 0 : t < 30 ? t - 10 : t < 40 ? 20 - 2.6 * (t - 30) : -6;
        assert_true(fabs(world.events[0].samples[t] - pow(10, db / 20)) <= 1e-6 * 10);
    }
    const double before = pow(10, 19 / 20.0);
    assert_true(before < 9.5);
    assert_true(isnan(body(&world, 0)->time_us[0])); /* 30 us lies behind the gate */
    analysis_world_close(&world);
    free(x);
}

/* Echoes of a plate of 20 mm in steel behind 30 mm of water: the second gate moves with the first.
 */
static void test_thickness_between_echoes(void **state)
{
    (void)state;
    enum { F = 1000 };
    const double rate = 1e7, v = 5900;
    for (double surface = 400; surface <= 402; surface += 0.25) {
        float *x = analysis_world_floats(F);
        const double back = surface + 2 * 20e-3 / v * rate; /* 67.797 frames */
        echo(x, F, 1, surface + 10, 1, 0.01);
        echo(x, F, 1, back + 10, 0.5, 0.01);
        struct analysis_stream stream = analysis_world_stream(1, rate, "V");
        stream.delay_frames = 10;
        struct analysis_world world;
        analysis_world_open_good(
            &world, &analysis_ascan, &stream,
            (const char *const[]){"period = 1000 frames", "range = 900 frames",
                                  "sound velocity = 5900 m/s", "thickness = surface, back",
                                  "gate = surface: start 30 us, width 20 us, level 0.3 V",
                                  "gate = back: after surface, start 3 us, width 10 us, "
                                  "level 0.2 V, alarm absent",
                                  "gate = flaw: after surface, start 3 us, width 2 us, "
                                  "level 0.2 V",
                                  NULL});
        const struct analysis_signal signal = {
            .channels = 1, .frames = F, .samples = x, .rate_hz = rate};
        analysis_world_put(&world, &signal, 0, F);
        assert_int_equal(world.count, 1);
        const struct ascan *a = body(&world, 0);
        /* Samples are floats: their rounding moves a vertex by 1e-7 / 0.02 frames. */
        assert_true(fabs(a->time_us[0] - surface / 10) <= 1e-5);
        assert_true(fabs(a->thickness_mm - 20) <= 1e-5);
        assert_true(fabs(a->path_mm[1] - v * back / rate / 2 * 1e3) <= 1e-5);
        assert_true(isnan(a->depth_mm[1]) && isnan(a->time_us[2]));
        assert_true(fabs(a->above_db[0] - 20 * log10(a->amplitude[0] / 0.3)) <= 1e-12);
        assert_true(a->alarm[0] == 1 && a->alarm[1] == 0 && a->alarm[2] == 0);
        assert_true(world.events[0].event.delay_frames == 10);
        analysis_world_close(&world);
        free(x);
    }
}

/* Without an echo to start from a gate finds nothing, and an expected echo is missing. */
static void test_no_surface_no_thickness(void **state)
{
    (void)state;
    float *x = analysis_world_floats(100);
    const struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
    struct analysis_world world;
    analysis_world_open_good(
        &world, &analysis_ascan, &stream,
        (const char *const[]){
            "period = 100 frames", "range = 90 frames", "sound velocity = 5900 m/s",
            "thickness = back", "gate = surface: width 20 us, level 0.3 V",
            "gate = back: after surface, width 10 us, level 0.2 V, alarm absent", NULL});
    const struct analysis_signal signal = {
        .channels = 1, .frames = 100, .samples = x, .rate_hz = 1e6};
    analysis_world_put(&world, &signal, 0, 100);
    const struct ascan *a = body(&world, 0);
    assert_true(isnan(a->thickness_mm) && isnan(a->time_us[1]) && isnan(a->amplitude[1]));
    assert_true(a->amplitude[0] == 0 && isnan(a->above_db[0]));
    assert_true(a->alarm[0] == 0 && a->alarm[1] == 1);
    analysis_world_close(&world);
    free(x);
}

/* A tip at depth d between probes 2 S apart: v t / 2 = √(S² + d²). */
static void test_depth_of_a_diffracting_tip(void **state)
{
    (void)state;
    const double rate = 1e8, v = 5900, s = 30e-3, probe = 2e-6;
    static const double depths[] = {5e-3, 12e-3, 25e-3};
    for (size_t i = 0; i < 3; i++) {
        enum { F = 4000 };
        float *x = analysis_world_floats(F);
        const double at = (2 * sqrt(s * s + depths[i] * depths[i]) / v + probe) * rate;
        echo(x, F, 1, at, 1, 0.001);
        const struct analysis_stream stream = analysis_world_stream(1, rate, "V");
        struct analysis_world world;
        analysis_world_open_good(
            &world, &analysis_ascan, &stream,
            (const char *const[]){"period = 4000 frames", "range = 40 us",
                                  "sound velocity = 5900 m/s", "probe separation = 60 mm",
                                  "probe delay = 2 us", "thickness = tip",
                                  "gate = tip: width 40 us, level 0.3 V",
                                  "gate = early: width 1 us, level 0.3 V", NULL});
        const struct analysis_signal signal = {
            .channels = 1, .frames = F, .samples = x, .rate_hz = rate};
        analysis_world_put(&world, &signal, 0, F);
        const struct ascan *a = body(&world, 0);
        assert_true(fabs(a->depth_mm[0] - depths[i] * 1e3) <= 2e-3 / depths[i] * 1e-2);
        assert_true(fabs(a->thickness_mm - a->path_mm[0]) <= 1e-9);
        assert_true(isnan(a->depth_mm[1]));
        analysis_world_close(&world);
        free(x);
    }
}

/* ---- cuts and state ------------------------------------------------------------------------ */

static void test_cuts_and_state_change_nothing(void **state)
{
    (void)state;
    static const char *const settings[][10] = {
        {"period = 97 frames", "range = 97 frames", "averages = 3", NULL},
        {"period = 300 frames", "range = 40 frames", "from = 280 frames", "start = 3.5 frames",
         "gate = a: start 280 us, width 40 us, level 1 V", "tcg = 0 us 0 dB, 1 ms 20 dB", NULL},
        {"period = 64 frames", "range = 33 frames", "averages = 4", "golay = yes",
         "gate = a: width 20 us, level 0.1 V, j-flank", "rectify = negative", NULL},
        {"range = 500 frames", "averages = 2", "from = 40 frames", NULL}, /* records */
    };
    enum { CHANNELS = 2, F = 6000, EPOCHS = 5 };
    float *x = analysis_world_floats(EPOCHS * F * CHANNELS);
    noise(x, EPOCHS * F * CHANNELS, 5);
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        size_t events = 0;
        for (uint64_t seed = 1; seed <= 12; seed++) {
            struct random_state random = {seed};
            struct analysis_stream stream = analysis_world_stream(CHANNELS, 1e6, "V");
            stream.records = true;
            stream.taps_longest = 30;
            struct analysis_world whole, cut;
            analysis_world_open_good(&whole, &analysis_ascan, &stream, settings[s]);
            analysis_world_open_good(&cut, &analysis_ascan, &stream, settings[s]);
            for (uint64_t e = 0; e < EPOCHS; e++) {
                struct invalid_range invalid[32];
                struct analysis_saturation saturated[2] = {{100, 130, 0}, {1000, 1001, 1}};
                const struct analysis_signal signal = {
                    .channels = CHANNELS,
                    .frames = F - random_below(&random, F / 2),
                    .samples = x + e * F * CHANNELS,
                    .rate_hz = 1e6,
                    .epoch = e,
                    .record = e,
                    .invalid = invalid,
                    .invalid_count =
                        analysis_world_ranges(&random, F / 2, invalid, seed % 3 ? 32 : seed % 2),
                    .saturated = saturated,
                    .saturated_count = 2,
                };
                analysis_world_put(&whole, &signal, 0, signal.frames);
                analysis_world_put_cut(&cut, &signal, &random, true);
            }
            analysis_world_equal(&whole, &cut);
            events += whole.count;
            analysis_world_close(&whole);
            analysis_world_close(&cut);
        }
        assert_true(events > 0);
    }
    free(x);
}

/* ---- extremes ------------------------------------------------------------------------------ */

/* 1024 channels, rates from 1/3 Hz to 200 MHz, samples as large as they come. */
static void test_extremes(void **state)
{
    (void)state;
    enum { CHANNELS = 1024, F = 64 };
    static const double rates[] = {1.0 / 3, 2e8};
    float *x = analysis_world_floats(CHANNELS * F);
    for (size_t i = 0; i < CHANNELS * F; i++)
        x[i] = i % 2 ? 3.4e38f : -3.4e38f;
    for (int r = 0; r < 2; r++) {
        const struct analysis_stream stream = analysis_world_stream(CHANNELS, rates[r], "V");
        struct analysis_world world;
        analysis_world_open_good(&world, &analysis_ascan, &stream,
                                 (const char *const[]){"period = 8 frames", "range = 8 frames",
                                                       "averages = 4", "tcg = 0 us 200 dB",
                                                       "gate = a: width 1 h, level 1 uV", NULL});
        const struct analysis_signal signal = {
            .channels = CHANNELS, .frames = F, .samples = x, .rate_hz = rates[r]};
        analysis_world_put(&world, &signal, 0, F);
        assert_int_equal(world.count, 2 * CHANNELS);
        assert_true(isfinite(body(&world, 0)->amplitude[0]));
        analysis_world_close(&world);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_average_is_the_sum_over_k),
        cmocka_unit_test(test_noise_sinks_by_10_lg_k),
        cmocka_unit_test(test_sidelobes_of_a_golay_pair_cancel),
        cmocka_unit_test(test_a_shot_with_an_invalid_frame_is_left_out_whole),
        cmocka_unit_test(test_records_are_grouped_by_their_numbers),
        cmocka_unit_test(test_saturation_reaches_as_far_as_the_filter),
        cmocka_unit_test(test_gain_is_linear_in_db),
        cmocka_unit_test(test_thickness_between_echoes),
        cmocka_unit_test(test_no_surface_no_thickness),
        cmocka_unit_test(test_depth_of_a_diffracting_tip),
        cmocka_unit_test(test_cuts_and_state_change_nothing),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
