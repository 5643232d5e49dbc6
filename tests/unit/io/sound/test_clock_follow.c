/*
 * The loop that follows another clock, in a simulated world: a source that puts blocks with its own
 * clock and jitter, a card whose callbacks take periods with theirs. The clocks' true difference is
 * given; what waits between them is counted frame by frame.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "io/sound/clock_follow.h"

struct given {
    const char *name;
    double ppm;                 /* the source's clock against the card's */
    double jitter_s;            /* mean of an exponential delay of puts and callbacks */
    double outlier;             /* share of puts that are 4 ms later still */
    double pause_s, pause_at_s; /* the card stops once */
    bool off;                   /* the loop steers nothing */
    /* expect */
    double ppm_within;
    bool holds; /* neither under- nor overrun */
};

struct world {
    struct clock_follow follow;
    struct random_state random;
    double rate_hz, latency_s;
    uint32_t hop, period;
    uint64_t put, played; /* frames of the source; of the card */
    double taken;         /* source frames taken for card frames below `written` */
    uint64_t written;
    double least_s, most_s; /* what waited at callbacks, after settling */
    double speed_least, speed_most;
    uint64_t underruns, overruns;
};

static double jitter(struct world *w, const struct given *given)
{
    double late_s = -given->jitter_s * log(1 - random_unit(&w->random));
    return random_unit(&w->random) < given->outlier ? late_s + 4e-3 : late_s;
}

/* A block is put at now_s: it is resampled and lies before the card. */
static void put(struct world *w, double now_s, double callback_s)
{
    int64_t now_ns = (int64_t)(now_s * 1e9);
    w->put += w->hop;
    clock_follow_put(&w->follow, w->put, now_ns);
    if (w->written <= w->played) { /* dry, or the first: begin again at the set point */
        w->underruns += w->taken > 0;
        w->written = w->played + (uint64_t)(w->latency_s * w->rate_hz);
        w->taken = (double)(w->put - w->hop);
        clock_follow_restart(&w->follow);
    }
    if ((double)w->written - (double)w->played > 2 * w->latency_s * w->rate_hz + w->hop) {
        w->overruns++;
        w->written = w->played + (uint64_t)(w->latency_s * w->rate_hz);
        w->taken = (double)(w->put - w->hop);
        clock_follow_restart(&w->follow);
    }
    /* card frame `written` plays when the callbacks have come to it; source frame `taken` was put
     * when the count had come to it. */
    double plays_s = callback_s + ((double)w->written - (double)w->played) / w->rate_hz;
    double was_put_s = now_s - ((double)w->put - w->taken) / w->rate_hz;
    double speed = clock_follow_steer(&w->follow, plays_s - was_put_s, now_ns);
    if (now_s > 20) {
        w->speed_least = fmin(w->speed_least, speed);
        w->speed_most = fmax(w->speed_most, speed);
    }
    while (w->taken + speed <= (double)w->put) {
        w->taken += speed;
        w->written++;
    }
}

static void run(struct world *w, const struct given *given, double seconds)
{
    *w = (struct world){.rate_hz = 48000, .hop = 256, .period = 128, .random = {1}};
    w->latency_s = 600 / w->rate_hz;
    w->least_s = w->speed_least = 1e9;
    w->most_s = w->speed_most = -1e9;
    clock_follow_reset(&w->follow, w->rate_hz, w->rate_hz, w->latency_s + w->hop / w->rate_hz);
    w->follow.steers = !given->off;
    double source_hz = w->rate_hz * (1 + given->ppm * 1e-6);
    double paused_s = 0, callback_s = 0;
    double next_put_s = w->hop / source_hz + jitter(w, given), next_callback_s = 0;
    uint64_t puts = 1, callbacks = 0;
    while (next_put_s < seconds) {
        if (next_callback_s <= next_put_s) {
            callback_s = next_callback_s;
            clock_follow_played(&w->follow, w->played, (int64_t)(callback_s * 1e9));
            if (callback_s > 20) {
                double waits_s = ((double)w->written - (double)w->played) / w->rate_hz;
                w->least_s = fmin(w->least_s, waits_s);
                w->most_s = fmax(w->most_s, waits_s);
            }
            w->played += w->period;
            callbacks++;
            if (given->pause_s > 0 && paused_s == 0 && callback_s > given->pause_at_s)
                paused_s = given->pause_s;
            double due_s = (double)callbacks * w->period / w->rate_hz + paused_s;
            next_callback_s = fmax(next_callback_s, due_s + jitter(w, given) / 4);
        } else {
            /* put() sees the newest callback: the frame it began with is played − period. */
            w->played -= callbacks > 0 ? w->period : 0;
            put(w, next_put_s, callback_s);
            w->played += callbacks > 0 ? w->period : 0;
            puts++;
            double due_s = (double)puts * w->hop / source_hz;
            next_put_s = fmax(next_put_s, due_s + jitter(w, given));
        }
    }
}

