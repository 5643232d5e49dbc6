/*
 * Hits against the closed forms of docs/analysis.md: bursts whose energy and counts are known,
 * order and release, memory that is bounded; and that neither cuts nor a restored state change a
 * bit. test_hit_rules.c holds them against the rules on short signals, and
 * tests/e2e/test_hits_reference.py against a detector written from the rules alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/hit.h"
#include "tests/support/analysis_world.h"

#define PI   3.14159265358979323846
#define RATE ANALYSIS_WORLD_RATE

static void near(double got, double expected, double relative)
{
    if (!(fabs(got - expected) <= relative * fabs(expected)))
        fail_msg("%.17g is not within %g of %.17g", got, relative, expected);
}

/* ---- closed forms ------------------------------------------------------------------------ */

enum shape { RECT, SIN2, TRIANGLE };

/* A burst of n cycles of N frames, amplitude 1, from frame LEAD on. */
enum { LEAD = 100, TAIL = 300, BURST_MAX = 8192 };

static uint64_t make_burst(float *samples, enum shape shape, int n, int N)
{
    const int M = n * N;
    memset(samples, 0, (size_t)(LEAD + M + TAIL) * sizeof *samples);
    for (int i = 0; i < M; i++) {
        const double t = (double)i / M, ramp = sin(PI * t);
        const double envelope = shape == RECT   ? 1
                                : shape == SIN2 ? ramp * ramp
                                                : 1 - fabs(2 * t - 1);
        const double carrier =
            shape == RECT ? sin(2 * PI * (i % N) / N) : cos(2 * PI * ((i - M / 2) % N) / N);
        samples[LEAD + i] = (float)(envelope * carrier);
    }
    return (uint64_t)(LEAD + M + TAIL);
}

/* First and last frame with |x| > U, by a direct look at the definition. */
static void bounds(const float *samples, uint64_t frames, double U, uint64_t *a, uint64_t *b)
{
    *a = frames;
    for (uint64_t i = 0; i < frames; i++) {
        if (fabs((double)samples[i]) > U) {
            *a = i < *a ? i : *a;
            *b = i;
        }
    }
}

static void test_bursts(void **state)
{
    (void)state;
    static const struct {
        enum shape shape;
        int n, N;
        double theta;
    } cases[] = {
        {RECT, 10, 16, 0.3},  {RECT, 4, 64, 0.5},      {SIN2, 10, 32, 0.3},
        {SIN2, 20, 64, 0.1},  {TRIANGLE, 10, 64, 0.2}, {TRIANGLE, 20, 32, 0.35},
        {SIN2, 40, 128, 0.2},
    };
    float *samples = calloc(BURST_MAX, sizeof *samples);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int n = cases[k].n, N = cases[k].N, M = n * N;
        const double theta = cases[k].theta, T = M / RATE, cot = 1 / tan(PI / N);
        const struct analysis_signal signal = {.channels = 1,
                                               .frames = make_burst(samples, cases[k].shape, n, N),
                                               .samples = samples,
                                               .rate_hz = RATE};
        for (int whole = 0; whole < 2; whole++) {
            char threshold[40];
            snprintf(threshold, sizeof threshold, "threshold = %g V", whole ? 0 : theta);
            struct analysis_world world;
            analysis_world_hits(&world, 1, (const char *[]){threshold, "hdt = 200", NULL});
            analysis_world_put(&world, &signal, 0, signal.frames);
            assert_int_equal(world.count, 2);
            const struct hit *hit = analysis_world_hit(&world, 1);
            if (!whole) {
                const double c =
                    cases[k].shape == SIN2 ? n / PI * acos(sqrt(theta)) : n / 2.0 * (1 - theta);
                const uint64_t positive =
                    cases[k].shape == RECT ? (uint64_t)n : 1 + 2 * (uint64_t)floor(c);
                uint64_t a, b = 0;
                bounds(samples, signal.frames, theta, &a, &b);
                assert_int_equal(world.events[1].event.frame, a);
                assert_int_equal(hit->last_frame, b);
                assert_int_equal(hit->counts, positive);
                if (cases[k].shape == RECT) {
                    assert_int_equal(a, LEAD + (uint64_t)floor(asin(theta) * N / (2 * PI)) + 1);
                    assert_int_equal(b, LEAD + (uint64_t)M - (a - LEAD));
                } else {
                    assert_int_equal(hit->peak_frame, LEAD + M / 2);
                    near(hit->amplitude, 1, 1e-7);
                }
            } else {
                const double energy[] = {
                    T / 2, 3 * T / 16,
                    1 / (2 * RATE) * (M / 3.0 + 2 / (3.0 * M) + 2 / (M * pow(sin(2 * PI / N), 2)))};
                near(hit->energy_eu, energy[cases[k].shape] / 1e-14, 1e-7);
                if (cases[k].shape != TRIANGLE)
                    near(hit->strength_nvs, (cases[k].shape == RECT ? 2 : 1) * T / N * cot / 1e-9,
                         1e-7);
            }
            analysis_world_close(&world);
        }
    }
    free(samples);
}

