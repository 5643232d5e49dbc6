/*
 * Flat lines found in the ring of a stream that this test fills: four channels of 16 bits. Each
 * test feeds turns of frames and says how each channel stands after them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/flat_lines.h"
#include "stream/presence.h"
#include "stream/received.h"
#include "stream/state.h"

enum { CHANNELS = 4, SLOTS = 1 << 18, FRAME_BYTES = 2 * CHANNELS };

static uint8_t bytes[SLOTS * FRAME_BYTES];
static uint32_t present[SLOTS / 32];
static struct ring ring = {bytes, present, SLOTS, FRAME_BYTES};
static struct stream stream;
static struct config_stream config;
static struct pipeline pipeline;
static struct alarm_reader readers[CHANNELS];
static struct flat_lines lines;
static uint64_t fed;

static int begin(void **state)
{
    (void)state;
    memset(&stream, 0, sizeof stream);
    memset(&lines, 0, sizeof lines);
    memset(readers, 0, sizeof readers);
    memset(present, 0, sizeof present);
    stream.ring = &ring;
    stream.epoch_next = 1;
    stream.epochs[0].base = FIRST_POSITION;
    config.source.format.bytes = 2;
    config.source.frame_bytes = FRAME_BYTES;
    pipeline.stream = &stream;
    pipeline.stream_config = &config;
    for (int c = 0; c < CHANNELS; c++)
        readers[c].channel = c;
    fed = 0;
    return 0;
}

static uint16_t *code_at(uint64_t frame, int channel)
{
    return (uint16_t *)(void *)(bytes + frame % SLOTS * FRAME_BYTES) + channel;
}

/* `frames` more; channels of the mask `flat` have one code, the others one that changes. */
static void feed(uint64_t frames, unsigned flat, bool received)
{
    for (uint64_t n = fed; n < fed + frames; n++)
        for (int c = 0; c < CHANNELS; c++)
            *code_at(n, c) = flat >> c & 1 ? 7 : (uint16_t)(n * 2654435761u >> 8);
    presence_clear_until(&stream, FIRST_POSITION + fed + frames);
    if (received)
        presence_mark(&stream, FIRST_POSITION + fed, FIRST_POSITION + fed + frames, true);
    fed += frames;
    stream.epochs[0].head = fed;
    stream.cleared_until = FIRST_POSITION + fed;
}

static void turn(uint64_t wanted)
{
    for (int c = 0; c < CHANNELS; c++) {
        const struct flat_channel channel = {&readers[c], &pipeline, wanted};
        flat_lines_look(&lines, &channel);
    }
    flat_lines_read(&lines);
}

static void a_channel_that_lives_is_never_read(void **state)
{
    (void)state;
    for (int t = 0; t < 20; t++) {
        feed(1000, 0, true);
        turn(5000);
        assert_int_equal(lines.reading_count, 0);
        for (int c = 0; c < CHANNELS; c++)
            assert_int_equal(readers[c].flat.frames, 0);
    }
}

static void a_flat_one_is_read_until_it_is_proven(void **state)
{
    (void)state;
    feed(1000, 2, true);
    turn(5000);
    assert_int_equal(readers[1].mode, FLAT_SUSPECT);
    feed(1000, 2, true);
    turn(5000);
    assert_int_equal(readers[1].mode, FLAT_READ);
    for (int t = 0; t < 5; t++) {
        feed(999, 2, true);
        turn(5000);
    }
    /* The code is read from the turn after it was suspected: 5 · 999 frames, not yet enough. */
    assert_int_equal(readers[1].flat.frames, 4995);
    assert_int_equal(readers[1].mode, FLAT_READ);
    feed(5, 2, true);
    turn(5000);
    assert_int_equal(readers[1].mode, FLAT_PROVEN);
    assert_int_equal(lines.reading_count, 0);
    feed(1000, 2, true);
    turn(5000);
    assert_int_equal(readers[1].flat.frames, 6000);
    feed(1000, 0, true);
    turn(5000);
    assert_int_equal(readers[1].mode, FLAT_LIVE);
    assert_int_equal(readers[1].flat.frames, 0);
    assert_int_equal(readers[0].flat.frames, 0);
}

