/*
 * Intervals against their definitions: closed forms of a sine, a direct reference in long double
 * over random signals, counts and hits against a state machine written sample by sample; dead
 * frames, epochs, saturation; and that neither cuts nor a restored state change a bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/interval.h"
#include "tests/support/analysis_world.h"

#define PI   3.14159265358979323846
#define RATE 1e6

static const struct interval *body(const struct analysis_world *world, size_t i)
{
    assert_in_range(i, 0, world->count - 1);
    assert_int_equal(world->events[i].event.body_bytes, sizeof(struct interval));
    return world->events[i].body;
}

static void near(double got, double expected, double relative)
{
    if (!(fabs(got - expected) <= relative * fabs(expected)))
        fail_msg("%.17g is not within %g of %.17g", got, relative, expected);
}

static void open_intervals(struct analysis_world *world, uint32_t channels, const char *unit,
                           const char *const *settings)
{
    const struct analysis_stream stream = analysis_world_stream(channels, RATE, unit);
    analysis_world_open(world, &analysis_intervals, &stream, settings);
    if (world->analysis == NULL)
        fail_msg("%s", world->errors);
}

/* ---- closed forms ------------------------------------------------------------------------ */

/* N = 8 frames a period, amplitude A in mV, frame 0 half a frame after the zero crossing. */
static void test_sine(void **state)
{
    (void)state;
    enum { N = 8, FRAMES = 8000 };
    const double amplitude = 20; /* mV */
    float *samples = calloc(FRAMES, sizeof *samples);
    for (int i = 0; i < FRAMES; i++)
        samples[i] = (float)(amplitude * sin(2 * PI * (i + 0.5) / N));
    const struct analysis_signal signal = {
        .channels = 1, .frames = FRAMES, .samples = samples, .rate_hz = RATE};
    static const struct {
        const char *counts;
        double expected;
    } cases[] = {{"counts = positive", 1000}, {"counts = both", 1000}, {"counts = plain", 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        open_intervals(
            &world, 1, "mV",
            (const char *[]){"interval = 8 ms", "threshold = 10 mV", cases[i].counts, NULL});
        analysis_world_put(&world, &signal, 0, FRAMES);
        assert_int_equal(world.count, 1);
        const struct interval *got = body(&world, 0);
        const double volts = amplitude * 1e-3, mean = 2 * volts / N / sin(PI / N);
        near(got->rms, amplitude / sqrt(2), 2e-6);
        near(got->asl_db, 20 * log10(mean / 1e-6), 2e-6);
        near(got->peak, amplitude * cos(PI / N), 2e-6);
        near(got->peak_db, 20 * log10(volts * cos(PI / N) / 1e-6), 2e-6);
        near(got->energy_eu, volts * volts / 2 * FRAMES / RATE / 1e-14, 2e-6);
        near(got->strength_nvs, mean * FRAMES / RATE / 1e-9, 2e-6);
        near(got->crest, cos(PI / N) * sqrt(2), 2e-6);
        near(got->kurtosis, 1.5, 2e-6);
        near(got->threshold, 10, 0);
        near(got->counts, cases[i].expected, 0);
        near(got->hits, 1, 0);
        assert_int_equal(got->live, FRAMES);
        assert_int_equal(got->dead, 0);
        assert_int_equal(world.events[0].event.flags, 0);
        analysis_world_close(&world);
    }
    free(samples);
}

/* Accelerations have no energy in eu; levels are re 1 um/s^2. The log mean of a sine lies 6.02 dB
 * under its amplitude, where the sum over N frames has the product 2^(1-N). */
static void test_unit_and_logarithm(void **state)
{
    (void)state;
    enum { N = 8, FRAMES = 4000 };
    float samples[FRAMES];
    for (int i = 0; i < FRAMES; i++) /* two of eight samples are 0 */
        samples[i] = i % 4 == 0 ? 0 : (float)(3 * sin(2 * PI * i / N));
    const struct analysis_signal signal = {
        .channels = 1, .frames = FRAMES, .samples = samples, .rate_hz = RATE};
    struct analysis_world world;
    open_intervals(&world, 1, "m/s2",
                   (const char *[]){"interval = 4 ms", "asl = log", "kurtosis = no", NULL});
    analysis_world_put(&world, &signal, 0, FRAMES);
    const struct interval *got = body(&world, 0);
    assert_true(isnan(got->energy_eu) && isnan(got->strength_nvs));
    assert_true(isnan(got->kurtosis) && isnan(got->threshold) && isnan(got->counts));
    near(got->peak_db, 20 * log10(3 / 1e-6), 2e-6);
    /* six samples of each eight: 1, sqrt(1/2) twice, twice */
    near(got->asl_db, 20 * log10(3 * pow(0.5, 2.0 / 6) / 1e-6), 2e-6);
    analysis_world_close(&world);
}

/* A constant far above the noise, and a loud first sample, take no digits of the kurtosis. */
static void test_kurtosis_keeps_its_digits(void **state)
{
    (void)state;
    enum { FRAMES = 5000 };
    static float samples[FRAMES * 2];
    struct random_state random = {3};
    for (int i = 0; i < FRAMES; i++) {
        samples[2 * i] = 1000.0f + (float)random_normal(&random);
        samples[2 * i + 1] = i == 0 ? 1e4f : (float)random_normal(&random);
    }
    struct analysis_world world;
    open_intervals(&world, 2, "V", (const char *[]){"interval = 5000", NULL});
    analysis_world_put(&world,
                       &(struct analysis_signal){
                           .channels = 2, .frames = FRAMES, .samples = samples, .rate_hz = RATE},
                       0, FRAMES);
    for (int c = 0; c < 2; c++) {
        long double mean = 0, second = 0, fourth = 0;
        for (int i = 0; i < FRAMES; i++)
            mean += samples[2 * i + c];
        mean /= FRAMES;
        for (int i = 0; i < FRAMES; i++) {
            const long double d = samples[2 * i + c] - mean;
            second += d * d;
            fourth += d * d * d * d;
        }
        near(body(&world, (size_t)c)->kurtosis, (double)(fourth * FRAMES / (second * second)),
             1e-10);
    }
    analysis_world_close(&world);
}

/* ---- against the definition -------------------------------------------------------------- */

/* The rules of counts and hits, one sample at a time, from the specification's table alone. */
struct reference {
    uint64_t up, down, plain, hits;
};

static struct reference count_reference(const float *x, const bool *live, uint64_t frames,
                                        uint64_t from, uint64_t until, double threshold,
                                        uint64_t hdt, uint64_t hlt, uint64_t longest)
{
    struct reference r = {0};
    bool armed_up = false, armed_down = false, in_hit = false;
    uint64_t begin = 0, last = 0, locked_until = 0;
    for (uint64_t n = 0; n < frames && n < until; n++) {
        if (!live[n]) {
            in_hit = false;
            locked_until = 0;
            continue;
        }
        const bool first = n == 0 || !live[n - 1], counts = n >= from;
        const double v = (double)x[n];
        if (first) {
            armed_up = v <= threshold;
            armed_down = v >= -threshold;
        } else if (v > threshold && (double)x[n - 1] <= threshold) {
            r.plain += counts;
        }
        if (v < 0)
            armed_up = true;
        if (v > 0)
            armed_down = true;
        if (v > threshold && armed_up) {
            armed_up = false;
            r.up += counts;
        }
        if (v < -threshold && armed_down) {
            armed_down = false;
            r.down += counts;
        }
        if (in_hit && n == begin + longest) /* its last frame was n - 1; no lockout */
            in_hit = false;
        if (in_hit && n > last + hdt) {
            in_hit = false;
            locked_until = n + hlt; /* frames last + H + 1 … last + H + L */
        }
        if (fabs(v) > threshold) {
            if (in_hit) {
                last = n;
            } else if (n >= locked_until) {
                in_hit = true;
                begin = last = n;
                r.hits += counts;
            }
        }
    }
    return r;
}

enum { CHANNELS = 6, FRAMES = 20000, RANGES = 40 };

struct scene {
    float samples[FRAMES * CHANNELS];
    struct invalid_range invalid[RANGES];
    struct analysis_saturation saturated[3];
    bool live[FRAMES];
    struct analysis_signal signal;
};

/* Noise with decaying bursts; zeros among the samples. */
static void make_scene(struct scene *scene, uint64_t seed, uint32_t channels)
{
    struct random_state random = {seed};
    float level[CHANNELS] = {0};
    for (uint64_t n = 0; n < FRAMES; n++)
        for (uint32_t c = 0; c < channels; c++) {
            level[c] = random_below(&random, 600) == 0 ? 3 : level[c] * 0.99f;
            scene->samples[n * channels + c] =
                random_below(&random, 50) == 0 ? 0
                                               : (0.02f + level[c]) * (float)random_normal(&random);
        }
    scene->signal = (struct analysis_signal){
        .channels = channels,
        .frames = FRAMES,
        .samples = scene->samples,
        .rate_hz = RATE,
        .epoch = 7,
        .record = 3,
        .invalid = scene->invalid,
        .invalid_count = analysis_world_ranges(&random, FRAMES, scene->invalid, RANGES),
        .saturated = scene->saturated,
        .saturated_count = 1,
    };
    scene->saturated[0] = (struct analysis_saturation){5500, 5501, channels - 1};
    for (uint64_t n = 0; n < FRAMES; n++) {
        scene->live[n] = true;
        for (uint32_t i = 0; i < scene->signal.invalid_count; i++)
            if (n >= scene->invalid[i].from && n < scene->invalid[i].until)
                scene->live[n] = false;
    }
}

static const char *const settings[] = {"interval = 3000", "threshold = 0.5 V",  "hdt = 40",
                                       "hlt = 25",        "max duration = 300", NULL};

static void compare_interval(const struct scene *scene, const struct analysis_world *world,
                             size_t i)
{
    const struct analysis_event *event = &world->events[i].event;
    const uint32_t channels = scene->signal.channels, c = event->channel;
    const uint64_t first = 3000 * (i / channels);
    const uint64_t end = first + 3000 < FRAMES ? first + 3000 : FRAMES;
    assert_int_equal(event->number, i + 1);
    assert_int_equal(c, i % channels);
    assert_int_equal(event->frame, first);
    assert_int_equal(event->epoch, 7);
    assert_int_equal(event->record, 3);
    assert_int_equal(event->capture_ns, 1000000000 + (int64_t)first * 1000);
    uint64_t live = 0;
    long double absolute = 0, square = 0, peak = 0;
    for (uint64_t n = first; n < end; n++) {
        const long double x = scene->samples[n * channels + c];
        live += scene->live[n];
        absolute += scene->live[n] ? fabsl(x) : 0;
        square += scene->live[n] ? x * x : 0;
        peak = scene->live[n] && fabsl(x) > peak ? fabsl(x) : peak;
    }
    const struct interval *got = world->events[i].body;
    assert_int_equal(got->live, live);
    assert_int_equal(got->dead, end - first - live);
    assert_int_equal((event->flags & ANALYSIS_INCOMPLETE) != 0, got->dead > 0);
    assert_int_equal((event->flags & ANALYSIS_CUT) != 0, end - first < 3000);
    assert_int_equal((event->causes != 0), got->dead > 0);
    if (live == 0)
        return;
    near(got->rms, (double)sqrtl(square / live), 1e-12);
    near(got->asl_db, (double)(20 * log10l(absolute / live / 1e-6L)), 1e-12);
    near(got->peak, (double)peak, 0);
    near(got->energy_eu, (double)(square / RATE / 1e-14L), 1e-12);
    float x[FRAMES];
    for (uint64_t n = 0; n < FRAMES; n++)
        x[n] = scene->samples[n * channels + c];
    const struct reference r =
        count_reference(x, scene->live, FRAMES, first, end, 0.5, 40, 25, 300);
    near(got->counts, (double)r.up, 0);
    near(got->hits, (double)r.hits, 0);
}

static void test_random_signals(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        make_scene(scene, seed, seed % 2 ? CHANNELS : 1);
        struct analysis_world world;
        open_intervals(&world, scene->signal.channels, "V", settings);
        analysis_world_put(&world, &scene->signal, 0, FRAMES);
        assert_int_equal(world.count, 7 * scene->signal.channels);
        double hits = 0;
        for (size_t i = 0; i < world.count; i++) {
            compare_interval(scene, &world, i);
            hits += body(&world, i)->live > 0 ? body(&world, i)->hits : 0;
        }
        assert_true(hits > 20); /* or nothing was tested */
        analysis_world_close(&world);
    }
    free(scene);
}

