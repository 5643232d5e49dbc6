/*
 * The stream against a simulated world: a seeded sender that loses, repeats, reorders and
 * restarts; a simulated clock; and an engine that convolves by definition, in double, reading
 * the ring only when a batch completes (so that a slot freed too early shows as a wrong
 * sample). After every step the three ledgers must hold exactly, and every output frame is
 * compared with the definition at its own frame number.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "stream/stream.h"

/* ---- an engine by definition ------------------------------------------------------------------- */

enum { CHANNELS = 2, HOP = 32, TAPS = 37, HISTORY = 96, BATCHES = 4, BLOCKS_MAX = 8 };
enum { OUTPUT_FLOATS = CHANNELS, BATCH_FLOATS = 2 * BLOCKS_MAX * HOP * OUTPUT_FLOATS };

struct plan {
    struct plan_info info;
    double taps[TAPS];
};

struct engine {
    struct batch batches[BATCHES];
    bool taken[BATCHES];
    float samples[BATCHES][BATCH_FLOATS];
    uint32_t used[BATCHES];
    struct block_report reports[BATCHES][2 * BLOCKS_MAX * CHANNELS];
    struct batch *queue[BATCHES];
    int queued, completable;
    bool fail_next;
};

const struct plan_info *plan_info(const struct plan *plan)
{
    return &plan->info;
}

int64_t plan_cost_ns(const struct plan *plan, uint32_t blocks)
{
    (void)plan;
    return 1000 * (int64_t)blocks;
}

int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem)
{
    (void)engine;
    (void)problem;
    struct ring *ring = calloc(1, sizeof *ring);
    ring->frames = 64;
    while (ring->frames < frames_min)
        ring->frames *= 2;
    ring->frame_bytes = frame_bytes;
    ring->bytes = malloc((size_t)ring->frames * frame_bytes);
    memset(ring->bytes, 0x5A, (size_t)ring->frames * frame_bytes); /* absent bytes must not matter */
    ring->present = calloc(ring->frames / 32, sizeof *ring->present);
    *out = ring;
    return 0;
}

void engine_ring_close(struct engine *engine, struct ring *ring)
{
    (void)engine;
    free(ring->bytes);
    free(ring->present);
    free(ring);
}

struct batch *engine_batch_take(struct engine *engine)
{
    for (int i = 0; i < BATCHES; i++) {
        if (!engine->taken[i]) {
            engine->taken[i] = true;
            engine->batches[i].count = 0;
            engine->used[i] = 0;
            return &engine->batches[i];
        }
    }
    return NULL;
}

uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan)
{
    (void)plan;
    uint32_t used = engine->used[batch - engine->batches];
    uint32_t room = (BATCH_FLOATS - used) / (HOP * OUTPUT_FLOATS);
    return room < BLOCKS_MAX ? room : BLOCKS_MAX;
}

int engine_batch_add(struct engine *engine, struct batch *batch, const struct batch_item *item)
{
    size_t index = (size_t)(batch - engine->batches);
    struct batch_item *added = &batch->items[batch->count];
    *added = *item;
    if (item->share_previous) {
        added->samples = batch->items[batch->count - 1].samples;
        added->reports = batch->items[batch->count - 1].reports;
    } else {
        assert_true(item->blocks <= engine_batch_room(engine, batch, item->plan));
        added->samples = engine->samples[index] + engine->used[index];
        added->reports = engine->reports[index] + engine->used[index] / (HOP * OUTPUT_FLOATS) * CHANNELS;
        engine->used[index] += item->blocks * HOP * OUTPUT_FLOATS;
    }
    batch->count++;
    return 0;
}

void engine_submit(struct engine *engine, struct batch *batch)
{
    batch->submitted_ns = batch->started_ns = clock_monotonic_ns();
    engine->queue[engine->queued++] = batch;
}

