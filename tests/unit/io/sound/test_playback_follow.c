/*
 * Playback that follows another clock, with a simulated card: a sine of a stream that is 150 ppm
 * fast becomes one clean sine on the card's clock; after an underrun, an overrun and a loss of the
 * card the latency is the declared one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/clock.h"
#include "io/sound/playback_follow.h"

enum { HOP = 256, PERIOD = 128, LATENCY = 800, RATE = 48000, CHANNELS = 2, HEARD = 48000 * 40 };

struct world {
    struct playback_follow *follow;
    double ppm;
    uint64_t put;     /* timeline frames put */
    double shift_s;   /* of the source's time: a pause is a shift */
    uint64_t written; /* card */
    float *heard;     /* [HEARD][CHANNELS] */
    uint64_t left_out;
    double now_s; /* of the newest put */
};

static void open_world(struct world *w, double ppm)
{
    struct problem problem;
    *w = (struct world){.ppm = ppm};
    assert_int_equal(playback_follow_open(CHANNELS, RATE, &w->follow, &problem), 0);
    w->heard = calloc((size_t)HEARD * CHANNELS, sizeof *w->heard);
    assert_non_null(w->heard);
}

static void close_world(struct world *w)
{
    playback_follow_close(w->follow);
    free(w->heard);
}

static struct playback_position position_at(const struct world *w, double now_s)
{
    uint64_t callbacks = (uint64_t)floor(now_s * RATE / PERIOD);
    return (struct playback_position){
        .callback_frame = callbacks * PERIOD,
        .callback_ns = (int64_t)((double)callbacks * PERIOD / RATE * 1e9),
        .period_frames = PERIOD,
        .written = w->written,
        .latency_frames = LATENCY,
        .now_ns = (int64_t)(now_s * 1e9),
    };
}

/* Channel 0 is a sine of 997 Hz by the source's clock, channel 1 its negative. */
static void put_until(struct world *w, double until_s)
{
    double rate_hz = RATE * (1 + w->ppm * 1e-6);
    float block[HOP][CHANNELS];
    for (;;) {
        double now_s = (double)(w->put + HOP) / rate_hz + w->shift_s;
        if (now_s > until_s)
            return;
        w->now_s = now_s;
        for (int i = 0; i < HOP; i++) {
            block[i][0] =
                (float)sin(2 * M_PI * fmod(997.0 / RATE * (double)(w->put + (uint64_t)i), 1));
            block[i][1] = -block[i][0];
        }
        struct playback_position position = position_at(w, now_s);
        enum playback_step step = playback_follow_put(w->follow, &position, w->put, HOP);
        w->put += HOP;
        if (step == PLAYBACK_DROP) {
            w->left_out += HOP;
            continue;
        }
        uint64_t frame;
        uint32_t frames;
        const float *made = playback_follow_convert(w->follow, block[0], HOP, &frame, &frames);
        assert_true(frame >= w->written);
        assert_true(frame >= position.callback_frame + PERIOD); /* not in the past */
        assert_true(frame + frames <= HEARD);
        memcpy(w->heard + frame * CHANNELS, made, frames * CHANNELS * sizeof *made);
        w->written = frame + frames;
    }
}

/* Residual of the best sine of frequency_hz in [from, from + count), relative. */
static double residual(const struct world *w, uint64_t from, uint64_t count, double frequency_hz)
{
    double cc = 0, ss = 0, cs = 0, xc = 0, xs = 0, xx = 0;
    for (uint64_t i = 0; i < count; i++) {
        double angle = 2 * M_PI * frequency_hz / RATE * (double)i,
               x = w->heard[(from + i) * CHANNELS];
        double c = cos(angle), s = sin(angle);
        cc += c * c, ss += s * s, cs += c * s, xc += x * c, xs += x * s, xx += x * x;
    }
    double det = cc * ss - cs * cs, a = (xc * ss - xs * cs) / det, b = (xs * cc - xc * cs) / det;
    return sqrt(fmax(0, xx - a * xc - b * xs) / xx);
}

static struct playback_follow_report report_of(const struct world *w)
{
    struct playback_follow_report report;
    playback_follow_report(w->follow, &report);
    return report;
}

static void test_one_clean_sine(void **state)
{
    (void)state;
    static const double clocks[] = {150, -150, 0};
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        struct world w;
        open_world(&w, clocks[i]);
        put_until(&w, 38);
        struct playback_follow_report report = report_of(&w);
        assert_true(report.ppm_known);
        assert_true(fabs(report.ppm - clocks[i]) < 1);
        assert_true(fabs(report.latency_frames - LATENCY) < 4);
        assert_int_equal(report.underruns + report.overruns, 0);
        double off = residual(&w, 36 * RATE, RATE / 8, 997 * (1 + clocks[i] * 1e-6));
        print_message("# %g ppm: reported %.2f, latency %.2f frames, residual %.2e\n", clocks[i],
                      report.ppm, report.latency_frames, off);
        assert_true(off < 1e-3); /* the loop's phase wanders by a hundredth of a frame */
        for (uint64_t n = 20 * RATE; n < 21 * RATE; n++)
            assert_true(fabsf(w.heard[n * CHANNELS] + w.heard[n * CHANNELS + 1]) < 1e-6f);
        close_world(&w);
    }
}

/* The first frame plays exactly the latency after its block was put. */
static void test_declared_latency(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 0);
    put_until(&w, 1.0 * HOP / RATE); /* one block, put at frame 256 */
    struct playback_position position = position_at(&w, (double)HOP / RATE);
    uint64_t first = 0;
    put_until(&w, 0.1);
    while (fabsf(w.heard[first * CHANNELS]) < 0.06F)
        first++;
    assert_int_equal(first, position.callback_frame + PERIOD + LATENCY + 1); /* sin 0 is 0 */
    close_world(&w);
}

static void test_under_and_overrun(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 0);
    put_until(&w, 5);
    w.shift_s = 0.5; /* the source stops for half a second */
    put_until(&w, 15);
    assert_int_equal(report_of(&w).underruns, 1);
    assert_true(fabs(report_of(&w).latency_frames - LATENCY) < 64);
    w.shift_s = 0.25;  /* and brings a quarter of it all at once */
    put_until(&w, 16); /* far too much waits; what is left out brings the latency back at once */
    uint64_t played = position_at(&w, w.now_s).callback_frame + PERIOD;
    double waits = (double)w.written - (double)played;
    assert_true(waits > 0.5 * LATENCY && waits < 1.5 * LATENCY);
    put_until(&w, 30);
    struct playback_follow_report report = report_of(&w);
    assert_int_equal(report.underruns, 1);
    assert_int_equal(report.overruns, 1);
    assert_true(w.left_out >= RATE / 4 - 2 * LATENCY && w.left_out <= RATE / 4 + 2 * HOP);
    assert_true(fabs(report.latency_frames - LATENCY) < 0.5 * LATENCY);
    playback_follow_lost(w.follow); /* the card goes and comes back: no under- or overrun of ours */
    w.shift_s = 0.75;
    put_until(&w, 35);
    assert_int_equal(report_of(&w).underruns, 1);
    assert_int_equal(report_of(&w).overruns, 1);
    close_world(&w);
}

static void test_too_many_channels(void **state)
{
    (void)state;
    struct playback_follow *follow = NULL;
    struct problem problem;
    assert_int_equal(playback_follow_open(129, RATE, &follow, &problem), ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, "resample = no"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_clean_sine),
        cmocka_unit_test(test_declared_latency),
        cmocka_unit_test(test_under_and_overrun),
        cmocka_unit_test(test_too_many_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
