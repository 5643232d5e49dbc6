/*
 * Test signals against their definitions, written out again here in long double and without
 * the tricks; and the promise that a frame is the same in whatever piece it is asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "signal/waveform.h"

#define PI_L 3.14159265358979323846264338327950288L

static struct waveform *created(const struct waveform_spec *spec)
{
    struct waveform *waveform = NULL;
    struct problem problem = {0};
    if (waveform_create(spec, &waveform, &problem) != 0)
        fail_msg("not created: %s", problem.text);
    return waveform;
}

static struct waveform_spec spec_of(enum waveform_kind kind, double rate_hz, uint32_t channels)
{
    struct waveform_spec spec;
    waveform_defaults(&spec, kind);
    spec.rate_hz = rate_hz;
    spec.channels = channels;
    return spec;
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"sine", "chirp",      "noise",          "impulses",
                                        "dc",   "burst-rect", "burst-triangle", "burst-sine2",
                                        "ae",   "counter",    "tone-burst"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum waveform_kind kind;
        assert_int_equal(waveform_kind_parse(names[i], &kind), 0);
        assert_int_equal(kind, i);
        assert_string_equal(waveform_kind_name(kind), names[i]);
        struct waveform_spec spec = spec_of(kind, 1e6, 2); /* defaults are usable */
        waveform_free(created(&spec));
    }
    enum waveform_kind kind;
    assert_int_equal(waveform_kind_parse("sinus", &kind), ERROR_ARGUMENT);
}

static long double defined_window(const struct waveform_spec *s, long double u)
{
    if (s->window == PULSE_WINDOW_NONE)
        return 1;
    if (u > 1)
        return 0;
    long double flank = s->window == PULSE_WINDOW_HANN ? 0.5L : s->taper / 2;
    if (u >= flank && u <= 1 - flank)
        return 1;
    return (1 - cosl(PI_L * (u < 0.5L ? u : 1 - u) / flank)) / 2;
}

/* The definition of everything but noise and AE. */
static long double defined(const struct waveform_spec *s, uint64_t n, uint32_t c)
{
    long double rate = s->rate_hz, t = n / rate, a = s->amplitude;
    if (s->kind == WAVEFORM_SINE) {
        long double turns = fmodl((long double)n * s->frequency_hz, rate) / rate;
        return s->offset + a * sinl(2 * PI_L * turns + s->phase_rad + c * s->channel_phase_rad);
    }
    if (s->kind == WAVEFORM_DC)
        return s->offset + a;
    if (s->kind == WAVEFORM_COUNTER)
        return s->offset + a * (long double)(n % 32768) / 32768;
    t -= c * (long double)s->channel_delay_s;
    if (t < -1e-12L)
        return s->offset;
    if (s->period_s > 0)
        t -= s->period_s * floorl(t / s->period_s + 1e-9L);
    if (s->kind == WAVEFORM_IMPULSES)
        return s->offset + (t * rate < 0.999L ? a : 0);
    long double length = s->kind == WAVEFORM_TONE_BURST ? s->cycles / (long double)s->frequency_hz
                                                        : (long double)s->length_s;
    if (t > length - 1e-10L)
        return s->offset;
    long double place = t / length, level = 1;
    long double turns = s->frequency_hz * t;
    if (s->kind == WAVEFORM_CHIRP)
        turns += (s->frequency_end_hz - s->frequency_hz) * t * t / (2 * s->length_s);
    if (s->kind == WAVEFORM_BURST_TRIANGLE)
        level = place < 0.5L ? 2 * place : 2 - 2 * place;
    if (s->kind == WAVEFORM_BURST_SINE2)
        level = sinl(PI_L * place) * sinl(PI_L * place);
    if (s->kind == WAVEFORM_TONE_BURST)
        level = defined_window(s, place);
    if (s->kind == WAVEFORM_CHIRP) /* its ends lie on the first and the last frame */
        level = defined_window(s, t * rate / (ceill(length * rate - 1e-6L) - 1));
    return s->offset + a * level * sinl(2 * PI_L * turns + s->phase_rad);
}