static double ring_value(const struct ring *ring, uint64_t position, uint32_t channel)
{
    uint32_t slot = (uint32_t)(position & (ring->frames - 1));
    if (!(ring->present[slot / 32] >> (slot % 32) & 1))
        return 0.0;
    int16_t code;
    memcpy(&code, ring->bytes + (size_t)slot * ring->frame_bytes + 2 * channel, 2);
    return code;
}

static void convolve(const struct batch_item *item)
{
    for (uint32_t n = item->write_from; n < item->write_until; n++) {
        for (uint32_t c = 0; c < CHANNELS; c++) {
            double sum = 0;
            for (uint32_t k = 0; k < TAPS; k++)
                sum += item->plan->taps[k] * ring_value(item->ring, item->position + n - k, c);
            item->samples[n * CHANNELS + c] = (float)sum;
        }
    }
    for (uint32_t b = 0; b < item->blocks; b++) {
        for (uint32_t c = 0; c < CHANNELS; c++) {
            struct block_report *report = &item->reports[b * CHANNELS + c];
            *report = (struct block_report){0};
            for (uint32_t n = 0; n < HOP; n++) {
                uint64_t position = item->position + b * HOP + n;
                uint32_t slot = (uint32_t)(position & (item->ring->frames - 1));
                report->present += item->ring->present[slot / 32] >> (slot % 32) & 1;
                report->sum += (float)ring_value(item->ring, position, c);
            }
        }
    }
}

struct batch *engine_completed(struct engine *engine)
{
    if (engine->completable == 0 || engine->queued == 0)
        return NULL;
    engine->completable--;
    struct batch *batch = engine->queue[0];
    memmove(engine->queue, engine->queue + 1, (size_t)--engine->queued * sizeof engine->queue[0]);
    batch->status = engine->fail_next ? BATCH_FAILED : BATCH_OK;
    engine->fail_next = false;
    for (uint32_t i = 0; i < batch->count && batch->status == BATCH_OK; i++)
        convolve(&batch->items[i]);
    batch->completed_ns = clock_monotonic_ns();
    return batch;
}

void engine_batch_release(struct engine *engine, struct batch *batch)
{
    engine->taken[batch - engine->batches] = false;
}

uint32_t engine_in_flight(const struct engine *engine)
{
    return (uint32_t)engine->queued;
}

/* ---- the world -------------------------------------------------------------------------------------- */

enum { FRAMES_MAX = 1 << 15, EPOCHS = 16 };

/* What came out, by epoch and frame number. */
struct capture {
    uint64_t frames[EPOCHS];            /* highest frame + 1 */
    float samples[EPOCHS][FRAMES_MAX][CHANNELS];
    uint8_t seen[EPOCHS][FRAMES_MAX];
    uint16_t causes[EPOCHS][FRAMES_MAX]; /* 1 << cause */
    uint64_t delivered;
    int starts, ends;
    uint64_t timeline_next;
    uint64_t record[EPOCHS];
    int64_t capture_ns[EPOCHS];          /* of the first result */
    int16_t raw[EPOCHS][FRAMES_MAX][CHANNELS];
    uint64_t raw_frames[EPOCHS];
    bool out_of_order;
};

struct world {
    struct engine engine;
    struct plan plan, other;
    struct stream *stream;
    struct capture got;
    int64_t now_ns;
    /* the model: frame numbers per epoch */
    int16_t sent[EPOCHS][FRAMES_MAX][CHANNELS];
    uint8_t placed[EPOCHS][FRAMES_MAX];
    int retired;
    uint64_t put_accepted, put_late, put_duplicate, put_refused;
};

static struct world *world; /* clock functions have no context */

static int64_t simulated_monotonic_ns(void)
{
    return world->now_ns;
}

static int64_t simulated_realtime_ns(void)
{
    return world->now_ns + 1700000000 * NS_PER_SECOND;
}