static void test_cuts_change_nothing(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        make_scene(scene, seed, 1 + (uint32_t)(seed % CHANNELS));
        const char *const more[] = {"interval = 777", "threshold = 114 dB", "hdt = 30",
                                    "counts = both",  "asl = log",          NULL};
        struct analysis_world whole, cut;
        open_intervals(&whole, scene->signal.channels, "V", more);
        open_intervals(&cut, scene->signal.channels, "V", more);
        analysis_world_put(&whole, &scene->signal, 0, FRAMES);
        struct random_state random = {seed};
        analysis_world_put_cut(&cut, &scene->signal, &random, seed % 2 == 0);
        analysis_world_equal(&whole, &cut);
        analysis_world_close(&whole);
        analysis_world_close(&cut);
    }
    free(scene);
}

/* ---- epochs, dead time, saturation ------------------------------------------------------- */

static void test_dead_intervals(void **state)
{
    (void)state;
    static float samples[4000];
    for (int i = 0; i < 4000; i++)
        samples[i] = i >= 2500 ? 1 : -1;
    const struct invalid_range invalid[] = {{1000, 2000, INVALID_NETWORK},
                                            {1500, 2100, INVALID_LATE}};
    const struct analysis_signal signal = {.channels = 1,
                                           .frames = 4000,
                                           .samples = samples,
                                           .rate_hz = RATE,
                                           .invalid = invalid,
                                           .invalid_count = 2};
    struct analysis_world world;
    open_intervals(&world, 1, "V",
                   (const char *[]){"interval = 1 ms", "threshold = 0.5 V", "hdt = 9", NULL});
    analysis_world_put(&world, &signal, 0, 4000);
    assert_int_equal(world.count, 4);
    const struct interval *dead = body(&world, 1);
    assert_int_equal(dead->dead, 1000);
    assert_int_equal(dead->live, 0);
    assert_true(isnan(dead->rms) && isnan(dead->asl_db) && isnan(dead->peak) &&
                isnan(dead->energy_eu) && isnan(dead->counts) && isnan(dead->hits) &&
                isnan(dead->kurtosis));
    near(dead->threshold, 0.5, 0);
    assert_int_equal(world.events[1].event.causes, 1u << INVALID_NETWORK | 1u << INVALID_LATE);
    assert_int_equal(body(&world, 2)->dead, 100);
    assert_int_equal(world.events[2].event.causes, 1u << INVALID_LATE);
    /* a hit goes on behind what is missing as a new one; it is there at once */
    near(body(&world, 0)->hits, 1, 0);
    near(body(&world, 2)->hits, 1, 0);
    near(body(&world, 2)->counts, 1, 0);
    near(body(&world, 3)->hits, 0, 0);
    struct analysis_ledger ledger;
    analysis_intervals.ledger(world.analysis, &ledger);
    assert_int_equal(ledger.frames, 4000);
    assert_int_equal(ledger.live, 2900);
    assert_int_equal(ledger.dead, 1100);
    assert_int_equal(ledger.events[ANALYSIS_INTERVAL], 4);
    analysis_world_close(&world);
}

