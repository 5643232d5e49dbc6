/*
 * The pipe of convolv-tap: which packets become one record, that a record flags exactly the frames
 * that its packets flag, when records are written, and what a reader that leaves or stops costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/tools/tap_pipe.h"
#include "core/clock.h"

enum { CHANNELS = 2, FRAMES = 10, RECORDS = 8, ROOM = 1 << 20 };

#define RATE_HZ    1e6
#define CAPTURE_NS INT64_C(1700000000000000000)

static volatile sig_atomic_t stopping;

struct setting {
    int ends[2]; /* of the pipe: read, write */
    struct convolv_receiver *receiver;
    struct tap_pipe *pipe;
};

struct record {
    struct tap_pipe_record head;
    struct tap_pipe_range ranges[4];
    float first; /* sample */
};

static int set_up(void **state)
{
    struct setting *setting = calloc(1, sizeof *setting);
    struct convolv_receiver_options options;
    convolv_receiver_defaults(&options);
    options.channels = CHANNELS;
    options.rate_hz = RATE_HZ;
    stopping = 0;
    signal(SIGPIPE, SIG_IGN);
    if (setting == NULL || pipe(setting->ends) != 0 ||
        convolv_receiver_open(&options, &setting->receiver, NULL) != CONVOLV_OK)
        return -1;
    *state = setting;
    return tap_pipe_open(setting->ends[1], &options, setting->receiver, &stopping, &setting->pipe,
                         NULL);
}

static int tear_down(void **state)
{
    struct setting *setting = *state;
    stopping = 1; /* a full pipe holds nobody up */
    tap_pipe_close(setting->pipe, NULL);
    convolv_receiver_close(setting->receiver);
    if (setting->ends[0] >= 0)
        close(setting->ends[0]);
    close(setting->ends[1]);
    free(setting);
    return 0;
}

/* The records in the pipe. */
static size_t read_records(const struct setting *setting, struct record out[RECORDS])
{
    uint8_t *bytes = malloc(ROOM);
    assert_non_null(bytes);
    fcntl(setting->ends[0], F_SETFL, O_NONBLOCK);
    ssize_t got = read(setting->ends[0], bytes, ROOM);
    size_t count = 0;
    for (ssize_t at = 0; at < got; count++) {
        struct record *record = &out[count];
        assert_true(count < RECORDS);
        memset(record, 0, sizeof *record);
        memcpy(&record->head, bytes + at, sizeof record->head);
        const size_t ranges = record->head.invalid + record->head.missing;
        assert_int_equal(record->head.magic, TAP_PIPE_MAGIC);
        assert_int_equal(record->head.bytes, sizeof record->head + ranges * sizeof *record->ranges +
                                                 record->head.frames * CHANNELS * sizeof(float));
        assert_true(ranges <= 4);
        memcpy(record->ranges, bytes + at + sizeof record->head, ranges * sizeof *record->ranges);
        if (record->head.frames > 0)
            memcpy(&record->first,
                   bytes + at + sizeof record->head + ranges * sizeof *record->ranges,
                   sizeof record->first);
        at += record->head.bytes;
    }
    free(bytes);
    return count;
}

/* A packet's block: its samples are its first frame's number. */
static void put(struct setting *setting, struct convolv_block block)
{
    static double samples[FRAMES * CHANNELS];
    for (size_t i = 0; i < FRAMES * CHANNELS; i++)
        samples[i] = (double)block.first_frame;
    block.frames = FRAMES;
    block.channels = CHANNELS;
    block.samples = samples;
    block.described = true;
    block.decimate = 1;
    if (block.capture_ns == 0)
        block.capture_ns = CAPTURE_NS + (int64_t)block.first_frame * 1000;
    assert_int_equal(tap_pipe_put(setting->pipe, &block, NULL), 0);
}

static void test_what_follows_is_one_record(void **state)
{
    struct setting *setting = *state;
    struct record records[RECORDS];
    put(setting, (struct convolv_block){.first_frame = 0,
                                        .epoch_start = true,
                                        .invalid_until = 10,
                                        .causes = 1,
                                        .stage_ns = {5, 1}});
    put(setting, (struct convolv_block){
                     .first_frame = 10, .invalid_until = 4, .causes = 1, .stage_ns = {2, 7}});
    put(setting, (struct convolv_block){
                     .first_frame = 20, .invalid_from = 3, .invalid_until = 5, .causes = 4});
    assert_int_equal(read_records(setting, records), 1); /* the opening: nothing is complete yet */
    assert_int_equal(records[0].head.kind, TAP_PIPE_OPENING);
    assert_int_equal(records[0].head.channels, CHANNELS);
    assert_true(records[0].head.rate_hz == RATE_HZ);
    assert_int_equal(tap_pipe_flush(setting->pipe, NULL), 0);
    assert_int_equal(read_records(setting, records), 1);
    const struct tap_pipe_record *head = &records[0].head;
    assert_int_equal(head->kind, TAP_PIPE_BLOCK);
    assert_int_equal(head->frames, 3 * FRAMES);
    assert_int_equal(head->flags, TAP_PIPE_DESCRIBED | TAP_PIPE_EPOCH_START);
    assert_int_equal(head->capture_ns, CAPTURE_NS);
    assert_int_equal(head->stage_ns[0], 5);
    assert_int_equal(head->stage_ns[1], 7);
    assert_int_equal(head->invalid, 2);
    assert_int_equal(records[0].ranges[0].from, 0);
    assert_int_equal(records[0].ranges[0].until, 14);
    assert_int_equal(records[0].ranges[0].causes, 1);
    assert_int_equal(records[0].ranges[1].from, 23);
    assert_int_equal(records[0].ranges[1].until, 25);
    assert_int_equal(records[0].ranges[1].causes, 4);
    assert_int_equal(tap_pipe_flush(setting->pipe, NULL), 0);
    assert_int_equal(read_records(setting, records), 0); /* nothing is held */
}