static void take(void *context, const struct result *result)
{
    struct capture *got = context;
    assert_true(result->epoch < EPOCHS);
    assert_true(result->first_frame + result->frames <= FRAMES_MAX);
    if (result->flags & RESULT_EPOCH_START) {
        got->starts++;
        got->capture_ns[result->epoch] = result->capture_ns;
    }
    if (result->flags & RESULT_EPOCH_END)
        got->ends++;
    got->out_of_order = got->out_of_order || result->timeline_frame < got->timeline_next;
    got->timeline_next = result->timeline_frame + result->frames;
    got->record[result->epoch] = result->record;
    for (uint32_t i = 0; i < result->frames; i++) {
        uint64_t n = result->first_frame + i;
        memcpy(got->samples[result->epoch][n], result->samples + i * CHANNELS,
               sizeof got->samples[0][0]);
        got->seen[result->epoch][n]++;
    }
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        for (uint64_t n = result->invalid[i].from; n < result->invalid[i].until; n++)
            got->causes[result->epoch][n] |= (uint16_t)(1u << result->invalid[i].cause);
    }
    got->delivered += result->frames;
    if (result->first_frame + result->frames > got->frames[result->epoch])
        got->frames[result->epoch] = result->first_frame + result->frames;
}

static void take_raw(void *context, const struct result *result)
{
    struct capture *got = context;
    assert_int_equal(result->first_frame, got->raw_frames[result->epoch]);
    memcpy(got->raw[result->epoch][result->first_frame], result->raw,
           (size_t)result->frames * sizeof got->raw[0][0]);
    got->raw_frames[result->epoch] += result->frames;
}

static struct stream_options default_options(void)
{
    return (struct stream_options){
        .name = "test",
        .rate_hz = 1e6,
        .channels = CHANNELS,
        .format = {SAMPLE_SIGNED, 2, 16, false, false},
        .frame_bytes = 2 * CHANNELS,
        .live = true,
        .tail = true,
        .delay_frames = 18,
        .reorder_ns = 200 * NS_PER_US,
        .idle_flush_ns = 10 * NS_PER_MS,
        .ring_frames_min = 2048,
        .batches_in_flight = BATCHES,
    };
}

static void make_plan(struct plan *plan, uint64_t seed)
{
    struct random_state random = {seed};
    *plan = (struct plan){.info = {.variant = "definition",
                                   .hop = HOP,
                                   .taps_longest = TAPS,
                                   .history_frames = HISTORY,
                                   .inputs = CHANNELS,
                                   .outputs = CHANNELS,
                                   .output_floats = OUTPUT_FLOATS}};
    for (int k = 0; k < TAPS; k++)
        plan->taps[k] = random_normal(&random);
}

static struct world *world_open(const struct stream_options *options)
{
    world = calloc(1, sizeof *world);
    world->now_ns = NS_PER_SECOND;
    static const struct clock_functions functions = {simulated_monotonic_ns, simulated_realtime_ns};
    clock_replace(&functions);
    make_plan(&world->plan, 1);
    make_plan(&world->other, 2);
    struct problem problem;
    assert_int_equal(stream_open(&world->engine, options, &world->plan, &world->stream, &problem), 0);
    struct result_port port = {.context = &world->got, .put = take};
    struct result_port raw = {.context = &world->got, .put = take_raw, .raw = true};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    assert_int_equal(stream_add_port(world->stream, &raw), 0);
    struct random_state random = {99};
    for (int e = 0; e < EPOCHS; e++) {
        for (int n = 0; n < FRAMES_MAX; n++) {
            for (int c = 0; c < CHANNELS; c++)
                world->sent[e][n][c] = (int16_t)(random_u64(&random) & 0x7FFF) - 0x3FFF;
        }
    }
    return world;
}

static void world_close(void)
{
    stream_close(world->stream);
    clock_replace(NULL);
    free(world);
    world = NULL;
}

