/*
 * The continuous self-check on real streams of a real device: whatever a stream computes, right
 * blocks lie within the bound, each output in its turn; one wrong number makes the device lost.
 */
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/lost.h"
#include "core/clock.h"
#include "pipeline/self_check.h"
#include "stream/move.h"
#include "stream/stream.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

enum { HOP = 64, CHANNELS = 3, PACKET = 50 };

struct run {
    struct test_signal *signal;
    struct test_plan plan;
    struct stream *stream;
    struct self_checks *checks;
    struct self_check *check;
    uint64_t sent; /* frames; the signal repeats */
};

static void take(void *context, const struct result *result)
{
    (void)context, (void)result;
}

static struct engine *engine_now(void *context)
{
    (void)context;
    return engine;
}

static void run_open(struct run *run, int64_t interval_ns)
{
    struct problem problem;
    test_plan_prepare(engine, &run->plan, run->signal);
    const struct stream_options options = {
        .name = "test",
        .rate_hz = 1e6,
        .channels = CHANNELS,
        .format = run->signal->format,
        .frame_bytes = CHANNELS * run->signal->format.bytes,
        .ring_frames_min = 8192,
        .idle_flush_ns = NS_PER_MS,
        .tail = true,
        .max_gap_ns = NS_PER_MS,
        .blocks_in_flight = 4,
    };
    assert_int_equal(stream_open(engine, &options, run->plan.plan, &run->stream, &problem), 0);
    assert_int_equal(self_checks_open(&run->checks, &problem), 0);
    const struct self_check_options check = {
        .stream = "test", .interval_ns = interval_ns, .engine = engine_now};
    assert_int_equal(self_check_open(run->checks, &check, &run->check, &problem), 0);
    stream_inspect(run->stream, self_check_inspect, run->check);
    const struct result_port port = {.context = run, .put = take};
    assert_int_equal(stream_add_port(run->stream, &port), 0);
    run->sent = 0;
}

static void run_close(struct run *run)
{
    self_check_close(run->check);
    self_checks_close(run->checks);
    stream_close(run->stream);
    test_plan_free(&run->plan);
    signal_free(run->signal);
}

/* Computes what is ready. */
static void work(struct run *run)
{
    while (stream_ready_deadline_ns(run->stream) != INT64_MAX) {
        struct batch *batch = engine_batch_take(engine);
        assert_non_null(batch);
        if (stream_fill(run->stream, batch, NS_PER_SECOND, true) > 0) {
            engine_submit(engine, batch);
            batch = harness_wait(engine);
            for (uint32_t i = 0; i < batch->count; i++)
                if (batch->items[i].owner != NULL)
                    stream_complete(batch->items[i].owner, batch, &batch->items[i]);
        }
        engine_batch_release(engine, batch);
    }
}

/* A packet, then what is ready; now and then a gap, a silence in which a part of a block is
 * flushed, or a new epoch. */
static void step(struct run *run, struct random_state *random, bool faults)
{
    const uint64_t repeats = run->signal->frames / PACKET;
    const int64_t now_ns = (int64_t)run->sent * 1000;
    uint32_t flags = 0;
    if (faults && random_below(random, 20) == 0)
        run->sent += PACKET; /* lost */
    if (faults && random_below(random, 60) == 0)
        flags = PACKET_DISCONTINUITY;
    const struct packet packet = {
        .first_frame = run->sent,
        .frames = PACKET,
        .flags = flags,
        .payload = run->signal->bytes +
                   run->sent / PACKET % repeats * PACKET * CHANNELS * run->signal->format.bytes,
        .receive_ns = now_ns,
    };
    assert_int_equal(stream_put(run->stream, &packet), VERDICT_ACCEPTED);
    run->sent += PACKET;
    stream_tick(run->stream, now_ns + (faults && random_below(random, 9) == 0 ? 2 : 0) * NS_PER_MS);
    work(run);
}

/* Streams until so many checks are done, or a failure is seen. */
static struct self_check_figures stream_until(struct run *run, uint64_t checks, bool faults)
{
    struct random_state random = {checks};
    struct self_check_figures figures = {.checks = 0};
    const int64_t until_ns = clock_monotonic_ns() + 30 * NS_PER_SECOND;
    while (figures.checks < checks && figures.failures == 0) {
        step(run, &random, faults);
        self_check_figures(run->check, &figures);
        if (clock_monotonic_ns() > until_ns)
            fail_msg("%llu checks within 30 s", (unsigned long long)figures.checks);
    }
    return figures;
}

static void expect_good(struct run *run, bool faults)
{
    run_open(run, 1);
    const struct self_check_figures figures = stream_until(run, 2 * CHANNELS, faults);
    assert_int_equal(figures.failures, 0);
    if (!(figures.worst > 0 && figures.worst < 1))
        fail_msg("worst error %g of the bound", figures.worst);
    assert_true(figures.last_ns > 0);
    assert_int_equal(engine_lost(engine), ENGINE_WORKS);
    run_close(run);
}