/* Against sums in long double, over the same samples. */
static void test_features_are_their_sums(void **state)
{
    (void)state;
    enum { FRAMES = 3000 };
    float *samples = calloc(FRAMES, sizeof *samples);
    struct random_state random = {3};
    for (int i = 500; i < 2500; i++)
        samples[i] = (float)(random_normal(&random) * exp(-i / 700.0) + 0.01);
    const struct analysis_signal signal = {
        .channels = 1, .frames = FRAMES, .samples = samples, .rate_hz = RATE};
    struct analysis_world world;
    analysis_world_hits(&world, 1,
                        (const char *[]){"threshold = 80 mV", "hdt = 400", "energy over = hit",
                                         "pre-trigger = 100", "post-duration = 50",
                                         "max record = 4000", NULL});
    analysis_world_put(&world, &signal, 0, FRAMES);
    assert_int_equal(world.count, 2);
    const struct analysis_event *event = &world.events[1].event;
    const struct hit *hit = analysis_world_hit(&world, 1);
    const uint64_t a = event->frame, b = hit->last_frame;
    const long double n = (long double)(b - a + 1);
    long double sum = 0, absolute = 0, square = 0, root = 0, m[5] = {0}, energy = 0, strength = 0;
    float peak = 0;
    for (uint64_t i = a; i <= b; i++) {
        const long double x = samples[i];
        sum += x;
        absolute += fabsl(x);
        square += x * x;
        root += sqrtl(fabsl(x));
        peak = fmaxf(peak, fabsf(samples[i]));
    }
    for (uint64_t i = a; i <= b; i++)
        for (int k = 2; k <= 4; k++)
            m[k] += powl((long double)samples[i] - sum / n, k) / n;
    for (uint64_t i = a; i <= b + 400; i++) {
        energy += (long double)samples[i] * (long double)samples[i];
        strength += fabsl((long double)samples[i]);
    }
    const double rms = (double)sqrtl(square / n);
    near(hit->amplitude, (double)peak, 0);
    near(hit->rms, rms, 1e-12);
    near(hit->energy_eu, (double)(energy / RATE / 1e-14L), 1e-12);
    near(hit->strength_nvs, (double)(strength / RATE / 1e-9L), 1e-12);
    near(hit->crest, (double)peak / rms, 1e-12);
    near(hit->impulse, (double)(peak / (absolute / n)), 1e-12);
    near(hit->clearance, (double)(peak / (root / n) / (root / n)), 1e-12);
    near(hit->shape, (double)(rms / (absolute / n)), 1e-12);
    near(hit->skewness, (double)(m[3] / powl(m[2], 1.5L)), 1e-11);
    near(hit->kurtosis, (double)(m[4] / m[2] / m[2]), 1e-12);
    near(hit->peak_db, 20 * log10((double)peak / 1e-6), 1e-14);
    near(hit->duration_us, (double)(b - a), 1e-14);
    near(hit->rise_us, (double)(hit->peak_frame - a), 1e-14);
    near(hit->ra_us_v, hit->rise_us / (double)peak, 1e-14);
    near(hit->average_khz, (double)hit->counts / (double)(b - a) * 1e3, 1e-14);
    assert_true(isnan(hit->noise_rms) && isnan(hit->margin_db) && isnan(hit->peak_khz));
    assert_int_equal(event->first_sample, -100);
    assert_int_equal(event->sample_count, 100 + (b - a) + 1 + 50);
    assert_memory_equal(event->samples, samples + a - 100, event->sample_count * sizeof(float));
    analysis_world_close(&world);
    free(samples);
}