static const struct given table[] = {
    {"same clocks", 0, 20e-6, 0, 0, 0, false, 1, true},
    {"+150 ppm", 150, 50e-6, 0.002, 0, 0, false, 2, true},
    {"-150 ppm", -150, 50e-6, 0.002, 0, 0, false, 2, true},
    {"+150 ppm, a busy machine", 150, 300e-6, 0.01, 0, 0, false, 5, true},
    {"-150 ppm, a busy machine", -150, 300e-6, 0.01, 0, 0, false, 5, true},
    {"-150 ppm, the card pauses 3 ms", -150, 50e-6, 0, 3e-3, 60, false, 5, true},
    {"+900 ppm", 900, 50e-6, 0, 0, 0, false, 3, true},
    {"+150 ppm, loop off", 150, 50e-6, 0, 0, 0, true, 2, false},
    {"-150 ppm, loop off", -150, 50e-6, 0, 0, 0, true, 2, false},
};

static void test_two_minutes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct given *given = &table[i];
        struct world w;
        double ppm = NAN;
        run(&w, given, 120);
        assert_true(clock_follow_ppm(&w.follow, &ppm));
        print_message(
            "# %s: %.2f ppm, speed %.1f … %.1f ppm, waits %.2f … %.2f ms, %d under, %d over\n",
            given->name, ppm, (w.speed_least - 1) * 1e6, (w.speed_most - 1) * 1e6, w.least_s * 1e3,
            w.most_s * 1e3, (int)w.underruns, (int)w.overruns);
        if (fabs(ppm - given->ppm) > given->ppm_within)
            fail_msg("%s: reported %g ppm", given->name, ppm);
        if ((w.underruns + w.overruns == 0) != given->holds)
            fail_msg("%s: %d underruns, %d overruns", given->name, (int)w.underruns,
                     (int)w.overruns);
        if (given->holds && fabs(w.follow.smooth_s) > 0.2e-3)
            fail_msg("%s: waits %g ms off its set point", given->name, w.follow.smooth_s * 1e3);
    }
}

/* What waits comes back to its set point, without ringing: critically damped. */
static void test_damped(void **state)
{
    (void)state;
    struct clock_follow follow;
    clock_follow_reset(&follow, 48000, 48000, 0.020);
    double latency_s = 0.020, least_s = 1, step_s = 0.005;
    int64_t now_ns = 0;
    for (int i = 0; i < 4000; i++) { /* 20 s: settled */
        now_ns += (int64_t)(step_s * 1e9);
        latency_s -= (clock_follow_steer(&follow, latency_s, now_ns) - 1) * step_s;
    }
    latency_s += 0.002; /* the card stood still for 2 ms */
    double peak = 0;
    for (int i = 0; i < 24000; i++) {
        now_ns += (int64_t)(step_s * 1e9);
        double speed = clock_follow_steer(&follow, latency_s, now_ns);
        latency_s -= (speed - 1) * step_s;
        least_s = fmin(least_s, latency_s);
        peak = fmax(peak, speed - 1);
    }
    assert_true(fabs(latency_s - 0.020) < 20e-6);
    assert_true(least_s > 0.020 - 0.25 * 0.002); /* second order with a zero: 14 % by its formula */
    assert_true(peak < 1e-3);
}

static void test_speed_is_limited(void **state)
{
    (void)state;
    struct clock_follow follow;
    clock_follow_reset(&follow, 48000, 48000, 0.020);
    double speed = 1;
    for (int i = 1; i < 20000; i++)
        speed = clock_follow_steer(&follow, 1.0, i * 5 * NS_PER_MS);
    assert_float_equal(speed, 1.002, 1e-12);
    clock_follow_restart(&follow);
    for (int i = 20000; i < 40000; i++) /* no integral wind-up: the speed drops at once */
        speed = clock_follow_steer(&follow, 0.010, i * 5 * NS_PER_MS);
    assert_true(speed < 1);
    assert_true(speed >= 0.998);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_minutes),
        cmocka_unit_test(test_damped),
        cmocka_unit_test(test_speed_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
