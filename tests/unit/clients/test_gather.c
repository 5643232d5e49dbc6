/* Gathering: consecutive frames by their numbers alone, out of records made by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clients/ctl/gather.h"
#include "stream/packet.h"

enum { CHANNELS = 2 };

/* A record whose value in channel c of frame n is 10 n + c. */
static struct watch_record record(bool input, uint64_t epoch, uint64_t first, uint32_t points)
{
    struct watch_record made = {.head = {.epoch = epoch,
                                         .first_frame = first,
                                         .capture_ns = 1000000000,
                                         .rate_hz = 1000,
                                         .kind = WATCH_FRAMES,
                                         .flags = input ? WATCH_INPUT : 0,
                                         .points = points,
                                         .frames_per_point = 1,
                                         .channels = CHANNELS}};
    for (uint32_t i = 0; i < points * CHANNELS; i++) {
        const uint64_t frame = first + i / CHANNELS;
        made.values[i] = (float)(10 * frame + i % CHANNELS);
    }
    return made;
}

static enum gather_state put(struct gather *gather, bool input, uint64_t epoch, uint64_t first,
                             uint32_t points)
{
    const struct watch_record made = record(input, epoch, first, points);
    return gather_put(gather, &made);
}

static void assert_frames(const struct gather_side *side, uint64_t first, uint64_t frames)
{
    assert_int_equal(side->first_frame, first);
    assert_int_equal(side->frames, frames);
    for (uint64_t n = 0; n < frames; n++)
        for (uint32_t c = 0; c < CHANNELS; c++)
            assert_true(side->values[n * CHANNELS + c] == (float)(10 * (first + n) + c));
}

static void test_whole(void **state)
{
    struct gather gather;
    (void)state;
    assert_int_equal(gather_open(&gather, 10, CHANNELS, CHANNELS, 1), 0);
    assert_int_equal(put(&gather, false, 3, 96, 4), GATHER_MORE); /* before the input's first */
    assert_int_equal(put(&gather, true, 3, 100, 8), GATHER_MORE);
    assert_int_equal(put(&gather, false, 2, 100, 8), GATHER_MORE); /* the epoch before's */
    assert_int_equal(put(&gather, false, 3, 98, 8), GATHER_MORE);  /* two of them are before */
    assert_int_equal(put(&gather, true, 3, 108, 8), GATHER_MORE);
    assert_int_equal(put(&gather, true, 3, 900, 8), GATHER_MORE); /* its side is whole */
    assert_int_equal(put(&gather, false, 3, 106, 8), GATHER_WHOLE);
    assert_frames(&gather.input, 100, 10);
    assert_frames(&gather.output, 100, 10);
    assert_int_equal(gather.epoch, 3);
    assert_int_equal(gather.input.capture_ns, 1000000000);
    assert_int_equal(gather.output.capture_ns, 1002000000);
    gather_close(&gather);
}

static void test_decimated(void **state)
{
    struct gather gather;
    (void)state;
    assert_int_equal(gather_open(&gather, 4, CHANNELS, CHANNELS, 8), 0);
    assert_int_equal(put(&gather, true, 0, 17, 8), GATHER_MORE);
    assert_int_equal(put(&gather, false, 0, 2, 1), GATHER_MORE); /* of input frame 16 */
    assert_int_equal(put(&gather, false, 0, 3, 4), GATHER_WHOLE);
    assert_frames(&gather.input, 17, 4);
    assert_frames(&gather.output, 3, 4);
    gather_close(&gather);
}

