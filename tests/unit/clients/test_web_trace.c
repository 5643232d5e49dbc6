/*
 * What convolv-web makes of frames: traces with holes, triggers by their definition, A-scans and
 * their averages, envelopes on the grid of frame numbers, and the bytes of a picture.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clients/web/ascan.h"
#include "clients/web/envelope.h"
#include "clients/web/picture.h"
#include "clients/web/trace.h"
#include "clients/web/trigger.h"

static struct trace trace;

/* One channel: frame n holds values[n]. */
static void open_with(const float *values, uint32_t frames)
{
    assert_int_equal(trace_open(&trace, 1, 64, 1000), 0);
    trace_put(&trace, 0, 0, frames, values);
}

static void kept(void **state)
{
    float values[40 * 2];
    (void)state;
    for (int i = 0; i < 80; i++)
        values[i] = (float)i;
    assert_int_equal(trace_open(&trace, 2, 33, 1000), 0);
    assert_int_equal(trace.capacity, 64);
    assert_true(trace_restarts(&trace, 3, 100));
    trace_put(&trace, 3, 100, 40, values);
    assert_false(trace_restarts(&trace, 3, 140));
    assert_true(trace_restarts(&trace, 3, 139));
    assert_true(trace_restarts(&trace, 4, 140));
    assert_true(trace_frame(&trace, 139)[1] == 79);
    trace_put(&trace, 3, 145, 10, values); /* five are missing */
    assert_int_equal(trace.oldest, 100);
    assert_int_equal(trace.next, 155);
    assert_int_equal(trace_causes(&trace, 139), 0);
    assert_int_equal(trace_causes(&trace, 140), CAUSE_UNSEEN);
    assert_true(trace_frame(&trace, 144)[0] == 0);
    assert_int_equal(trace_causes(&trace, 145), 0);
    trace_put(&trace, 3, 155, 20, values);
    assert_int_equal(trace.oldest, 175 - 64);
    trace_mark(&trace, 0, 112, 4);
    assert_int_equal(trace_causes(&trace, 111), 4);
    assert_int_equal(trace_causes(&trace, 112), 0);
    trace_put(&trace, 3, 1000000, 1, values); /* a hole longer than what is kept */
    assert_int_equal(trace.next - trace.oldest, 64);
    assert_int_equal(trace_causes(&trace, 999999), CAUSE_UNSEEN);
    trace_put(&trace, 4, 7, 1, values);
    assert_int_equal(trace.oldest, 7);
    assert_int_equal(trace.next, 8);
    trace_close(&trace);
}

static void capture_times(void **state)
{
    const float value = 0;
    (void)state;
    assert_int_equal(trace_open(&trace, 1, 8, 1000), 0);
    trace_put(&trace, 0, 50, 1, &value);
    assert_int_equal(trace_capture_ns(&trace, 50), 0);
    trace.capture_frame = 50;
    trace.capture_ns = INT64_C(1000000000);
    assert_int_equal(trace_capture_ns(&trace, 50), INT64_C(1000000000));
    assert_int_equal(trace_capture_ns(&trace, 51), INT64_C(1001000000));
    assert_int_equal(trace_capture_ns(&trace, 49), INT64_C(999000000));
    assert_true(trace_capture_ns(&trace, UINT64_C(1) << 62) > INT64_C(1)
                                                                  << 59); /* far, no overflow */
    trace_close(&trace);
}

static void triggers(void **state)
{
    static const float values[] = {0, 1, 2, 1, 0, -1, 0, 2, 2, 0};
    static const struct {
        enum trigger_mode mode;
        enum trigger_slope slope;
        float level;
        uint64_t from, until;
        int at; /* -1: none */
    } cases[] = {
        {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 0, 10, 2},
        {TRIGGER_LEVEL, SLOPE_RISING, 2.0f, 0, 10, 2}, /* reached */
        {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 3, 10, 7},
        {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 2, 10, 2}, /* crosses from the frame before */
        {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 3, 7, -1},
        {TRIGGER_LEVEL, SLOPE_FALLING, 1.5f, 0, 10, 3},
        {TRIGGER_LEVEL, SLOPE_FALLING, 1.5f, 4, 10, 9},
        {TRIGGER_LEVEL, SLOPE_EITHER, 1.5f, 3, 10, 3},
        {TRIGGER_LEVEL, SLOPE_RISING, 0.0f, 0, 10, 6}, /* begins at the level: no crossing */
        {TRIGGER_LEVEL, SLOPE_RISING, 3.0f, 0, 10, -1},
        {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 0, 1000, 2},
        {TRIGGER_AUTO, SLOPE_RISING, 1.5f, 0, 10, 2},
        {TRIGGER_RECORD, SLOPE_RISING, 0, 0, 10, 0},
        {TRIGGER_RECORD, SLOPE_RISING, 0, 1, 10, -1},
        {TRIGGER_EXTERNAL, SLOPE_RISING, 0, 0, 10, 4},
        {TRIGGER_EXTERNAL, SLOPE_RISING, 0, 5, 10, -1},
        {TRIGGER_EXTERNAL, SLOPE_RISING, 0, 0, 4, -1},
    };
    (void)state;
    open_with(values, 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct trigger trigger = {cases[i].mode, cases[i].slope, cases[i].level, 0, 4};
        uint64_t at = UINT64_MAX;
        const bool found = trigger_find(&trigger, &trace, cases[i].from, cases[i].until, &at);
        if (found != (cases[i].at >= 0) || (found && at != (uint64_t)cases[i].at))
            fail_msg("case %zu: %s at %llu, not %d", i, found ? "found" : "none",
                     (unsigned long long)at, cases[i].at);
    }
    /* What is invalid triggers nothing, on either side of the crossing. */
    const struct trigger rising = {TRIGGER_LEVEL, SLOPE_RISING, 1.5f, 0, 0};
    uint64_t at;
    trace_mark(&trace, 1, 2, 1);
    assert_true(trigger_find(&rising, &trace, 0, 10, &at));
    assert_int_equal(at, 7);
    trace_close(&trace);
}

