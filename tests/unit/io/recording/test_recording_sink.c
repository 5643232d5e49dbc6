/*
 * The sink `recording` with its thread and a uv loop: every frame put is in a file, pending or
 * counted as dropped, whatever the queue, the deadline or a kill.
 *
 * threads: yes
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "io/recording/shown.h"
#include "io/sinks.h"
#include "tests/support/recording_files.h"
#include "tests/support/scratch.h"

struct rig {
    uv_loop_t loop;
    struct sink *sink;
    struct sink_ledger at_end;
    int closed, room_again;
};

static void check_ledger(const struct sink_ledger *ledger)
{
    uint64_t sum = ledger->delivered + ledger->pending;
    for (int i = 0; i < DROPS; i++)
        sum += ledger->dropped[i];
    if (sum != ledger->frames)
        fail_msg("ledger: %llu frames put, %llu accounted for", (unsigned long long)ledger->frames,
                 (unsigned long long)sum);
}

static void sink_closed(void *context)
{
    struct rig *rig = context;
    rig->closed++;
    sink_recording.ledger(rig->sink, &rig->at_end);
    check_ledger(&rig->at_end);
}

static void room_again(void *context)
{
    struct rig *rig = context;
    rig->room_again++;
}

static void open_sink(struct rig *rig, struct sink_options *options)
{
    memset(rig, 0, sizeof *rig);
    struct problem problem = {0};
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    options->room_again = room_again;
    options->room_context = rig;
    if (sink_recording.open(options, &(struct io_environment){.loop = &rig->loop}, &rig->sink,
                            &problem) != 0)
        fail_msg("open: %s", problem.text);
}

static void close_sink(struct rig *rig, int64_t deadline_ns)
{
    sink_recording.close(rig->sink, deadline_ns, sink_closed, rig);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(rig->closed, 1);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
}

static int64_t in_10_s(void)
{
    return clock_monotonic_ns() + 10 * NS_PER_SECOND;
}

static void test_sink(void **state)
{
    (void)state;
    struct sink_options options = recording_options("sink.wav", "s16le");
    recording_own(&options)->rotate_ns = 50 * NS_PER_MS;
    struct rig rig;
    open_sink(&rig, &options);
    uint64_t frame = 0, clipped = 0;
    struct random_state random = {8};
    uint8_t *wire = malloc(50000 * 4);
    while (frame < 1000000) {
        uint32_t frames = 1 + random_below(&random, 50000);
        struct result result = recording_result(0, frame, frames);
        if (random_below(&random, 2) == 0) { /* as a device may have encoded it */
            result.wire = wire;
            result.wire_format = sink_recording.wire(&options);
            result.saturated = 3 + sample_encode_block(&result.wire_format.format, result.samples,
                                                       (size_t)frames * result.channels,
                                                       result.wire_format.factor, wire);
            clipped += 3;
            result.samples = NULL;
        }
        assert_true(sink_recording.put(rig.sink, &result) > 0);
        struct sink_ledger ledger;
        sink_recording.ledger(rig.sink, &ledger);
        check_ledger(&ledger);
        assert_int_equal(ledger.dropped[DROP_QUEUE], 0); /* 64 MiB hold it all */
        frame += frames;
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    close_sink(&rig, in_10_s());
    free(wire);
    assert_int_equal(rig.at_end.saturated, clipped);
    assert_int_equal(rig.at_end.delivered, frame);
    assert_int_equal(rig.at_end.pending, 0);
    assert_int_equal(rig.at_end.bytes, frame * 4);
    char names[64][256];
    int count = recording_names(names, 64);
    uint64_t next = 0;
    for (int i = 0; i < count; i++)
        next += expect_recorded(names[i], 0, next, 2.0);
    assert_int_equal(next, frame);
}

static void put_frames(struct rig *rig, uint64_t first, uint32_t frames)
{
    struct result result = recording_result(0, first, frames);
    struct sink_ledger ledger;
    sink_recording.put(rig->sink, &result);
    sink_recording.ledger(rig->sink, &ledger);
    check_ledger(&ledger);
}

static struct sink_record_at record(struct rig *rig, bool on)
{
    struct sink_record_at at;
    assert_int_equal(sink_recording.record(rig->sink, on, "anna", &at), 0);
    return at;
}

