/*
 * Showing on the real device: what a viewer of a stream was told of stays as it was until it has
 * looked at it, or it is told otherwise; it looks once in a turn of the loop; and it keeps neither
 * batches nor room from the stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/lost.h"
#include "stream/move.h"
#include "stream/watch.h"
#include "tests/support/house.h"

enum { CHANNELS = 2, HOP = 256, TAPS = 33, NOTES_MAX = 512, BLOCK_FLOATS = HOP * CHANNELS };

/* What was noted, and a copy of what lay there. */
struct note {
    bool input;
    const struct ring *ring;
    uint64_t position;
    const struct batch *batch;
    const float *at;
    uint32_t floats; /* 0: forgotten */
    float copy[BLOCK_FLOATS];
};

static struct world {
    struct house house;
    struct feed feed;
    uv_prepare_t prepare;
    uint64_t turn, shown_in; /* turns of the loop */
    struct note notes[NOTES_MAX];
    uint32_t first, next;
    uint32_t keeps; /* notes that it does not look at yet */
    uint32_t seen, gone, forgotten;
    uint32_t forgotten_then; /* when the device was left behind */
    uint64_t newest;         /* ring position */
} * world;

static struct note *add_note(const void *at, uint32_t floats)
{
    struct note *note = &world->notes[world->next++ % NOTES_MAX];
    assert_true(world->next - world->first <= NOTES_MAX && floats <= BLOCK_FLOATS);
    *note = (struct note){.at = at, .floats = floats};
    memcpy(note->copy, at, floats * sizeof(float));
    return note;
}

static void on_input(void *context, const struct watched_input *input)
{
    const struct ring *ring = input->ring;
    const uint64_t slot = input->position & (ring->frames - 1);
    (void)context;
    struct note *note = add_note(ring->bytes + slot * ring->frame_bytes, input->frames * CHANNELS);
    note->input = true;
    note->ring = ring;
    note->position = input->position;
    world->newest = input->position + input->frames;
}

static void on_reports(void *context, const struct block_report *reports, uint32_t blocks,
                       uint32_t channels, const struct watched_input *input)
{
    (void)context, (void)reports, (void)blocks, (void)channels, (void)input;
}

static void on_result(void *context, const struct result *result, const struct batch *batch)
{
    (void)context;
    add_note(result->samples, result->frames * CHANNELS)->batch = batch;
}

static bool lies_in(const struct note *note, const struct batch *batch)
{
    return !note->input && note->floats > 0 && (batch == NULL || note->batch == batch);
}

static bool is_on_gpu(void)
{
    return engine_device(world->house.engine)->gpu;
}

/* Every batch holds one result. */
static uint32_t kept_batches(void)
{
    uint32_t kept = 0;
    for (uint32_t i = world->first; i < world->next; i++)
        kept += lies_in(&world->notes[i % NOTES_MAX], NULL);
    return kept;
}

static bool on_show(void *context)
{
    (void)context;
    assert_true(world->turn != world->shown_in);
    world->shown_in = world->turn;
    assert_true(is_on_gpu() || engine_in_flight(world->house.engine) == 0 || kept_batches() > 1);
    if (world->next - world->first <= world->keeps)
        return world->next != world->first;
    const struct note *note = &world->notes[world->first++ % NOTES_MAX];
    if (note->floats == 0)
        return true;
    if (note->input && !stream_watch_holds(world->feed.stream, note->ring, note->position)) {
        world->gone++;
        return true;
    }
    assert_memory_equal(note->at, note->copy, note->floats * sizeof(float));
    world->seen++;
    return world->next != world->first;
}

static bool on_keeps(void *context, const struct batch *batch)
{
    bool keeps = false;
    (void)context;
    for (uint32_t i = world->first; i < world->next; i++)
        keeps = keeps || lies_in(&world->notes[i % NOTES_MAX], batch);
    return keeps;
}

static void on_forget(void *context, const struct batch *batch)
{
    (void)context;
    for (uint32_t i = world->first; i < world->next; i++) {
        struct note *note = &world->notes[i % NOTES_MAX];
        if (lies_in(note, batch)) {
            note->floats = 0;
            world->forgotten++;
        }
    }
}

static const struct stream_watch watch = {NULL,    on_input, on_reports, on_result,
                                          on_show, on_keeps, on_forget};

static void on_prepare(uv_prepare_t *prepare)
{
    (void)prepare;
    world->turn++;
}

static int make(void **state)
{
    (void)state;
    world = calloc(1, sizeof *world);
    house_open(&world->house);
    uv_prepare_init(&world->house.loop, &world->prepare);
    uv_prepare_start(&world->prepare, on_prepare);
    struct feed *feed = &world->feed;
    feed->channels = CHANNELS;
    feed->rate_hz = 1000;
    feed->total = UINT64_MAX;
    feed->plan = house_plan(world->house.engine, NULL, CHANNELS, HOP, TAPS, 1, 3);
    feed_open(feed, &world->house, "watched");
    uv_idle_stop(&feed->idle);
    stream_watch(feed->stream, &watch);
    return 0;
}