static void check_ledgers(void)
{
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    uint64_t gaps = 0;
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        gaps += stats.gap[cause];
    assert_int_equal(stats.timeline_in, stats.received + stats.awaited + gaps);
    uint64_t shed = 0;
    for (int why = 0; why < SHEDS; why++)
        shed += stats.shed[why];
    assert_int_equal(stats.timeline_out, stats.out + stats.waiting + stats.submitted + shed);
    assert_int_equal(stats.out, world->got.delivered);
}

/* Puts frames [first, first + frames) of the model's epoch; `place` is the source's numbering. */
static enum verdict put(int epoch, uint64_t first, uint32_t frames, uint64_t place, uint32_t flags)
{
    struct packet packet = {
        .place = place,
        .frames = frames,
        .flags = flags,
        .payload = (const uint8_t *)world->sent[epoch][first],
        .receive_ns = world->now_ns,
        .receive_realtime_ns = simulated_realtime_ns(),
    };
    enum verdict verdict = stream_put(world->stream, &packet);
    if (verdict == VERDICT_ACCEPTED) {
        memset(&world->placed[epoch][first], 1, frames);
        world->put_accepted++;
    }
    check_ledgers();
    return verdict;
}

/* Ticks, submits what is ready and completes up to `complete` batches. */
static void turn(int complete)
{
    stream_tick(world->stream, world->now_ns); /* called too early it must do nothing */
    check_ledgers();
    while (stream_ready_deadline_ns(world->stream) != INT64_MAX) {
        struct batch *batch = engine_batch_take(&world->engine);
        if (batch == NULL)
            break;
        if (stream_fill(world->stream, batch, 5000, true) == 0) {
            engine_batch_release(&world->engine, batch);
            break;
        }
        engine_submit(&world->engine, batch);
        check_ledgers();
    }
    world->engine.completable = complete;
    struct batch *batch;
    while ((batch = engine_completed(&world->engine)) != NULL) {
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->items[i].owner != NULL)
                stream_complete(world->stream, batch, &batch->items[i]);
        }
        engine_batch_release(&world->engine, batch);
        check_ledgers();
    }
    stream_flushed(world->stream, world->now_ns);
}

static void drain(void)
{
    for (int i = 0; i < 100000 && !stream_drained(world->stream); i++)
        turn(BATCHES);
    assert_true(stream_drained(world->stream));
}

/* Output frames [0, frames) of an epoch against the definition; frames of the model not placed count as zero. */
static void check_epoch(int epoch, uint64_t frames, const double *taps, uint64_t from)
{
    for (uint64_t n = from; n < frames; n++) {
        assert_int_equal(world->got.seen[epoch][n], 1);
        for (int c = 0; c < CHANNELS; c++) {
            double sum = 0;
            for (uint64_t k = 0; k < TAPS && k <= n; k++) {
                if (world->placed[epoch][n - k])
                    sum += taps[k] * world->sent[epoch][n - k][c];
            }
            if ((float)sum != world->got.samples[epoch][n][c])
                fail_msg("epoch %d frame %llu channel %d: got %g, want %g", epoch,
                         (unsigned long long)n, c, world->got.samples[epoch][n][c], sum);
        }
    }
}

static uint16_t bit(enum invalid_cause cause)
{
    return (uint16_t)(1u << cause);
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

static void test_in_order(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 7, 31, 32, 33, 100, 700};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct stream_options options = default_options();
        world_open(&options);
        uint64_t total = 0;
        for (; total < 5000; total += sizes[s]) {
            world->now_ns += (int64_t)sizes[s] * 1000;
            assert_int_equal(put(0, total, sizes[s], 12345 + total, 0), VERDICT_ACCEPTED);
            turn(BATCHES);
            turn(BATCHES);
        }
        stream_end(world->stream);
        drain();
        assert_int_equal(world->got.frames[0], total + TAPS - 1);
        check_epoch(0, total + TAPS - 1, world->plan.taps, 0);
        assert_int_equal(world->got.starts, 1);
        assert_int_equal(world->got.ends, 1);
        for (uint64_t n = 0; n < total + TAPS - 1; n++) {
            uint16_t want = (uint16_t)((n < TAPS - 1 ? bit(INVALID_SETTLING) : 0) |
                                       (n >= total ? bit(INVALID_TAIL) : 0));
            assert_int_equal(world->got.causes[0][n], want);
        }
        assert_int_equal(world->got.raw_frames[0], total);
        assert_memory_equal(world->got.raw[0], world->sent[0], total * sizeof world->sent[0][0]);
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        assert_int_equal(stats.levels[0].frames, total);
        world_close();
    }
}

