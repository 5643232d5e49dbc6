/*
 * Values of other channels in events: that of the last whole step at or before the event's first
 * frame, whatever runs the frames came in; none where it is invalid, dropped or forgotten; and a
 * state that goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "analysis/parameters.h"
#include "core/random.h"

enum { CHANNELS = 3, FRAMES = 1000, STEP = 7, DEAD_FROM = 300, DEAD_UNTIL = 330, DROPPED = 600 };

static const uint32_t carriers[] = {2, 0};

static float sample(uint64_t epoch, uint64_t frame, uint32_t channel)
{
    return (float)(epoch * 10000 + frame * 4 + channel);
}

static struct parameter_track *track_open(struct analysis_options *options)
{
    struct parameter_track *track;
    *options = (struct analysis_options){.stream = {.rate_hz = 6500, .channels = CHANNELS},
                                         .parameter_count = 2,
                                         .parameter_values = 2,
                                         .parameter_channels = carriers};
    assert_int_equal(parameter_track_open(options, &track), 0);
    return track;
}

/* Frames [from, until) of the epoch. Those of [DROPPED, DROPPED + 50) come without samples. */
static void put(struct parameter_track *track, uint64_t epoch, uint64_t from, uint64_t until)
{
    static float samples[FRAMES * CHANNELS];
    const struct invalid_range dead = {DEAD_FROM, DEAD_UNTIL, INVALID_NETWORK};
    for (uint64_t i = from; i < until; i++)
        for (uint32_t c = 0; c < CHANNELS; c++)
            samples[(i - from) * CHANNELS + c] = sample(epoch, i, c);
    struct analysis_run run = {.epoch = epoch,
                               .first_frame = from,
                               .frames = (uint32_t)(until - from),
                               .channels = CHANNELS,
                               .samples =
                                   from >= DROPPED && until <= DROPPED + 50 ? NULL : samples};
    if (from < DEAD_UNTIL && until > DEAD_FROM) {
        run.invalid = &dead;
        run.invalid_count = 1;
    }
    parameter_track_put(track, &run);
}

static void put_all(struct parameter_track *track, uint64_t epoch, struct random_state *random)
{
    for (uint64_t at = 0; at < FRAMES;) {
        uint64_t until = at + 1 + random_below(random, 200);
        if (at < DROPPED && until > DROPPED)
            until = DROPPED;
        if (at == DROPPED)
            until = DROPPED + 50;
        until = until < FRAMES ? until : FRAMES;
        put(track, epoch, at, until);
        at = until;
    }
}

static void check(const struct parameter_track *track, uint64_t epoch, uint64_t frame, bool known)
{
    struct analysis_event event = {.epoch = epoch, .frame = frame};
    parameter_track_stamp(track, &event);
    assert_int_equal(event.parameter_count, 2);
    assert_int_equal(event.flags, known ? 0 : ANALYSIS_NO_PARAMETER);
    const uint64_t at = frame / STEP * STEP;
    for (uint32_t i = 0; i < 2; i++)
        if (known)
            assert_true(event.parameters[i] == (double)sample(epoch, at, carriers[i]));
        else
            assert_true(isnan(event.parameters[i]));
}

static bool is_known(uint64_t frame)
{
    const uint64_t at = frame / STEP * STEP;
    return (at < DEAD_FROM || at >= DEAD_UNTIL) && (at < DROPPED || at >= DROPPED + 50);
}

static void test_the_last_whole_step(void **state)
{
    (void)state;
    struct random_state random = {4};
    struct analysis_options options;
    for (int round = 0; round < 20; round++) {
        struct parameter_track *track = track_open(&options);
        put_all(track, 3, &random);
        put_all(track, 4, &random);
        for (uint64_t frame = 0; frame < FRAMES; frame++) {
            check(track, 3, frame, is_known(frame));
            check(track, 4, frame, is_known(frame));
        }
        check(track, 3, FRAMES + STEP, false);
        check(track, 5, 0, false);
        parameter_track_close(track);
    }
}

static void test_what_is_forgotten(void **state)
{
    (void)state;
    struct random_state random = {5};
    struct analysis_options options;
    struct parameter_track *track = track_open(&options);
    put_all(track, 3, &random);
    parameter_track_forget(track, 3, 100);
    check(track, 3, 100, true);
    check(track, 3, 100 - 2 * STEP, false);
    put_all(track, 4, &random);
    parameter_track_forget(track, 3, UINT64_MAX);
    check(track, 3, FRAMES - 1, false);
    check(track, 4, 0, true);
    parameter_track_close(track);
}