/* Nothing that was skipped is passed over: either side begins everything anew. */
static void test_skipped(void **state)
{
    struct gather gather;
    (void)state;
    assert_int_equal(gather_open(&gather, 8, CHANNELS, CHANNELS, 1), 0);
    assert_int_equal(put(&gather, true, 0, 0, 4), GATHER_MORE);
    assert_int_equal(put(&gather, false, 0, 0, 4), GATHER_MORE);
    assert_int_equal(put(&gather, true, 0, 5, 4), GATHER_SKIPPED);
    assert_int_equal(gather.longest, 4);
    assert_int_equal(put(&gather, false, 0, 4, 4), GATHER_MORE);
    assert_int_equal(put(&gather, false, 0, 9, 4), GATHER_SKIPPED); /* frame 8 is missing */
    assert_int_equal(put(&gather, false, 0, 13, 4), GATHER_MORE);
    assert_int_equal(put(&gather, true, 0, 20, 4), GATHER_MORE);
    assert_int_equal(put(&gather, true, 0, 20, 4), GATHER_SKIPPED); /* the same frames again */
    assert_int_equal(put(&gather, true, 1, 0, 8), GATHER_BROKEN);   /* another epoch */
    assert_int_equal(put(&gather, false, 0, 20, 4), GATHER_MORE);
    assert_int_equal(put(&gather, false, 1, 0, 8), GATHER_WHOLE);
    assert_frames(&gather.input, 0, 8);
    assert_frames(&gather.output, 0, 8);
    assert_int_equal(gather.epoch, 1);
    gather_close(&gather);
}

/* How far it came, for who asks for too much: of the side that lacked frames. */
static void test_longest(void **state)
{
    struct gather gather;
    (void)state;
    assert_int_equal(gather_open(&gather, 8, CHANNELS, CHANNELS, 1), 0);
    assert_int_equal(put(&gather, true, 0, 0, 8), GATHER_MORE);
    assert_int_equal(put(&gather, false, 0, 0, 5), GATHER_MORE);
    assert_int_equal(put(&gather, false, 0, 6, 2), GATHER_SKIPPED);
    assert_int_equal(gather.longest, 5);
    assert_int_equal(put(&gather, true, 0, 8, 6), GATHER_MORE);
    assert_int_equal(put(&gather, true, 1, 0, 6), GATHER_BROKEN);
    assert_int_equal(gather.longest, 6);
    gather_close(&gather);
}

static void test_flagged(void **state)
{
    const uint32_t absent = UINT32_C(1) << INVALID_CAUSES, network = 1 << INVALID_NETWORK;
    struct gather gather;
    (void)state;
    assert_int_equal(gather_open(&gather, 8, CHANNELS, CHANNELS, 1), 0);
    struct watch_record made = record(true, 0, 40, 6);
    made.head.range_count = 1;
    made.ranges[0] = (struct watch_range){4, 2, absent, 0};
    assert_int_equal(gather_put(&gather, &made), GATHER_MORE);
    made = record(true, 0, 46, 6);
    made.head.range_count = 2;
    made.ranges[0] = (struct watch_range){0, 1, absent, 0};
    made.ranges[1] = (struct watch_range){3, 1, absent, 0}; /* beyond the last frame */
    assert_int_equal(gather_put(&gather, &made), GATHER_MORE);
    made = record(false, 0, 36, 12);
    made.head.range_count = 1;
    made.ranges[0] = (struct watch_range){0, 5, network, 0};
    assert_int_equal(gather_put(&gather, &made), GATHER_WHOLE);
    assert_int_equal(gather.input.range_count, 1);
    assert_int_equal(gather.input.ranges[0].from, 44);
    assert_int_equal(gather.input.ranges[0].until, 47);
    for (uint32_t n = 0; n < 8; n++)
        assert_int_equal(isnan(gather.input.values[n * CHANNELS]) != 0, n >= 4 && n < 7);
    assert_int_equal(gather.output.range_count, 1);
    assert_int_equal(gather.output.ranges[0].from, 40);
    assert_int_equal(gather.output.ranges[0].until, 41);
    assert_int_equal(gather.output.ranges[0].causes, network);
    assert_frames(&gather.output, 40, 8);
    gather_close(&gather);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_decimated),
        cmocka_unit_test(test_skipped), cmocka_unit_test(test_longest),
        cmocka_unit_test(test_flagged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
