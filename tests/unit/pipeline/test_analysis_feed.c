/*
 * The feed of an analysis: whatever results come, with frames shed, epochs cut short, and a thread
 * that is late, the runs hold every frame of an epoch exactly once and in order, with its samples
 * or as dropped; the history before a run is what was there, zeros where frames were dropped; and
 * no frame is forgotten.
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

#include "core/random.h"
#include "pipeline/analysis_feed.h"

enum { CHANNELS = 3, HISTORY = 100, LONGEST = 300, FRAMES_MAX = 1 << 16 };

/* ---- a world of one feed ----------------------------------------------------------------- */

struct world {
    struct analysis_feed feed;
    struct message_ring messages;
    uint64_t pending, put, taken, lumped;
    /* what the thread knows of the epoch it is in */
    bool open;
    uint64_t epoch, first, next;
    bool seen[FRAMES_MAX]; /* frames of it that came with samples */
    uint64_t epochs, dropped_runs, with_samples;
};

static float sample(uint64_t epoch, uint64_t frame, uint32_t channel)
{
    return (float)(epoch * 1000003 + frame * 7 + channel + 1);
}

static void add_pending(void *context, uint64_t frames)
{
    struct world *w = context;
    w->pending += frames;
}

static struct world *world_open(uint64_t ring_bytes, uint64_t message_bytes)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(message_ring_open(&w->messages, message_bytes), 0);
    const struct analysis_feed_options options = {.channels = CHANNELS,
                                                  .rate_hz = 1e6,
                                                  .history = HISTORY,
                                                  .messages = &w->messages,
                                                  .pending = add_pending,
                                                  .context = w};
    assert_int_equal(analysis_feed_open(&w->feed, &options, ring_bytes), 0);
    return w;
}

static void world_close(struct world *w)
{
    analysis_feed_close(&w->feed);
    message_ring_close(&w->messages);
    free(w);
}

static void put(struct world *w, uint64_t epoch, uint64_t first, uint32_t frames, uint32_t flags,
                const struct invalid_range *invalid, uint32_t invalid_count)
{
    static float samples[LONGEST * CHANNELS];
    for (uint32_t i = 0; i < frames * CHANNELS; i++)
        samples[i] = sample(epoch, first + i / CHANNELS, i % CHANNELS);
    const struct result result = {.epoch = epoch,
                                  .record = epoch,
                                  .first_frame = first,
                                  .frames = frames,
                                  .channels = CHANNELS,
                                  .flags = flags,
                                  .samples = frames > 0 ? samples : NULL,
                                  .rate_hz = 1e6,
                                  .capture_ns = (int64_t)(first * 1000),
                                  .invalid = invalid,
                                  .invalid_count = invalid_count};
    analysis_feed_put(&w->feed, &result);
}

static void check_history(const struct world *w, const struct analysis_run *run)
{
    const uint64_t since = run->first_frame - w->first, wanted = since < HISTORY ? since : HISTORY;
    assert_true(run->history >= wanted && run->history <= since);
    for (uint64_t i = 1; i <= run->history; i++) {
        const uint64_t frame = run->first_frame - i;
        const float *at = run->samples - (ptrdiff_t)(i * CHANNELS);
        for (uint32_t c = 0; c < CHANNELS; c++)
            assert_true(at[c] == (w->seen[frame] ? sample(run->epoch, frame, c) : 0));
    }
}

static void check_run(struct world *w, const struct analysis_run *run)
{
    if (!w->open) {
        assert_true(run->begins);
        memset(w->seen, 0, sizeof w->seen);
        w->epochs++;
        w->epoch = run->epoch;
        w->first = w->next = run->first_frame;
    } else {
        assert_false(run->begins);
    }
    assert_int_equal(run->epoch, w->epoch);
    assert_int_equal(run->record, w->epoch);
    assert_int_equal(run->first_frame, w->next);
    if (run->frames > 0)
        assert_true(run->capture_ns == (int64_t)run->first_frame * 1000);
    uint64_t from = 0;
    for (uint32_t i = 0; i < run->invalid_count; i++) {
        const struct invalid_range *range = &run->invalid[i];
        assert_true(range->from >= from && range->from < range->until);
        assert_true(range->from >= run->first_frame &&
                    range->until <= run->first_frame + run->frames);
        from = range->from;
    }
    if (run->samples == NULL && run->frames > 0) {
        w->dropped_runs++;
        assert_true(run->invalid_count > 0);
        assert_int_equal(run->invalid[0].from, run->first_frame);
    }
    if (run->samples != NULL) {
        check_history(w, run);
        for (uint32_t i = 0; i < run->frames; i++) {
            for (uint32_t c = 0; c < CHANNELS; c++)
                assert_true(run->samples[i * CHANNELS + c] ==
                            sample(run->epoch, run->first_frame + i, c));
            w->seen[run->first_frame + i] = true;
        }
        w->with_samples += run->frames;
    }
    w->next = run->first_frame + run->frames;
    w->open = !run->ends;
}