/* ---- order, cuts, state ------------------------------------------------------------------ */

enum { FRAMES = 6000, CHANNELS = 5 };

struct scene {
    struct analysis_signal signal;
    float samples[FRAMES * CHANNELS];
    struct invalid_range invalid[200];
    struct analysis_saturation saturated[40];
};

/* Noise with bursts, losses and saturated inputs. */
static void make_scene(struct scene *scene, uint64_t seed, uint32_t channels)
{
    struct random_state random = {seed};
    float level[CHANNELS] = {0};
    for (uint32_t i = 0; i < FRAMES; i++) {
        for (uint32_t c = 0; c < channels; c++) {
            if (random_below(&random, 300) == 0)
                level[c] = (float)random_below(&random, 8);
            level[c] *= 0.99f;
            scene->samples[i * channels + c] =
                (float)random_normal(&random) * (0.2f + level[c]) * 0.1f;
        }
    }
    uint32_t ranges =
        seed % 3 == 0 ? 0 : analysis_world_ranges(&random, FRAMES, scene->invalid, 200);
    uint32_t saturated = 0;
    for (uint64_t at = random_below(&random, 900); at < FRAMES && saturated < 40;
         at += random_below(&random, 900))
        scene->saturated[saturated++] =
            (struct analysis_saturation){.from = at,
                                         .until = at + 1 + random_below(&random, 100),
                                         .channel = random_below(&random, channels)};
    scene->signal = (struct analysis_signal){
        .channels = channels,
        .frames = FRAMES,
        .samples = scene->samples,
        .rate_hz = RATE,
        .epoch = 7,
        .record = 3,
        .invalid = scene->invalid,
        .invalid_count = ranges,
        .saturated = scene->saturated,
        .saturated_count = saturated,
    };
}

static const char *const plain[] = {"threshold = 100 mV", "hdt = 20", NULL};
static const char *const rich[] = {"threshold = 100 mV, 110 mV, 90 mV, 105 mV, 0.1 V",
                                   "hdt = 31",
                                   "hlt = 17",
                                   "pdt = 40",
                                   "max duration = 400",
                                   "pre-trigger = 50",
                                   "post-duration = 100",
                                   "max record = 120",
                                   "noise interval = 500",
                                   "floating threshold = 3",
                                   "spectrum = 64",
                                   "bands = 10-100 kHz, 100-400 kHz",
                                   "picker = aic",
                                   "pick window = 60",
                                   "energy over = hit",
                                   "counts = both",
                                   NULL};
static const char *const dense[] = {"threshold = 10 mV",      "hdt = 0",
                                    "max duration = 64",      "pre-trigger = 3",
                                    "max record = 300",       "post-duration = 7",
                                    "picker = threshold",     "interpolate = yes",
                                    "release queue = 64 KiB", NULL};

static const char *const *settings_of(uint64_t seed, uint32_t *channels)
{
    *channels = 1 + (uint32_t)(seed % CHANNELS);
    if (seed % 2 == 0)
        *channels = CHANNELS; /* what `rich` lists */
    return seed % 2 == 0 ? rich : seed % 4 == 1 ? plain : dense;
}

static void test_cuts_change_nothing(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    for (uint64_t seed = 1; seed <= 24; seed++) {
        uint32_t channels;
        const char *const *settings = settings_of(seed, &channels);
        make_scene(scene, seed, channels);
        struct analysis_stream stream = analysis_world_stream(channels, RATE, "V");
        stream.taps_longest = 33;
        struct analysis_world whole, cut;
        analysis_world_open(&whole, &analysis_hits, &stream, settings);
        analysis_world_open(&cut, &analysis_hits, &stream, settings);
        if (whole.analysis == NULL || cut.analysis == NULL)
            fail_msg("%s", whole.errors);
        analysis_world_put(&whole, &scene->signal, 0, FRAMES);
        assert_true(whole.count > 20);
        struct random_state random = {seed};
        analysis_world_put_cut(&cut, &scene->signal, &random, seed % 3 != 0);
        analysis_world_equal(&whole, &cut);
        analysis_world_close(&whole);
        analysis_world_close(&cut);
    }
    free(scene);
}

