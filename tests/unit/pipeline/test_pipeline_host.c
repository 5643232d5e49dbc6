/*
 * What a pipeline gives its source to call: how long the source may read is what the scheduler of
 * its device says, and what it has read counts there. Two streams that the configuration describes,
 * with a driver that only remembers its host.
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
#include "pipeline/pipelines.h"

enum { LOW, HIGH, STREAMS };

/* Blocks of 16 ms. */
static const char text[] =
    "[device]\ndevice = cpu\ninput memory = 1 MiB\nspectrum memory = 1 MiB\n"
    "state memory = 1 MiB\nbatch memory = 64 KiB\nself check = 0\n"
    "[stream low]\nsource = udp\naddress = 127.0.0.1:5007\nrate = 64 kHz\nchannels = 1\n"
    "format = s16le\nfilter = f\nblock = 1024\npriority = 10\n"
    "[stream high]\nsource = udp\naddress = 127.0.0.1:5008\nrate = 64 kHz\nchannels = 1\n"
    "format = s16le\nfilter = f\nblock = 1024\npriority = 90\n"
    "[filter f]\ntype = identity\n";

/* ---- a driver that remembers ---------------------------------------------------------------- */

struct source {
    struct source_host host;
};

static struct source sources[STREAMS];

static int fake_open(const struct source_options *options, const struct io_environment *environment,
                     const struct source_host *host, struct source **out, struct problem *problem)
{
    (void)environment, (void)problem;
    struct source *source = &sources[strcmp(options->stream, "high") == 0 ? HIGH : LOW];
    source->host = *host;
    *out = source;
    return 0;
}

static void fake_stop(struct source *source)
{
    (void)source;
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

static int64_t may_read_ns(int stream)
{
    const struct source_host *host = &sources[stream].host;
    return host->may_read_ns(host->context);
}

static void has_read(int stream, int64_t ns)
{
    const struct source_host *host = &sources[stream].host;
    host->has_read(host->context, ns);
}

/* ---- the pipelines --------------------------------------------------------------------------- */

static void nothing(void *context)
{
    (void)context;
}

static void progress(void *context, uint32_t loop)
{
    (void)context;
    (void)loop;
}

static struct config *load(struct source_ops *driver)
{
    struct config *config;
    struct config_errors errors = {0};
    if (config_load_text("test.conf", text, strlen(text), NULL, &config, &errors) != 0) {
        config_errors_print(&errors, stderr);
        fail_msg("the test's own configuration does not load");
    }
    config_errors_free(&errors);
    *driver = (struct source_ops){.name = config->streams[0].driver->name,
                                  .live = true,
                                  .open = fake_open,
                                  .stop = fake_stop,
                                  .close = fake_close,
                                  .ledger = fake_ledger};
    for (int i = 0; i < STREAMS; i++)
        ((struct config_stream *)&config->streams[i])->driver = driver;
    return config;
}

/* Two seconds of samples at once, as fast as they are taken. */
static void send_too_much(uv_loop_t *loop, const struct pipeline *pipeline, int stream)
{
    enum { FRAMES = 1024 };
    static const int16_t silence[FRAMES];
    const struct source_host *host = &sources[stream].host;
    for (uint64_t first = 0; first < 125 * FRAMES;) {
        const struct packet packet = {.first_frame = first,
                                      .frames = FRAMES,
                                      .payload = (const uint8_t *)silence,
                                      .receive_ns = clock_monotonic_ns(),
                                      .receive_realtime_ns = clock_realtime_ns()};
        if (host->room(host->context) >= FRAMES &&
            host->put(host->context, &packet) == VERDICT_ACCEPTED)
            first += FRAMES;
        uv_run(loop, UV_RUN_NOWAIT);
    }
    struct stream_stats stats;
    do {
        uv_run(loop, UV_RUN_NOWAIT);
        stream_stats(pipeline->stream, &stats);
    } while (stats.submitted > 0);
}

/* Sixteen milliseconds of the higher one leave the lower one a sixteenth of that in each turn of
 * the loop, and the higher one what it likes, until its sender is ahead of its rate. */
static void test_reading_is_the_schedulers(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct problem problem = {0};
    struct devices *devices;
    struct pipelines *pipelines;
    struct source_ops driver;
    struct config *config = load(&driver);
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct io_environment environment = {.loop = &loop};
    struct loops *loops;
    assert_int_equal(loops_open(&loop, 0, &loops, &problem), 0);
    const struct devices_options used = {.loops = loops, .progress = progress};
    assert_int_equal(devices_open(&used, &devices, &problem), 0);
    assert_int_equal(devices_prepare(devices, config, &problem), 0);
    const struct pipelines_options options = {
        .environment = &environment, .loops = loops, .devices = devices, .changed = nothing};
    assert_int_equal(pipelines_open(&options, &pipelines, &problem), 0);
    struct pipeline *made[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        if (pipelines_make(pipelines, config, i, NULL, &made[i], &problem) < 0 ||
            pipeline_prepare(made[i], &problem) < 0)
            fail_msg("%s", problem.text);
        pipelines_add(pipelines, made[i]);
    }
    assert_int_equal(devices_connect(devices, &problem), 0);
    assert_int_equal(pipelines_connect(pipelines, &problem), 0);
    for (int turn = 0; turn < 2; turn++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(may_read_ns(HIGH), INT64_MAX);
        assert_int_equal(may_read_ns(LOW), NS_PER_MS);
        has_read(HIGH, 5 * NS_PER_MS);
        assert_int_equal(may_read_ns(LOW), NS_PER_MS);
        has_read(LOW, 300 * NS_PER_US);
        assert_int_equal(may_read_ns(LOW), 700 * NS_PER_US);
        has_read(LOW, 2 * NS_PER_MS);
        assert_int_equal(may_read_ns(LOW), 0);
        assert_int_equal(may_read_ns(HIGH), INT64_MAX);
    }
    send_too_much(&loop, made[HIGH], HIGH);
    assert_int_equal(may_read_ns(HIGH), NS_PER_MS);
    has_read(HIGH, 400 * NS_PER_US);
    assert_int_equal(may_read_ns(HIGH), 600 * NS_PER_US);
    assert_int_equal(may_read_ns(LOW), 600 * NS_PER_US);
    pipelines_stop(pipelines);
    pipelines_unschedule(pipelines, PIPELINES_ALL);
    pipelines_close_sources(pipelines, PIPELINES_ALL);
    devices_close(devices);
    uv_run(&loop, UV_RUN_DEFAULT);
    pipelines_close(pipelines);
    devices_free(devices);
    loops_close(loops);
    assert_int_equal(uv_loop_close(&loop), 0);
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_is_the_schedulers),
    };
    return cmocka_run_group_tests_name("pipeline_host", tests, NULL, NULL);
}