/* The thread takes one message; false: there is none. */
static bool take(struct world *w)
{
    const struct feed_message *message = analysis_feed_peek(&w->feed);
    if (message == NULL)
        return false;
    uint64_t frames = 0;
    if (message->kind == FEED_RUN) {
        check_run(w, &message->run);
        frames = message->run.frames;
    } else if (message->kind == FEED_LUMPED) {
        assert_false(w->open);
        frames = message->lumped;
        w->lumped += frames;
    }
    w->pending -= frames;
    w->taken += frames;
    analysis_feed_release(&w->feed, message);
    return true;
}

/* The loop puts nothing more: everything comes through. */
static void drain(struct world *w)
{
    do
        while (take(w)) {
        }
    while (!analysis_feed_tell(&w->feed) || take(w));
    assert_int_equal(w->pending, 0);
}

/* Another feed goes on, from what the first one has written; whatever is cut off is refused, and
 * leaves a feed as it was opened. */
static void hand_on(struct world *w, uint64_t ring_bytes, struct random_state *random)
{
    struct codec counter = codec_counter();
    assert_true(analysis_feed_walk(&w->feed, &counter));
    uint8_t *bytes = malloc(counter.at);
    assert_non_null(bytes);
    struct codec writer = codec_writer(bytes, counter.at);
    assert_true(analysis_feed_walk(&w->feed, &writer));
    assert_int_equal(writer.at, counter.at);
    const struct analysis_feed_options options = w->feed.options;
    analysis_feed_close(&w->feed);
    assert_int_equal(analysis_feed_open(&w->feed, &options, ring_bytes), 0);
    struct codec cut = codec_reader(bytes, random_below(random, counter.at));
    assert_false(analysis_feed_walk(&w->feed, &cut));
    assert_false(w->feed.started || w->feed.open || w->feed.told_open);
    assert_int_equal(w->feed.history + w->feed.missing + w->feed.next + w->feed.ring.written, 0);
    struct codec reader = codec_reader(bytes, counter.at);
    assert_true(analysis_feed_walk(&w->feed, &reader));
    assert_int_equal(reader.at, counter.at);
    free(bytes);
}

/* ---- tests ------------------------------------------------------------------------------- */

struct chances {
    uint64_t seed, ring_bytes, message_bytes;
    unsigned take_percent; /* how often the thread takes a message after a result */
    unsigned shed_percent, end_percent, silent_percent;
    unsigned hand_on_percent; /* how often another feed goes on behind a result */
};

/* Epochs of random length, with what the chances say; returns the frames that were put. */
static void run_world(const struct chances *chances)
{
    struct world *w = world_open(chances->ring_bytes, chances->message_bytes);
    struct random_state random = {chances->seed};
    uint64_t all = 0, put_frames = 0;
    for (uint64_t epoch = 0; epoch < 60; epoch++) {
        bool announced = false;
        const uint64_t results = 1 + random_below(&random, 40);
        uint64_t frame = 0;
        for (uint64_t i = 0; i < results; i++) {
            const uint32_t frames = 1 + (uint32_t)random_below(&random, LONGEST);
            const bool last = i + 1 == results;
            const bool silent = last && random_below(&random, 100) < chances->silent_percent;
            const bool bare = last && !silent && random_below(&random, 100) < chances->end_percent;
            struct invalid_range shed = {frame, frame, INVALID_DEVICE};
            if (random_below(&random, 100) < chances->shed_percent) {
                frame += 1 + random_below(&random, 2 * LONGEST);
                shed.until = frame;
            }
            const uint32_t flags =
                (announced ? 0u : RESULT_EPOCH_START) | (last && !silent ? RESULT_EPOCH_END : 0u);
            put(w, epoch, frame, bare ? 0 : frames, flags, &shed, shed.until > shed.from);
            announced = true;
            frame += bare ? 0 : frames;
            put_frames += bare ? 0 : frames;
            while (random_below(&random, 100) < chances->take_percent && take(w)) {
            }
            assert_true(w->feed.dropped <= put_frames);
            if (random_below(&random, 100) < chances->hand_on_percent) {
                drain(w);
                hand_on(w, chances->ring_bytes, &random);
            }
        }
        all += frame;
    }
    drain(w);
    assert_int_equal(w->taken, all);
    assert_int_equal(w->with_samples + w->feed.dropped, put_frames);
    assert_true(w->epochs <= 60);
    if (chances->take_percent == 100) {
        assert_int_equal(w->feed.dropped, 0);
        assert_int_equal(w->epochs, 60);
        assert_int_equal(w->lumped, 0);
    } else if (chances->take_percent < 30) {
        assert_true(w->feed.dropped > 0);
    }
    world_close(w);
}