/* Memory is bounded: the newest half of it is there in any case. */
static void test_a_long_wait(void **state)
{
    (void)state;
    struct analysis_options options;
    struct parameter_track *track = track_open(&options);
    const uint64_t frames = (uint64_t)(PARAMETER_STEPS + 100) * STEP;
    for (uint64_t at = 0; at < frames; at += FRAMES)
        put(track, 9, at, at + FRAMES);
    const uint64_t last = (frames + FRAMES - 1) / FRAMES * FRAMES - 1;
    check(track, 9, last, true);
    check(track, 9, last - (PARAMETER_STEPS / 2 - 1) * STEP, true);
    check(track, 9, 0, false);
    parameter_track_close(track);
}

static void test_the_state_goes_on(void **state)
{
    (void)state;
    struct random_state random = {6};
    struct analysis_options options, again;
    struct parameter_track *track = track_open(&options), *other = track_open(&again);
    put_all(track, 3, &random);
    parameter_track_forget(track, 3, 500);
    struct codec counter = codec_counter();
    assert_true(parameter_track_walk(track, &counter));
    uint8_t *bytes = malloc(counter.at);
    struct codec writer = codec_writer(bytes, counter.at);
    assert_true(parameter_track_walk(track, &writer));
    struct codec cut = codec_reader(bytes, counter.at - 1),
                 reader = codec_reader(bytes, counter.at);
    assert_false(parameter_track_walk(other, &cut));
    assert_true(parameter_track_walk(other, &reader));
    put(other, 3, FRAMES, FRAMES + 100);
    for (uint64_t frame = 500; frame < FRAMES + 100; frame++)
        check(other, 3, frame, is_known(frame));
    check(other, 3, 490, false);
    free(bytes);
    parameter_track_close(track);
    parameter_track_close(other);
}

/* A parameter of another stream is not this one's to stamp. */
static void test_those_of_other_streams(void **state)
{
    (void)state;
    static const char *const streams[] = {"press", NULL};
    struct analysis_options options;
    struct parameter_track *track = track_open(&options);
    options.parameter_streams = streams;
    assert_true(parameter_track_wanted(&options));
    put(track, 3, 0, 100);
    struct analysis_event event = {.epoch = 3, .frame = 50};
    parameter_track_stamp(track, &event);
    assert_true(isnan(event.parameters[0]));
    assert_int_equal(event.flags, 0);
    assert_true(event.parameters[1] == (double)sample(3, 49, carriers[1]));
    options.parameter_values = 1;
    assert_false(parameter_track_wanted(&options));
    assert_int_equal(parameter_track_memory(&options), 0);
    parameter_track_close(track);
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        uint32_t channel;
        const char *stream;
    } cases[] = {{"load 5", "load", 4, ""},
                 {"t_2 1", "t_2", 0, ""},
                 {"load 2 of press", "load", 1, "press"},
                 {"load 2 of my-press_2", "load", 1, "my-press_2"},
                 {"load", NULL, 0, NULL},
                 {"load 0", NULL, 0, NULL},
                 {"load -1", NULL, 0, NULL},
                 {"5 load", NULL, 0, NULL},
                 {"Load 5", NULL, 0, NULL},
                 {"load 5 kN", NULL, 0, NULL},
                 {"lo,ad 5", NULL, 0, NULL},
                 {"load 99999", NULL, 0, NULL},
                 {"load 5 6", NULL, 0, NULL},
                 {"load 5 of", NULL, 0, NULL},
                 {"load 5 of a b", NULL, 0, NULL},
                 {"load -1 of a", NULL, 0, NULL},
                 {"", NULL, 0, NULL},
                 {"_a 1", NULL, 0, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parameter parameter;
        const bool parsed = parameter_parse(cases[i].text, &parameter);
        if (parsed != (cases[i].name != NULL))
            fail_msg("`%s`", cases[i].text);
        if (parsed) {
            assert_string_equal(parameter.name, cases[i].name);
            assert_int_equal(parameter.channel, cases[i].channel);
            assert_string_equal(parameter.stream, cases[i].stream);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_whole_step),
        cmocka_unit_test(test_what_is_forgotten),
        cmocka_unit_test(test_a_long_wait),
        cmocka_unit_test(test_the_state_goes_on),
        cmocka_unit_test(test_those_of_other_streams),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