/* Frames that did not arrive count for nothing, whatever fills their slots. */
static void gaps_count_for_nothing(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        feed(100, 1, true);
        turn(1000);
    }
    for (int t = 0; t < 8; t++) {
        feed(100, 1, true);
        feed(5000, 15, false);
        turn(1000);
    }
    assert_int_equal(readers[0].flat.frames, 800);
    assert_int_equal(readers[0].mode, FLAT_READ);
    assert_int_equal(readers[1].flat.frames, 0);
    for (int t = 0; t < 20; t++) { /* nothing comes: nothing changes */
        turn(1000);
        feed(100, 0, false);
    }
    assert_int_equal(readers[0].flat.frames, 800);
}

static void one_other_code_is_found(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        feed(1000, 1, true);
        turn(100000);
    }
    assert_int_equal(readers[0].flat.frames, 1000);
    feed(1000, 1, true);
    *code_at(fed - 500, 0) = 8; /* not among those that are looked at */
    turn(100000);
    assert_int_equal(readers[0].mode, FLAT_LIVE);
    assert_int_equal(readers[0].flat.frames, 0);
}

/* Four flat channels of 40 000 frames a turn are more than a turn compares: they are proven one
 * after the other, and no channel for a frame that was not compared. */
static void more_than_a_turn_compares(void **state)
{
    (void)state;
    int proven_at[CHANNELS] = {0};
    for (int t = 1; t < 30; t++) {
        feed(40000, 15, true);
        turn(100000);
        for (int c = 0; c < CHANNELS; c++)
            if (readers[c].mode == FLAT_PROVEN && proven_at[c] == 0)
                proven_at[c] = t;
    }
    for (int c = 0; c < CHANNELS; c++) {
        assert_true(proven_at[c] > 0);
        assert_true(c == 0 || proven_at[c] > proven_at[c - 1]);
    }
}

/* A channel that is flat in the frames that a turn has time for, and not in those it leaves out. */
static void what_was_left_out_is_not_compared(void **state)
{
    (void)state;
    for (int t = 0; t < 40; t++) {
        feed(t % 2 == 0 ? 20000 : 40000, 3, true);
        if (t % 2 != 0)
            *code_at(fed - 123, 1) = 8; /* beside the 40 000 of channel 0 there is no time for it */
        for (int c = 0; c < 2; c++) {
            const struct flat_channel channel = {&readers[c], &pipeline, c == 0 ? 1 << 30 : 100000};
            flat_lines_look(&lines, &channel);
        }
        flat_lines_read(&lines);
        assert_int_not_equal(readers[1].mode, FLAT_PROVEN);
    }
    assert_true(readers[0].flat.frames > 1000000);
}

/* What the ring lost before it was read was not compared. */
static void overwritten_frames(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        feed(1000, 1, true);
        turn(1 << 20);
    }
    assert_int_equal(readers[0].flat.frames, 1000);
    for (int t = 0; t < 2; t++)
        feed(SLOTS / 2, 1, true);
    turn(1 << 20);
    assert_int_equal(readers[0].flat.frames, SLOTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_channel_that_lives_is_never_read, begin),
        cmocka_unit_test_setup(a_flat_one_is_read_until_it_is_proven, begin),
        cmocka_unit_test_setup(gaps_count_for_nothing, begin),
        cmocka_unit_test_setup(one_other_code_is_found, begin),
        cmocka_unit_test_setup(more_than_a_turn_compares, begin),
        cmocka_unit_test_setup(what_was_left_out_is_not_compared, begin),
        cmocka_unit_test_setup(overwritten_frames, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
