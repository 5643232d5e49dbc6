/*
 * Values of another stream in events: the newest sample that is not after the event's arrival, with
 * its age and error bound; none where it is invalid, too old, or never came. When an analysis waits
 * for the other stream, and when it does not. A state that goes on.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/random.h"
#include "pipeline/parameter_inlet.h"

enum { CHANNELS = 3, RATE = 5000, STEP = 5, FRAMES = 4000 };

static const int64_t ms = 1000000, start_ns = INT64_C(1700000000) * 1000000000;
static const uint32_t channels[] = {2, 0, 1};
static const char *const streams[] = {"press", NULL, "press"};

static struct analysis_options options = {
    .stream = {.rate_hz = 100000, .channels = 1},
    .parameter_count = 7,
    .parameter_values = 3,
    .parameter_channels = channels,
    .parameter_streams = streams,
    .parameter_age_ns = 100 * 1000000,
};

static struct parameter_inlet *inlet_open(bool waits)
{
    struct parameter_inlet *inlet;
    assert_int_equal(parameter_inlet_open(&options, waits, &inlet), 0);
    assert_int_equal(inlet->count, 1);
    return inlet;
}

static float sample(uint64_t frame, uint32_t channel)
{
    return (float)(frame * 4 + channel);
}

/* Frames [from, until) of the other stream's epoch, `late_ns` after start_ns; 2.5 frames delay. */
static void put(struct parameter_inlet *inlet, uint64_t epoch, uint64_t from, uint64_t until,
                int64_t late_ns, const struct invalid_range *invalid)
{
    static float samples[FRAMES * CHANNELS];
    for (uint64_t i = from; i < until; i++)
        for (uint32_t c = 0; c < CHANNELS; c++)
            samples[(i - from) * CHANNELS + c] = sample(i, c);
    const struct result result = {
        .epoch = epoch,
        .first_frame = from,
        .frames = (uint32_t)(until - from),
        .channels = CHANNELS,
        .samples = samples,
        .rate_hz = RATE,
        .capture_ns = start_ns + late_ns + (int64_t)(from * 1000000000 / RATE),
        .clock_error_ns = 2000,
        .delay_frames = 2.5,
        .invalid = invalid,
        .invalid_count = invalid != NULL,
    };
    parameter_link_put(&inlet->links[0], &result);
}

static struct analysis_event stamped(const struct parameter_inlet *inlet, int64_t after_ns)
{
    struct analysis_event event = {.arrival_ns = start_ns + after_ns, .clock_error_ns = 500};
    event.parameters[1] = 77; /* of its own stream */
    parameter_inlet_stamp(inlet, &event);
    assert_int_equal(event.parameter_count, 7);
    assert_true(event.parameters[1] == 77);
    return event;
}

/* What an event that long behind start_ns has to carry: of frame `frame`. */
static void check(const struct parameter_inlet *inlet, int64_t after_ns, uint64_t frame)
{
    const struct analysis_event event = stamped(inlet, after_ns);
    const int64_t instant_ns = (int64_t)(frame * 1000000000 / RATE) - 500000;
    assert_true(event.parameters[0] == (double)sample(frame, 2));
    assert_true(event.parameters[2] == (double)sample(frame, 1));
    for (int i = 3; i < 7; i += 2) {
        assert_true(event.parameters[i] == (double)(after_ns - instant_ns) / 1e3);
        assert_true(event.parameters[i + 1] == 2.5);
    }
    assert_int_equal(event.flags, 0);
}

static void check_none(const struct parameter_inlet *inlet, int64_t after_ns)
{
    const struct analysis_event event = stamped(inlet, after_ns);
    assert_true(isnan(event.parameters[0]) && isnan(event.parameters[2]));
    assert_int_equal(event.flags, ANALYSIS_NO_PARAMETER);
}

static void put_all(struct parameter_inlet *inlet, uint64_t seed)
{
    struct random_state random = {seed};
    for (uint64_t at = 0; at < FRAMES;) {
        uint64_t until = at + 1 + random_below(&random, 300);
        until = until < FRAMES ? until : FRAMES;
        put(inlet, 1, at, until, 0, NULL);
        at = until;
    }
}

static void test_the_newest_that_is_not_after(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        struct parameter_inlet *inlet = inlet_open(false);
        put_all(inlet, seed);
        for (int64_t after = 0; after < 799 * ms; after += 77777)
            check(inlet, after, (uint64_t)((after + ms / 2) / ms) * STEP);
        check(inlet, ms / 2, STEP); /* at its very instant … */
        check(inlet, ms / 2 - 1, 0);
        check_none(inlet, -ms); /* … and before the first */
        parameter_inlet_close(inlet);
    }
}

static void test_too_old_invalid_and_shed(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(false);
    const struct invalid_range invalid = {100, 110, INVALID_NETWORK};
    check_none(inlet, 0); /* nothing came */
    put(inlet, 1, 0, 200, 0, &invalid);
    check(inlet, 19 * ms, 95);
    check_none(inlet, 20 * ms);
    check_none(inlet, 21 * ms + ms / 4);
    check(inlet, 22 * ms, 110);
    /* Frames 200 … 399 never came. */
    put(inlet, 1, 400, 600, 0, NULL);
    check(inlet, 39 * ms, 195);
    check_none(inlet, 41 * ms);
    check(inlet, 80 * ms, 400);
    /* The last value counts for `parameter age`: that of frame 595, 118.5 ms after the start. */
    check(inlet, 218 * ms, 595);
    check_none(inlet, 219 * ms);
    assert_true(stamped(inlet, 219 * ms).parameters[3] == 100500.0);
    parameter_inlet_close(inlet);
}

