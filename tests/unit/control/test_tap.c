/*
 * Taps: what a viewer reads from the ring is what the stream held, at any block size: minima and
 * maxima on the grid of frame numbers, frames of chosen channels, invalid and absent frames, holes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/tap.h"
#include "core/random.h"

enum { CHANNELS = 3, SLOTS = 1024, FRAMES = 5000 };

static uint8_t *memory;
static struct watch_writer writer;
static struct watch_reader reader;
static struct watch_record record;
static struct tap *tap;
static float samples[FRAMES][CHANNELS];
static const double factor[CHANNELS] = {1, 2, 0.5}, offset[CHANNELS] = {0, 1, -1};

static int make(void **state)
{
    struct random_state random = {.state = 3};
    (void)state;
    memory = aligned_alloc(4096, watch_ring_bytes(SLOTS));
    memset(memory, 0, watch_ring_bytes(SLOTS));
    watch_writer_open(&writer, memory, SLOTS);
    assert_true(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS)));
    const struct tap_options options = {.stream = "vessel",
                                        .input = true,
                                        .rate_hz = 8000,
                                        .channels = CHANNELS,
                                        .factor = factor,
                                        .offset = offset};
    const struct tap_viewer viewer = {
        .writer = &writer, .request = 9, .minmax = true, .list = {2, 0, CHANNELS}, .list_count = 3};
    assert_int_equal(tap_open(&options, &tap), 0);
    assert_int_equal(tap_add(tap, &viewer), 0);
    assert_int_equal(tap_samples(tap), CHANNELS + 2);
    for (int n = 0; n < FRAMES; n++)
        for (int c = 0; c < CHANNELS; c++)
            samples[n][c] = (float)(random_unit(&random) - 0.5);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    tap_close(tap);
    free(memory);
    return 0;
}

static float value(uint64_t frame, uint32_t channel)
{
    return (float)((double)samples[frame][channel] * factor[channel] - offset[channel]);
}

static struct tap_run run_of(uint64_t first, uint32_t frames)
{
    return (struct tap_run){.samples = {{SAMPLE_FLOAT, 4, 32, false, false},
                                        (const uint8_t *)samples[first],
                                        sizeof samples[0],
                                        CHANNELS},
                            .epoch = 4,
                            .first_frame = first,
                            .frames = frames,
                            .capture_ns = 1000000000 + (int64_t)first * 125000};
}

static void put(uint64_t first, uint32_t frames)
{
    const struct tap_run run = run_of(first, frames);
    tap_put(tap, &run, 0, frames);
}

/* Points a second stay between 500 and 1000 where the rate is that high. */
static void decimations(void **state)
{
    static const struct {
        double rate_hz;
        uint32_t frames;
    } cases[] = {{1, 1}, {999, 1}, {1000, 2}, {48000, 64}, {1e6, 1024}, {10e6, 16384}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tap_frames_per_point(cases[i].rate_hz), cases[i].frames);
}

