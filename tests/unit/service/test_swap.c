/*
 * Swaps (service/swap.h): two generations of a stream and of one that reads it, with drivers that
 * only remember. Whatever moment the swap is at, each frame of the input comes out once, in order,
 * every packet number is used once, and somebody has the stream's numbers. Times are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "core/clock.h"
#include "io/environment.h"
#include "pipeline/heritage.h"
#include "pipeline/pipelines.h"
#include "pipeline/succession.h"
#include "service/swap.h"

enum { A, B, STREAMS };
enum { OLD, MADE, GENERATIONS };
enum { BLOCK = 64, PUTS_MAX = 4096, BEFORE = 100 * BLOCK, AFTER = 40 * BLOCK };

static const int64_t begun_ns = 1000 * NS_PER_SECOND, drain_ns = 5 * NS_PER_SECOND,
                     soon_ns = begun_ns + NS_PER_MS, late_ns = begun_ns + SWAP_READ_NS + 1,
                     over_ns = begun_ns + SWAP_STATE_NS + 1, cut_ns = begun_ns + drain_ns + 1;

static const char text[] =
    "[device]\ndevice = cpu\ninput memory = 4 MiB\nspectrum memory = 1 MiB\n"
    "state memory = 1 MiB\nbatch memory = 64 KiB\nself check = 0\nbatches = 2\ndepth = 1\n"
    "[stream a]\nsource = udp\naddress = 127.0.0.1:5007\nrate = 64 kHz\nchannels = 1\n"
    "format = s16le\nfilter = f\nblock = 64\nidle flush = 0\nbatch blocks = 1\nbuffer = 1 s\n"
    "[stream b]\nsource = stream a\nfilter = f\nblock = 64\n"
    "[sink oa]\ntype = rtp\nstream = a\naddress = 127.0.0.1:5009\n"
    "[sink ob]\ntype = rtp\nstream = b\naddress = 127.0.0.1:5010\n"
    "[filter f]\ntype = ";
static const char first_filter[] = "identity\n", other_filter[] = "identity\ngain = 6 dB\n";

/* ---- drivers that remember ------------------------------------------------------------------ */

struct source {
    const struct source_host *host;
    struct source_host own;
    bool running;
    uint64_t next; /* the sender's number, which goes on from one generation to the next */
};

struct put {
    int generation;
    uint64_t epoch, frame;
    uint32_t frames;
    uint16_t sequence;
};

struct sink {
    struct sink_options options;
    int generation, stream;
    uint16_t sequence;
    bool started;
    struct sink_ledger ledger;
    struct sink_missing lost; /* before the first put */
};

static struct {
    int generation; /* of what is opened now */
    struct source sources[GENERATIONS];
    struct put puts[STREAMS][PUTS_MAX];
    uint32_t count[STREAMS];
    bool keeps; /* what is put stays pending */
} world;

static int fake_open(const struct source_options *options, const struct io_environment *environment,
                     const struct source_host *host, struct source **out, struct problem *problem)
{
    (void)options, (void)environment, (void)problem;
    struct source *source = &world.sources[world.generation];
    source->own = *host;
    *out = source;
    return 0;
}

static int fake_start(struct source *source, struct problem *problem)
{
    (void)problem;
    source->running = true;
    return 0;
}

static void fake_stop(struct source *source)
{
    source->running = false;
}

static void fake_close(struct source *source, void (*closed)(void *context), void *context)
{
    (void)source;
    closed(context);
}

static void fake_ledger(const struct source *source, struct source_ledger *ledger)
{
    (void)source;
    *ledger = (struct source_ledger){0};
}

static void fake_walk(struct source *source, struct codec *codec)
{
    codec_u64(codec, &source->next);
}

static int sink_open(const struct sink_options *options, const struct io_environment *environment,
                     struct sink **out, struct problem *problem)
{
    (void)environment, (void)problem;
    struct sink *sink = calloc(1, sizeof *sink);
    assert_non_null(sink);
    sink->options = *options;
    sink->generation = world.generation;
    sink->stream = strcmp(options->name, "oa") == 0 ? A : B;
    *out = sink;
    return 0;
}

static void sink_start(struct sink *sink)
{
    sink->started = true;
}