/* The status of the sink, once it is what it will be: the writer follows the loop. */
static struct recording_shown shown_in(struct rig *rig, enum recording_state state)
{
    static struct recording_shown shown;
    const int64_t until_ns = in_10_s();
    do {
        uv_run(&rig->loop, UV_RUN_NOWAIT);
        usleep(1000);
        sink_recording.read_status(rig->sink, &shown);
    } while (shown.state != state && clock_monotonic_ns() < until_ns);
    assert_int_equal(shown.state, state);
    return shown;
}

static void expect_text(const json_t *sidecar, const char *key, const char *text)
{
    assert_string_equal(json_string_value(json_object_get(sidecar, key)), text);
}

static void expect_stopped(const json_t *sidecar, uint64_t from, uint64_t until)
{
    const json_t *missing = json_object_get(sidecar, "missing_before");
    assert_int_equal(json_array_size(missing), 1);
    assert_int_equal(sidecar_integer(json_array_get(missing, 0), "from"), from);
    assert_int_equal(sidecar_integer(json_array_get(missing, 0), "until"), until);
    expect_text(json_array_get(missing, 0), "cause", "stopped");
}

/* Begins by a command, stops and begins again: two files hold exactly what was put in between, and
 * all else is counted and listed. */
static void test_commands(void **state)
{
    (void)state;
    struct sink_options options = recording_options("cut.wav", "s16le");
    recording_own(&options)->start_by_command = true;
    struct rig rig;
    open_sink(&rig, &options);
    assert_false(record(&rig, false).changed);
    assert_false(record(&rig, false).known);
    put_frames(&rig, 0, 700);
    put_frames(&rig, 700, 300);
    assert_int_equal(shown_in(&rig, RECORDING_STOPPED).file, 0);
    struct sink_record_at at = record(&rig, true);
    assert_true(at.changed && at.known && at.frame == 1000);
    put_frames(&rig, 1000, 2000);
    assert_false(record(&rig, true).changed);
    shown_in(&rig, RECORDING_RUNNING);
    at = record(&rig, false);
    assert_true(at.changed && at.frame == 3000);
    put_frames(&rig, 3000, 500);
    const struct recording_shown shown = shown_in(&rig, RECORDING_STOPPED);
    assert_int_equal(shown.frames, 2000);
    assert_int_equal(shown.bytes, 2000 * 2 * RECORDING_CHANNELS);
    assert_non_null(strstr(shown.path, "cut.wav"));
    json_t *first = recording_sidecar("cut.wav"); /* complete before the sink is closed */
    assert_true(json_is_true(json_object_get(first, "complete")));
    expect_text(first, "began", "command");
    expect_text(first, "began_by", "anna");
    expect_text(first, "ended", "command");
    expect_text(first, "ended_by", "anna");
    expect_stopped(first, 0, 1000);
    json_decref(first);
    assert_true(record(&rig, true).changed);
    put_frames(&rig, 3500, 100);
    shown_in(&rig, RECORDING_RUNNING);
    close_sink(&rig, in_10_s());
    assert_int_equal(expect_recorded("cut.wav", 0, 1000, 2.0), 2000);
    assert_int_equal(expect_recorded("cut-0002.wav", 0, 3500, 2.0), 100);
    json_t *second = recording_sidecar("cut-0002.wav");
    expect_text(second, "began", "command");
    expect_text(second, "ended", "end");
    expect_stopped(second, 3000, 3500);
    json_decref(second);
    assert_int_equal(rig.at_end.dropped[DROP_STOPPED], 1500);
    assert_int_equal(rig.at_end.delivered, 2100);
}

static atomic_bool held;
static pthread_t loop_thread;