/* An excursion that lasts from before the first live frame is a hit and no count. */
static void test_edge_is_no_count(void **state)
{
    (void)state;
    static const struct {
        float samples[6];
        double counts, hits;
    } cases[] = {
        {{2, 2, 2, 2, 2, 2}, 0, 1},    {{2, 2, -1, 2, 2, 2}, 1, 1}, {{0, 2, 2, 2, 2, 2}, 1, 1},
        {{1, 2, 1, 2, 1, 2}, 1, 1}, /* 1 = U is not above; never below 0 again */
        {{-2, 2, -2, 2, -2, 2}, 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct analysis_world world;
        open_intervals(&world, 1, "V",
                       (const char *[]){"interval = 6", "threshold = 1 V", "hdt = 2", NULL});
        analysis_world_put(
            &world,
            &(struct analysis_signal){
                .channels = 1, .frames = 6, .samples = cases[i].samples, .rate_hz = RATE},
            0, 6);
        near(body(&world, 0)->counts, cases[i].counts, 0);
        near(body(&world, 0)->hits, cases[i].hits, 0);
        analysis_world_close(&world);
    }
}

static void test_epochs_do_not_touch(void **state)
{
    (void)state;
    static float samples[2500];
    for (int i = 0; i < 2500; i++)
        samples[i] = 2;
    struct analysis_signal signal = {
        .channels = 1, .frames = 2500, .samples = samples, .rate_hz = RATE, .epoch = 1};
    struct analysis_world world;
    open_intervals(&world, 1, "V",
                   (const char *[]){"interval = 1 ms", "threshold = 1 V", "hdt = 9",
                                    "max duration = 1 s", NULL});
    analysis_world_put(&world, &signal, 0, 2500);
    assert_int_equal(world.count, 3);
    assert_true(world.advanced == UINT64_MAX);
    assert_int_equal(world.events[2].event.flags, ANALYSIS_CUT);
    assert_int_equal(body(&world, 2)->live, 500);
    signal.epoch = 2;
    analysis_world_put(&world, &signal, 0, 2500);
    assert_int_equal(world.count, 6);
    assert_int_equal(world.events[3].event.frame, 0);
    assert_int_equal(world.events[3].event.epoch, 2);
    near(body(&world, 3)->hits, 1, 0); /* a new one */
    analysis_world_close(&world);
}

/* An epoch that goes on in the middle (a restart, a takeover) has its intervals where they were. */
static void test_intervals_lie_on_the_grid(void **state)
{
    (void)state;
    static float samples[1700];
    struct analysis_world world;
    open_intervals(&world, 1, "V", (const char *[]){"interval = 1000", NULL});
    const struct analysis_run run = {.epoch = 4,
                                     .first_frame = 2501,
                                     .frames = 1699,
                                     .channels = 1,
                                     .samples = samples,
                                     .begins = true,
                                     .ends = true};
    analysis_intervals.put(world.analysis, &run);
    static const uint64_t frames[] = {2501, 3000, 4000}, live[] = {499, 1000, 200};
    assert_int_equal(world.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world.events[i].event.frame, frames[i]);
        assert_int_equal(body(&world, i)->live, live[i]);
    }
    analysis_world_close(&world);
}