static void test_no_tail(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.tail = false;
    world_open(&options);
    put(0, 0, 100, 0, 0);
    stream_end(world->stream);
    drain();
    assert_int_equal(world->got.frames[0], 100);
    assert_int_equal(world->got.ends, 1);
    check_epoch(0, 100, world->plan.taps, 0);
    world_close();
}

static void test_gap_is_flagged_and_counted(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    stream_socket_drops(world->stream, 0);
    put(0, 420, 300, 420, 0); /* 100 frames missing */
    turn(4);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.awaited, 100);
    assert_int_equal(stats.out, 320); /* the blocks before the hole do not wait */
    world->now_ns += 200 * NS_PER_US;
    turn(4);
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.awaited, 0);
    assert_int_equal(stats.gap[INVALID_NETWORK], 100);
    assert_true(stats.last_gap_realtime_ns > 0);
    put(0, 720, 80, 720, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 800 + TAPS - 1, world->plan.taps, 0);
    for (uint64_t n = TAPS; n < 800; n++) {
        bool flagged = n >= 320 && n < 420 + TAPS - 1;
        assert_int_equal(world->got.causes[0][n], flagged ? bit(INVALID_NETWORK) : 0);
    }
    /* absent frames show as zero code in the raw input */
    for (uint64_t n = 320; n < 420; n++)
        assert_int_equal(world->got.raw[0][n][0], 0);
    world_close();
}

static void test_reordered_within_window(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    static const int order[] = {0, 2, 1, 5, 3, 4, 6, 7, 9, 8};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        world->now_ns += 50 * NS_PER_US;
        assert_int_equal(put(0, (uint64_t)order[i] * 50, 50, (uint64_t)order[i] * 50, 0),
                         VERDICT_ACCEPTED);
        turn(2);
    }
    stream_end(world->stream);
    drain();
    check_epoch(0, 500 + TAPS - 1, world->plan.taps, 0);
    for (uint64_t n = TAPS; n < 500; n++)
        assert_int_equal(world->got.causes[0][n], 0);
    world_close();
}

static void test_late_and_duplicate(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    assert_int_equal(put(0, 0, 100, 0, 0), VERDICT_DUPLICATE);
    put(0, 200, 100, 200, 0);
    world->now_ns += NS_PER_MS;
    turn(4);
    memset(&world->placed[0][100], 0, 100);
    assert_int_equal(put(0, 100, 100, 100, 0), VERDICT_LATE);
    assert_int_equal(put(0, 100, 100, 100, 0), VERDICT_LATE); /* a late duplicate moves nothing more */
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_LATE], 100);
    assert_int_equal(stats.gap[INVALID_NETWORK], 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 300 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static void test_overlapping_packets(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    assert_int_equal(put(0, 0, 100, 0, 0), VERDICT_ACCEPTED);
    assert_int_equal(put(0, 50, 100, 50, 0), VERDICT_ACCEPTED); /* its second half is new */
    put(0, 200, 50, 200, 0);
    assert_int_equal(put(0, 140, 80, 140, 0), VERDICT_ACCEPTED); /* fills the hole from both sides */
    stream_end(world->stream);
    drain();
    check_epoch(0, 250 + TAPS - 1, world->plan.taps, 0);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.received, 250);
    world_close();
}