/* A clock that blocks the writer, which reads it after every message, while `held`. */
static int64_t holding_time(void)
{
    while (atomic_load(&held) && !pthread_equal(pthread_self(), loop_thread))
        usleep(100);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* A queue far too small while the disk hangs: the sink drops whole results and counts them all. */
static void test_queue_overflow(void **state)
{
    (void)state;
    struct sink_options options = recording_options("full.wav", "s16le");
    recording_own(&options)->queue_bytes = 128 << 10;
    enum { RESULTS = 300, FRAMES = 1000 };
    static const struct clock_functions holding = {holding_time, holding_time};
    loop_thread = pthread_self();
    atomic_store(&held, true);
    clock_replace(&holding);
    struct rig rig;
    open_sink(&rig, &options);
    const struct result all = recording_result(0, 0, RESULTS * FRAMES);
    for (uint64_t i = 0; i < RESULTS; i++) {
        struct result result = all;
        result.first_frame = i * FRAMES;
        result.frames = FRAMES;
        result.samples = all.samples + i * FRAMES * RECORDING_CHANNELS;
        sink_recording.put(rig.sink, &result);
        struct sink_ledger ledger;
        sink_recording.ledger(rig.sink, &ledger);
        check_ledger(&ledger);
    }
    atomic_store(&held, false);
    close_sink(&rig, in_10_s());
    clock_replace(NULL);
    assert_true(rig.at_end.dropped[DROP_QUEUE] > 200 * FRAMES);
    assert_true(rig.at_end.dropped[DROP_QUEUE] % FRAMES == 0);
    assert_int_equal(rig.at_end.delivered + rig.at_end.dropped[DROP_QUEUE], RESULTS * FRAMES);
    char names[512][256];
    int count = recording_names(names, 512);
    uint64_t frames = 0;
    for (int i = 0; i < count; i++) {
        json_t *root = recording_sidecar(names[i]);
        frames += expect_recorded(names[i], 0, (uint64_t)sidecar_integer(root, "first_frame"), 2.0);
        json_decref(root);
    }
    assert_int_equal(frames, rig.at_end.delivered);
}

/* A stream that checks for room first never loses a frame, however small queue and messages are. */
static void test_back_pressure(void **state)
{
    (void)state;
    static const uint32_t pieces[] = {1, 64, 1000, 9000};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        struct sink_options options = recording_options("wait.wav", "s16le");
        recording_own(&options)->queue_bytes = 256 << 10;
        struct rig rig;
        open_sink(&rig, &options);
        uint64_t total = pieces[p] * 400ull, frame = 0;
        int64_t give_up_ns = in_10_s();
        while (frame < total && clock_monotonic_ns() < give_up_ns) {
            while (frame < total && sink_recording.room(rig.sink) >= pieces[p]) {
                struct result result = recording_result(p, frame, pieces[p]);
                sink_recording.put(rig.sink, &result);
                frame += pieces[p];
            }
            if (frame < total) { /* wait for room_again, and only for it */
                int before = rig.room_again;
                while (rig.room_again == before && clock_monotonic_ns() < give_up_ns) {
                    uv_run(&rig.loop, UV_RUN_NOWAIT);
                    usleep(100);
                }
            }
        }
        close_sink(&rig, in_10_s());
        assert_int_equal(frame, total);
        assert_int_equal(rig.at_end.delivered, total);
        assert_int_equal(expect_recorded("wait.wav", p, 0, 2.0), total);
        scratch_clear();
    }
}

static void test_close_without_put(void **state)
{
    (void)state;
    struct sink_options options = recording_options("none.wav", "s16le");
    struct rig rig;
    open_sink(&rig, &options);
    close_sink(&rig, in_10_s());
    assert_int_equal(scratch_count(), 0);
}

static void test_close_past_deadline(void **state)
{
    (void)state;
    struct sink_options options = recording_options("late.wav", "s16le");
    struct rig rig;
    open_sink(&rig, &options);
    for (uint64_t i = 0; i < 20; i++) {
        struct result result = recording_result(0, i * 100000, 100000);
        sink_recording.put(rig.sink, &result);
    }
    int64_t start_ns = clock_monotonic_ns();
    close_sink(&rig, start_ns - 1);
    assert_true(clock_monotonic_ns() - start_ns < 3 * NS_PER_SECOND);
    assert_int_equal(rig.at_end.pending, 0);
    assert_int_equal(rig.at_end.delivered + rig.at_end.dropped[DROP_STOPPED], 2000000);
    expect_recorded("late.wav", 0, 0, 2.0);
}

/* kill -9 while the writer writes: file and sidecar are complete up to a flush. */
static void test_kill(void **state)
{
    (void)state;
    static const char *const containers[] = {"wav", "w64", "rf64"};
    for (int k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "kill.%s", containers[k]);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct sink_options options = recording_options(name, "s16le");
            recording_own(&options)->container = containers[k];
            recording_own(&options)->flush_ns = 10 * NS_PER_MS;
            struct rig rig;
            open_sink(&rig, &options);
            for (uint64_t frame = 0;; frame += 500) {
                struct result result = recording_result(0, frame, 500);
                sink_recording.put(rig.sink, &result);
                usleep(300);
            }
        }
        char sidecar[400];
        snprintf(sidecar, sizeof sidecar, "%s/%s.json", scratch_folder(), name);
        for (int i = 0; i < 2000 && access(sidecar, R_OK) != 0; i++)
            usleep(5000);
        usleep(60000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        uint64_t frames = expect_recorded(name, 0, 0, 2.0);
        if (frames < 500)
            fail_msg("%s: %llu frames survived", name, (unsigned long long)frames);
        json_t *root = recording_sidecar(name);
        assert_true(json_is_false(json_object_get(root, "complete")));
        json_decref(root);
    }
}