static void ascans_of_records(void **state)
{
    static const uint16_t list[] = {0};
    struct ascan ascan;
    float values[8], mean[4];
    (void)state;
    assert_int_equal(trace_open(&trace, 1, 64, 1000), 0);
    assert_int_equal(ascan_open(&ascan, 4, 0, 2, list, 1), 0);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        for (int n = 0; n < 8; n++)
            values[n] = (float)(10 * (int)epoch + n);
        trace_put(&trace, epoch, 0, 3, values);
        assert_false(ascan_take(&ascan, &trace)); /* not all of it is there */
        trace_put(&trace, epoch, 3, 5, values + 3);
        assert_int_equal(ascan_take(&ascan, &trace), epoch == 1);
        assert_false(ascan_take(&ascan, &trace)); /* one a record */
    }
    ascan_read(&ascan, mean);
    for (int n = 0; n < 4; n++)
        assert_true(mean[n] == 5 + (float)n);
    assert_int_equal(ascan.first_epoch, 1);
    ascan_clear(&ascan);
    trace_put(&trace, 5, 2, 6, values); /* a record whose beginning did not come */
    assert_false(ascan_take(&ascan, &trace));
    assert_int_equal(ascan.averages, 0);
    ascan_close(&ascan);
    trace_close(&trace);
}

static void ascans_of_periods(void **state)
{
    static const uint16_t list[] = {1};
    struct ascan ascan;
    float values[60 * 2], mean[3];
    (void)state;
    for (int n = 0; n < 60; n++) {
        values[2 * n] = -1;
        const int period = n / 10;
        values[2 * n + 1] = (float)(n % 10 + period);
    }
    assert_int_equal(trace_open(&trace, 2, 64, 1000), 0);
    assert_int_equal(ascan_open(&ascan, 3, 10, 2, list, 1), 0);
    trace_put(&trace, 0, 5, 55, values + 10); /* frames 5 … 59: the first period has no beginning */
    trace_mark(&trace, 31, 32, 8);
    assert_false(ascan_take(&ascan, &trace)); /* 10 */
    assert_true(ascan_take(&ascan, &trace));  /* 20 */
    assert_false(ascan_take(&ascan, &trace)); /* until it is cleared */
    ascan_read(&ascan, mean);
    assert_true(mean[0] == 1.5f && mean[2] == 3.5f);
    assert_int_equal(ascan.causes[1], 0);
    ascan_clear(&ascan);
    assert_false(ascan_take(&ascan, &trace)); /* 30 */
    assert_true(ascan_take(&ascan, &trace));  /* 40 */
    assert_int_equal(ascan.first_frame, 40);
    assert_int_equal(ascan.causes[1], 8);
    assert_int_equal(ascan.causes[0], 0);
    ascan_close(&ascan);
    trace_close(&trace);
}