static void test_socket_loss_is_told_apart(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 50, 0, 0);
    put(0, 50, 50, 50, 0);
    stream_socket_drops(world->stream, 2); /* two datagrams of 50 frames */
    put(0, 350, 50, 350, 0);               /* 250 missing: 100 socket, 150 network */
    world->now_ns += NS_PER_MS;
    turn(4);
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.gap[INVALID_SOCKET], 100);
    assert_int_equal(stats.gap[INVALID_NETWORK], 150);
    stream_end(world->stream);
    drain();
    world_close();
}

static void test_discontinuity_begins_an_epoch(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 333, 5000, 0);
    turn(1);
    world->now_ns += 5 * NS_PER_MS;
    put(1, 0, 333, 77, PACKET_DISCONTINUITY);
    put(1, 333, 300, 77 + 333, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 333 + TAPS - 1, world->plan.taps, 0);
    check_epoch(1, 633 + TAPS - 1, world->plan.taps, 0); /* zero history */
    assert_int_equal(world->got.starts, 2);
    assert_int_equal(world->got.ends, 2);
    assert_false(world->got.out_of_order);
    /* 5 ms at 1 MHz: time stamps advance by elapsed time (first packets began 333 µs before receipt) */
    assert_int_equal(world->got.timeline_next, 5000 + 633 + TAPS - 1);
    world_close();
}

static void test_records_are_convolved_alone(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.records = true;
    world_open(&options);
    for (int r = 0; r < 10; r++) {
        for (uint64_t n = 0; n < 500; n += 100) {
            world->now_ns += 100 * NS_PER_US;
            assert_int_equal(put(r, n, 100, (uint64_t)r * 100000 + n, n == 0 ? PACKET_RECORD : 0),
                             VERDICT_ACCEPTED);
            turn(1);
        }
    }
    stream_end(world->stream);
    drain();
    for (int r = 0; r < 10; r++) {
        check_epoch(r, 500 + TAPS - 1, world->plan.taps, 0);
        assert_int_equal(world->got.frames[r], 500 + TAPS - 1);
        assert_int_equal(world->got.record[r], r);
    }
    assert_int_equal(world->got.starts, 10);
    assert_int_equal(world->got.ends, 10);
    world_close();
}

static void test_idle_flush(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    turn(4);
    assert_int_equal(world->got.frames[0], 96);
    world->now_ns += 10 * NS_PER_MS;
    turn(4);
    assert_int_equal(world->got.frames[0], 100); /* the partial block */
    put(0, 100, 60, 100, 0);
    stream_end(world->stream);
    drain();
    check_epoch(0, 160 + TAPS - 1, world->plan.taps, 0); /* every frame once, none twice */
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.levels[1].frames, 160); /* the block computed twice is counted once */
    world_close();
}

static void test_tail_is_due_when_the_epoch_ends(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 100, 0, 0);
    world->now_ns += 10 * NS_PER_MS;
    turn(4); /* the partial block */
    world->now_ns += NS_PER_SECOND;
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    /* the silence before the end is nobody's latency */
    assert_true(stats.total->max_ns < 20 * NS_PER_MS);
    world_close();
}

static void test_overload_sheds_whole_blocks(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    uint64_t n = 0;
    for (; n < 8000; n += 100) {
        world->now_ns += 100 * NS_PER_US;
        put(0, n, 100, n, 0); /* the device computes nothing meanwhile */
    }
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 0);
    assert_int_equal(stats.shed[SHED_OVERLOAD] % HOP, 0);
    assert_int_equal(stats.received, 8000);
    uint64_t first_seen = 0;
    while (!world->got.seen[0][first_seen])
        first_seen++;
    assert_int_equal(first_seen, stats.shed[SHED_OVERLOAD]);
    check_epoch(0, 8000 + TAPS - 1, world->plan.taps, first_seen); /* with the true history */
    for (uint64_t i = 0; i < first_seen; i++)
        assert_true(world->got.causes[0][i] & bit(INVALID_OVERLOAD));
    world_close();
}