/* The end of an epoch, with what is missing last, reaches the file's sidecar. */
static void test_missing_at_the_end(void **state)
{
    (void)state;
    struct sink_options options = recording_options("end.wav", "s16le");
    struct rig rig;
    open_sink(&rig, &options);
    struct result result = recording_result(0, 0, 100);
    sink_recording.put(rig.sink, &result);
    const struct invalid_range range = {100, 200, INVALID_DEVICE};
    const struct result end = {
        .first_frame = 200, .flags = RESULT_EPOCH_END, .invalid = &range, .invalid_count = 1};
    sink_recording.put(rig.sink, &end);
    close_sink(&rig, in_10_s());
    json_t *root = recording_sidecar("end.wav");
    json_t *missing = json_array_get(json_object_get(root, "missing_after"), 0);
    assert_int_equal(sidecar_integer(missing, "from"), 100);
    assert_int_equal(sidecar_integer(missing, "until"), 200);
    json_decref(root);
}

/* A range of another epoch than the file's names it. */
static uint64_t epoch_of(json_t *range, json_t *root)
{
    const bool named = json_object_get(range, "epoch") != NULL;
    return (uint64_t)sidecar_integer(named ? range : root, "epoch");
}

static bool lists(const char *name, const char *key, uint64_t epoch, uint64_t until)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s.json", scratch_folder(), name);
    if (access(path, R_OK) != 0)
        return false;
    bool found = false;
    json_t *root = recording_sidecar(name), *list = json_object_get(root, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *range = json_array_get(list, i);
        found |= epoch_of(range, root) == epoch &&
                 (uint64_t)sidecar_integer(range, "until") == until &&
                 strcmp(json_string_value(json_object_get(range, "cause")), "queue") == 0;
    }
    json_decref(root);
    return found;
}

/* Sums, over all sidecars, the frames in files and those listed as missing, of one epoch. */
static uint64_t accounted(uint64_t epoch)
{
    char names[64][256];
    uint64_t frames = 0;
    for (int i = recording_names(names, 64); i-- > 0;) {
        json_t *root = recording_sidecar(names[i]);
        if ((uint64_t)sidecar_integer(root, "epoch") == epoch)
            frames += (uint64_t)sidecar_integer(root, "frames");
        static const char *const keys[] = {"missing_before", "missing_after"};
        for (int k = 0; k < 2; k++) {
            json_t *list = json_object_get(root, keys[k]);
            for (size_t r = 0; r < json_array_size(list); r++) {
                json_t *range = json_array_get(list, r);
                if (epoch_of(range, root) == epoch)
                    frames += (uint64_t)(sidecar_integer(range, "until") -
                                         sidecar_integer(range, "from"));
            }
        }
        json_decref(root);
    }
    return frames;
}

/*
 * The queue is full when epochs end: their last results, one whole epoch and the reports of their
 * ends are dropped. Each frame of each epoch is in a file or listed, at once (the queue is empty
 * again, and nothing follows), when another epoch follows, and when the sink closes.
 */