static void test_definitions(void **state)
{
    (void)state;
    static const struct waveform_spec table[] = {
        {.kind = WAVEFORM_SINE,
         .frequency_hz = 1234.5,
         .amplitude = 2,
         .phase_rad = 0.3,
         .channel_phase_rad = 0.7,
         .offset = -1},
        {.kind = WAVEFORM_SINE, .frequency_hz = 249999, .amplitude = 1},
        {.kind = WAVEFORM_DC, .amplitude = 0.25, .offset = 1},
        {.kind = WAVEFORM_COUNTER, .amplitude = 1},
        {.kind = WAVEFORM_IMPULSES, .amplitude = 3, .period_s = 200e-6, .channel_delay_s = 10e-6},
        {.kind = WAVEFORM_IMPULSES, .amplitude = 3},
        {.kind = WAVEFORM_CHIRP,
         .amplitude = 1,
         .frequency_hz = 10e3,
         .frequency_end_hz = 90e3,
         .length_s = 1e-3,
         .period_s = 1.5e-3,
         .channel_delay_s = 100e-6},
        {.kind = WAVEFORM_CHIRP,
         .amplitude = 1,
         .frequency_hz = 90e3,
         .frequency_end_hz = 10e3,
         .length_s = 1e-3},
        {.kind = WAVEFORM_BURST_RECT,
         .amplitude = 5,
         .frequency_hz = 150e3,
         .length_s = 100e-6,
         .period_s = 1e-3},
        {.kind = WAVEFORM_BURST_TRIANGLE,
         .amplitude = 5,
         .frequency_hz = 150e3,
         .length_s = 100e-6,
         .period_s = 1e-3,
         .channel_delay_s = 3.7e-6,
         .offset = 0.5},
        {.kind = WAVEFORM_BURST_SINE2,
         .amplitude = 5,
         .frequency_hz = 150e3,
         .length_s = 101e-6,
         .period_s = 0.7771e-3,
         .channel_delay_s = 3.7e-6,
         .phase_rad = 1},
        {.kind = WAVEFORM_TONE_BURST,
         .amplitude = 2,
         .frequency_hz = 100e3,
         .cycles = 5,
         .window = PULSE_WINDOW_HANN,
         .period_s = 0.4e-3,
         .channel_delay_s = 20e-6},
        {.kind = WAVEFORM_TONE_BURST, /* 17.5 frames, and channels between frames */
         .amplitude = 1,
         .frequency_hz = 100e3,
         .cycles = 3.5,
         .window = PULSE_WINDOW_HANN,
         .period_s = 0.7771e-3,
         .channel_delay_s = 3.7e-6,
         .phase_rad = 1},
        {.kind = WAVEFORM_TONE_BURST,
         .amplitude = 1,
         .frequency_hz = 64e3,
         .cycles = 12,
         .window = PULSE_WINDOW_TUKEY,
         .taper = 0.3,
         .offset = 0.1},
        {.kind = WAVEFORM_TONE_BURST, .amplitude = 1, .frequency_hz = 64e3, .cycles = 4},
        {.kind = WAVEFORM_CHIRP,
         .amplitude = 1,
         .frequency_hz = 10e3,
         .frequency_end_hz = 90e3,
         .length_s = 0.5e-3,
         .window = PULSE_WINDOW_HANN,
         .period_s = 0.6e-3,
         .channel_delay_s = 3.7e-6},
        {.kind = WAVEFORM_CHIRP,
         .amplitude = 1,
         .frequency_hz = 90e3,
         .frequency_end_hz = 10e3,
         .length_s = 0.4995e-3,
         .window = PULSE_WINDOW_TUKEY,
         .taper = 0.25},
    };
    static const uint64_t places[] = {0, 100, 5000, 4321987}; /* 0 … 8.6 s */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct waveform_spec spec = table[i];
        spec.rate_hz = 500e3;
        spec.channels = 3;
        struct waveform *waveform = created(&spec);
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            double values[300 * 3];
            waveform_fill(waveform, places[p], 300, values);
            for (uint32_t f = 0; f < 300; f++) {
                for (uint32_t c = 0; c < 3; c++) {
                    long double want = defined(&spec, places[p] + f, c);
                    double got = values[3 * f + c];
                    if (fabsl(got - want) > 1e-8L)
                        fail_msg("row %zu (%s), frame %llu, channel %u: %.12g, want %.12Lg", i,
                                 waveform_kind_name(spec.kind), (unsigned long long)(places[p] + f),
                                 c, got, want);
                }
            }
        }
        waveform_free(waveform);
    }
}