static void right_results_are_within_the_bound(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        uint32_t taps;
        bool complex_taps;
        enum output_form form;
        uint32_t decimate;
        const char *results;
    } cases[] = {
        {"s16le", 200, false, OUTPUT_REAL, 1, NULL},
        {"s24be", 65, true, OUTPUT_ENVELOPE, 1, NULL},
        {"f32le", 1, true, OUTPUT_COMPLEX, 3, NULL},
        {"u16le", 130, false, OUTPUT_REAL, 8, NULL},
        {"s16le", 100, false, OUTPUT_REAL, 1, "s16be"},
        {"s16le", 64, true, OUTPUT_COMPLEX, 1, "s24le"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int faults = 0; faults < 2; faults++) {
            struct run run;
            run.signal = signal_noise(cases[i].format, CHANNELS, 2000, i + 1);
            test_plan_diagonal(&run.plan, run.signal, HOP, cases[i].taps, cases[i].complex_taps,
                               cases[i].form);
            run.plan.spec.decimate = cases[i].decimate;
            if (cases[i].results != NULL) {
                assert_int_equal(
                    sample_format_parse(cases[i].results, &run.plan.spec.results.format), 0);
                run.plan.spec.results.factor = 0.25;
            }
            expect_good(&run, faults);
        }
    }
}

/* An output of several inputs, with gains. */
static void sums_of_edges_are_within_the_bound(void **state)
{
    (void)state;
    struct run run;
    run.signal = signal_noise("s16le", CHANNELS, 2000, 9);
    test_plan_diagonal(&run.plan, run.signal, HOP, 90, false, OUTPUT_REAL);
    for (int e = 0; e < CHANNELS; e++) {
        run.plan.edges[e].output = 0;
        run.plan.edges[e].gain = 1.0f - 0.7f * (float)e;
    }
    run.plan.spec.outputs_count = 1;
    expect_good(&run, true);
}

static double huge_at_times(uint32_t input, uint64_t frame)
{
    static const double huge[] = {9.96921e36, -3.4e38, 1e20, -1e17, 2e14};
    const uint64_t n = frame * CHANNELS + input;
    return n % 61 == 7 ? huge[n / 61 % 5] : sin(0.1 * (double)n);
}

/* Samples beyond the plan's limit are the input's fault and not the device's. */
static void huge_samples_are_within_the_bound(void **state)
{
    (void)state;
    struct run run;
    run.signal = signal_from(CHANNELS, 2000, huge_at_times);
    test_plan_diagonal(&run.plan, run.signal, HOP, 90, false, OUTPUT_REAL);
    expect_good(&run, true);
}

/* Only the last output is wrong, by little more than the bound allows: its turn finds it. */
static void a_wrong_number_makes_the_device_lost(void **state)
{
    (void)state;
    struct run run;
    run.signal = signal_noise("s16le", CHANNELS, 2000, 2);
    test_plan_diagonal(&run.plan, run.signal, HOP, 200, false, OUTPUT_REAL);
    run_open(&run, NS_PER_MS);
    assert_int_equal(self_check_held(run.check), 0);
    const struct self_check_figures before = stream_until(&run, CHANNELS, false);
    assert_int_equal(before.failures, 0);
    const uint64_t held = self_check_held(run.check);
    assert_true(held > 0);
    /* the first output again: now the second one's check is the oldest */
    assert_int_equal(stream_until(&run, CHANNELS + 1, false).failures, 0);
    assert_true(self_check_held(run.check) > held);
    engine_seams.wrong_float = CHANNELS;
    engine_seams.wrong_by = 1e-3f;
    const struct self_check_figures figures = stream_until(&run, 4 * CHANNELS, false);
    engine_seams.wrong_float = 0;
    assert_int_equal(figures.failures, 1);
    assert_true(figures.checks <= 2 * CHANNELS);
    assert_true(figures.worst > 1);
    assert_int_equal(figures.worst_output, CHANNELS - 1);
    assert_int_equal(engine_lost(engine), ENGINE_LOSS_WRONG_RESULT);
    assert_non_null(strstr(engine_loss_detail(engine), "stream test: output 3 is off by"));
    struct doubted doubted;
    stream_doubt(run.stream, self_check_held(run.check), &doubted);
    assert_true(doubted.frames > 0);
    self_check_doubted(run.check, doubted.position);
    assert_int_equal(self_check_held(run.check), doubted.position);
    run_close(&run);
}

/* Where the whole daemon is in real time, its compute threads need the processors that a comparison
 * would take. */
static void comparisons_leave_real_time(void **state)
{
    (void)state;
    struct self_checks *checks;
    struct problem problem;
    struct sched_param before, real = {.sched_priority = 1};
    const int policy = sched_getscheduler(0);
    sched_getparam(0, &before);
    if (sched_setscheduler(0, SCHED_FIFO, &real) != 0) {
        print_message("real-time priority is not granted\n");
        skip();
    }
    const int opened = self_checks_open(&checks, &problem);
    sched_setscheduler(0, policy, &before);
    assert_int_equal(opened, 0);
    const int64_t until_ns = clock_monotonic_ns() + 10 * NS_PER_SECOND;
    int found = -1; /* the worker's policy, once it has its name */
    while (found != SCHED_OTHER && clock_monotonic_ns() < until_ns) {
        DIR *tasks = opendir("/proc/self/task");
        assert_non_null(tasks);
        const struct dirent *task;
        while ((task = readdir(tasks)) != NULL) {
            char path[64], name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
            FILE *file = fopen(path, "r");
            if (file != NULL && fgets(name, sizeof name, file) != NULL &&
                strcmp(name, "self-check\n") == 0)
                found = sched_getscheduler((pid_t)strtol(task->d_name, NULL, 10));
            if (file != NULL)
                fclose(file);
        }
        closedir(tasks);
    }
    self_checks_close(checks);
    assert_int_equal(found, SCHED_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_are_within_the_bound),
        cmocka_unit_test(sums_of_edges_are_within_the_bound),
        cmocka_unit_test(huge_samples_are_within_the_bound),
        cmocka_unit_test(a_wrong_number_makes_the_device_lost),
        cmocka_unit_test(comparisons_leave_real_time),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