/* The same points and frames whatever the sizes of the runs and of their parts. */
static void any_sizes(void **state)
{
    struct random_state random = {.state = 8};
    const uint32_t per_point = tap_frames_per_point(8000);
    uint64_t point = 0, frame = 0;
    (void)state;
    for (uint64_t at = 0; at < FRAMES;) {
        uint32_t frames = 1 + random_below(&random, 700);
        frames = at + frames > FRAMES ? (uint32_t)(FRAMES - at) : frames;
        const struct tap_run run = run_of(at, frames);
        const uint32_t part = random_below(&random, frames);
        if (part > 0)
            tap_put(tap, &run, 0, part);
        tap_put(tap, &run, part, frames);
        at += frames;
        if (random_below(&random, 3) == 0)
            tap_flush(tap);
        while (watch_reader_next(&reader, &record)) {
            const struct watch_head *head = &record.head;
            assert_string_equal(head->stream, "vessel");
            assert_int_equal(head->flags, WATCH_INPUT);
            assert_int_equal(head->request, 9);
            assert_int_equal(head->capture_ns, 1000000000 + (int64_t)head->first_frame * 125000);
            assert_int_equal(head->range_count, 0);
            const float *got = record.values;
            if (head->kind == WATCH_FRAMES) {
                assert_int_equal(head->first_frame, frame);
                for (uint32_t n = 0; n < head->points; n++, frame++) {
                    assert_true(*got++ == value(frame, 2));
                    assert_true(*got++ == value(frame, 0));
                }
                continue;
            }
            assert_int_equal(head->first_frame, point * per_point);
            assert_int_equal(head->frames_per_point, per_point);
            for (uint32_t p = 0; p < head->points; p++, point++) {
                for (uint32_t c = 0; c < CHANNELS; c++) {
                    float low = INFINITY, high = -INFINITY;
                    for (uint64_t n = point * per_point; n < (point + 1) * per_point; n++) {
                        low = fminf(low, value(n, c));
                        high = fmaxf(high, value(n, c));
                    }
                    assert_true(*got++ == low);
                    assert_true(*got++ == high);
                }
            }
        }
    }
    assert_int_equal(frame, FRAMES);
    assert_int_equal(reader.lost + reader.bad, 0);
    assert_true(point >= FRAMES / per_point - TAP_POINTS_MAX);
}

/* Absent samples count as 0, and both kinds of records name the range and its cause. */
static void invalid_frames(void **state)
{
    struct tap_run run = run_of(0, 64);
    (void)state;
    /* What stands in the slots from before must not come through. */
    for (int slot = 0; slot < 4; slot++)
        memset(memory + 4096 + slot * WATCH_SLOT_BYTES + 8 + WATCH_HEAD_BYTES, 0x3f,
               WATCH_FLOATS_MAX * 4);
    run.ranges[0] = (struct tap_range){20, 30, 8, true};
    run.ranges[1] = (struct tap_range){40, 41, 2, false};
    run.range_count = 2;
    tap_put(tap, &run, 0, run.frames);
    tap_flush(tap);
    assert_true(watch_reader_next(&reader, &record));
    assert_int_equal(record.head.kind, WATCH_FRAMES);
    assert_int_equal(record.head.range_count, 2);
    assert_int_equal(record.ranges[0].from, 20);
    assert_int_equal(record.ranges[0].points, 10);
    assert_int_equal(record.ranges[0].causes, 8);
    assert_int_equal(record.ranges[1].from, 40);
    assert_true(record.values[2 * 19] == value(19, 2));
    assert_true(record.values[2 * 20] == 0 && record.values[2 * 29 + 1] == 0);
    assert_true(record.values[2 * 30] == value(30, 2));
    assert_true(record.values[2 * 40] == value(40, 2));
    assert_true(watch_reader_next(&reader, &record));
    assert_int_equal(record.head.kind, WATCH_MINMAX);
    assert_int_equal(record.head.points, 4); /* of 16 frames */
    assert_int_equal(record.head.range_count, 2);
    assert_int_equal(record.ranges[0].from, 1);
    assert_int_equal(record.ranges[0].points, 1);
    assert_int_equal(record.ranges[0].causes, 8);
    assert_int_equal(record.ranges[1].from, 2);
    assert_int_equal(record.ranges[1].causes, 2);
}

/* A hole, another epoch and what was skipped end the points before; a part of one is never shown.
 */
static void holes(void **state)
{
    struct tap_run run;
    (void)state;
    put(0, 40); /* two points and a half */
    put(100, 60);
    tap_flush(tap);
    uint64_t points = 0;
    while (watch_reader_next(&reader, &record)) {
        if (record.head.kind != WATCH_MINMAX)
            continue;
        assert_int_equal(record.head.first_frame, points == 0 ? 0 : 96);
        assert_int_equal(record.head.points, points == 0 ? 2 : 4);
        points += record.head.points;
    }
    assert_int_equal(points, 6);
    tap_skip(tap);
    run = run_of(160, 16);
    run.epoch = 5;
    tap_put(tap, &run, 0, run.frames);
    tap_flush(tap);
    assert_true(watch_reader_next(&reader, &record));
    assert_int_equal(record.head.epoch, 5);
    assert_int_equal(record.head.flags & WATCH_SKIPPED, WATCH_SKIPPED);
}

