/*
 * Resuming a stream in the middle of an epoch (stream/resume.h): a recording split at any step
 * equals the whole. Each case plays one random script of packets (reordered, lost, late, idle
 * flushes, discontinuities, a change of filters) twice, once through one stream and once through
 * streams that hand their state on as bytes after every step. Everything that came out is compared:
 * samples, invalid ranges, numbers, times, ledgers, levels. The bytes are then damaged in every
 * way that a test can: none may be taken for a state, or crash.
 */
#include "tests/support/stream_world.h"

#include "core/codec.h"
#include "stream/resume.h"
#include "wire/crc32c.h"

enum { STEPS = 150, SCRIPTS = 6 };

/* ---- a case -------------------------------------------------------------------------------- */

struct kind {
    const char *label;
    uint32_t decimate, phase;
    bool align, records, tail, live;
    bool changes;
    enum change_how how;
    uint32_t fade;
    bool partial; /* one packet of four is */
};

static const struct kind kinds[] = {
    {"plain", 1, 0, false, false, true, true, false, CHANGE_HARD, 0, false},
    {"decimated by 7", 7, 3, false, false, true, true, false, CHANGE_HARD, 0, false},
    {"aligned, decimated", 5, 0, true, false, true, true, false, CHANGE_HARD, 0, false},
    {"records without tails", 1, 0, false, true, false, true, false, CHANGE_HARD, 0, false},
    {"a source that waits", 1, 0, false, false, true, false, false, CHANGE_HARD, 0, false},
    {"a hard change", 1, 0, false, false, true, true, true, CHANGE_HARD, 0, false},
    {"a cross-fade", 1, 0, false, false, true, true, true, CHANGE_FADE, 300, false},
    {"a clear change", 3, 1, false, false, true, true, true, CHANGE_CLEAR, 0, false},
    {"partial input", 1, 0, false, false, true, true, false, CHANGE_HARD, 0, true},
    {"partial input, aligned, decimated", 5, 0, true, false, true, true, false, CHANGE_HARD, 0,
     true},
};

static const struct kind *kind;
static struct stream_options options;
static struct stream_change change; /* as requested last */
static uint64_t resumed, resumed_holes, resumed_partial, resumed_changes, resumed_ended,
    resumed_sheds, resumed_marks;

static void on_retired(void *context, struct plan *old)
{
    (void)context, (void)old;
    world->retired++;
}

/* ---- splitting ----------------------------------------------------------------------------- */

static void count_state(const struct stream_state *state)
{
    resumed++;
    resumed_holes += state->hole_count > 0;
    resumed_partial += state->partial_valid;
    resumed_changes += state->change.pending;
    resumed_sheds += state->shed_count > 0;
    resumed_marks += state->partial_output.count > 0;
    resumed_ended += state->begun && state->epoch.ended;
}

/* The state as bytes, read back; the caller frees both. */
static struct stream_state *state_of(const struct stream *stream, uint8_t **bytes, size_t *count)
{
    struct stream_state *taken = malloc(sizeof *taken), *state = malloc(sizeof *state);
    stream_state_take(stream, taken);
    *count = stream_state_bytes(taken);
    assert_true(*count > 0);
    *bytes = malloc(*count);
    stream_state_write(taken, *bytes);
    struct problem problem = {0};
    if (stream_state_read(*bytes, *count, state, &problem) < 0)
        fail_msg("%s: %s", kind->label, problem.text);
    uint8_t *again = malloc(*count);
    stream_state_write(state, again);
    assert_memory_equal(again, *bytes, *count);
    free(again);
    free(taken);
    return state;
}

/* Another stream takes the place of the one that plays. */
static void split(void)
{
    if (!stream_quiet(world->stream))
        return;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = state_of(world->stream, &bytes, &count);
    count_state(state);
    stream_close(world->stream);
    struct problem problem = {0};
    struct plan *plan = world->retired > 0 ? &world->other : &world->plan;
    options.filters = world->retired > 0 ? "other" : "first";
    assert_int_equal(stream_open(&world->engine, &options, plan, &world->stream, &problem), 0);
    const struct result_port port = {.context = &world->got, .put = take};
    const struct result_port raw = {.context = &world->got, .put = take_raw, .raw = true};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    assert_int_equal(stream_add_port(world->stream, &raw), 0);
    if (stream_resume(world->stream, state, state->change.pending ? &change : NULL, &problem) < 0)
        fail_msg("%s: %s", kind->label, problem.text);
    free(state);
    free(bytes);
    check_ledgers();
}