/* Every hit comes twice, the second time in order; a late one within its bound. */
static void test_order(void **state)
{
    (void)state;
    struct scene *scene = calloc(1, sizeof *scene);
    for (uint64_t seed = 2; seed <= 8; seed += 2) {
        make_scene(scene, seed, CHANNELS);
        struct analysis_world world;
        analysis_world_hits(&world, CHANNELS, rich);
        const uint64_t bound = 400 - 1 + 100; /* max duration - 1 + post-duration */
        size_t seen = 0, at_once = 0, ordered = 0;
        uint64_t frame = 0;
        uint32_t channel = 0;
        for (uint64_t from = 0; from < FRAMES; from++) {
            analysis_world_put(&world, &scene->signal, from, from + 1);
            assert_true(world.advanced == UINT64_MAX || world.advanced <= from + 1);
            for (; seen < world.count; seen++) {
                const struct analysis_event *event = &world.events[seen].event;
                if (!event->ordered) {
                    assert_int_equal(event->number, ++at_once);
                    continue;
                }
                ordered++;
                assert_true(event->frame > frame ||
                            (event->frame == frame && event->channel > channel) || ordered == 1);
                assert_in_range(from, event->frame, event->frame + bound + 1);
                frame = event->frame;
                channel = event->channel;
            }
            struct analysis_ledger ledger;
            world.ops->ledger(world.analysis, &ledger);
            assert_int_equal(ledger.events[ANALYSIS_HIT], ordered);
            assert_int_equal(ledger.at_once + ledger.unordered, at_once - ordered);
        }
        assert_int_equal(at_once, ordered);
        assert_true(at_once > 50);
        analysis_world_close(&world);
    }
    free(scene);
}

/* ---- saturation, noise ------------------------------------------------------------------- */

/* A hit at 500 … 509; S = 33. */
static void test_saturation_spreads_over_the_filter(void **state)
{
    (void)state;
    static const struct {
        uint64_t from, until;
        bool flagged;
    } cases[] = {{467, 468, false}, {468, 469, true},  {400, 469, true}, {500, 501, true},
                 {509, 510, true},  {510, 600, false}, {509, 900, true}};
    float samples[1000] = {0};
    for (int i = 500; i < 510; i++)
        samples[i] = 1;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct analysis_stream stream = analysis_world_stream(1, RATE, "V");
        stream.taps_longest = 33;
        const struct analysis_saturation range = {
            .from = cases[k].from, .until = cases[k].until, .channel = 0};
        const struct analysis_signal signal = {.channels = 1,
                                               .frames = 1000,
                                               .samples = samples,
                                               .rate_hz = RATE,
                                               .saturated = &range,
                                               .saturated_count = 1};
        struct analysis_world world;
        analysis_world_open(&world, &analysis_hits, &stream,
                            (const char *[]){"threshold = 0.5 V", "hdt = 20", NULL});
        analysis_world_put(&world, &signal, 0, 1000);
        assert_int_equal(world.count, 2);
        assert_int_equal(world.events[0].event.flags, cases[k].flagged ? ANALYSIS_SATURATED : 0);
        analysis_world_close(&world);
    }
}

