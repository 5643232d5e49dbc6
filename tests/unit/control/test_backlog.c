/*
 * Backlogs: however much waits to be shown, one turn of the loop shows no more than its bound, in
 * samples and by a clock that stands for any machine; nothing is lost, and what is skipped is
 * flagged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "control/backlog.h"

enum { CHANNELS = 64, SLOTS = 4096, BLOCK = 4096, BLOCKS = 8, EACH = CHANNELS + 1 };

static struct backlog *backlog;
static struct backlog_budget budget;
static struct watch_writer writer;
static struct watch_reader reader;
static struct watch_record record;
static uint8_t *memory;
static float (*samples)[CHANNELS];

/* What has come out. */
static struct {
    uint64_t frames[2], points[2]; /* [input] */
    uint64_t turn_frames;          /* since it was set to 0 */
    bool skipped;                  /* a record says so */
} seen;

/* ---- the world ----------------------------------------------------------------------------- */

/* Time goes by with the frames that are shown alone. */
static struct {
    int64_t now_ns, frame_ns;
} sham;

static void take_record(void)
{
    const struct watch_head *head = &record.head;
    const bool input = head->flags & WATCH_INPUT;
    seen.skipped = seen.skipped || (head->flags & WATCH_SKIPPED);
    if (head->kind == WATCH_MINMAX) {
        seen.points[input] += head->points;
        return;
    }
    for (uint32_t n = 0; n < head->points; n++)
        assert_true(record.values[n] == samples[head->first_frame + n][7]);
    seen.frames[input] += head->points;
    seen.turn_frames += head->points;
    sham.now_ns += head->points * sham.frame_ns;
}

static int64_t sham_cpu_ns(void)
{
    while (watch_reader_next(&reader, &record))
        take_record();
    return sham.now_ns;
}

static bool overwritten;

static bool holds(void *context, const struct noted_run *noted, uint32_t from)
{
    (void)context, (void)noted, (void)from;
    return !overwritten;
}

static struct tap *open_side(bool input)
{
    static double one[CHANNELS], zero[CHANNELS];
    struct tap *tap;
    for (uint32_t c = 0; c < CHANNELS; c++)
        one[c] = 1;
    const struct tap_options options = {.stream = "wide",
                                        .input = input,
                                        .rate_hz = 1e6,
                                        .channels = CHANNELS,
                                        .factor = one,
                                        .offset = zero};
    const struct tap_viewer viewer = {
        .writer = &writer, .minmax = true, .list = {7}, .list_count = 1};
    assert_int_equal(tap_open(&options, &tap), 0);
    assert_int_equal(tap_add(tap, &viewer), 0);
    return tap;
}

static int make(void **state)
{
    (void)state;
    memory = aligned_alloc(4096, watch_ring_bytes(SLOTS));
    memset(memory, 0, watch_ring_bytes(SLOTS));
    watch_writer_open(&writer, memory, SLOTS);
    assert_true(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS)));
    samples = calloc((size_t)BLOCKS * BLOCK, sizeof *samples);
    for (int n = 0; n < BLOCKS * BLOCK; n++)
        samples[n][7] = (float)n;
    backlog = calloc(1, sizeof *backlog);
    backlog->sides[false].tap = open_side(false);
    backlog->sides[true].tap = open_side(true);
    backlog->holds = holds;
    budget = (struct backlog_budget){INT64_MAX / 2, 1e12, sham_cpu_ns};
    memset(&seen, 0, sizeof seen);
    memset(&sham, 0, sizeof sham);
    overwritten = false;
    return 0;
}

static int drop(void **state)
{
    (void)state;
    tap_close(backlog->sides[false].tap);
    tap_close(backlog->sides[true].tap);
    free(backlog);
    free(samples);
    free(memory);
    return 0;
}

/* Frames from `first` on, of the batch with this number. */
static void note(bool input, uint64_t first, uint32_t frames, uintptr_t batch)
{
    struct noted_run *noted = backlog_note(backlog, input);
    assert_non_null(noted);
    noted->run = (struct tap_run){.samples = {{SAMPLE_FLOAT, 4, 32, false, false},
                                              (const uint8_t *)samples[first],
                                              sizeof samples[0],
                                              CHANNELS},
                                  .first_frame = first,
                                  .frames = frames};
    noted->batch = input ? NULL : (const struct batch *)batch;
}

/* Frames of one turn. */
static uint64_t turn(bool *more)
{
    seen.turn_frames = 0;
    *more = backlog_turn(backlog, &budget);
    (void)sham_cpu_ns();
    return seen.turn_frames;
}

/* ---- tests --------------------------------------------------------------------------------- */