static int drop(void **state)
{
    struct feed *feed = &world->feed;
    (void)state;
    stream_watch(feed->stream, NULL);
    stream_end(feed->stream);
    if (stream_halted(feed->stream))
        stream_give_up(feed->stream);
    scheduler_kick(world->house.scheduler);
    while (!stream_drained(feed->stream))
        uv_run(&world->house.loop, UV_RUN_ONCE);
    feed->total = feed->frames;
    feed_close(feed);
    uv_close((uv_handle_t *)&world->prepare, NULL);
    house_close(&world->house);
    free(world);
    return 0;
}

/* A block that is like none before. */
static void put_block(void)
{
    struct feed *feed = &world->feed;
    const uint64_t at = feed->frames % NOISE_FRAMES * CHANNELS;
    for (uint32_t i = 0; i < BLOCK_FLOATS; i++)
        feed->noise[at + i] += 1.0f;
    feed_put(feed, HOP);
}

static void run_until_shown(void)
{
    while (!stream_drained(world->feed.stream) || stream_shows(world->feed.stream))
        uv_run(&world->house.loop, UV_RUN_ONCE);
}

/* Results of earlier blocks stay while later ones are computed. */
static void nothing_changes_under_a_viewer(void **state)
{
    enum { BLOCKS = 100, BEHIND = 2 };
    (void)state;
    for (uint32_t n = 0; n < BLOCKS;) {
        if (world->next - world->first <= 2 * BEHIND && stream_drained(world->feed.stream)) {
            world->keeps = 2 * BEHIND;
            put_block();
            n++;
        }
        uv_run(&world->house.loop, UV_RUN_ONCE);
    }
    world->keeps = 0;
    run_until_shown();
    assert_int_equal(world->seen, 2 * BLOCKS);
    assert_int_equal(world->forgotten + world->gone, 0);
}

/* A viewer that looks at nothing until much later keeps nothing from the stream. */
static void a_slow_viewer(void **state)
{
    enum { BLOCKS = 200, LATER = 250 };
    (void)state;
    world->keeps = LATER;
    for (uint32_t n = 0; n < BLOCKS;) {
        if (stream_room(world->feed.stream) >= HOP) {
            put_block();
            n++;
        }
        uv_run(&world->house.loop, UV_RUN_NOWAIT);
    }
    while (!stream_drained(world->feed.stream))
        uv_run(&world->house.loop, UV_RUN_NOWAIT);
    world->keeps = 0;
    run_until_shown();
    assert_true(world->forgotten > 0 && world->gone > 0);
    assert_int_equal(world->seen + world->forgotten + world->gone, 2 * BLOCKS);
    assert_int_equal(world->feed.delivered, BLOCKS * HOP);
}

/* What a source may write to is not held any more, before the stream is told of it. */
static void a_source_writes(void **state)
{
    struct stream *stream = world->feed.stream;
    (void)state;
    put_block();
    while (world->feed.delivered < world->feed.frames)
        uv_run(&world->house.loop, UV_RUN_ONCE);
    const struct ring *ring = world->notes[0].ring;
    while (world->feed.frames < ring->frames) {
        put_block();
        while (world->feed.delivered < world->feed.frames)
            uv_run(&world->house.loop, UV_RUN_ONCE);
    }
    const uint64_t oldest = world->newest - ring->frames;
    uint64_t frames = 64;
    assert_true(stream_watch_holds(stream, ring, oldest));
    assert_non_null(stream_vacant(stream, world->feed.frames, &frames));
    assert_int_equal(frames, 64);
    assert_false(stream_watch_holds(stream, ring, oldest + 63));
    assert_true(stream_watch_holds(stream, ring, oldest + 64));
    assert_false(stream_watch_holds(stream, NULL, oldest + 64));
}

static void on_lost(void *context)
{
    (void)context;
    world->forgotten_then = world->forgotten;
    world->keeps = 0;
    engine_abandon(world->house.engine);
    stream_halt(world->feed.stream);
}

/* Before a lost device is left behind, viewers have forgotten its results. */
static void a_lost_device(void **state)
{
    (void)state;
    world->keeps = NOTES_MAX;
    scheduler_on_lost(world->house.scheduler, on_lost, NULL);
    for (int n = 0; n < 3; n++) {
        put_block();
        while (world->feed.delivered < world->feed.frames)
            uv_run(&world->house.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(world->forgotten, 0);
    engine_declare_lost(world->house.engine, ENGINE_LOSS_STALLED, "a test says so");
    scheduler_kick(world->house.scheduler);
    run_until_shown();
    assert_int_equal(world->forgotten_then, 3);
    assert_int_equal(world->seen, 3); /* the ring is still there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_changes_under_a_viewer, make, drop),
        cmocka_unit_test_setup_teardown(a_slow_viewer, make, drop),
        cmocka_unit_test_setup_teardown(a_source_writes, make, drop),
        cmocka_unit_test_setup_teardown(a_lost_device, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