/* Intervals of 100 frames: noise of 1, of 2 with a hit in it, of 3; hits at 150, 250 and 350. */
static void test_noise_comes_from_quiet_intervals(void **state)
{
    (void)state;
    float samples[500];
    for (int i = 0; i < 500; i++) {
        const int size = i / 100 + 1;
        samples[i] = (float)(i % 2 == 0 ? size : -size);
    }
    samples[150] = samples[350] = samples[460] = 30;
    const struct analysis_signal signal = {
        .channels = 1, .frames = 500, .samples = samples, .rate_hz = RATE};
    struct analysis_world world;
    analysis_world_hits(&world, 1,
                        (const char *[]){"threshold = 10 V", "hdt = 10", "noise interval = 100",
                                         "floating threshold = 4", "floating time = 200", NULL});
    analysis_world_put(&world, &signal, 0, 500);
    assert_int_equal(world.count, 6);
    /* Mean squares of the intervals, the first of a hit's neighbours; noise is of those without. */
    static const double square[] = {1, 0.99 * 4 + 9, 9, 0.99 * 16 + 9};
    double mean[4] = {square[0]}, threshold[3];
    for (int i = 1; i < 4; i++)
        mean[i] = mean[i - 1] + (1 - exp(-0.5)) * (square[i] - mean[i - 1]);
    static const double noise[] = {1, 3, 3};
    for (int k = 0; k < 3; k++)
        threshold[k] = fmax(10, 4 * sqrt(mean[k == 2 ? 3 : 2 * k]));
    for (size_t k = 0, at = 0; k < 3; k++, at++) {
        at = analysis_world_next_ordered(&world, at);
        near(analysis_world_hit(&world, at)->noise_rms, noise[k], 1e-15);
        near(analysis_world_hit(&world, at)->threshold, threshold[k], 1e-15);
        near(analysis_world_hit(&world, at)->margin_db, 20 * log10(threshold[k] / noise[k]), 1e-14);
    }
    analysis_world_close(&world);
}

/* The RMS of noise rises tenfold for good: the threshold follows with the averaging time, although
 * hits are open all along; a burst behind is a hit of its own, and a long one raises the threshold
 * by as much as the documentation says. */
static void test_floating_threshold_follows_a_step(void **state)
{
    (void)state;
    enum {
        T = 10000,
        STEP = 20000,
        BURST = 80000,
        LONG = 90000,
        LASTS = 5000,
        BEHIND = LONG + LASTS + 500,
        END = 120000
    };
    float *samples = calloc(END, sizeof *samples);
    assert_non_null(samples);
    struct random_state random = {7};
    for (int i = 0; i < END; i++) {
        const double rms = i < STEP ? 0.1 : 1;
        samples[i] = (float)(rms * sqrt(3) * (2 * random_unit(&random) - 1)); /* uniform */
    }
    for (int i = 0; i < 50; i++)
        samples[BURST + i] = i % 2 == 0 ? 20 : -20;
    for (int i = 0; i < LASTS; i++)
        samples[LONG + i] = i % 2 == 0 ? 20 : -20;
    samples[BEHIND] = 100;
    const struct analysis_signal signal = {
        .channels = 1, .frames = END, .samples = samples, .rate_hz = RATE};
    struct analysis_world world;
    analysis_world_hits(&world, 1,
                        (const char *[]){"threshold = 100 mV", "hdt = 100", "max duration = 2000",
                                         "noise interval = 1000", "floating threshold = 3",
                                         "floating time = 10000", NULL});
    analysis_world_put(&world, &signal, 0, END);
    int during = 0, bursts = 0;
    double raised = 0;
    for (size_t at = 0; at < world.count; at++) {
        const struct analysis_event *event = &world.events[at].event;
        if (!event->ordered)
            continue;
        const struct hit *hit = analysis_world_hit(&world, at);
        during += event->frame >= STEP && event->frame < BURST;
        assert_true(event->frame < STEP + T || event->frame >= BURST);
        if (event->frame == BURST) {
            bursts++;
            near(hit->threshold, 3, 0.05);
            assert_int_equal(hit->last_frame, BURST + 49);
        }
        if (event->frame == BEHIND)
            raised = hit->threshold;
    }
    assert_in_range(during, 1, 10); /* the noise, until 3 RMS are above its largest sample */
    assert_int_equal(bursts, 1);
    near(raised, 3 * sqrt(1 + (400 - 1) * (1 - exp(-(double)LASTS / T))), 0.01);
    analysis_world_close(&world);
    free(samples);
}

/* ---- bounds ------------------------------------------------------------------------------ */