static int64_t sink_put(struct sink *sink, const struct result *result)
{
    if (result->frames == 0)
        return 0;
    uint32_t *count = &world.count[sink->stream];
    assert_true(sink->started && *count < PUTS_MAX);
    world.puts[sink->stream][(*count)++] = (struct put){
        sink->generation, result->epoch, result->first_frame, result->frames, sink->sequence++};
    sink->ledger.frames += result->frames;
    *(world.keeps ? &sink->ledger.pending : &sink->ledger.delivered) += result->frames;
    return 0;
}

static void sink_close(struct sink *sink, int64_t deadline_ns, void (*closed)(void *context),
                       void *context)
{
    (void)deadline_ns;
    sink->ledger.dropped[DROP_STOPPED] += sink->ledger.pending;
    sink->ledger.pending = 0;
    closed(context);
    free(sink);
}

static void sink_ledger(const struct sink *sink, struct sink_ledger *ledger)
{
    *ledger = sink->ledger;
}

static void sink_identity(const struct sink *sink, struct sink_identity *identity)
{
    *identity = (struct sink_identity){.ssrc = 7, .sequence = sink->sequence};
}

static void sink_assume(struct sink *sink, const struct sink_identity *identity)
{
    sink->sequence = identity->sequence;
}

static uint32_t sink_undelivered(const struct sink *sink,
                                 struct sink_missing runs[MISSING_RUNS_MAX])
{
    runs[0] =
        (struct sink_missing){0, sink->ledger.frames - sink->ledger.pending, sink->ledger.frames};
    return sink->ledger.pending > 0;
}

static void sink_lost_before(struct sink *sink, const struct sink_missing *runs, uint32_t count)
{
    if (count > 0)
        sink->lost = runs[0];
}

/* ---- two generations ------------------------------------------------------------------------- */

static uv_loop_t loop;
static struct loops *loops;
static struct devices *devices;
static struct pipelines *pipelines;
static struct config *configs[GENERATIONS];
static struct source_ops source_driver;
static struct sink_ops sink_driver;
static struct pipeline *made[GENERATIONS][STREAMS];
static struct swap swap;
static const struct io_environment environment = {.loop = &loop};

static void nothing(void *context)
{
    (void)context;
}

static void progress(void *context, uint32_t on)
{
    (void)context, (void)on;
}

static void load(int generation, const char *filter)
{
    char whole[sizeof text + 64];
    struct config_errors errors = {0};
    snprintf(whole, sizeof whole, "%s%s", text, filter);
    struct config **config = &configs[generation];
    if (config_load_text("test.conf", whole, strlen(whole), NULL, config, &errors) != 0) {
        config_errors_print(&errors, stderr);
        fail_msg("the test's own configuration does not load");
    }
    config_errors_free(&errors);
    source_driver = (struct source_ops){.name = "udp",
                                        .live = true,
                                        .open = fake_open,
                                        .start = fake_start,
                                        .stop = fake_stop,
                                        .close = fake_close,
                                        .ledger = fake_ledger,
                                        .walk = fake_walk};
    sink_driver = (struct sink_ops){.name = "fake",
                                    .open = sink_open,
                                    .start = sink_start,
                                    .put = sink_put,
                                    .close = sink_close,
                                    .ledger = sink_ledger,
                                    .identity = sink_identity,
                                    .assume = sink_assume,
                                    .undelivered = sink_undelivered,
                                    .lost_before = sink_lost_before};
    ((struct config_stream *)&(*config)->streams[A])->driver = &source_driver;
    for (int i = 0; i < STREAMS; i++)
        ((struct config_sink *)&(*config)->sinks[i])->driver = &sink_driver;
}

static void make(int generation)
{
    struct problem problem = {0};
    world.generation = generation;
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct pipeline **pipeline = &made[generation][i];
        if (pipelines_make(pipelines, configs[generation], i, i == B ? made[generation][A] : NULL,
                           pipeline, &problem) < 0 ||
            pipeline_prepare(*pipeline, &problem) < 0)
            fail_msg("%s", problem.text);
        if (generation == OLD)
            pipelines_add(pipelines, *pipeline);
    }
}

static void send_frames(int generation, uint32_t frames)
{
    static const int16_t samples[BLOCK];
    struct source *source = &world.sources[generation];
    for (; frames > 0; frames -= BLOCK) {
        const struct packet packet = {.first_frame = source->next,
                                      .frames = BLOCK,
                                      .payload = (const uint8_t *)samples,
                                      .receive_ns = clock_monotonic_ns(),
                                      .receive_realtime_ns = clock_realtime_ns()};
        assert_true(source->running);
        assert_int_equal(source->own.put(source->own.context, &packet), VERDICT_ACCEPTED);
        source->next += BLOCK;
    }
}

