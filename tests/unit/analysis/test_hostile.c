/*
 * Every type of analysis that takes frames, with streams and samples that nobody would choose: one
 * channel and 1024, a frame in three seconds and 200 million a second, constants, the largest and
 * the smallest floats, square waves above every threshold, records of one frame, all of it invalid.
 * Each frame is live or dead, each value is a number or undefined, and random cuts and restored
 * states change no bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/analyses.h"
#include "tests/support/analysis_world.h"

enum { FRAMES = 700, WIDEST = 1024 };

static const struct type {
    const struct analysis_ops *ops;
    const char *settings[8];
} types[] = {
    {&analysis_hits,
     {"threshold = 0", "hdt = 3 frames", "max duration = 90 frames", "pre-trigger = 5 frames",
      "max record = 20 frames", "spectrum = 16 frames", "noise interval = 50 frames"}},
    {&analysis_intervals, {"interval = 64 frames", "threshold = 0"}},
    {&analysis_ascan, {"period = 50 frames", "range = 40 frames", "averages = 3"}},
    {&analysis_vibration, {"segment = 64 frames", "segments = 2"}},
};
static const double rates[] = {1.0 / 3, 2e8};
static const uint32_t widths[] = {1, WIDEST};
static const float loud[] = {0, 1, FLT_MAX, FLT_TRUE_MIN};

static void check_values(const struct analysis_world *world)
{
    uint32_t count;
    const struct analysis_field *fields = world->ops->fields(&world->options, &count);
    for (size_t i = 0; i < world->count; i++) {
        const struct analysis_event *event = &world->events[i].event;
        assert_true(event->channel < world->stream.channels);
        for (uint32_t f = 0; f < count; f++) {
            const double *value =
                (const void *)((const unsigned char *)event->body + fields[f].offset);
            if (fields[f].type == ANALYSIS_DOUBLE && isnan(*value))
                continue;
            /* Sums of the largest floats are what they are; a negative root would be none. */
            if (fields[f].type == ANALYSIS_DOUBLE && isinf(*value) && *value < 0)
                fail_msg("%s: %s is %g", world->ops->name, fields[f].name, *value);
        }
    }
}

static void check_ledger(const struct analysis_world *world, uint64_t frames, uint64_t dead)
{
    struct analysis_ledger ledger;
    world->ops->ledger(world->analysis, &ledger);
    assert_int_equal(ledger.frames, frames);
    assert_int_equal(ledger.live + ledger.dead, frames);
    assert_int_equal(ledger.dead, dead);
}

static void run(const struct type *type, const struct analysis_signal *signal, uint64_t dead)
{
    struct analysis_stream stream = analysis_world_stream(signal->channels, signal->rate_hz, "V");
    struct analysis_world whole, cut;
    analysis_world_open(&whole, type->ops, &stream, type->settings);
    analysis_world_open(&cut, type->ops, &stream, type->settings);
    if (whole.analysis == NULL) /* a combination that the check refuses */
        assert_string_not_equal(whole.errors, "");
    if (whole.analysis != NULL) {
        struct random_state random = {signal->channels + 7};
        analysis_world_put(&whole, signal, 0, signal->frames);
        analysis_world_put_cut(&cut, signal, &random, signal->channels == 1);
        analysis_world_equal(&whole, &cut);
        check_ledger(&whole, signal->frames, dead);
        check_ledger(&cut, signal->frames, dead);
        check_values(&whole);
    }
    analysis_world_close(&whole);
    analysis_world_close(&cut);
}

static void test_streams_and_samples(void **state)
{
    (void)state;
    float *samples = malloc((size_t)WIDEST * FRAMES * sizeof *samples);
    assert_non_null(samples);
    const struct invalid_range ranges[] = {{0, 10, INVALID_SETTLING}, {300, 333, INVALID_NETWORK}},
                               all = {0, FRAMES, INVALID_OVERLOAD};
    for (size_t k = 0; k < sizeof types / sizeof types[0] * 16; k++) {
        const uint32_t channels = widths[k & 1];
        const float value = loud[k >> 2 & 3];
        for (size_t i = 0; i < (size_t)channels * FRAMES; i++)
            samples[i] = i / channels % 7 < 3 ? value : -value;
        struct analysis_signal signal = {.channels = channels,
                                         .frames = FRAMES,
                                         .samples = samples,
                                         .rate_hz = rates[k >> 1 & 1]};
        run(&types[k >> 4], &signal, 0);
        signal.invalid = ranges;
        signal.invalid_count = 2;
        if (channels == 1)
            run(&types[k >> 4], &signal, 43);
        signal.invalid = &all;
        signal.invalid_count = 1;
        run(&types[k >> 4], &signal, FRAMES);
    }
    free(samples);
}

/* Records shorter than anything that is configured. */
static void test_records_of_a_frame(void **state)
{
    (void)state;
    const float samples[] = {3};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const struct analysis_stream stream = analysis_world_stream(1, 1e6, "V");
        struct analysis_world world;
        analysis_world_open(&world, types[t].ops, &stream, types[t].settings);
        if (world.analysis == NULL)
            fail_msg("%s: %s", types[t].ops->name, world.errors);
        for (uint64_t record = 1; record <= 20; record++) {
            const struct analysis_signal signal = {.channels = 1,
                                                   .frames = 1,
                                                   .samples = samples,
                                                   .rate_hz = 1e6,
                                                   .epoch = record,
                                                   .record = record};
            analysis_world_put(&world, &signal, 0, 1);
        }
        check_ledger(&world, 20, 0);
        check_values(&world);
        analysis_world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_and_samples),
        cmocka_unit_test(test_records_of_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
