/*
 * A simulated world for the tests of stream/: a clock that the test sets, and an engine that
 * computes each convolution as a sum in double precision. The engine reads the ring when a batch
 * completes, not when it is submitted, so a slot that the stream frees too early shows as a wrong
 * sample. After every step the three ledgers must balance exactly. Test thread.
 *
 * This header defines the functions of engine.h: a test program includes it once and links no other
 * engine.
 */
#ifndef CONVOLVD_TESTS_STREAM_WORLD_H
#define CONVOLVD_TESTS_STREAM_WORLD_H

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

/* ---- an engine by definition ------------------------------------------------------------- */

enum { CHANNELS = 2, HOP = 32, TAPS = 37, HISTORY = 96, BATCHES = 4, J_MAX = 8 };
enum { TAPS_MOST = 1000, OUTPUT_FLOATS = CHANNELS, BATCH_FLOATS = 2 * J_MAX * HOP * OUTPUT_FLOATS };

struct plan {
    struct plan_info info;
    enum output_form form;       /* of every output */
    double taps[TAPS_MOST];      /* [info.taps_longest] */
    double imaginary[TAPS_MOST]; /* likewise, unless the form is OUTPUT_REAL */
    /* What a device with a delay line keeps: the newest blocks of one epoch. */
    uint32_t keeps;                   /* blocks before a block that it has to have seen */
    uint64_t seen_origin, seen_until; /* position of the epoch's frame 0; blocks seen */
    uint64_t unseen;                  /* blocks of items that were computed all at once for that */
    int limit;                        /* codes beyond it count as not finite; 0: none do */
};

struct engine {
    struct batch batches[BATCHES];
    bool taken[BATCHES];
    float samples[BATCHES][BATCH_FLOATS];
    uint32_t used[BATCHES];
    struct block_report reports[BATCHES][2 * J_MAX * CHANNELS];
    uint32_t saturated[BATCHES][BATCH_ITEMS_MAX][J_MAX * CHANNELS];
    struct batch *queue[BATCHES];
    uint64_t read_sum[BATCHES]; /* of what items without blocks of their own read */
    int queued, completable;
    bool fail_next;
    double failing; /* probability that a batch fails */
    struct random_state chance;
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

uint32_t engine_missing(const struct batch_item *item)
{
    const struct plan *plan = item->plan;
    const bool same = plan->seen_origin == item->position - item->epoch_block * HOP;
    const uint64_t needed =
        item->epoch_block < plan->keeps ? item->epoch_block : (uint64_t)plan->keeps;
    const uint64_t seen =
        same && plan->seen_until < item->epoch_block ? item->epoch_block - plan->seen_until : 0;
    return (uint32_t)(same && seen < needed ? seen : needed);
}

int64_t engine_item_cost_ns(const struct batch_item *item)
{
    return item->blocks > 0 ? plan_cost_ns(item->plan, item->blocks + engine_missing(item))
                            : plan_cost_ns(item->plan, item->rebuild);
}

const struct device_info *engine_device(const struct engine *engine)
{
    static const struct device_info device = {.name = "definition", .driver = "1"};
    (void)engine;
    return &device;
}

static struct ring *newest_ring; /* the one opened last */
static uint64_t ring_room;       /* of a ring that the input memory has room for [frames]; 0: any */

int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem)
{
    (void)engine;
    struct ring *ring = calloc(1, sizeof *ring);
    ring->frames = 64;
    while (ring->frames < frames_min)
        ring->frames *= 2;
    if (ring_room > 0 && ring->frames > ring_room) {
        free(ring);
        return problem_set(problem, ERROR_FULL, "the input memory is full");
    }
    ring->frame_bytes = frame_bytes;
    ring->bytes = malloc((size_t)ring->frames * frame_bytes);
    memset(ring->bytes, 0x5A,
           (size_t)ring->frames * frame_bytes); /* absent bytes must not matter */
    ring->present = calloc(ring->frames / 32, sizeof *ring->present);
    newest_ring = ring;
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

/* What tests of chains look at: feeds are taken while `feeds_left` lasts. */
static uint64_t feeds_left, fed_frames, fed_changed_from, fed_position;

bool engine_ring_feed(struct engine *engine, struct ring *ring, uint64_t changed_from,
                      uint64_t position, const void *samples, uint32_t frames)
{
    (void)engine, (void)ring, (void)samples;
    if (feeds_left == 0)
        return false;
    feeds_left--;
    fed_frames += frames;
    fed_changed_from = changed_from;
    fed_position = position;
    return true;
}

struct batch *engine_batch_take(struct engine *engine)
{
    for (int i = 0; i < BATCHES; i++) {
        if (!engine->taken[i]) {
            engine->taken[i] = true;
            engine->batches[i].count = 0;
            engine->batches[i].cost_ns = 0;
            engine->used[i] = 0;
            return &engine->batches[i];
        }
    }
    return NULL;
}

uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan)
{
    uint32_t used = engine->used[batch - engine->batches];
    uint32_t room = (BATCH_FLOATS - used) / (HOP * plan->info.output_floats);
    return room < J_MAX ? room : J_MAX;
}