/* The filter spreads a saturated input over the S - 1 frames behind it. */
static void test_saturation_reaches_as_far_as_the_filter(void **state)
{
    (void)state;
    static float samples[8000];
    static const struct {
        uint64_t frame;
        uint32_t taps;
        bool flagged[4];
    } cases[] = {
        {999, 1, {true, false, false, false}},    {999, 2, {true, true, false, false}},
        {1000, 1, {false, true, false, false}},   {1000, 1000, {false, true, false, false}},
        {1000, 1001, {false, true, true, false}}, {0, 4000, {true, true, true, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct analysis_saturation saturated = {cases[i].frame, cases[i].frame + 1, 1};
        struct analysis_stream stream = analysis_world_stream(2, RATE, "V");
        stream.taps_longest = cases[i].taps;
        struct analysis_world world;
        analysis_world_open(&world, &analysis_intervals, &stream,
                            (const char *[]){"interval = 1000", NULL});
        const struct analysis_signal signal = {.channels = 2,
                                               .frames = 4000,
                                               .samples = samples,
                                               .rate_hz = RATE,
                                               .saturated = &saturated,
                                               .saturated_count = 1};
        struct random_state random = {i};
        analysis_world_put_cut(&world, &signal, &random, false);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(world.events[2 * k].event.flags, 0);
            assert_int_equal(world.events[2 * k + 1].event.flags,
                             cases[i].flagged[k] ? ANALYSIS_SATURATED : 0);
        }
        analysis_world_close(&world);
    }
}

/* ---- options ----------------------------------------------------------------------------- */

static void test_check(void **state)
{
    (void)state;
    static const struct {
        double rate_hz;
        const char *settings[3];
        const char *error; /* NULL: none */
    } cases[] = {
        {1e6, {NULL}, NULL},
        {1.0 / 3, {NULL}, NULL}, /* an interval is at least a frame */
        {200e6, {"interval = 10 ns"}, NULL},
        {1e6, {"interval = 10 ns"}, "`interval = 10 ns` is 0 frames"},
        {1e6, {"hdt = 1 ms"}, "`hdt` needs a threshold"},
        {1e6, {"threshold = 40 dB", "hdt = 1 ms"}, NULL},
        {1e6, {"threshold = 3 Pa"}, "`threshold = 3 Pa` is in Pa, but the unit here is V"},
        {1e6, {"counts = both"}, "`counts` needs a threshold"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct analysis_stream stream = analysis_world_stream(2, cases[i].rate_hz, "V");
        struct analysis_world world;
        analysis_world_open(&world, &analysis_intervals, &stream, cases[i].settings);
        if (cases[i].error == NULL)
            assert_string_equal(world.errors, "");
        else if (strstr(world.errors, cases[i].error) == NULL)
            fail_msg("no “%s” in: %s", cases[i].error, world.errors);
        analysis_world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sine),
        cmocka_unit_test(test_unit_and_logarithm),
        cmocka_unit_test(test_kurtosis_keeps_its_digits),
        cmocka_unit_test(test_random_signals),
        cmocka_unit_test(test_cuts_change_nothing),
        cmocka_unit_test(test_dead_intervals),
        cmocka_unit_test(test_edge_is_no_count),
        cmocka_unit_test(test_epochs_do_not_touch),
        cmocka_unit_test(test_intervals_lie_on_the_grid),
        cmocka_unit_test(test_saturation_reaches_as_far_as_the_filter),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