static void test_back_pressure_loses_nothing(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.live = false;
    world_open(&options);
    uint64_t n = 0;
    while (n < 20000) {
        uint64_t room = stream_room(world->stream);
        uint32_t frames = room < 150 ? (uint32_t)room : 150;
        if (frames > 0) {
            assert_int_equal(put(0, n, frames, n, 0), VERDICT_ACCEPTED);
            n += frames;
        }
        if (room < 100)
            turn(1);
    }
    stream_end(world->stream);
    drain();
    check_epoch(0, 20000 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static void test_device_failure_is_counted(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 320, 0, 0);
    world->engine.fail_next = true;
    turn(1);
    put(0, 320, 320, 320, 0);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_DEVICE] > 0);
    uint64_t lost = stats.shed[SHED_DEVICE];
    assert_int_equal(world->got.delivered + lost, 640 + TAPS - 1);
    assert_true(world->got.causes[0][0] & bit(INVALID_DEVICE));
    check_epoch(0, 640 + TAPS - 1, world->plan.taps, lost);
    world_close();
}

static void on_retired(void *context, struct plan *old)
{
    (void)context;
    assert_ptr_equal(old, &world->plan);
    world->retired++;
}

static void test_exchange_at_a_frame(void **state)
{
    (void)state;
    static const uint64_t at[] = {96, 100, 127, 128, 129, 500, 0};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct stream_options options = default_options();
        world_open(&options);
        if (at[i] > 0) {
            put(0, 0, 64, 0, 0);
            turn(4);
        }
        assert_int_equal(stream_exchange(world->stream, &world->other, at[i], 18, on_retired, NULL), 0);
        for (uint64_t n = at[i] > 0 ? 64 : 0; n < 1000; n += 60)
            put(0, n, 60, n, 0), turn(1);
        stream_end(world->stream);
        drain();
        assert_int_equal(world->retired, 1);
        check_epoch(0, 1024, world->other.taps, at[i]);
        if (at[i] > 0)
            check_epoch(0, at[i], world->plan.taps, 0);
        assert_int_equal(stream_exchange(world->stream, &world->plan, 0, 18, on_retired, NULL),
                         world->got.frames[0] > 0 ? 0 : ERROR_ARGUMENT);
        world_close();
    }
}

static void test_align_applies_the_delay(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    options.align = true;
    world_open(&options);
    put(0, 0, 320, 0, 0);
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.shed[SHED_ALIGNED], 18);
    assert_int_equal(world->got.frames[0], 320 + TAPS - 1 - 18);
    for (uint64_t n = 0; n < 320; n++) {
        double sum = 0;
        for (uint64_t k = 0; k < TAPS && k <= n + 18; k++) {
            if (n + 18 - k < 320)
                sum += world->plan.taps[k] * world->sent[0][n + 18 - k][0];
        }
        assert_true((float)sum == world->got.samples[0][n][0]);
    }
    world_close();
}

static void test_jump_longer_than_the_ring_is_a_discontinuity(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    put(0, 0, 64, 0, 0);
    put(1, 0, 64, 1000000, 0); /* no source should do this; no zero fill of a million frames comes of it */
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_int_equal(stats.epochs, 2);
    assert_int_equal(stats.timeline_in, 128);
    check_epoch(1, 64 + TAPS - 1, world->plan.taps, 0);
    world_close();
}