/* ---- a script ------------------------------------------------------------------------------ */

struct script {
    struct random_state random;
    int epoch;               /* of the model */
    uint64_t origin, next;   /* the source's number of its frame 0; its next frame */
    uint64_t owed, owed_end; /* frames left out, which may come later */
    bool ended;              /* the next packet begins an epoch */
};

static uint32_t below(struct script *script, uint32_t limit)
{
    return (uint32_t)random_below(&script->random, limit);
}

static void put_next(struct script *script, uint32_t flags)
{
    const uint32_t frames = 1 + below(script, 90);
    put_partial = kind->partial && below(script, 4) == 0;
    put(script->epoch, script->next, frames, script->origin + script->next, flags);
    put_partial = false;
    script->next += frames;
}

/* Frames that were left out come after all: in time, or late. */
static void pay(struct script *script)
{
    if (script->owed < script->owed_end)
        put(script->epoch, script->owed, (uint32_t)(script->owed_end - script->owed),
            script->origin + script->owed, 0);
    script->owed = script->owed_end;
}

static void leave_out(struct script *script)
{
    script->owed = script->next;
    script->next += 1 + below(script, 60);
    script->owed_end = script->next;
    if (below(script, 3) == 0)
        stream_socket_drops(world->stream, 1);
    if (below(script, 4) == 0)
        stream_lost(world->stream, 5, INVALID_CAPTURE);
}

static void begin_anew(struct script *script)
{
    script->epoch++;
    script->origin += script->next + 100000;
    script->next = script->owed = script->owed_end = 0;
    script->ended = below(script, 2) == 0;
    if (script->ended)
        stream_end(world->stream);
    else
        put_next(script, kind->records ? PACKET_RECORD : PACKET_DISCONTINUITY);
}

static void request_change(struct script *script)
{
    change =
        (struct stream_change){.plan = &world->other,
                               .frame = stream_next_frame(world->stream) + 40 + below(script, 200),
                               .delay_frames = 18,
                               .filters = "other",
                               .how = kind->how,
                               .fade_frames = kind->fade,
                               .retired = on_retired};
    assert_int_equal(stream_change(world->stream, &change), 0);
}

static void step(struct script *script, int number)
{
    world->now_ns += (1 + below(script, 90)) * NS_PER_US;
    const uint32_t what = below(script, 16);
    if (script->ended || number == 0 || what < 9) {
        put_next(script, 0);
        script->ended = false;
    } else if (what < 11)
        leave_out(script);
    else if (what < 13)
        pay(script);
    else if (what < 14)
        world->now_ns += 300 * NS_PER_US; /* past the reorder window */
    else if (what < 15)
        world->now_ns += 11 * NS_PER_MS; /* idle flush */
    else if (script->epoch < EPOCHS - 1 && number % 4 == 0)
        begin_anew(script);
    else
        world->engine.fail_next = true;
    if (kind->changes && number == STEPS / 2)
        request_change(script);
}

/* Plays the script; the caller frees what came out. */
static struct capture *play(uint64_t seed, bool splits, struct stream_stats *stats,
                            struct channel_levels *levels)
{
    options = default_options();
    options.align = kind->align;
    options.records = kind->records;
    options.tail = kind->tail;
    options.live = kind->live;
    options.filters = "first";
    world_decimate = kind->decimate;
    world_phase = kind->phase;
    world_open(&options);
    struct script script = {.random = {seed}, .origin = 1000};
    for (int i = 0; i < STEPS; i++) {
        step(&script, i);
        turn(BATCHES);
        for (int more = 0; !stream_quiet(world->stream); more++) {
            assert_true(more < 100);
            turn(BATCHES);
        }
        if (splits)
            split();
    }
    stream_end(world->stream);
    drain();
    assert_int_equal(world->retired, kind->changes);
    stream_stats(world->stream, stats);
    memcpy(levels, stats->levels, CHANNELS * sizeof *levels);
    struct capture *got = malloc(sizeof *got);
    *got = world->got;
    world_close();
    return got;
}