static bool computes(int generation)
{
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *stream = made[generation][i]->stream;
        if (!stream_quiet(stream) || stream_ready_deadline_ns(stream) != INT64_MAX)
            return true;
    }
    return false;
}

/* Until nothing of this generation is in flight or about to be. */
static void work(int generation)
{
    do
        uv_run(&loop, UV_RUN_NOWAIT);
    while (computes(generation));
}

static struct stream_numbers numbers_now(void)
{
    struct heritage heritage;
    const struct pipeline *pipeline = made[MADE][A];
    pipeline_leave(pipeline->predecessor != NULL ? pipeline->predecessor : pipeline, &heritage);
    return heritage.numbers;
}

/* An old generation that has received BEFORE frames, of which not all are computed, and a swap that
 * has begun. */
static void begin(const char *filter)
{
    struct problem problem = {0};
    memset(&world, 0, sizeof world);
    memset(made, 0, sizeof made);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loops_open(&loop, 0, &loops, &problem), 0);
    load(OLD, first_filter);
    load(MADE, filter);
    const struct devices_options used = {.loops = loops, .progress = progress};
    assert_int_equal(devices_open(&used, &devices, &problem), 0);
    assert_int_equal(devices_prepare(devices, configs[OLD], &problem), 0);
    const struct pipelines_options options = {
        .environment = &environment, .loops = loops, .devices = devices, .changed = nothing};
    assert_int_equal(pipelines_open(&options, &pipelines, &problem), 0);
    make(OLD);
    assert_int_equal(devices_connect(devices, &problem), 0);
    assert_int_equal(pipelines_connect(pipelines, &problem), 0);
    assert_int_equal(pipelines_start(pipelines, &problem), 0);
    make(MADE);
    assert_int_equal(devices_connect(devices, &problem), 0);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(pipeline_connect(made[MADE][i], &problem), 0);
    send_frames(OLD, BEFORE); /* nothing is computed while the loop does not run */
    swap_begin(&swap, pipelines, begun_ns, drain_ns);
    for (int i = 0; i < STREAMS; i++) {
        assert_true(succession_possible(made[OLD][i]));
        made[OLD][i]->retired = true;
        pipeline_pause(made[OLD][i]);
        pipelines_add(pipelines, made[MADE][i]);
        swap_add(&swap, made[OLD][i], made[MADE][i], true);
    }
    world.sources[MADE].next = BEFORE; /* the datagrams wait in the socket */
}

static void end(void)
{
    pipelines_stop(pipelines);
    do {
        swap_stop(&swap);
        swap_advance(&swap, cut_ns);
        uv_run(&loop, UV_RUN_NOWAIT);
    } while (!pipelines_drain(pipelines, PIPELINES_ALL));
    pipelines_close_sinks(pipelines, PIPELINES_ALL, 0);
    pipelines_unschedule(pipelines, PIPELINES_ALL);
    pipelines_close_sources(pipelines, PIPELINES_ALL);
    devices_close(devices);
    uv_run(&loop, UV_RUN_DEFAULT);
    pipelines_close(pipelines);
    devices_free(devices);
    loops_close(loops);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (int i = 0; i < GENERATIONS; i++)
        config_free(configs[i]);
}

/* Frames of each epoch in order and each once, numbers without a gap, nothing old behind something
 * new. Returns the frames of one epoch. */
static uint64_t check(int stream, uint64_t epoch)
{
    const struct put *puts = world.puts[stream];
    uint64_t frames = 0;
    for (uint32_t i = 0; i < world.count[stream]; i++) {
        const struct put *put = &puts[i];
        assert_int_equal(put->sequence, (uint16_t)i);
        if (i > 0) {
            assert_true(put->generation >= puts[i - 1].generation);
            if (put->epoch == puts[i - 1].epoch)
                assert_int_equal(put->frame, puts[i - 1].frame + puts[i - 1].frames);
            else
                assert_true(put->epoch == puts[i - 1].epoch + 1 && put->frame == 0);
        }
        frames += put->epoch == epoch ? put->frames : 0;
    }
    return frames;
}