/* More channels than a record holds go into several. */
static void many_channels(void **state)
{
    enum { MANY = 300 };
    static float row[4][MANY];
    static double one[MANY], zero[MANY];
    (void)state;
    for (int n = 0; n < 4; n++)
        for (int c = 0; c < MANY; c++)
            row[n][c] = (float)(1000 * n + c), one[c] = 1;
    const struct tap_options options = {
        .stream = "v", .rate_hz = 100, .channels = MANY, .factor = one, .offset = zero};
    const struct tap_viewer viewer = {.writer = &writer, .minmax = true};
    struct tap *wide;
    assert_int_equal(tap_open(&options, &wide), 0);
    assert_int_equal(tap_add(wide, &viewer), 0);
    const struct tap_run run = {
        .samples = {{SAMPLE_FLOAT, 4, 32, false, false}, (const uint8_t *)row, sizeof row[0], MANY},
        .frames = 4};
    tap_put(wide, &run, 0, 4);
    tap_flush(wide);
    uint32_t seen = 0;
    while (watch_reader_next(&reader, &record)) {
        for (uint32_t p = 0; p < record.head.points; p++)
            for (uint32_t c = 0; c < record.head.channels; c++, seen++)
                assert_true(record.values[2 * (p * record.head.channels + c)] ==
                            row[record.head.first_frame + p][record.head.first_channel + c]);
    }
    assert_int_equal(seen, 4 * MANY);
    tap_close(wide);
}

/* Each viewer gets what it asked for, under the number of its request; samples are read once for
 * the minima and maxima of both, and frames only as far as the bytes go. */
static void two_viewers(void **state)
{
    struct watch_writer other;
    struct watch_reader reads;
    uint8_t *room = aligned_alloc(4096, watch_ring_bytes(SLOTS));
    const struct tap_run run = run_of(0, 64);
    double bytes = 64 * 2 * sizeof(float) + 8;
    uint32_t kinds[2][WATCH_KINDS] = {0};
    (void)state;
    memset(room, 0, watch_ring_bytes(SLOTS));
    watch_writer_open(&other, room, SLOTS);
    assert_true(watch_reader_open(&reads, room, watch_ring_bytes(SLOTS)));
    const struct tap_viewer viewer = {
        .writer = &other, .request = 5, .minmax = true, .list = {1}, .list_count = 1};
    assert_int_equal(tap_add(tap, &viewer), 0);
    assert_int_equal(tap_samples(tap), CHANNELS + 3);
    tap_allow(tap, 64, &bytes);
    assert_true(bytes == 8);
    tap_put(tap, &run, 0, 64);
    tap_flush(tap);
    for (int i = 0; i < 2; i++) {
        while (watch_reader_next(i == 0 ? &reader : &reads, &record)) {
            assert_int_equal(record.head.request, i == 0 ? 9 : 5);
            kinds[i][record.head.kind] += record.head.points;
        }
        assert_int_equal(kinds[i][WATCH_MINMAX], 4);
        assert_int_equal(kinds[i][WATCH_FRAMES], i == 0 ? 64 : 0);
    }
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimations),
        cmocka_unit_test_setup_teardown(any_sizes, make, drop),
        cmocka_unit_test_setup_teardown(invalid_frames, make, drop),
        cmocka_unit_test_setup_teardown(holes, make, drop),
        cmocka_unit_test_setup_teardown(many_channels, make, drop),
        cmocka_unit_test_setup_teardown(two_viewers, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