/* After 10^12 frames (three days at 4 MHz) a sine is still right, not only smooth. */
static void test_sine_far_out(void **state)
{
    (void)state;
    struct waveform_spec spec = spec_of(WAVEFORM_SINE, 4e6, 1);
    spec.frequency_hz = 999983;
    spec.amplitude = 1;
    struct waveform *waveform = created(&spec);
    const uint64_t first = UINT64_C(1000000000007);
    double values[64];
    waveform_fill(waveform, first, 64, values);
    for (uint64_t i = 0; i < 64; i++) {
        unsigned __int128 cycles = (unsigned __int128)(first + i) * 999983;
        long double turns = (long double)(uint64_t)(cycles % 4000000) / 4000000;
        assert_true(fabsl(values[i] - sinl(2 * PI_L * turns)) < 1e-6L);
    }
    waveform_free(waveform);
}

/* A delay of whole frames shifts a channel by exactly that. */
static void test_whole_delays(void **state)
{
    (void)state;
    enum { FRAMES = 400, CHANNELS = 4, DELAY = 37 };
    struct waveform_spec spec = spec_of(WAVEFORM_TONE_BURST, 2e6, CHANNELS);
    spec.channel_delay_s = DELAY / spec.rate_hz;
    struct waveform *waveform = created(&spec);
    double values[FRAMES * CHANNELS];
    waveform_fill(waveform, 0, FRAMES, values);
    for (int n = 0; n < FRAMES; n++)
        for (int c = 0; c < CHANNELS; c++) {
            double want = n >= c * DELAY ? values[(n - c * DELAY) * CHANNELS] : 0;
            assert_true(values[n * CHANNELS + c] == want);
        }
    waveform_free(waveform);
}