static void test_capture_time(void **state)
{
    (void)state;
    struct stream_options options = default_options();
    world_open(&options);
    int64_t begin_ns = world->now_ns;
    struct random_state random = {5};
    for (uint64_t n = 0; n < 20000; n += 100) {
        /* jitter of up to 400 µs on a line: the line is found underneath */
        int64_t line_ns = begin_ns + (int64_t)(n + 100) * 1000;
        world->now_ns = line_ns + (int64_t)random_below(&random, 20) * 1000;
        put(0, n, 100, n, 0);
        turn(4);
    }
    stream_end(world->stream);
    drain();
    int64_t error_ns = world->got.capture_ns[0] - (begin_ns + 1700000000 * NS_PER_SECOND);
    assert_in_range(error_ns + 20000, 0, 40000);
    world_close();
}

/* A sender with faults against the model, many seeds: every frame out is right at its number, every ledger holds. */
static void test_random_world(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct random_state random = {seed * 7919};
        struct stream_options options = default_options();
        options.ring_frames_min = seed % 3 == 0 ? 1024 : 4096;
        world_open(&options);
        struct {
            uint64_t first;
            uint32_t frames;
            int64_t at_ns;
        } waiting[8];
        int count = 0;
        uint64_t next = 0;
        while (next < 12000 || count > 0) {
            if (next < 12000 && count < 8) {
                uint32_t frames = 1 + random_below(&random, 120);
                bool lost = random_unit(&random) < 0.05;
                int copies = random_unit(&random) < 0.03 ? 2 : 1;
                for (int i = 0; i < copies && !lost && count < 8; i++) {
                    int64_t delay_ns = random_unit(&random) < 0.1
                                           ? (int64_t)random_below(&random, 500) * 1000
                                           : 0;
                    waiting[count].first = next;
                    waiting[count].frames = frames;
                    waiting[count++].at_ns = world->now_ns + delay_ns;
                }
                next += frames;
                world->now_ns += frames * 1000;
            } else {
                world->now_ns += 50000;
            }
            for (int i = 0; i < count;) {
                if (waiting[i].at_ns > world->now_ns) {
                    i++;
                    continue;
                }
                put(0, waiting[i].first, waiting[i].frames, waiting[i].first, 0);
                waiting[i] = waiting[--count];
            }
            turn((int)random_below(&random, 3));
        }
        stream_end(world->stream);
        drain();
        /* frames: seen exactly once unless shed; values by the model of what was placed */
        struct stream_stats stats;
        stream_stats(world->stream, &stats);
        uint64_t seen = 0;
        for (uint64_t n = 0; n < world->got.frames[0]; n++)
            seen += world->got.seen[0][n];
        assert_int_equal(seen, stats.out);
        /* what was late is not in the result: the model marks only accepted packets, whose late part was dropped */
        assert_false(world->got.out_of_order);
        assert_int_equal(stats.awaited, 0);
        if (stats.gap[INVALID_LATE] == 0 && stats.shed[SHED_OVERLOAD] == 0 && stats.gap[INVALID_OVERLOAD] == 0)
            check_epoch(0, world->got.frames[0], world->plan.taps, 0);
        world_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_no_tail),
        cmocka_unit_test(test_gap_is_flagged_and_counted),
        cmocka_unit_test(test_reordered_within_window),
        cmocka_unit_test(test_late_and_duplicate),
        cmocka_unit_test(test_overlapping_packets),
        cmocka_unit_test(test_socket_loss_is_told_apart),
        cmocka_unit_test(test_discontinuity_begins_an_epoch),
        cmocka_unit_test(test_records_are_convolved_alone),
        cmocka_unit_test(test_idle_flush),
        cmocka_unit_test(test_tail_is_due_when_the_epoch_ends),
        cmocka_unit_test(test_overload_sheds_whole_blocks),
        cmocka_unit_test(test_back_pressure_loses_nothing),
        cmocka_unit_test(test_device_failure_is_counted),
        cmocka_unit_test(test_exchange_at_a_frame),
        cmocka_unit_test(test_align_applies_the_delay),
        cmocka_unit_test(test_jump_longer_than_the_ring_is_a_discontinuity),
        cmocka_unit_test(test_capture_time),
        cmocka_unit_test(test_random_world),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