int engine_batch_add(struct engine *engine, struct batch *batch, const struct batch_item *item)
{
    size_t index = (size_t)(batch - engine->batches);
    struct batch_item *added = &batch->items[batch->count];
    const uint32_t missing = engine_missing(item);
    struct plan *plan = item->plan;
    *added = *item;
    batch->cost_ns += engine_item_cost_ns(item);
    assert_true((item->blocks == 0) == (item->rebuild > 0) && item->rebuild <= missing);
    plan->unseen += item->blocks > 0 ? missing : 0;
    plan->seen_origin = item->position - item->epoch_block * HOP;
    plan->seen_until = item->epoch_block - missing + item->rebuild;
    if (item->blocks > 0)
        plan->seen_until = item->epoch_block + item->blocks;
    if (item->share_previous) {
        added->samples = batch->items[batch->count - 1].samples;
        added->reports = batch->items[batch->count - 1].reports;
    } else {
        assert_true(item->blocks <= engine_batch_room(engine, batch, item->plan));
        added->samples = engine->samples[index] + engine->used[index];
        added->reports =
            engine->reports[index] + engine->used[index] / (HOP * OUTPUT_FLOATS) * CHANNELS;
        engine->used[index] += item->blocks * HOP * item->plan->info.output_floats;
    }
    added->saturated = result_format_native(&item->plan->info.results)
                           ? NULL
                           : engine->saturated[index][batch->count];
    batch->count++;
    return 0;
}

/* What a batch reads before the blocks that its items name. */
static uint64_t sum_read(const struct batch *batch)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        const struct ring *ring = item->ring;
        for (uint64_t n = 1; item->blocks == 0 && n <= HISTORY; n++) {
            const uint64_t slot = (item->position - n) & (ring->frames - 1);
            for (uint32_t b = 0; b < ring->frame_bytes; b++)
                sum = 31 * sum + ring->bytes[slot * ring->frame_bytes + b];
        }
    }
    return sum;
}

void engine_submit(struct engine *engine, struct batch *batch)
{
    engine->read_sum[batch - engine->batches] = sum_read(batch);
    batch->submitted_ns = batch->started_ns = clock_monotonic_ns();
    engine->queue[engine->queued++] = batch;
}

static int16_t ring_code(const struct ring *ring, uint64_t position, uint32_t channel)
{
    int16_t code;
    const uint64_t slot = position & (ring->frames - 1);
    memcpy(&code, ring->bytes + slot * ring->frame_bytes + 2 * (size_t)channel, 2);
    return code;
}

static bool is_beyond(const struct plan *plan, int16_t code)
{
    return plan->limit > 0 && abs(code) > plan->limit;
}

static uint64_t rescanned; /* frames that engine_nonfinite has read */

uint32_t engine_nonfinite(const struct plan *plan, const struct ring *ring, uint32_t input,
                          uint64_t from, uint64_t until, uint64_t apart, struct ring_range *ranges,
                          uint32_t capacity)
{
    uint32_t count = 0;
    rescanned += until - from;
    for (uint64_t at = from; at < until; at++) {
        const uint64_t slot = at & (ring->frames - 1);
        if (!(ring->present[slot / 32] >> (slot % 32) & 1) ||
            !is_beyond(plan, ring_code(ring, at, input)))
            continue;
        if (count > 0 && (at - ranges[count - 1].until < apart || count == capacity))
            ranges[count - 1].until = at + 1;
        else
            ranges[count++] = (struct ring_range){at, at + 1};
    }
    return count;
}