static void expect_same_stats(const struct stream_stats *whole, const struct stream_stats *parts)
{
#define SAME(field) assert_int_equal(parts->field, whole->field)
    SAME(timeline_in);
    SAME(received);
    SAME(timeline_out);
    SAME(out);
    SAME(epochs);
    SAME(records);
    SAME(invalid_frames);
    SAME(last_gap_realtime_ns);
    SAME(last_frame);
    SAME(blocks);
    SAME(batches);
    SAME(batches_failed);
    SAME(overlap);
    SAME(carried);
    SAME(late_parts);
#undef SAME
    assert_memory_equal(parts->gap, whole->gap, sizeof whole->gap);
    assert_memory_equal(parts->shed, whole->shed, sizeof whole->shed);
    assert_memory_equal(parts->invalid, whole->invalid, sizeof whole->invalid);
}

static void test_split_equals_the_whole(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        kind = &kinds[k];
        for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
            struct stream_stats whole_stats, stats;
            struct channel_levels whole_levels[CHANNELS], levels[CHANNELS];
            struct capture *whole = play(seed, false, &whole_stats, whole_levels);
            struct capture *parts = play(seed, true, &stats, levels);
            if (memcmp(whole, parts, sizeof *whole) != 0)
                fail_msg("%s, script %llu: the parts are not the whole", kind->label,
                         (unsigned long long)seed);
            expect_same_stats(&whole_stats, &stats);
            assert_memory_equal(levels, whole_levels, sizeof levels);
            free(whole);
            free(parts);
        }
    }
    print_message("%llu states: %llu with holes, %llu inside a block, %llu with a change pending, "
                  "%llu between epochs, %llu with blocks shed, %llu with partial results to come\n",
                  (unsigned long long)resumed, (unsigned long long)resumed_holes,
                  (unsigned long long)resumed_partial, (unsigned long long)resumed_changes,
                  (unsigned long long)resumed_ended, (unsigned long long)resumed_sheds,
                  (unsigned long long)resumed_marks);
    assert_true(resumed > 2000 && resumed_holes > 100 && resumed_partial > 50);
    assert_true(resumed_changes > 10 && resumed_ended > 10 && resumed_sheds > 10);
    assert_true(resumed_marks > 100);
}

/* ---- another stream ------------------------------------------------------------------------ */

/* A state of 500 frames with a gap in them. */
static struct stream_state *some_state(uint8_t **bytes, size_t *count)
{
    kind = &kinds[0];
    options = default_options();
    options.filters = "first";
    world_decimate = kind->decimate;
    world_phase = kind->phase;
    world_open(&options);
    put(0, 0, 200, 0, 0);
    put(0, 230, 270, 230, 0);
    turn(BATCHES);
    world->now_ns += NS_PER_MS;
    turn(BATCHES);
    assert_true(stream_quiet(world->stream));
    return state_of(world->stream, bytes, count);
}

/* What stream_resume answers to a stream of these options and this plan. */
static int answer(const struct stream_options *other, struct plan *plan,
                  const struct stream_state *state, struct stream **out)
{
    struct problem problem = {0};
    assert_int_equal(stream_open(&world->engine, other, plan, out, &problem), 0);
    int error = stream_resume(*out, state, NULL, &problem);
    assert_true(error == 0 || strstr(problem.text, "differ") != NULL ||
                strstr(problem.text, "length") != NULL || strstr(problem.text, "ring") != NULL ||
                strstr(problem.text, "history") != NULL);
    return error;
}

static void expect_refused(const struct stream_options *other, struct plan *plan,
                           const struct stream_state *state)
{
    struct stream *stream;
    assert_int_equal(answer(other, plan, state, &stream), ERROR_UNSUPPORTED);
    stream_close(stream);
}

static void test_refuses_another_stream(void **unused)
{
    (void)unused;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = some_state(&bytes, &count);
    struct stream_options other = options;
    other.filters = "second";
    expect_refused(&other, &world->plan, state);
    other = options;
    other.rate_hz *= 2;
    expect_refused(&other, &world->plan, state);
    other = options;
    other.records = true;
    expect_refused(&other, &world->plan, state);
    other = options;
    other.align = true;
    expect_refused(&other, &world->plan, state);
    world->other.info.decimate = 2;
    expect_refused(&options, &world->other, state);
    world->other.info = world->plan.info;
    world->other.info.taps_longest++;
    expect_refused(&options, &world->other, state);
    world->other.info = world->plan.info;
    world->other.info.history_frames = 5000;
    expect_refused(&options, &world->other, state);
    state->from++; /* one frame short of what the plan reads */
    expect_refused(&options, &world->plan, state);
    free(state);
    free(bytes);
    world_close();
}