/* Channel 1 is above for good, the other one hits every few frames: what waits is bounded, and what
 * finds no room is counted. */
static void test_queue_is_bounded(void **state)
{
    (void)state;
    enum { LONG = 20000 };
    float *samples = calloc(2 * LONG, sizeof *samples);
    for (int i = 0; i < LONG; i++) {
        samples[2 * i] = 5;
        samples[2 * i + 1] = i % 4 == 0 ? 5 : 0;
    }
    const struct analysis_signal signal = {
        .channels = 2, .frames = LONG, .samples = samples, .rate_hz = RATE};
    static const struct {
        const char *settings[6];
        bool fits;
    } cases[] = {
        {{"threshold = 1 V", "hdt = 1", "max duration = 900"}, true},
        {{"threshold = 1 V", "hdt = 100", "max duration = 3"}, true},
        {{"threshold = 1 V", "hdt = 1", "max duration = 9000", "release queue = 64 KiB"}, false},
        {{"threshold = 1 V", "hdt = 1", "max duration = 9000", "release queue = 64 KiB",
          "max record = 500", "pre-trigger = 500"},
         false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *settings[7] = {NULL};
        memcpy(settings, cases[k].settings, sizeof cases[k].settings);
        struct analysis_world world;
        analysis_world_hits(&world, 2, settings);
        analysis_world_put(&world, &signal, 0, LONG);
        size_t at_once = 0, ordered = 0;
        for (size_t i = 0; i < world.count; i++)
            *(world.events[i].event.ordered ? &ordered : &at_once) += 1;
        struct analysis_ledger ledger;
        world.ops->ledger(world.analysis, &ledger);
        assert_int_equal(at_once, ordered + ledger.unordered);
        assert_int_equal(ledger.unordered == 0, cases[k].fits);
        assert_int_equal(ledger.untraced > 0, !cases[k].fits && settings[4] != NULL);
        assert_int_equal(ledger.at_once, 0);
        analysis_world_close(&world);
    }
    free(samples);
}

/* Channel 1 hits once and waits for its post-duration; the other one is above for good, and each of
 * its hits of three frames waits behind it. */
static void test_queue_holds_short_hits_behind_a_long_wait(void **state)
{
    (void)state;
    enum { LONG = 1200 };
    float samples[2 * LONG] = {0};
    samples[0] = samples[2] = 5;
    for (int i = 0; i < LONG; i++)
        samples[2 * i + 1] = i < 2 ? 0 : 5;
    const struct analysis_signal signal = {
        .channels = 2, .frames = LONG, .samples = samples, .rate_hz = RATE};
    struct analysis_world world;
    analysis_world_hits(&world, 2,
                        (const char *[]){"threshold = 1 V", "hdt = 100", "max duration = 3",
                                         "post-duration = 1000", "max record = 1000", NULL});
    analysis_world_put(&world, &signal, 0, LONG);
    struct analysis_ledger ledger;
    world.ops->ledger(world.analysis, &ledger);
    assert_true(ledger.events[ANALYSIS_HIT] > 390);
    assert_int_equal(ledger.unordered, 0);
    analysis_world_close(&world);
}

static void test_hostile(void **state)
{
    (void)state;
    enum { LONG = 3000 };
    static const double rates[] = {1.0 / 3, 2e8};
    static const uint32_t widths[] = {1, 1024};
    static const float values[] = {FLT_MAX, FLT_MIN / 8, INFINITY, 0};
    float *samples = malloc(1024 * LONG * sizeof *samples);
    for (size_t k = 0; k < 16; k++) {
        const uint32_t channels = widths[k / 2 % 2];
        const float value = values[k / 4];
        for (size_t i = 0; i < (size_t)channels * LONG; i++)
            samples[i] = i % 7 < 3 ? value : -value;
        const struct analysis_stream stream = analysis_world_stream(channels, rates[k % 2], "V");
        const struct analysis_signal signal = {
            .channels = channels, .frames = LONG, .samples = samples, .rate_hz = rates[k % 2]};
        struct analysis_world world;
        analysis_world_open(&world, &analysis_hits, &stream,
                            (const char *[]){"threshold = 0", "hdt = 40 frames",
                                             "max duration = 700 frames", "spectrum = 64 frames",
                                             "picker = hinkley", "max record = 20 frames", NULL});
        if (world.analysis == NULL)
            fail_msg("%s", world.errors);
        struct random_state random = {k};
        analysis_world_put_cut(&world, &signal, &random, false);
        assert_int_equal(world.count, value == 0 ? 0 : 2 * 5 * channels);
        for (size_t i = 0; i < world.count; i++) {
            const uint32_t flags = world.events[i].event.flags;
            assert_int_equal((flags & ANALYSIS_TIMEOUT) != 0, (flags & ANALYSIS_CUT) == 0);
        }
        analysis_world_close(&world);
    }
    free(samples);
}

/* One count spends the arm; a sample below 0, long before the next hit, sets it again. */
static void test_arms_run_while_nothing_happens(void **state)
{
    (void)state;
    for (int below = 0; below < 2; below++) {
        float samples[600];
        for (int i = 0; i < 600; i++)
            samples[i] = 1;
        samples[10] = samples[500] = 11;
        samples[0] = -1;
        samples[250] = below ? -1 : 1;
        const struct analysis_signal signal = {
            .channels = 1, .frames = 600, .samples = samples, .rate_hz = RATE};
        struct analysis_world world;
        analysis_world_hits(&world, 1, (const char *[]){"threshold = 10 V", "hdt = 5", NULL});
        analysis_world_put(&world, &signal, 0, 600);
        assert_int_equal(world.count, 4);
        assert_int_equal(analysis_world_hit(&world, 1)->counts, 1);
        assert_int_equal(analysis_world_hit(&world, 3)->counts, below);
        analysis_world_close(&world);
    }
}

/* A record that is shorter than HDT, and one that is shorter than the pre-trigger. */
static void test_short_records(void **state)
{
    (void)state;
    const float samples[3] = {0, 3, 0};
    struct analysis_world world;
    analysis_world_hits(
        &world, 1, (const char *[]){"threshold = 1 V", "pre-trigger = 50", "max record = 9", NULL});
    for (uint64_t record = 1; record <= 3; record++) {
        const struct analysis_signal signal = {.channels = 1,
                                               .frames = 3,
                                               .samples = samples,
                                               .rate_hz = RATE,
                                               .epoch = record,
                                               .record = record};
        analysis_world_put(&world, &signal, 0, 3);
        const struct analysis_event *event = &world.events[world.count - 1].event;
        assert_int_equal(world.count, 2 * record);
        assert_int_equal(event->record, record);
        assert_int_equal(event->flags, ANALYSIS_CUT);
        assert_int_equal(event->first_sample, -1);
        assert_int_equal(event->sample_count, 2);
    }
    analysis_world_close(&world);
}

static void test_dead_time(void **state)
{
    (void)state;
    float samples[100] = {0};
    const struct invalid_range invalid[] = {{10, 20, INVALID_NETWORK}, {15, 40, INVALID_LATE}};
    const struct analysis_signal signal = {.channels = 1,
                                           .frames = 100,
                                           .samples = samples,
                                           .rate_hz = RATE,
                                           .invalid = invalid,
                                           .invalid_count = 2};
    struct analysis_world world;
    analysis_world_hits(&world, 1, (const char *[]){"threshold = 1 V", NULL});
    analysis_world_put(&world, &signal, 0, 100);
    struct analysis_ledger ledger;
    world.ops->ledger(world.analysis, &ledger);
    assert_int_equal(ledger.frames, 100);
    assert_int_equal(ledger.dead, 30);
    analysis_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_features_are_their_sums),
        cmocka_unit_test(test_cuts_change_nothing),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_saturation_spreads_over_the_filter),
        cmocka_unit_test(test_noise_comes_from_quiet_intervals),
        cmocka_unit_test(test_floating_threshold_follows_a_step),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_queue_holds_short_hits_behind_a_long_wait),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_arms_run_while_nothing_happens),
        cmocka_unit_test(test_short_records),
        cmocka_unit_test(test_dead_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