/* As a device may: where nothing is said to be absent, presence is not looked at. */
static double ring_value(const struct batch_item *item, uint64_t position, uint32_t channel)
{
    const struct ring *ring = item->ring;
    uint32_t slot = (uint32_t)(position & (ring->frames - 1));
    if (item->absent && !(ring->present[slot / 32] >> (slot % 32) & 1))
        return 0.0;
    const int16_t code = ring_code(ring, position, channel);
    return is_beyond(item->plan, code) ? 0 : code;
}

/* One sample, `place` samples after the item's first: as a float, or encoded and counted for its
 * channel. */
static void write_sample(const struct batch_item *item, uint32_t frame, size_t place, int c,
                         double value)
{
    const struct result_format *results = &item->plan->info.results;
    uint32_t *saturated = (uint32_t *)item->saturated;
    if (saturated == NULL) {
        assert_true(result_format_native(results));
        item->samples[place] = (float)value;
        return;
    }
    uint8_t *to = (uint8_t *)item->samples + place * results->format.bytes;
    saturated[frame / HOP * CHANNELS + (uint32_t)c] +=
        sample_encode(&results->format, (double)(float)value * results->factor, to);
}

static void convolve(const struct batch_item *item)
{
    if (item->saturated != NULL)
        memset((uint32_t *)item->saturated, 0, item->blocks * CHANNELS * sizeof *item->saturated);
    const uint32_t decimate = item->plan->info.decimate, phase = item->plan->info.decimate_phase;
    uint32_t kept = 0;
    for (uint32_t n = 0; n < item->blocks * HOP; n++) {
        if ((item->epoch_block * HOP + n) % decimate != phase)
            continue;
        for (uint32_t c = 0; c < CHANNELS && n >= item->write_from && n < item->write_until; c++) {
            double re = 0, im = 0;
            for (uint32_t k = 0; k < item->plan->info.taps_longest; k++) {
                double x = ring_value(item, item->position + n - k, c);
                re += item->plan->taps[k] * x;
                im += item->plan->imaginary[k] * x;
            }
            const size_t to = (size_t)kept * item->plan->info.output_floats;
            if (item->plan->form == OUTPUT_COMPLEX) {
                write_sample(item, n, to + 2 * c, (int)c, re);
                write_sample(item, n, to + 2 * c + 1, (int)c, im);
            } else {
                write_sample(item, n, to + c, (int)c,
                             item->plan->form == OUTPUT_REAL ? re : hypot(re, im));
            }
        }
        kept++;
    }
    for (uint32_t b = 0; b < item->blocks; b++) {
        for (uint32_t c = 0; c < CHANNELS; c++) {
            struct block_report *report = &item->reports[b * CHANNELS + c];
            *report = (struct block_report){0};
            for (uint32_t n = 0; n < HOP; n++) {
                uint64_t position = item->position + b * HOP + n;
                uint32_t slot = (uint32_t)(position & (item->ring->frames - 1));
                report->present += item->ring->present[slot / 32] >> (slot % 32) & 1;
                report->sum += (float)ring_value(item, position, c);
                report->peak = fmaxf(report->peak, fabsf((float)ring_value(item, position, c)));
                if (!is_beyond(item->plan, ring_code(item->ring, position, c)) ||
                    !(item->ring->present[slot / 32] >> (slot % 32) & 1))
                    continue;
                report->nonfinite_first = report->nonfinite++ == 0 ? n : report->nonfinite_first;
                report->nonfinite_last = n;
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
    assert_true(engine->read_sum[batch - engine->batches] == sum_read(batch));
    bool fails = engine->fail_next ||
                 (engine->failing > 0 && random_unit(&engine->chance) < engine->failing);
    batch->status = fails ? BATCH_FAILED : BATCH_OK;
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

/* ---- the world --------------------------------------------------------------------------- */

#ifndef WORLD_FRAMES
#define WORLD_FRAMES (1 << 15) /* of an epoch at most; a program may define fewer */
#endif
enum { FRAMES_MAX = WORLD_FRAMES, EPOCHS = 16 };

/* What came out, by epoch and frame number. */
struct capture {
    uint64_t frames[EPOCHS]; /* highest frame + 1 */
    float samples[EPOCHS][FRAMES_MAX][CHANNELS];
    uint8_t seen[EPOCHS][FRAMES_MAX];
    bool mixed[EPOCHS][FRAMES_MAX];
    bool partial[EPOCHS][FRAMES_MAX];
    bool wire[EPOCHS][FRAMES_MAX]; /* came as codes, which samples are decoded from */
    uint64_t saturated;
    uint16_t causes[EPOCHS][FRAMES_MAX]; /* 1 << cause */
    uint8_t holes[EPOCHS][FRAMES_MAX]; /* results that reported the frame as missing before them */
    uint64_t hole_frames[INVALID_CAUSES];
    uint32_t gains[EPOCHS][FRAMES_MAX]; /* changes of the gains that the frame was computed with */
    uint32_t gains_newest;
    uint64_t delivered;
    int starts, ends;
    uint64_t timeline_next;
    uint64_t record[EPOCHS];
    int64_t capture_ns[EPOCHS];         /* of the first result */
    int64_t capture_end_ns[EPOCHS];     /* of the last result's first frame … */
    uint64_t capture_end_frame[EPOCHS]; /* … which is this */
    enum clock_source clock;            /* of the last result */
    int64_t clock_error_ns;
    int16_t raw[EPOCHS][FRAMES_MAX][CHANNELS];
    uint64_t raw_frames[EPOCHS];
    uint16_t raw_causes[EPOCHS][FRAMES_MAX]; /* 1 << cause */
    bool raw_absent[EPOCHS][FRAMES_MAX];
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

/* Of every plan the world makes; set before world_open, 1 and 0 unless a test says otherwise. */
static uint32_t world_decimate = 1, world_phase;
static struct result_format world_results;

static int64_t simulated_monotonic_ns(void)
{
    return world->now_ns;
}

static int64_t simulated_realtime_ns(void)
{
    return world->now_ns + 1700000000 * NS_PER_SECOND;
}

static inline uint16_t bit(enum invalid_cause cause)
{
    return (uint16_t)(1u << cause);
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
    got->capture_end_ns[result->epoch] = result->capture_ns;
    got->clock = result->clock;
    got->clock_error_ns = result->clock_error_ns;
    got->capture_end_frame[result->epoch] = result->first_frame;
    if (result->flags & RESULT_EPOCH_END)
        got->ends++;
    got->out_of_order = got->out_of_order || result->timeline_frame < got->timeline_next;
    got->timeline_next = result->timeline_frame + result->frames;
    got->record[result->epoch] = result->record;
    for (uint32_t i = 0; i < result->frames; i++) {
        uint64_t n = result->first_frame + i;
        got->wire[result->epoch][n] = result->wire != NULL;
        assert_true(result->wire == NULL || result->samples == NULL);
        const struct result_format *wire = &result->wire_format;
        for (uint32_t c = 0; c < CHANNELS; c++)
            got->samples[result->epoch][n][c] =
                result->wire == NULL
                    ? result->samples[i * CHANNELS + c]
                    : (float)(sample_decode(&wire->format, result->wire + (i * CHANNELS + c) *
                                                                              wire->format.bytes) /
                              wire->factor);
        got->seen[result->epoch][n]++;
        if (result->gains != NULL && n >= result->gains_from)
            got->gains_newest = result->gains->changes;
        got->gains[result->epoch][n] = got->gains_newest;
        got->mixed[result->epoch][n] = (result->flags & RESULT_MIXED) != 0;
    }
    for (uint64_t n = result->partial_from; n < result->partial_until; n++)
        got->partial[result->epoch][n] = true;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        const bool hole = range->until <= result->first_frame;
        for (uint64_t n = range->from; n < range->until; n++) {
            got->causes[result->epoch][n] |= (uint16_t)(1u << range->cause);
            got->holes[result->epoch][n] += hole;
        }
        got->hole_frames[range->cause] += hole ? range->until - range->from : 0;
    }
    got->delivered += result->frames;
    got->saturated += result->saturated;
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
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        assert_true(range->from >= result->first_frame &&
                    range->until <= result->first_frame + result->frames);
        for (uint64_t n = range->from; n < range->until; n++)
            got->raw_causes[result->epoch][n] |= bit(range->cause);
    }
    for (uint32_t i = 0; i < result->absent_count; i++) {
        const struct frame_run *run = &result->absent[i];
        assert_true(run->from >= result->first_frame && run->from < run->until &&
                    run->until <= result->first_frame + result->frames);
        for (uint64_t n = run->from; n < run->until; n++)
            got->raw_absent[result->epoch][n] = true;
    }
}

static inline struct stream_options default_options(void)
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
        .blocks_in_flight = BATCHES,
    };
}

/* Of every plan the world makes, likewise set before world_open. */
static uint32_t world_taps = TAPS;
static int world_limit;

static inline void make_plan(struct plan *plan, uint64_t seed)
{
    struct random_state random = {seed};
    *plan = (struct plan){.info = {.variant = "definition",
                                   .hop = HOP,
                                   .taps_longest = world_taps,
                                   .input_limit = world_limit > 0 ? world_limit : 0x1p50,
                                   .history_frames = HISTORY,
                                   .inputs = CHANNELS,
                                   .outputs = CHANNELS,
                                   .decimate = world_decimate,
                                   .decimate_phase = world_phase,
                                   .output_floats = OUTPUT_FLOATS,
                                   .results = world_results,
                                   .sample_bytes = world_results.format.bytes != 0
                                                       ? world_results.format.bytes
                                                       : (uint32_t)sizeof(float)}};
    plan->limit = world_limit;
    for (uint32_t k = 0; k < world_taps; k++)
        plan->taps[k] = random_normal(&random);
}

static inline struct world *world_open(const struct stream_options *options)
{
    world = calloc(1, sizeof *world);
    world->now_ns = NS_PER_SECOND;
    static const struct clock_functions functions = {simulated_monotonic_ns, simulated_realtime_ns};
    clock_replace(&functions);
    make_plan(&world->plan, 1);
    make_plan(&world->other, 2);
    struct problem problem;
    assert_int_equal(stream_open(&world->engine, options, &world->plan, &world->stream, &problem),
                     0);
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

static inline void world_close(void)
{
    stream_close(world->stream);
    clock_replace(NULL);
    free(world);
    world = NULL;
}

static inline void check_ledgers(void)
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

static bool put_partial; /* the packets to come have the mark *partial* */

/* Puts frames [first, first + frames) of the model's epoch; `place` is the source's numbering. */
static inline enum verdict put(int epoch, uint64_t first, uint32_t frames, uint64_t place,
                               uint32_t flags)
{
    struct packet packet = {
        .first_frame = place,
        .frames = frames,
        .flags = flags,
        .payload = (const uint8_t *)world->sent[epoch][first],
        .receive_ns = world->now_ns,
        .receive_realtime_ns = simulated_realtime_ns(),
        .partial_from = place,
        .partial_until = put_partial ? place + frames : place,
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
static inline void turn(int complete)
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

static inline void drain(void)
{
    for (int i = 0; i < 100000 && !stream_drained(world->stream); i++)
        turn(BATCHES);
    assert_true(stream_drained(world->stream));
}

/* Epoch 0 has so many frames while the device computes nothing, then ends; something must be shed.
 */
static inline struct stream_stats overload(uint64_t frames)
{
    for (uint64_t n = 0; n < frames; n += 100) {
        world->now_ns += 100 * NS_PER_US;
        put(0, n, 100, n, 0);
    }
    stream_end(world->stream);
    drain();
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    assert_true(stats.shed[SHED_OVERLOAD] > 0);
    return stats;
}

/* Output frames [0, frames) of an epoch against the definition; frames of the model not placed
 * count as zero. */
static inline void check_epoch(int epoch, uint64_t frames, const double *taps, uint64_t from)
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

#endif