/* When what is repeated begins, and for how long it lasts. */
static void test_excitations(void **state)
{
    (void)state;
    static const struct {
        enum waveform_kind kind;
        bool repeats;
        double length, period;
    } table[] = {
        {WAVEFORM_TONE_BURST, true, 50, 10000},
        {WAVEFORM_IMPULSES, true, 0, 10000},
        {WAVEFORM_BURST_SINE2, true, 100, 10000},
        {WAVEFORM_SINE, false, 0, 0},
        {WAVEFORM_AE, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct waveform_spec spec = spec_of(table[i].kind, 1e6, 1);
        struct waveform *waveform = created(&spec);
        struct waveform_excitation got = {0};
        assert_int_equal(waveform_excitation(waveform, &got), table[i].repeats);
        assert_true(got.length_frames == table[i].length && got.period_frames == table[i].period);
        waveform_free(waveform);
    }
}

static void test_pieces(void **state)
{
    (void)state;
    enum { FRAMES = 3000, CHANNELS = 3 };
    double *whole = malloc(FRAMES * CHANNELS * sizeof *whole);
    double *pieces = malloc(FRAMES * CHANNELS * sizeof *pieces);
    assert_true(whole != NULL && pieces != NULL);
    struct random_state random = {99};
    for (unsigned kind = WAVEFORM_SINE; kind <= WAVEFORM_TONE_BURST; kind++) {
        struct waveform_spec spec = spec_of((enum waveform_kind)kind, 1e6, CHANNELS);
        spec.noise = 0.01;
        spec.channel_delay_s = 33.3e-6;
        spec.arrivals_per_s = 3000;
        if (spec.length_s > 0 && spec.length_s < 0.1)
            spec.period_s = 333.3e-6;
        struct waveform *waveform = created(&spec);
        const uint64_t first = UINT64_C(123456789012);
        waveform_fill(waveform, first, FRAMES, whole);
        for (uint32_t done = 0; done < FRAMES;) {
            uint32_t count = 1 + random_below(&random, 200);
            if (count > FRAMES - done)
                count = FRAMES - done;
            waveform_fill(waveform, first + done, count, pieces + (size_t)done * CHANNELS);
            done += count;
        }
        for (int i = 0; i < FRAMES * CHANNELS; i++) {
            if (whole[i] != pieces[i])
                fail_msg("%s: frame %d differs between pieces: %.17g, %.17g",
                         waveform_kind_name(spec.kind), i / CHANNELS, whole[i], pieces[i]);
        }
        waveform_free(waveform);
    }
    free(whole);
    free(pieces);
}

static void test_noise(void **state)
{
    (void)state;
    enum { FRAMES = 40000 };
    double *values = malloc(FRAMES * 2 * sizeof *values),
           *again = malloc(FRAMES * 2 * sizeof *again);
    assert_true(values != NULL && again != NULL);
    struct waveform_spec spec = spec_of(WAVEFORM_NOISE, 1e6, 2);
    spec.amplitude = 2.0;
    spec.offset = 3.0;
    struct waveform *waveform = created(&spec);
    waveform_fill(waveform, 5, FRAMES, values);
    waveform_free(waveform);
    double sum = 0, squares = 0, cross = 0, lag = 0;
    for (int i = 0; i < FRAMES; i++) {
        double a = values[2 * i] - 3.0, b = values[2 * i + 1] - 3.0;
        sum += a;
        squares += a * a;
        cross += a * b;
        if (i > 0)
            lag += a * (values[2 * i - 2] - 3.0);
    }
    /* Five standard errors: sigma / sqrt(n), and so on. */
    assert_true(fabs(sum / FRAMES) < 5 * 2.0 / 200);
    assert_true(fabs(squares / FRAMES / 4.0 - 1.0) < 5 * sqrt(2.0) / 200);
    assert_true(fabs(cross / FRAMES / 4.0) < 5.0 / 200);
    assert_true(fabs(lag / FRAMES / 4.0) < 5.0 / 200);

    spec.seed++; /* another seed, another noise */
    waveform = created(&spec);
    waveform_fill(waveform, 5, FRAMES, again);
    waveform_free(waveform);
    int same = 0;
    for (int i = 0; i < FRAMES * 2; i++)
        same += values[i] == again[i];
    assert_true(same < 3);
    free(values);
    free(again);
}

static void test_acoustic_emission(void **state)
{
    (void)state;
    enum { RATE = 1000000, FRAMES = 4 * RATE, CHANNELS = 4 };
    struct waveform_spec spec = spec_of(WAVEFORM_AE, RATE, CHANNELS);
    spec.amplitude = 1.0;
    spec.frequency_hz = 100e3;
    spec.arrivals_per_s = 100;
    spec.rise_s = 10e-6;
    spec.decay_s = 30e-6;
    spec.channel_delay_s = 50e-6;
    struct waveform *waveform = created(&spec);
    double *values = malloc((size_t)FRAMES * CHANNELS * sizeof *values);
    assert_non_null(values);
    waveform_fill(waveform, 0, FRAMES, values);
    waveform_free(waveform);

    /* Count bursts as onsets after 300 µs of quiet on each channel: about 400 in 4 s, less those
     * that fall into another's shadow (3 %); 5 sigma = 100. Every channel hears every burst. */
    int onsets[CHANNELS] = {0};
    double peak = 0;
    for (int c = 0; c < CHANNELS; c++) {
        int quiet = 1000;
        for (int i = 0; i < FRAMES; i++) {
            double value = fabs(values[(size_t)i * CHANNELS + (size_t)c]);
            peak = fmax(peak, value);
            if (value > 1e-3) {
                onsets[c] += quiet > 300;
                quiet = 0;
            } else {
                quiet++;
            }
        }
        if (onsets[c] < 280 || onsets[c] > 500)
            fail_msg("channel %d: %d arrivals in 4 s, about 400 expected", c, onsets[c]);
        assert_true(abs(onsets[c] - onsets[0]) < 25);
    }
    assert_true(peak > 0.8 && peak < 2.5);
    free(values);
}

/* Where all channels have the same samples to the bit, and only there, it is said. */
static void test_alike(void **state)
{
    (void)state;
    static const struct {
        struct waveform_spec spec;
        bool alike;
    } table[] = {
        {{.kind = WAVEFORM_SINE}, true},
        {{.kind = WAVEFORM_SINE, .channel_phase_rad = 1e-3}, false},
        {{.kind = WAVEFORM_SINE, .noise = 1e-6}, false},
        {{.kind = WAVEFORM_DC, .offset = 1}, true},
        {{.kind = WAVEFORM_COUNTER}, true},
        {{.kind = WAVEFORM_NOISE}, false},
        {{.kind = WAVEFORM_AE}, false},
        {{.kind = WAVEFORM_IMPULSES}, true},
        {{.kind = WAVEFORM_IMPULSES, .channel_delay_s = 20e-6}, false},
        {{.kind = WAVEFORM_TONE_BURST}, true},
        {{.kind = WAVEFORM_TONE_BURST, .channel_delay_s = 1e-6}, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        enum { FRAMES = 20000, CHANNELS = 3 };
        struct waveform_spec spec = spec_of(table[i].spec.kind, 1e6, CHANNELS);
        spec.channel_phase_rad = table[i].spec.channel_phase_rad;
        spec.channel_delay_s = table[i].spec.channel_delay_s;
        spec.noise = table[i].spec.noise;
        spec.offset = table[i].spec.offset;
        struct waveform *waveform = created(&spec);
        static double values[FRAMES][CHANNELS];
        waveform_fill(waveform, 0, FRAMES, values[0]);
        bool same = true;
        for (int f = 0; f < FRAMES; f++)
            same = same && values[f][1] == values[f][0] && values[f][2] == values[f][0];
        if (waveform_alike(waveform) != table[i].alike || (table[i].alike && !same))
            fail_msg("row %zu: alike %d, the samples are the same %d", i, waveform_alike(waveform),
                     same);
        waveform_free(waveform);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        struct waveform_spec spec;
        const char *words;
    } table[] = {
        {{.kind = WAVEFORM_SINE, .rate_hz = 0, .channels = 1, .frequency_hz = 1}, "rate"},
        {{.kind = WAVEFORM_SINE, .rate_hz = 1e3, .channels = 0, .frequency_hz = 1}, "channels"},
        {{.kind = WAVEFORM_SINE, .rate_hz = 1e3, .channels = 1025, .frequency_hz = 1}, "1 to 1024"},
        {{.kind = WAVEFORM_SINE, .rate_hz = 1e3, .channels = 1, .frequency_hz = 500},
         "below 500 Hz"},
        {{.kind = WAVEFORM_SINE, .rate_hz = 1e3, .channels = 1, .frequency_hz = NAN}, "frequency"},
        {{.kind = WAVEFORM_CHIRP,
          .rate_hz = 1e3,
          .channels = 1,
          .frequency_hz = 1,
          .length_s = 1,
          .frequency_end_hz = 600},
         "end frequency"},
        {{.kind = WAVEFORM_CHIRP,
          .rate_hz = 1e3,
          .channels = 1,
          .frequency_hz = 1,
          .length_s = 1,
          .frequency_end_hz = 60,
          .period_s = 0.5},
         "at least its length"},
        {{.kind = WAVEFORM_BURST_RECT, .rate_hz = 1e3, .channels = 1, .frequency_hz = 1}, "length"},
        {{.kind = WAVEFORM_TONE_BURST, .rate_hz = 1e3, .channels = 1, .frequency_hz = 1}, "cycles"},
        {{.kind = WAVEFORM_TONE_BURST,
          .rate_hz = 1e3,
          .channels = 1,
          .frequency_hz = 100,
          .cycles = 5,
          .period_s = 49e-3},
         "at least its length, 0.05 s"},
        {{.kind = WAVEFORM_TONE_BURST,
          .rate_hz = 1e3,
          .channels = 1,
          .frequency_hz = 100,
          .cycles = 5,
          .taper = 2},
         "taper"},
        {{.kind = WAVEFORM_DC, .rate_hz = 1e3, .channels = 1, .amplitude = INFINITY}, "amplitude"},
        {{.kind = WAVEFORM_DC, .rate_hz = 1e3, .channels = 1, .noise = -1}, "noise"},
        {{.kind = WAVEFORM_IMPULSES, .rate_hz = 1e3, .channels = 1, .period_s = 1e-4}, "one frame"},
        {{.kind = WAVEFORM_AE, .rate_hz = 1e6, .channels = 1, .frequency_hz = 1e5, .decay_s = 1e-4},
         "arrivals"},
        {{.kind = WAVEFORM_AE,
          .rate_hz = 1e6,
          .channels = 1,
          .frequency_hz = 1e5,
          .arrivals_per_s = 10},
         "decay"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct waveform *waveform = NULL;
        struct problem problem = {0};
        assert_int_equal(waveform_create(&table[i].spec, &waveform, &problem), ERROR_ARGUMENT);
        assert_null(waveform);
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("row %zu: \"%s\" does not mention \"%s\"", i, problem.text, table[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_sine_far_out), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_noise),        cmocka_unit_test(test_acoustic_emission),
        cmocka_unit_test(test_whole_delays), cmocka_unit_test(test_excitations),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