static void all_released(void)
{
    assert_true(swap_is_through(&swap));
    for (int i = 0; i < STREAMS; i++)
        assert_null(made[MADE][i]->predecessor);
}

/* ---- the cases ------------------------------------------------------------------------------- */

/* A stream that keeps up: its epoch goes on, and the new one starts when all has been computed. */
static void test_goes_on(void **state)
{
    (void)state;
    begin(first_filter);
    swap_advance(&swap, soon_ns);
    assert_true(swap_has_open_epoch(&swap) && !swap_reads(&swap));
    assert_int_equal(numbers_now().epochs, 1);
    work(OLD);
    swap_advance(&swap, soon_ns);
    assert_true(!swap_has_open_epoch(&swap) && swap_reads(&swap));
    all_released();
    send_frames(MADE, AFTER);
    work(MADE);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(check(i, 0), BEFORE + AFTER);
    end();
}

/* A stream that is behind: what it has not computed goes over, and is computed once. */
static void test_behind(void **state)
{
    (void)state;
    begin(first_filter);
    uv_run(&loop, UV_RUN_NOWAIT); /* some of it is in flight */
    swap_advance(&swap, late_ns);
    while (swap_has_open_epoch(&swap)) {
        assert_int_equal(numbers_now().epochs, 1);
        uv_run(&loop, UV_RUN_NOWAIT);
        swap_advance(&swap, late_ns);
    }
    assert_true(made[MADE][A]->resumed && made[MADE][B]->resumed);
    all_released();
    assert_true(check(A, 0) < BEFORE);
    send_frames(MADE, AFTER);
    work(MADE);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(check(i, 0), BEFORE + AFTER);
    end();
}

/* The epoch of the old stream has ended, and its rest is still computed: the new one reads after
 * SWAP_READ_NS, and what it reads waits. */
static void check_new_epoch(void)
{
    assert_false(swap_has_open_epoch(&swap));
    assert_true(world.sources[MADE].running && !made[MADE][A]->resumed);
    send_frames(MADE, AFTER);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(swap_is_through(&swap));
    assert_int_equal(numbers_now().epochs, 1); /* of the old stream, which still delivers results */
    while (!swap_is_through(&swap)) {
        struct stream_stats stats;
        stream_stats(made[MADE][A]->stream, &stats);
        assert_int_equal(stats.batches, 0);
        uv_run(&loop, UV_RUN_NOWAIT);
        swap_advance(&swap, over_ns);
    }
    all_released();
    assert_int_equal(numbers_now().epochs, 2);
    work(MADE);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(check(i, 0), BEFORE);
        assert_int_equal(check(i, 1), AFTER);
    }
    end();
}

/* Batches that are not back in time. */
static void test_never_quiet(void **state)
{
    (void)state;
    begin(first_filter);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(stream_quiet(made[OLD][A]->stream));
    swap_advance(&swap, late_ns);
    assert_true(swap_has_open_epoch(&swap) && !world.sources[MADE].running);
    swap_advance(&swap, over_ns);
    check_new_epoch();
}

/* Another filter: no state fits. */
static void test_other_filter(void **state)
{
    (void)state;
    begin(other_filter);
    swap_advance(&swap, late_ns);
    check_new_epoch();
}

/* A sink whose reader is slow holds the new one up, until `drain timeout` has passed; what it drops
 * then counts in the ledger of the sink that goes on. */
static void test_slow_sink(void **state)
{
    (void)state;
    begin(first_filter);
    world.keeps = true;
    work(OLD);
    swap_advance(&swap, soon_ns);
    swap_advance(&swap, late_ns);
    assert_true(swap_reads(&swap) && !swap_is_through(&swap));
    send_frames(MADE, AFTER);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(check(A, 0), BEFORE);
    struct sink_ledger ledger;
    pipeline_sink_ledger(&made[MADE][A]->sinks[0], &ledger);
    assert_int_equal(ledger.frames, BEFORE);
    assert_int_equal(ledger.pending, BEFORE);
    world.keeps = false;
    swap_advance(&swap, cut_ns);
    all_released();
    work(MADE);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(check(i, 0), BEFORE + AFTER);
        pipeline_sink_ledger(&made[MADE][i]->sinks[0], &ledger);
        assert_int_equal(ledger.frames, BEFORE + AFTER);
        assert_int_equal(ledger.delivered, AFTER);
        assert_int_equal(ledger.dropped[DROP_STOPPED], BEFORE);
        assert_int_equal(ledger.pending, 0);
    }
    end();
}