static void every_frame_comes_once(void **state)
{
    static const struct chances table[] = {
        {1, 1 << 20, 1 << 20, 100, 0, 0, 0, 0},   {2, 1 << 20, 1 << 20, 100, 20, 50, 20, 0},
        {3, 16384, 1 << 16, 60, 10, 20, 20, 0},   {4, 16384, 1 << 16, 20, 10, 20, 20, 0},
        {5, 16384, 8192, 10, 30, 50, 50, 0},      {6, 12288, 4096, 5, 30, 10, 50, 0},
        {7, 1 << 20, 4096, 20, 0, 0, 100, 0},     {8, 12288, 1 << 20, 2, 50, 50, 50, 0},
        {9, 16384, 1 << 16, 50, 50, 100, 0, 0},   {10, 1 << 16, 1 << 16, 100, 10, 20, 20, 30},
        {11, 16384, 1 << 16, 30, 30, 20, 50, 20},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        run_world(&table[i]);
}

/* A stream that does not wait for room loses nothing while it keeps to it. */
static void room_is_kept(void **state)
{
    (void)state;
    struct world *w = world_open(16384, 1 << 16);
    struct random_state random = {11};
    uint64_t frame = 0;
    for (int i = 0; i < 2000; i++) {
        const uint64_t room = analysis_feed_room(&w->feed);
        const uint32_t frames = 1 + (uint32_t)random_below(&random, LONGEST);
        if (frames <= room && frame + frames < FRAMES_MAX) {
            put(w, 0, frame, frames, frame == 0 ? RESULT_EPOCH_START : 0, NULL, 0);
            frame += frames;
        }
        if (random_below(&random, 3) == 0)
            take(w);
    }
    assert_true(frame > FRAMES_MAX / 4);
    assert_int_equal(w->feed.dropped, 0);
    drain(w);
    world_close(w);
}

/* A stream submits whole blocks only: one that is longer than all messages so far must not wait for
 * ever. */
static void an_empty_feed_takes_a_block_of_any_length(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20, BLOCK = BYTES / (CHANNELS * sizeof(float)) - HISTORY };
    struct world *w = world_open(BYTES, 1 << 16);
    w->feed.options.block_frames = BLOCK;
    assert_true(analysis_feed_room(&w->feed) >= BLOCK);
    put(w, 0, 0, 1, RESULT_EPOCH_START, NULL, 0);
    while (take(w))
        ;
    assert_true(analysis_feed_room(&w->feed) >= BLOCK);
    world_close(w);
}

/* One that takes its place in the middle of an epoch begins there. */
static void it_may_come_in_the_middle(void **state)
{
    (void)state;
    struct world *w = world_open(1 << 16, 1 << 16);
    put(w, 7, 5000, 100, 0, NULL, 0);
    drain(w);
    assert_int_equal(w->next, 5100);
    assert_int_equal(w->taken, 100);
    world_close(w);
}

/* Nobody goes on from it: the epoch that is open ends, once. */
static void an_end_is_told_once(void **state)
{
    (void)state;
    struct world *w = world_open(1 << 16, 1 << 16);
    analysis_feed_end(&w->feed);
    assert_false(take(w));
    put(w, 3, 0, 100, RESULT_EPOCH_START, NULL, 0);
    analysis_feed_end(&w->feed);
    analysis_feed_end(&w->feed);
    assert_true(take(w));
    assert_true(w->open);
    assert_true(take(w));
    assert_false(w->open);
    assert_false(take(w));
    world_close(w);
}

/* Marks keep their place among the runs. */
static void marks_come_in_order(void **state)
{
    (void)state;
    struct world *w = world_open(1 << 16, 1 << 16);
    put(w, 0, 0, 10, RESULT_EPOCH_START, NULL, 0);
    const struct sink_mark mark = {.frame = 5, .text = "tap"};
    assert_true(analysis_feed_mark(&w->feed, &mark));
    put(w, 0, 10, 10, 0, NULL, 0);
    assert_true(take(w));
    const struct feed_message *message = analysis_feed_peek(&w->feed);
    assert_int_equal(message->kind, FEED_MARK);
    assert_string_equal(message->mark->text, "tap");
    analysis_feed_release(&w->feed, message);
    drain(w);
    assert_int_equal(w->next, 20);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_comes_once),
        cmocka_unit_test(room_is_kept),
        cmocka_unit_test(an_empty_feed_takes_a_block_of_any_length),
        cmocka_unit_test(it_may_come_in_the_middle),
        cmocka_unit_test(an_end_is_told_once),
        cmocka_unit_test(marks_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