/* A plan with the same blocks but another way to compute them goes on, and says so once. */
static void test_another_plan_is_flagged_once(void **unused)
{
    (void)unused;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = some_state(&bytes, &count);
    const uint64_t next = state->epoch.next;
    world->other = world->plan;
    world->other.info.fft = 1024;
    stream_close(world->stream);
    assert_int_equal(answer(&options, &world->other, state, &world->stream), 0);
    const struct result_port port = {.context = &world->got, .put = take};
    assert_int_equal(stream_add_port(world->stream, &port), 0);
    put(0, 500, 300, 500, 0);
    stream_end(world->stream);
    drain();
    for (uint64_t n = 0; n < 800; n++)
        assert_int_equal((world->got.causes[0][n] & bit(INVALID_DEVICE)) != 0, n == next);
    check_epoch(0, 800, world->plan.taps, 0);
    free(state);
    free(bytes);
    world_close();
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A stream begun anew after another: the next epoch and record, and a timeline that has gone on for
 * as long as nothing was received, and never runs into what the other may have sent. */
static void test_continues_the_numbers(void **unused)
{
    (void)unused;
    static const struct {
        int64_t away_ms;
        uint64_t timeline; /* of the first frame, after 1000 + 500 frames at 1 MHz */
    } cases[] = {{100, 1500 + 100000 - 40}, {0, 1500 + TAPS - 1}, {-50, 1500 + TAPS - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream_numbers numbers;
        kind = &kinds[0];
        world_decimate = 1, world_phase = 0;
        options = default_options();
        options.records = true;
        world_open(&options);
        const struct stream_numbers before = {6, 4, 900, 1000,
                                              simulated_realtime_ns() - 500 * NS_PER_US};
        stream_continue(world->stream, &before);
        stream_numbers(world->stream, &numbers);
        assert_memory_equal(&numbers, &before, sizeof numbers);
        put(0, 0, 500, 70, PACKET_RECORD);
        stream_end(world->stream);
        drain();
        assert_int_equal(world->got.frames[6], 500 + TAPS - 1);
        assert_int_equal(world->got.record[6], 4);
        stream_numbers(world->stream, &numbers);
        assert_int_equal(numbers.epochs, 7);
        assert_int_equal(numbers.records, 5);
        assert_int_equal(numbers.anchor, 1500);
        assert_int_equal(numbers.timeline, 1500 + TAPS - 1);
        stream_close(world->stream);
        struct problem problem = {0};
        assert_int_equal(
            stream_open(&world->engine, &options, &world->plan, &world->stream, &problem), 0);
        stream_continue(world->stream, &numbers);
        world->now_ns += cases[i].away_ms * NS_PER_MS;
        const struct result_port port = {.context = &world->got, .put = take};
        assert_int_equal(stream_add_port(world->stream, &port), 0);
        world->got.delivered = 0;
        put(1, 0, 40, 0, PACKET_RECORD);
        stream_end(world->stream);
        drain();
        assert_int_equal(world->got.frames[7], 40 + TAPS - 1);
        assert_int_equal(world->got.timeline_next, cases[i].timeline + 40 + TAPS - 1);
        world_close();
    }
}

/* ---- hostile bytes ------------------------------------------------------------------------- */

/* Reads a copy of exactly that size, so that a sanitizer sees a read beyond it. */
static int read_copy(const uint8_t *bytes, size_t count)
{
    static struct stream_state state;
    struct problem problem = {0};
    uint8_t *copy = malloc(count > 0 ? count : 1);
    memcpy(copy, bytes, count);
    int error = stream_state_read(copy, count, &state, &problem);
    assert_true(error == 0 || problem.text[0] != '\0');
    if (error == 0 && state.begun && !state.epoch.ended) {
        struct stream *stream;
        struct problem ignored;
        assert_int_equal(stream_open(&world->engine, &options, &world->plan, &stream, &ignored), 0);
        stream_resume(stream, &state, NULL, &ignored);
        stream_close(stream);
    }
    free(copy);
    return error;
}

/* The checksum made right again, so that the damage reaches the fields. */
static void seal(uint8_t *bytes, size_t count)
{
    uint32_t sum = crc32c(0, bytes, count - 4);
    struct codec c = codec_writer(bytes + count - 4, 4);
    codec_u32(&c, &sum);
}

static void test_rejects_damaged_bytes(void **unused)
{
    (void)unused;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = some_state(&bytes, &count);
    assert_int_equal(read_copy(bytes, count), 0);
    for (size_t cut = 0; cut < count; cut += cut < 200 ? 1 : 97)
        assert_int_equal(read_copy(bytes, cut), ERROR_FORMAT);
    for (size_t i = 0; i < count; i += i < 64 ? 1 : 13) {
        bytes[i] ^= 0x10;
        assert_true(read_copy(bytes, count) < 0);
        bytes[i] ^= 0x10;
    }
    bytes[4]++;
    assert_int_equal(read_copy(bytes, count), ERROR_UNSUPPORTED);
    bytes[4]--;
    free(state);
    free(bytes);
    world_close();
}

/* Bytes that pass the checksum: what they say is held against what a stream keeps true. */
static void test_survives_forged_bytes(void **unused)
{
    (void)unused;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = some_state(&bytes, &count);
    uint8_t *forged = malloc(count + 1);
    struct random_state random = {7};
    uint64_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        memcpy(forged, bytes, count);
        const uint64_t changes = 1 + random_below(&random, 3);
        for (uint64_t k = 0; k < changes; k++) {
            const uint64_t value = random_u64(&random);
            const size_t at = 16 + random_below(&random, i % 2 ? 1000 : count - 20);
            forged[at] = (uint8_t)(value & 1 ? value >> 8 : value & 2 ? 0xFF : 0);
            if (value & 4 && at + 8 < count - 4)
                memset(forged + at, value & 8 ? 0xFF : 0, 8);
        }
        seal(forged, count);
        accepted += read_copy(forged, count) == 0;
    }
    print_message("%llu of 20000 forgeries are states too\n", (unsigned long long)accepted);
    free(forged);
    free(state);
    free(bytes);
    world_close();
}

/* Each number that no stream has is refused where it is read, however right the checksum is:
 * behind that, times and frames are computed from them. */
static const struct {
    const char *label;
    size_t at;     /* in struct stream_state: a double */
    bool negative; /* may be */
} doubles[] = {
#define FIELD(path, negative)                                                                      \
    {                                                                                              \
#path, offsetof(struct stream_state, path), negative                                       \
    }
    FIELD(rate_hz, false),
    FIELD(epoch.capture_rate_hz, false),
    FIELD(clock.line.rate_hz, false),
    FIELD(clock.line.slots[0].residual_ns, true),
    FIELD(clock.line.slots[0].spread_ns, false),
    FIELD(clock.line.slots[2].residual_ns, true),
    FIELD(clock.line.slots[2].spread_ns, false),
    FIELD(clock.line.open.residual_ns, true),
    FIELD(clock.line.open.spread_ns, false),
    FIELD(clock.line.slope, false),
    FIELD(clock.line.intercept_ns, true),
    FIELD(clock.line.bound_ns, false),
    FIELD(clock.line.jitter_ns, false),
    FIELD(clock.line.packet_ns, false),
    FIELD(clock.line.newest.residual_ns, true),
    FIELD(epoch.before.rate_hz, false),
    FIELD(clock.past[0].rate_hz, false),
};

static const struct {
    const char *label;
    size_t at;
    size_t bytes; /* 4 or 8, little-endian */
    uint64_t value;
} integers[] = {
#define NUMBER(path, value)                                                                        \
    {                                                                                              \
#path, offsetof(struct stream_state, path), sizeof((struct stream_state *)0)->path, value  \
    }
    NUMBER(epoch.capture_ns, UINT64_C(1) << 63),
    NUMBER(epoch.capture_error_ns, UINT64_MAX),
    NUMBER(epoch.capture_error_ns, INT64_MAX),
    NUMBER(clock.line.time0_ns, INT64_MAX),
    NUMBER(clock.line.time0_ns, UINT64_C(1) << 63),
    NUMBER(clock.line.open_until_ns, INT64_MAX),
    NUMBER(clock.line.last_ns, UINT64_C(1) << 63),
    NUMBER(clock.line.slot_ns, 0),
    NUMBER(clock.line.slot_ns, UINT64_MAX),
    NUMBER(clock.line.slot_ns, UINT64_C(1) << 60),
    NUMBER(clock.line.receipts, UINT64_MAX),
    NUMBER(clock.past[0].time_ns, INT64_MAX),
    NUMBER(clock.past[0].error_ns, UINT64_MAX),
    NUMBER(clock.past[0].step.width_ns, UINT64_MAX),
    NUMBER(clock.past[0].step.step_ns, UINT64_C(1) << 63),
    NUMBER(clock.newest.step_ns, INT64_MAX),
    NUMBER(clock.suspected.width_ns, INT64_MAX),
    NUMBER(clock.pasts, UINT64_MAX),
    NUMBER(epoch.before.capture_ns, INT64_MAX),
    NUMBER(epoch.before.error_ns, UINT64_MAX),
    NUMBER(epoch.before.step_ns, UINT64_C(1) << 63),
    NUMBER(clock_step.frame, UINT64_MAX),
    NUMBER(last_receive_ns, INT64_MAX),
    NUMBER(offset_ns, UINT64_MAX),
    NUMBER(offset_ns, INT64_MAX),
    NUMBER(stats.last_gap_realtime_ns, UINT64_MAX),
    NUMBER(stats.last_gap_realtime_ns, INT64_MAX),
    NUMBER(begin_flags, PACKET_LAST),
    NUMBER(begin_flags, UINT32_MAX),
    NUMBER(socket_debt, UINT64_MAX),
    NUMBER(overload_debt, UINT64_MAX),
    NUMBER(capture_debt, UINT64_MAX),
    NUMBER(partial[0].present, UINT32_MAX),
    NUMBER(partial[0].overload, UINT32_MAX),
    NUMBER(partial[1].nonfinite, UINT32_MAX),
};

/* Whether the state, written as bytes, is one of a stream when they are read. */
static bool is_state(const struct stream_state *state)
{
    const size_t count = stream_state_bytes(state);
    uint8_t *bytes = malloc(count);
    stream_state_write(state, bytes);
    const int error = read_copy(bytes, count);
    assert_true(error == 0 || error == ERROR_FORMAT);
    free(bytes);
    return error == 0;
}

static void test_refuses_numbers_out_of_range(void **unused)
{
    static const double values[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 0x1p63, -0x1p63};
    (void)unused;
    uint8_t *bytes;
    size_t count;
    struct stream_state *state = some_state(&bytes, &count), *forged = malloc(sizeof *forged);
    state->partial_valid = true;
    state->clock.line.count = 3;
    for (int i = 0; i < state->clock.line.count; i++)
        state->clock.line.slots[i] = (struct clock_slot){(uint64_t)i * 10000, -5, 20};
    state->clock.line.slope = -0.5;
    state->clock.past[0].rate_hz = state->epoch.before.rate_hz = 1e6;
    state->clock.pasts = state->epoch.before.until = 1;
    assert_true(is_state(state));
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        for (size_t v = 0; v <= sizeof values / sizeof values[0]; v++) {
            const bool negative = v == sizeof values / sizeof values[0];
            const double value = negative ? -2 : values[v];
            *forged = *state;
            memcpy((char *)forged + doubles[i].at, &value, sizeof value);
            if (is_state(forged) != (negative && doubles[i].negative))
                fail_msg("%s = %g", doubles[i].label, value);
        }
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        *forged = *state;
        memcpy((char *)forged + integers[i].at, &integers[i].value, integers[i].bytes);
        if (is_state(forged))
            fail_msg("%s = %#llx", integers[i].label, (unsigned long long)integers[i].value);
    }
    free(forged);
    free(state);
    free(bytes);
    world_close();
}

/* ---- the checksum and the codec -------------------------------------------------------------- */

static void test_crc32c(void **unused)
{
    (void)unused;
    /* RFC 3720, appendix B.4, and the check value of the catalogue of CRCs. */
    uint8_t bytes[32] = {0};
    assert_int_equal(crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46DD794E);
    assert_int_equal(crc32c(crc32c(0, bytes, 13), bytes + 13, 19), 0x46DD794E);
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_split_equals_the_whole),
        cmocka_unit_test(test_refuses_another_stream),
        cmocka_unit_test(test_another_plan_is_flagged_once),
        cmocka_unit_test(test_continues_the_numbers),
        cmocka_unit_test(test_rejects_damaged_bytes),
        cmocka_unit_test(test_survives_forged_bytes),
        cmocka_unit_test(test_refuses_numbers_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