/* The same where the rest is delivered in time. */
static void test_slow_sink_delivers(void **state)
{
    (void)state;
    begin(first_filter);
    world.keeps = true;
    work(OLD);
    swap_advance(&swap, soon_ns);
    assert_false(swap_is_through(&swap));
    for (int i = 0; i < STREAMS; i++) {
        struct sink *sink = made[OLD][i]->sinks[0].sink;
        sink->ledger.delivered += sink->ledger.pending;
        sink->ledger.pending = 0;
    }
    world.keeps = false;
    swap_advance(&swap, soon_ns);
    all_released();
    pipelines_close_sinks(pipelines, PIPELINES_RETIRED, 0);
    struct sink_ledger ledger;
    pipeline_sink_ledger(&made[MADE][A]->sinks[0], &ledger);
    assert_int_equal(ledger.frames, BEFORE);
    assert_int_equal(ledger.delivered, BEFORE);
    end();
}

/* The daemon stops in the middle: the numbers are those of the old generation, and of the new one
 * once it has taken them over. */
static void test_stops(void **state)
{
    (void)state;
    begin(first_filter);
    uv_run(&loop, UV_RUN_NOWAIT);
    swap_advance(&swap, soon_ns);
    pipelines_stop(pipelines);
    do {
        assert_int_equal(numbers_now().epochs, 1);
        swap_stop(&swap);
        swap_advance(&swap, soon_ns);
        uv_run(&loop, UV_RUN_NOWAIT);
    } while (!swap_is_through(&swap) || !pipelines_drain(pipelines, PIPELINES_ALL));
    assert_int_equal(numbers_now().epochs, 1);
    assert_true(numbers_now().timeline >= BEFORE);
    assert_false(world.sources[MADE].running);
    assert_int_equal(check(A, 0), BEFORE);
    end();
}

/* A record for the next daemon: what a sink has not delivered by then is dropped, and named. */
static void test_record(void **state)
{
    (void)state;
    struct problem problem = {0};
    struct plan_pin pin;
    struct heritage left;
    begin(first_filter);
    world.keeps = true;
    work(OLD);
    size_t count;
    uint8_t *record = succession_write(made[OLD][A], &count);
    assert_non_null(record);
    assert_int_equal(succession_peek(record, count, &left, &pin, &problem), 0);
    assert_string_equal(left.stream, "a");
    assert_int_equal(left.numbers.epochs, 1);
    assert_int_equal(left.sinks[0].identity.sequence, world.count[A]);
    assert_int_equal(succession_read(made[MADE][A], record, count, false, &problem), 0);
    const struct pipeline_sink *sink = &made[MADE][A]->sinks[0];
    struct sink_ledger ledger;
    pipeline_sink_ledger(sink, &ledger);
    assert_int_equal(ledger.frames, BEFORE);
    assert_int_equal(ledger.delivered, 0);
    assert_int_equal(ledger.dropped[DROP_STOPPED], BEFORE);
    assert_int_equal(sink->sink->lost.from, 0);
    assert_int_equal(sink->sink->lost.until, BEFORE);
    /* A record that is cut short or changed is refused, or read; never more. */
    for (size_t cut = 0; cut + sizeof(uint64_t) < count; cut += 7) /* the source reads the rest */
        assert_true(succession_peek(record, cut, &left, &pin, &problem) < 0);
    for (size_t at = 0; at < count && at < 2000; at++) {
        record[at] ^= 0xff;
        (void)succession_peek(record, count, &left, &pin, &problem);
        record[at] ^= 0xff;
    }
    free(record);
    swap.count = 0; /* it has gone over another way */
    succession_leave(made[OLD][A], NULL);
    for (int i = 0; i < STREAMS; i++) {
        made[MADE][i]->predecessor = NULL;
        stream_hold(made[MADE][i]->stream, false);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),     cmocka_unit_test(test_behind),
        cmocka_unit_test(test_never_quiet), cmocka_unit_test(test_other_filter),
        cmocka_unit_test(test_slow_sink),   cmocka_unit_test(test_slow_sink_delivers),
        cmocka_unit_test(test_stops),       cmocka_unit_test(test_record),
    };
    return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