static void envelopes(void **state)
{
    static const uint16_t list[] = {2, 0};
    struct envelope envelope;
    float values[3 * 2], out[2 * 2 * 4];
    uint16_t causes[4];
    (void)state;
    assert_int_equal(envelope_open(&envelope, list, 2, 4, 20), 0);
    assert_int_equal(envelope_read(&envelope, out, causes), 0);
    assert_int_equal(causes[0], CAUSE_UNSEEN);
    assert_int_equal(causes[3], CAUSE_UNSEEN);
    /* Finer points of 10 frames, from frame 30 on; each point has two but the first. */
    for (uint64_t frame = 30; frame < 80; frame += 10) {
        for (int c = 0; c < 3; c++) {
            values[2 * c] = -(float)frame - (float)c;
            values[2 * c + 1] = (float)frame + (float)c;
        }
        envelope_put(&envelope, 1, frame, 1000 + (int64_t)frame, frame == 50 ? 2 : 0, values, 0, 3);
    }
    assert_int_equal(envelope_read(&envelope, out, causes), 0); /* points 0 … 3 */
    assert_int_equal(causes[0], CAUSE_UNSEEN);                  /* before the first that came */
    assert_int_equal(causes[1], 0);
    assert_int_equal(causes[2], 2);
    /* channel 2: minima of the four points, then maxima */
    static const float expected[] = {0, -32, -52, -72, 0, 32, 52, 72};
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == expected[i]);
    assert_true(out[8 + 3] == -70 && out[8 + 7] == 70); /* channel 0 */
    /* A hole of two points, and the window moves on. */
    envelope_put(&envelope, 1, 120, 0, 0, values, 0, 3);
    assert_int_equal(envelope_read(&envelope, out, causes), 60);
    assert_int_equal(causes[0], 0);
    assert_int_equal(causes[1], CAUSE_UNSEEN);
    assert_int_equal(causes[2], CAUSE_UNSEEN);
    assert_int_equal(causes[3], 0);
    /* Another epoch begins anew; channels in two parts are one point. */
    envelope_put(&envelope, 2, 0, 0, 0, values, 0, 1);
    envelope_read(&envelope, out, causes);
    assert_int_equal(causes[3], CAUSE_UNSEEN); /* channel 2 is missing */
    envelope_put(&envelope, 2, 0, 0, 0, values, 2, 1);
    envelope_read(&envelope, out, causes);
    assert_int_equal(causes[3], 0);
    assert_int_equal(causes[2], CAUSE_UNSEEN);
    envelope_close(&envelope);
}

static uint32_t word(const uint8_t *bytes, size_t at)
{
    uint32_t value;
    memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* The layout byte by byte, as the page reads it. */
static void pictures(void **state)
{
    static const uint16_t causes[] = {0, 4, 4, 1, 0};
    const struct picture picture = {.kind = PICTURE_MINMAX,
                                    .want = 0x1234,
                                    .channels = 2,
                                    .points = 5,
                                    .epoch = 7,
                                    .first_frame = UINT64_C(0x1122334455667788),
                                    .frames_per_point = 64,
                                    .rate_hz = 1e6,
                                    .capture_ns = -2,
                                    .flags = PICTURE_CLIPPED,
                                    .trigger = -1,
                                    .averages = 3};
    (void)state;
    assert_int_equal(picture_count_ranges(causes, 5), 2);
    assert_int_equal(picture_count_ranges(NULL, 5), 0);
    assert_int_equal(picture_values(&picture), 20);
    assert_int_equal(picture_bytes(&picture, 2), 72 + 2 * 16 + 20 * 4);
    uint8_t *bytes = malloc(picture_bytes(&picture, 2));
    assert_ptr_equal(picture_write(&picture, causes, bytes), bytes + 72 + 2 * 16);
    assert_memory_equal(bytes, "CNV1\x01\x00\x34\x12", 8);
    assert_int_equal(word(bytes, 8), 2);
    assert_int_equal(word(bytes, 12), 5);
    assert_int_equal(word(bytes, 16), 7);
    assert_int_equal(word(bytes, 24), 0x55667788);
    assert_int_equal(word(bytes, 28), 0x11223344);
    assert_int_equal(word(bytes, 36), 0x40500000); /* 64.0 */
    assert_int_equal(word(bytes, 48), UINT32_MAX - 1);
    assert_int_equal(word(bytes, 56), 2);
    assert_int_equal(word(bytes, 60), PICTURE_CLIPPED);
    assert_int_equal(word(bytes, 64), UINT32_MAX);
    assert_int_equal(word(bytes, 68), 3);
    static const uint32_t ranges[] = {1, 2, 4, 0, 3, 1, 1, 0};
    assert_memory_equal(bytes + 72, ranges, sizeof ranges);
    free(bytes);
}

/* More runs than ranges: the last covers the rest, with all of its causes. */
static void many_ranges(void **state)
{
    enum { POINTS = 2 * PICTURE_RANGES_MAX + 7 };
    static uint16_t causes[POINTS];
    const struct picture picture = {.kind = PICTURE_FRAMES, .channels = 1, .points = POINTS};
    (void)state;
    for (int p = 0; p < POINTS; p++)
        causes[p] = p % 2 == 0 ? 0 : p == POINTS - 2 ? 2 : 1;
    assert_int_equal(picture_count_ranges(causes, POINTS), PICTURE_RANGES_MAX);
    uint8_t *bytes = malloc(picture_bytes(&picture, PICTURE_RANGES_MAX));
    picture_write(&picture, causes, bytes);
    const size_t last = 72 + 16 * (PICTURE_RANGES_MAX - 1);
    assert_int_equal(word(bytes, last), 2 * PICTURE_RANGES_MAX - 1);
    assert_int_equal(word(bytes, last) + word(bytes, last + 4), POINTS - 1);
    assert_int_equal(word(bytes, last + 8), 3);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept),
        cmocka_unit_test(capture_times),
        cmocka_unit_test(triggers),
        cmocka_unit_test(ascans_of_records),
        cmocka_unit_test(ascans_of_periods),
        cmocka_unit_test(envelopes),
        cmocka_unit_test(pictures),
        cmocka_unit_test(many_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