static void test_times_that_step_back(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(false);
    put(inlet, 1, 0, 1000, 0, NULL);
    put(inlet, 1, 1000, 1010, -50 * ms, NULL); /* a clock that is still estimated */
    check(inlet, 199 * ms, 995);
    put(inlet, 2, 0, 1000, INT64_C(-5000) * ms, NULL);
    check_none(inlet, 199 * ms);
    assert_int_equal((int)stamped(inlet, -4950 * ms).parameters[0], (int)sample(250, 2));
    parameter_inlet_close(inlet);
}

/* A run of 10 ms, as the analysis takes it. */
static const struct analysis_run run = {.frames = 1000, .aligned = true};

static bool ready(struct parameter_inlet *inlet, int64_t after_ns, int64_t now_ns)
{
    struct analysis_run at = run;
    at.capture_ns = start_ns + after_ns;
    return parameter_inlet_ready(inlet, &at, false, now_ns);
}

static void test_waiting_live(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(false);
    const int64_t now = 1000 * ms;
    put(inlet, 1, 0, 500, 0, NULL); /* until 99.3 ms */
    assert_true(ready(inlet, 80 * ms, now));
    assert_false(ready(inlet, 90 * ms, now));
    assert_true(parameter_inlet_ready(
        inlet,
        &(struct analysis_run){.frames = 1000, .capture_ns = start_ns + 90 * ms, .aligned = true},
        true, now));
    put(inlet, 1, 500, 600, 0, NULL);
    assert_true(ready(inlet, 90 * ms, now + 20 * ms));
    /* It is silent from here on: one wait, and no more. */
    assert_false(ready(inlet, 200 * ms, now + 30 * ms));
    assert_false(ready(inlet, 200 * ms, now + 129 * ms));
    assert_true(ready(inlet, 200 * ms, now + 130 * ms));
    assert_true(ready(inlet, 210 * ms, now + 131 * ms));
    put(inlet, 1, 600, 700, 0, NULL);
    assert_false(ready(inlet, 220 * ms, now + 140 * ms));
    atomic_store(&inlet->links[0].over, true);
    assert_true(ready(inlet, 220 * ms, now + 140 * ms));
    parameter_inlet_close(inlet);
}

static void test_neither_recording_runs_ahead(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(true);
    struct parameter_link *link = &inlet->links[0];
    assert_true(parameter_link_room(link) > 0);
    put(inlet, 1, 0, 100, 0, NULL);
    assert_true(parameter_link_room(link) == 0);
    assert_true(atomic_exchange(&inlet->owed, false));
    assert_true(ready(inlet, 0, 0));
    assert_true(parameter_link_room(link) > 0);
    put(inlet, 1, 100, 200, 61000 * ms, NULL);
    assert_true(parameter_link_room(link) == 0);
    assert_false(ready(inlet, 62000 * ms, 0)); /* however long it takes */
    assert_false(ready(inlet, 62000 * ms, INT64_MAX / 2));
    assert_true(parameter_link_room(link) > 0);
    assert_true(ready(inlet, 0, 0));
    atomic_store(&link->unbounded, true);
    assert_true(parameter_link_room(link) > 0);
    parameter_inlet_close(inlet);
}

static void test_the_oldest_is_overwritten(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(false);
    const uint64_t frames = (uint64_t)(PARAMETER_BOARD_STEPS + 1000) * STEP;
    for (uint64_t at = 0; at < frames; at += FRAMES)
        put(inlet, 1, at, at + FRAMES, 0, NULL);
    check_none(inlet, 100 * ms);
    check(inlet, (int64_t)(frames / STEP - 100) * ms, frames - 100 * STEP);
    check(inlet, (int64_t)(frames / STEP - PARAMETER_BOARD_STEPS + 1000) * ms,
          frames - (uint64_t)(PARAMETER_BOARD_STEPS - 1000) * STEP);
    parameter_inlet_close(inlet);
}

static void test_the_state_goes_on(void **state)
{
    (void)state;
    struct parameter_inlet *inlet = inlet_open(false), *other = inlet_open(false);
    put_all(inlet, 3);
    struct codec counter = codec_counter();
    assert_true(parameter_inlet_walk(inlet, &counter));
    uint8_t *bytes = malloc(counter.at);
    struct codec writer = codec_writer(bytes, counter.at), reader = codec_reader(bytes, counter.at),
                 cut = codec_reader(bytes, counter.at - 1);
    assert_true(parameter_inlet_walk(inlet, &writer));
    assert_true(parameter_inlet_walk(other, &reader));
    assert_int_equal(parameter_board_until(other->links[0].board),
                     parameter_board_until(inlet->links[0].board));
    for (int64_t after = 0; after < 799 * ms; after += 777777)
        check(other, after, (uint64_t)((after + ms / 2) / ms) * STEP);
    struct parameter_inlet *third = inlet_open(false);
    assert_false(parameter_inlet_walk(third, &cut));
    free(bytes);
    parameter_inlet_close(inlet);
    parameter_inlet_close(other);
    parameter_inlet_close(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_that_is_not_after),
        cmocka_unit_test(test_too_old_invalid_and_shed),
        cmocka_unit_test(test_times_that_step_back),
        cmocka_unit_test(test_waiting_live),
        cmocka_unit_test(test_neither_recording_runs_ahead),
        cmocka_unit_test(test_the_oldest_is_overwritten),
        cmocka_unit_test(test_the_state_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