/* Each second block differs from what would follow the first, in one respect. */
static void test_what_differs_is_a_record_of_its_own(void **state)
{
    static const struct {
        const char *what;
        struct convolv_block block;
    } cases[] = {
        {"a gap", {.first_frame = 11}},
        {"an epoch", {.first_frame = 10, .epoch = 1}},
        {"a record", {.first_frame = 10, .record = 1}},
        {"its beginning", {.first_frame = 10, .epoch_start = true}},
        {"a late packet", {.first_frame = 10, .late = true}},
        {"a loss", {.first_frame = 10, .lost_before = 1}},
        {"a hole", {.first_frame = 10, .hole_from = 5, .hole_until = 10, .hole_causes = 32}},
        {"the clock", {.first_frame = 10, .clock = 3}},
        {"the capture time", {.first_frame = 10, .capture_ns = CAPTURE_NS + 12000}},
        {"the delay", {.first_frame = 10, .delay_frames = 0.5}},
        {"aligned", {.first_frame = 10, .aligned = true}},
        {"gains", {.first_frame = 10, .gain_changes = 1}},
        {"gains that differ", {.first_frame = 10, .gain_differs = true}},
    };
    struct setting *setting = *state;
    struct record records[RECORDS];
    read_records(setting, records);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(setting, (struct convolv_block){.first_frame = 0});
        put(setting, cases[i].block);
        assert_int_equal(tap_pipe_flush(setting->pipe, NULL), 0);
        const size_t count = read_records(setting, records);
        if (count != 2)
            print_error("%s: %zu records\n", cases[i].what, count);
        assert_int_equal(count, 2);
        assert_int_equal(records[0].head.frames, FRAMES);
        assert_int_equal(records[1].head.first_frame, cases[i].block.first_frame);
        assert_true(records[1].first == (float)cases[i].block.first_frame);
    }
    assert_int_equal(records[1].head.missing, 0);
    put(setting, cases[6].block);
    tap_pipe_flush(setting->pipe, NULL);
    assert_int_equal(read_records(setting, records), 1);
    assert_int_equal(records[0].head.missing, 1);
    assert_int_equal(records[0].ranges[0].from, 5);
    assert_int_equal(records[0].ranges[0].until, 10);
    assert_int_equal(records[0].ranges[0].causes, 32);
}

static void test_the_end(void **state)
{
    struct setting *setting = *state;
    struct record records[RECORDS] = {0};
    read_records(setting, records);
    put(setting, (struct convolv_block){.first_frame = 0, .epoch_end = true});
    put(setting, (struct convolv_block){.first_frame = 10}); /* nothing follows an end */
    assert_int_equal(tap_pipe_close(setting->pipe, NULL), 0);
    setting->pipe = NULL;
    assert_int_equal(read_records(setting, records), 3);
    assert_int_equal(records[0].head.flags, TAP_PIPE_DESCRIBED | TAP_PIPE_EPOCH_END);
    assert_int_equal(records[1].head.first_frame, 10);
    assert_int_equal(records[2].head.kind, TAP_PIPE_END);
}

static void test_a_reader_that_leaves(void **state)
{
    struct setting *setting = *state;
    close(setting->ends[0]);
    setting->ends[0] = -1;
    put(setting, (struct convolv_block){.first_frame = 0});
    assert_false(tap_pipe_left(setting->pipe));
    assert_int_equal(tap_pipe_flush(setting->pipe, NULL), 0);
    assert_true(tap_pipe_left(setting->pipe));
}

/* Once the tap is to stop, a reader that takes nothing does not hold it up. */
static void test_a_reader_that_stops_reading(void **state)
{
    struct setting *setting = *state;
    stopping = 1;
    const int64_t begin_ns = clock_monotonic_ns();
    for (uint64_t frame = 0; !tap_pipe_left(setting->pipe); frame += FRAMES) {
        put(setting, (struct convolv_block){.first_frame = frame});
        if (frame % (1000 * FRAMES) == 0)
            tap_pipe_flush(setting->pipe, NULL);
        assert_true(clock_monotonic_ns() - begin_ns < 60 * NS_PER_SECOND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_follows_is_one_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_differs_is_a_record_of_its_own, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader_that_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader_that_stops_reading, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