static void test_queue_full_at_the_end(void **state)
{
    (void)state;
    enum { FRAMES = 1000, RESULTS = 60, EPOCHS = 3 };
    static const struct clock_functions holding = {holding_time, holding_time};
    const struct result all = recording_result(0, 0, FRAMES);
    for (int what = 0; what < 3; what++) { /* at once, another epoch, close */
        const uint64_t epochs = what == 0 ? 1 : EPOCHS;
        struct sink_options options = recording_options("end.wav", "s16le");
        recording_own(&options)->queue_bytes = 128 << 10;
        recording_own(&options)->flush_ns = 5 * NS_PER_MS;
        loop_thread = pthread_self();
        atomic_store(&held, true);
        clock_replace(&holding);
        struct rig rig;
        open_sink(&rig, &options);
        for (uint64_t epoch = 0; epoch < epochs; epoch++) {
            for (uint64_t i = 0; i < RESULTS; i++) {
                struct result result = all;
                result.epoch = epoch;
                result.first_frame = i * FRAMES;
                /* One tells the end with its last frames, another behind them. */
                result.flags = i == RESULTS - 1 && epoch != 1 ? RESULT_EPOCH_END : 0;
                sink_recording.put(rig.sink, &result);
            }
            const struct result end = {
                .epoch = epoch, .first_frame = RESULTS * FRAMES, .flags = RESULT_EPOCH_END};
            if (epoch == 1)
                sink_recording.put(rig.sink, &end);
        }
        atomic_store(&held, false);
        for (int i = 0;
             i < 2000 && what == 0 && !lists("end.wav", "missing_after", 0, RESULTS * FRAMES);
             i++) {
            uv_run(&rig.loop, UV_RUN_NOWAIT);
            usleep(1000);
        }
        if (what == 0)
            assert_true(lists("end.wav", "missing_after", 0, RESULTS * FRAMES));
        if (what == 1) {
            usleep(100000);
            struct result result = all;
            result.epoch = EPOCHS;
            sink_recording.put(rig.sink, &result);
        }
        close_sink(&rig, in_10_s());
        clock_replace(NULL);
        assert_true(rig.at_end.dropped[DROP_QUEUE] > epochs * FRAMES);
        for (uint64_t epoch = 0; epoch < epochs; epoch++)
            assert_int_equal(accounted(epoch), RESULTS * FRAMES);
        scratch_clear();
    }
}

/* Gains that were changed while running are listed from their frame on, in every file. */
static void test_gains(void **state)
{
    (void)state;
    struct sink_options options = recording_options("gain.wav", "s16le");
    recording_own(&options)->rotate_ns = 500000; /* 500 frames */
    struct rig rig;
    open_sink(&rig, &options);
    float factors[2] = {1, 0.5f};
    bool muted[2] = {true, false};
    char who[] = "anna (uid 1000)";
    struct result_gains gains = {
        .changes = 1, .outputs = 2, .factors = factors, .muted = muted, .who = who};
    for (uint64_t n = 0; n < 1200; n += 100) {
        struct result result = recording_result(0, n, 100);
        result.gains = n >= 100 ? &gains : NULL;
        result.gains_from = n < 800 ? 230 : 800;
        if (n == 800) {
            factors[1] = 1;
            muted[0] = false;
            gains.changes = 2;
            memcpy(who, "olaf", 4);
        }
        sink_recording.put(rig.sink, &result);
    }
    close_sink(&rig, in_10_s());
    static const struct {
        uint64_t first_frame, changes;
    } expect[3][2] = {{{230, 1}}, {{500, 1}, {800, 2}}, {{1000, 2}}};
    char names[8][256];
    assert_int_equal(recording_names(names, 8), 3);
    for (int file = 0; file < 3; file++) {
        json_t *root = recording_sidecar(names[file]);
        json_t *list = json_object_get(root, "gains");
        assert_int_equal(json_array_size(list), file == 1 ? 2 : 1);
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_t *entry = json_array_get(list, i);
            assert_int_equal(sidecar_integer(entry, "first_frame"), expect[file][i].first_frame);
            assert_int_equal(sidecar_integer(entry, "changes"), expect[file][i].changes);
            const json_t *gain_db = json_array_get(json_object_get(entry, "gain_db"), 1);
            const double want = expect[file][i].changes == 1 ? -6.0205999 : 0;
            assert_string_equal(json_string_value(json_object_get(entry, "who")),
                                expect[file][i].changes == 1 ? "anna (uid 1000)"
                                                             : "olaf (uid 1000)");
            assert_true(fabs(json_number_value(gain_db) - want) < 1e-6);
            assert_int_equal(json_is_true(json_array_get(json_object_get(entry, "muted"), 0)),
                             expect[file][i].changes == 1);
        }
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sink, recording_clean),
        cmocka_unit_test_teardown(test_missing_at_the_end, recording_clean),
        cmocka_unit_test_teardown(test_queue_full_at_the_end, recording_clean),
        cmocka_unit_test_teardown(test_gains, recording_clean),
        cmocka_unit_test_teardown(test_commands, recording_clean),
        cmocka_unit_test_teardown(test_queue_overflow, recording_clean),
        cmocka_unit_test_teardown(test_back_pressure, recording_clean),
        cmocka_unit_test_teardown(test_close_without_put, recording_clean),
        cmocka_unit_test_teardown(test_close_past_deadline, recording_clean),
        cmocka_unit_test_teardown(test_kill, recording_clean),
    };
    return cmocka_run_group_tests(tests, recording_set_up, NULL);
}