/* The first turn does not know yet what a frame takes. */
static void one_turn_is_bounded(void **state)
{
    static const struct {
        int64_t frame_ns;
        uint64_t frames; /* of a turn, at most */
    } cases[] = {
        {0, BACKLOG_SAMPLES / EACH},
        {10, BACKLOG_SAMPLES / EACH},
        {100, BACKLOG_NS / 100},
        {1000, BACKLOG_NS / 1000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool more = true;
        make(state);
        sham.frame_ns = cases[i].frame_ns;
        for (uint32_t b = 0; b < BLOCKS; b++) {
            note(true, (uint64_t)b * BLOCK, BLOCK, 0);
            note(false, (uint64_t)b * BLOCK, BLOCK, 1);
        }
        for (int turns = 0; more; turns++) {
            const uint64_t frames = turn(&more);
            assert_in_range(frames, 1, cases[i].frames);
            assert_true(turns < 1 || !more || frames >= cases[i].frames / 8);
        }
        for (int input = 0; input < 2; input++) {
            assert_int_equal(seen.frames[input], BLOCKS * BLOCK);
            tap_flush(backlog->sides[input].tap);
            (void)sham_cpu_ns();
            assert_int_equal(seen.points[input], BLOCKS * BLOCK / tap_frames_per_point(1e6));
        }
        assert_false(seen.skipped);
        drop(state);
    }
}

/* Short runs share a turn. */
static void short_runs(void **state)
{
    enum { SHORT = 64 };
    bool more;
    (void)state;
    sham.frame_ns = 10;
    for (uint32_t b = 0; b < BACKLOG_RUNS; b++)
        note(false, SHORT * b, SHORT, 1);
    assert_null(backlog_note(backlog, false));
    (void)turn(&more); /* its first part is careful */
    assert_in_range(turn(&more), 8 * SHORT, BACKLOG_SAMPLES / EACH);
    assert_true(more);
    while (more)
        (void)turn(&more);
    assert_int_equal(seen.frames[false], SHORT * BACKLOG_RUNS);
}

/* A hiccup of the machine does not make the turns that follow it much shorter for long. */
static void a_hiccup(void **state)
{
    bool more;
    (void)state;
    note(false, 0, BLOCKS * BLOCK, 1);
    sham.frame_ns = 10;
    (void)turn(&more);
    sham.frame_ns = 1000000;
    (void)turn(&more);
    sham.frame_ns = 10;
    for (int i = 0; i < 12; i++)
        (void)turn(&more);
    assert_true(turn(&more) > BACKLOG_SAMPLES / EACH / 2);
}

/* Runs that take next to no time, for they are absent or their frames are not written, do not make
 * a part of the next run longer. */
static void cheap_runs(void **state)
{
    bool more = true;
    for (int absent = 0; absent < 2; absent++) {
        make(state);
        sham.frame_ns = 1000;
        note(false, 0, BLOCK, 1);
        while (more || backlog->count > 0)
            (void)turn(&more);
        sham.frame_ns = 0;
        budget.credit_bytes = absent ? budget.credit_bytes : 0;
        for (int i = 1; i < 5; i++) {
            note(false, (uint64_t)i * BLOCK, BLOCK, 1);
            struct tap_run *run = &backlog->runs[backlog->first % BACKLOG_RUNS].run;
            run->range_count = absent ? 1 : 0;
            run->ranges[0] = (struct tap_range){0, 1, 1, true};
            samples[i * BLOCK][7] = 0;
            for (more = true; more;)
                (void)turn(&more);
        }
        sham.frame_ns = 1000;
        budget.credit_bytes = 1e12;
        note(false, 5 * BLOCK, BLOCK, 1);
        assert_in_range(turn(&more), 1, BACKLOG_NS / 1000);
        drop(state);
    }
}

/* A run that begins with nothing left of the budget is not shown, one that has begun is. */
static void a_budget(void **state)
{
    bool more = true;
    (void)state;
    note(true, 0, BLOCK, 0);
    note(false, 0, BLOCK, 1);
    sham.frame_ns = 10;
    budget.credit_ns = 10000;
    budget.credit_bytes = BLOCK * sizeof(float);
    while (more)
        (void)turn(&more);
    assert_int_equal(seen.frames[true], BLOCK);
    assert_int_equal(seen.frames[false], 0);
    assert_true(budget.credit_bytes == 0);
    budget.credit_ns = 10000;
    note(false, BLOCK, BLOCK, 2);
    for (more = true; more;)
        (void)turn(&more);
    assert_int_equal(seen.frames[false], 0);
    tap_flush(backlog->sides[false].tap);
    (void)sham_cpu_ns();
    assert_true(seen.skipped);
    assert_int_equal(seen.points[false], BLOCK / tap_frames_per_point(1e6));
}

/* What is overwritten, or forgotten, is not shown any more. */
static void memory_goes(void **state)
{
    bool more;
    (void)state;
    note(true, 0, BLOCK, 0);
    note(false, 0, BLOCK, 1);
    note(false, BLOCK, BLOCK, 2);
    note(true, BLOCK, BLOCK, 0);
    assert_true(backlog_keeps(backlog, (const struct batch *)1));
    assert_false(backlog_keeps(backlog, (const struct batch *)3));
    const uint64_t first = turn(&more);
    assert_in_range(first, 1, BLOCK - 1);
    overwritten = true;
    backlog_forget(backlog, (const struct batch *)1);
    assert_false(backlog_keeps(backlog, (const struct batch *)1));
    assert_true(backlog_keeps(backlog, (const struct batch *)2));
    while (more)
        (void)turn(&more);
    assert_int_equal(seen.frames[true], first);
    assert_int_equal(seen.frames[false], BLOCK);
    assert_true(seen.skipped);
    note(false, 0, BLOCK, 4);
    note(false, BLOCK, BLOCK, 5);
    backlog_forget(backlog, NULL);
    assert_int_equal(turn(&more), 0);
    assert_false(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_turn_is_bounded),
        cmocka_unit_test_setup_teardown(short_runs, make, drop),
        cmocka_unit_test_setup_teardown(a_hiccup, make, drop),
        cmocka_unit_test(cheap_runs),
        cmocka_unit_test_setup_teardown(a_budget, make, drop),
        cmocka_unit_test_setup_teardown(memory_goes, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
