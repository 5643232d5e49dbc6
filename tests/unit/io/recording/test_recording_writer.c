/*
 * The recording writer, called directly where time, free space or file names matter: the files hold
 * every frame of the results, and the sidecars say which frames they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "io/recording/recording.h"
#include "io/recording/writer.h"
#include "tests/support/recording_files.h"
#include "tests/support/scratch.h"

static struct recording_writer *writer_of(const struct sink_options *options,
                                          const struct writer_system *system)
{
    struct recording_writer *writer = NULL;
    struct problem problem = {0};
    if (recording_writer_open(options, system, &writer, &problem) != 0)
        fail_msg("open: %s", problem.text);
    return writer;
}

static void put(struct recording_writer *writer, uint64_t epoch, uint64_t first, uint32_t frames)
{
    struct result result = recording_result(epoch, first, frames);
    recording_writer_put(writer, &result);
}

static void test_one_file(void **state)
{
    (void)state;
    static const struct {
        const char *format, *container, *name;
        double scale;
    } table[] = {{"s16le", "wav", "a.wav", 2.0},
                 {"s24le", "w64", "b.w64", 2.0},
                 {"f32le", "wav", "c.wav", 1.0},
                 {"s32le", "rf64", "d.rf64", 2.0},
                 {"f32le", "w64", "e.w64", 1.0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sink_options options = recording_options(table[i].name, table[i].format);
        recording_own(&options)->container = table[i].container;
        struct recording_writer *writer = writer_of(&options, NULL);
        for (uint64_t frame = 5; frame < 3000; frame += 700)
            put(writer, 3, frame, 700);
        recording_writer_drain(writer);
        assert_int_equal(recording_writer_counts(writer)->delivered, 3500);
        assert_int_equal(recording_writer_counts(writer)->files, 1);
        recording_writer_close(writer);
        assert_int_equal(expect_recorded(table[i].name, 3, 5, table[i].scale), 3500);
    }
}

static void test_rotation_is_gapless(void **state)
{
    (void)state;
    /* 1.2345 ms at 1 MHz: cut every 1235 frames (rounded), also inside a result. */
    struct sink_options options = recording_options("rot.wav", "s16le");
    recording_own(&options)->rotate_ns = 1234500;
    struct recording_writer *writer = writer_of(&options, NULL);
    uint64_t frame = 100;
    struct random_state random = {4};
    while (frame < 20000) {
        uint32_t frames = 1 + random_below(&random, 4000);
        put(writer, 0, frame, frames);
        frame += frames;
    }
    recording_writer_close(writer);
    char names[64][256];
    int count = recording_names(names, 64);
    uint64_t next = 100, rotated = 1235;
    for (int i = 0; i < count; i++) {
        uint64_t frames = expect_recorded(names[i], 0, next, 2.0);
        assert_true(i == count - 1 ? frames <= rotated : frames == rotated);
        json_t *root = recording_sidecar(names[i]);
        assert_int_equal(sidecar_integer(root, "capture_time_ns"),
                         RECORDING_ORIGIN_NS + (int64_t)next * 1000);
        json_decref(root);
        next += frames;
    }
    assert_int_equal(next, frame);
    /* 1795000000.123456789 s is 2026-11-18T11:06:40.123…Z; the first file begins 100 µs later. */
    assert_string_equal(names[0], "rot-20261118T110640.123556Z-0001.wav");
}

static void test_rotation_by_size(void **state)
{
    (void)state;
    struct sink_options options = recording_options("size.wav", "s24le");
    recording_own(&options)->rotate_bytes = 10000;
    struct recording_writer *writer = writer_of(&options, NULL);
    put(writer, 0, 0, 10000);
    recording_writer_close(writer);
    char names[64][256];
    int count = recording_names(names, 64);
    uint64_t next = 0;
    for (int i = 0; i < count; i++) {
        struct stat status;
        assert_int_equal(stat(scratch_path(names[i]), &status), 0);
        assert_true(status.st_size <= 10000 && (i == count - 1 || status.st_size > 10000 - 20));
        next += expect_recorded(names[i], 0, next, 2.0);
    }
    assert_int_equal(next, 10000);
}

static void test_keep(void **state)
{
    (void)state;
    struct sink_options options = recording_options("keep.wav", "s16le");
    recording_own(&options)->rotate_ns = 1000 * 1000; /* 1000 frames */
    recording_own(&options)->keep = 3;
    /* A file with a similar name that is not ours stays. */
    FILE *other = fopen(scratch_path("keep-notes.wav"), "w");
    assert_non_null(other);
    fclose(other);
    struct recording_writer *writer = writer_of(&options, NULL);
    for (uint64_t frame = 0; frame < 7500; frame += 500) {
        put(writer, 0, frame, 500);
        assert_true(scratch_count() <= 1 + 3 * 2);
    }
    recording_writer_close(writer);
    char names[16][256];
    assert_int_equal(recording_names(names, 16), 4);
    expect_recorded(names[0], 0, 5000, 2.0);
    assert_string_equal(names[3], "keep-notes.wav");
    /* A later run counts the files of an earlier one. */
    writer = writer_of(&options, NULL);
    put(writer, 0, 8000, 1500);
    recording_writer_close(writer);
    assert_int_equal(recording_names(names, 16), 4);
    expect_recorded(names[0], 0, 7000, 2.0);
    expect_recorded(names[1], 0, 8000, 2.0);
    assert_int_equal(scratch_count(), 1 + 3 * 2);
}

static void test_never_overwritten(void **state)
{
    (void)state;
    struct sink_options options = recording_options("once.wav", "s16le");
    for (int run = 0; run < 3; run++) {
        struct recording_writer *writer = writer_of(&options, NULL);
        put(writer, 0, (uint64_t)run * 10, 10);
        recording_writer_close(writer);
    }
    expect_recorded("once.wav", 0, 0, 2.0);
    expect_recorded("once-0002.wav", 0, 10, 2.0);
    expect_recorded("once-0003.wav", 0, 20, 2.0);
}

/* frame = first_frame + index within every file, whatever happens to the stream. */
static void test_epochs_and_jumps(void **state)
{
    (void)state;
    struct sink_options options = recording_options("epoch.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    put(writer, 0, 0, 100);
    put(writer, 0, 100, 100); /* follows */
    put(writer, 0, 250, 50);  /* 50 frames shed */
    put(writer, 1, 300, 10);  /* an epoch that happens to continue the count */
    put(writer, 2, 0, 10);
    struct result result = recording_result(2, 10, 10);
    result.delay_frames = 7; /* another filter */
    recording_writer_put(writer, &result);
    result = recording_result(2, 20, 10);
    result.delay_frames = 7;
    result.record = 5;
    recording_writer_put(writer, &result);
    recording_writer_close(writer);
    assert_int_equal(expect_recorded("epoch.wav", 0, 0, 2.0), 200);
    assert_int_equal(expect_recorded("epoch-0002.wav", 0, 250, 2.0), 50);
    assert_int_equal(expect_recorded("epoch-0003.wav", 1, 300, 2.0), 10);
    assert_int_equal(expect_recorded("epoch-0004.wav", 2, 0, 2.0), 10);
    assert_int_equal(expect_recorded("epoch-0005.wav", 2, 10, 2.0), 10);
    assert_int_equal(expect_recorded("epoch-0006.wav", 2, 20, 2.0), 10);
    assert_int_equal(scratch_count(), 12);
}

static void expect_ranges(const json_t *root, const char *key, const struct invalid_range *expect,
                          size_t count)
{
    json_t *list = json_object_get(root, key);
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        json_t *range = json_array_get(list, i);
        assert_int_equal(sidecar_integer(range, "from"), expect[i].from);
        assert_int_equal(sidecar_integer(range, "until"), expect[i].until);
        assert_string_equal(json_string_value(json_object_get(range, "cause")),
                            invalid_cause_name(expect[i].cause));
    }
}

static void test_sidecar(void **state)
{
    (void)state;
    struct sink_options options = recording_options("side.wav", "s16le");
    recording_own(&options)->rotate_ns = 1000 * 1000;
    struct recording_writer *writer = writer_of(&options, NULL);
    /* One range over two results and two files; ranges that touch join; two causes overlap. */
    struct invalid_range first[] = {
        {600, 800, INVALID_SETTLING}, {650, 700, INVALID_NETWORK}, {500, 600, INVALID_OVERLOAD}};
    struct invalid_range second[] = {{800, 1100, INVALID_SETTLING},
                                     {1299, 1300, INVALID_NONFINITE}};
    struct result result = recording_result(0, 600, 200);
    result.invalid = first;
    result.invalid_count = 3;
    recording_writer_put(writer, &result);
    result = recording_result(0, 800, 1200);
    result.invalid = second;
    result.invalid_count = 2;
    result.clock_error_ns = 9000;
    result.partial_from = 1500;
    result.partial_until = 1700;
    ((float *)(uintptr_t)result.samples)[5] = 2.5f; /* beyond full scale */
    ((float *)(uintptr_t)result.samples)[6] = -2.5f;
    recording_writer_put(writer, &result);
    recording_writer_close(writer);

    char names[4][256];
    assert_int_equal(recording_names(names, 4), 2);
    json_t *root = recording_sidecar(names[0]);
    static const struct invalid_range in_first[] = {{600, 1100, INVALID_SETTLING},
                                                    {650, 700, INVALID_NETWORK},
                                                    {1299, 1300, INVALID_NONFINITE}};
    static const struct invalid_range missing[] = {{500, 600, INVALID_OVERLOAD}};
    expect_ranges(root, "invalid", in_first, 3);
    json_t *partial = json_array_get(json_object_get(root, "partial"), 0);
    assert_int_equal(sidecar_integer(partial, "from"), 1500);
    assert_int_equal(sidecar_integer(partial, "until"), 1600);
    assert_int_equal(json_array_size(json_object_get(root, "partial")), 1);
    expect_ranges(root, "missing_before", missing, 1);
    assert_int_equal(sidecar_integer(root, "frames"), 1000);
    assert_int_equal(sidecar_integer(root, "first_frame"), 600);
    assert_int_equal(sidecar_integer(root, "timeline_frame"), 600);
    assert_int_equal(sidecar_integer(root, "saturated_samples"), 2);
    assert_int_equal(sidecar_integer(root, "clock_error_ns"), 9000);
    assert_int_equal(sidecar_integer(root, "capture_time_ns"), RECORDING_ORIGIN_NS + 600000);
    assert_int_equal(sidecar_integer(root, "last_capture_time_ns"), RECORDING_ORIGIN_NS + 1599000);
    assert_true(json_is_true(json_object_get(root, "complete")));
    assert_true(json_is_true(json_object_get(root, "loss_detectable")));
    assert_true(json_is_false(json_object_get(root, "aligned")));
    assert_true(json_number_value(json_object_get(root, "delay_frames")) == 31.5);
    assert_true(json_number_value(json_object_get(root, "rate_hz")) == RECORDING_RATE);
    static const char *const texts[][2] = {{"file", NULL},
                                           {"stream", "vessel"},
                                           {"sink", "rec"},
                                           {"content", "output"},
                                           {"clock", "receive"},
                                           {"format", "s16le"},
                                           {"version", CONVOLVD_VERSION},
                                           {"device", "cpu"},
                                           {"driver", "1"},
                                           {"config_hash", "bb"},
                                           {"taps_hash", "aa"},
                                           {"capture_time", "2026-11-18T11:06:40.124056789Z"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(json_string_value(json_object_get(root, texts[i][0])),
                            texts[i][1] != NULL ? texts[i][1] : names[0]);
    json_t *channel = json_array_get(json_object_get(root, "channels"), 1);
    assert_string_equal(json_string_value(json_object_get(channel, "unit")), "mV");
    assert_true(json_number_value(json_object_get(channel, "full_scale")) == 2.0);
    json_decref(root);
    root = recording_sidecar(names[1]);
    expect_ranges(root, "invalid", NULL, 0);
    expect_ranges(root, "missing_before", NULL, 0);
    json_decref(root);
}

/* After a takeover the sidecar says what computed which frames. */
static void test_devices_in_the_sidecar(void **state)
{
    (void)state;
    struct sink_options options = recording_options("devices.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    static const char *const names[] = {"gpu", "gpu", "cpu", "cpu", "gpu"};
    for (uint64_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result result = recording_result(0, 100 * i, 100);
        result.device = names[i];
        result.driver = "7";
        recording_writer_put(writer, &result);
    }
    recording_writer_close(writer);
    json_t *root = recording_sidecar("devices.wav");
    json_t *devices = json_object_get(root, "devices");
    assert_int_equal(json_array_size(devices), 3);
    static const struct {
        int64_t first_frame;
        const char *device;
    } expect[] = {{0, "gpu"}, {200, "cpu"}, {400, "gpu"}};
    for (size_t i = 0; i < 3; i++) {
        json_t *device = json_array_get(devices, i);
        assert_int_equal(sidecar_integer(device, "first_frame"), expect[i].first_frame);
        assert_string_equal(json_string_value(json_object_get(device, "device")), expect[i].device);
        assert_string_equal(json_string_value(json_object_get(device, "driver")), "7");
    }
    assert_string_equal(json_string_value(json_object_get(root, "device")), "gpu");
    json_decref(root);
}

static void test_clock_steps_in_the_sidecar(void **state)
{
    (void)state;
    struct sink_options options = recording_options("steps.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    /* The step's epoch and count as each of six results says. */
    static const struct result_clock_step told[] = {
        {0}, {1, 0, 90, 2000}, {1, 0, 90, 2000}, {2, 0, 310, -5}, {2, 0, 310, -5}, {3, 7, 1, 9}};
    for (uint64_t i = 0; i < sizeof told / sizeof *told; i++) {
        struct result result = recording_result(0, 100 * i, 100);
        result.clock_step = told[i];
        recording_writer_put(writer, &result);
    }
    recording_writer_close(writer);
    json_t *root = recording_sidecar("steps.wav");
    json_t *steps = json_object_get(root, "clock_steps");
    assert_int_equal(json_array_size(steps), 2);
    assert_int_equal(sidecar_integer(json_array_get(steps, 0), "frame"), 90);
    assert_int_equal(sidecar_integer(json_array_get(steps, 0), "step_ns"), 2000);
    assert_int_equal(sidecar_integer(json_array_get(steps, 1), "frame"), 310);
    assert_int_equal(sidecar_integer(json_array_get(steps, 1), "step_ns"), -5);
    json_decref(root);
}

/* A range found uncertain behind its frames is in the sidecar of the file that holds them, is not
 * missing, and may come with the end of the epoch. */
static void test_found_uncertain_later(void **state)
{
    (void)state;
    const struct sink_options options = recording_options("late.wav", "f32le");
    struct recording_writer *writer = writer_of(&options, NULL);
    put(writer, 0, 100, 500);
    static const struct invalid_range late[] = {{0, 300, INVALID_UNCERTAIN},
                                                {600, 650, INVALID_UNCERTAIN}};
    struct result result = recording_result(0, 600, 400);
    result.invalid = &late[0];
    result.invalid_count = 1;
    recording_writer_put(writer, &result);
    struct result end = recording_result(0, 1000, 0);
    end.flags |= RESULT_EPOCH_END;
    end.invalid = &late[1];
    end.invalid_count = 1;
    recording_writer_put(writer, &end);
    recording_writer_close(writer);
    char names[2][256];
    assert_int_equal(recording_names(names, 2), 1);
    json_t *root = recording_sidecar(names[0]);
    static const struct invalid_range ranges[] = {{100, 300, INVALID_UNCERTAIN},
                                                  {600, 650, INVALID_UNCERTAIN}};
    expect_ranges(root, "invalid", ranges, 2);
    assert_int_equal(json_array_size(json_object_get(root, "missing_after")), 0);
    json_decref(root);
}

/* What is missing at the end of an epoch is behind the last frame of its file, or, when it has
 * none, in the next file, under its epoch. */
static void test_missing_at_the_end(void **state)
{
    (void)state;
    struct sink_options options = recording_options("end.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    static const struct invalid_range ranges[] = {{100, 164, INVALID_OVERLOAD},
                                                  {164, 200, INVALID_DEVICE}};
    put(writer, 0, 0, 100);
    struct result end = {.epoch = 0,
                         .first_frame = 200,
                         .flags = RESULT_EPOCH_END,
                         .invalid = ranges,
                         .invalid_count = 2};
    recording_writer_put(writer, &end);
    end.epoch = 1; /* not one frame of it was computed */
    end.flags |= RESULT_EPOCH_START;
    recording_writer_put(writer, &end);
    put(writer, 2, 0, 100);
    recording_writer_close(writer);
    json_t *root = recording_sidecar("end.wav");
    expect_ranges(root, "missing_after", ranges, 2);
    expect_ranges(root, "missing_before", NULL, 0);
    json_decref(root);
    root = recording_sidecar("end-0002.wav");
    expect_ranges(root, "missing_before", ranges, 2);
    const json_t *range = json_array_get(json_object_get(root, "missing_before"), 0);
    assert_int_equal(sidecar_integer(range, "epoch"), 1);
    expect_ranges(root, "missing_after", NULL, 0);
    json_decref(root);
}

/* Files are readable and correct at every flush, not only at the end. */
static void test_flush(void **state)
{
    (void)state;
    struct sink_options options = recording_options("flush.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    for (uint64_t frame = 0; frame < 500; frame += 100) {
        put(writer, 0, frame, 100);
        recording_writer_flush(writer);
        assert_int_equal(expect_recorded("flush.wav", 0, 0, 2.0), frame + 100);
        json_t *root = recording_sidecar("flush.wav");
        assert_true(json_is_false(json_object_get(root, "complete")));
        json_decref(root);
    }
    recording_writer_close(writer);
}

static uint64_t simulated_free_bytes;

static uint64_t simulated_free(const char *where)
{
    assert_string_equal(where, scratch_folder());
    return simulated_free_bytes;
}

static int64_t simulated_ns = 1000;

static int64_t simulated_time(void)
{
    return simulated_ns += NS_PER_SECOND;
}

static void test_min_free(void **state)
{
    (void)state;
    struct sink_options options = recording_options("free.wav", "s16le");
    recording_own(&options)->min_free_bytes = 16 << 20;
    struct writer_system system = {.free_bytes = simulated_free};
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    clock_replace(&clock);
    log_set_level((enum log_level)0);
    struct recording_writer *writer = writer_of(&options, &system);
    const struct writer_counts *counts = recording_writer_counts(writer);
    static const struct {
        uint64_t free_mib;
        bool paused;
    } steps[] = {{100, false}, {16, false}, {15, true}, {16, true},
                 {0, true},    {17, false}, {15, true}};
    uint64_t paused = 0;
    for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        simulated_free_bytes = steps[i].free_mib << 20;
        put(writer, 0, i * 100, 100);
        recording_writer_drain(writer);
        paused += steps[i].paused ? 100 : 0;
        if (counts->dropped[DROP_PAUSED] != paused || counts->delivered != (i + 1) * 100 - paused)
            fail_msg("step %u (%llu MiB free): %llu frames left out, want %llu", i,
                     (unsigned long long)steps[i].free_mib,
                     (unsigned long long)counts->dropped[DROP_PAUSED], (unsigned long long)paused);
    }
    recording_writer_close(writer);
    log_set_level(LOG_LEVEL_ERROR);
    clock_replace(NULL);
    assert_int_equal(expect_recorded("free.wav", 0, 0, 2.0), 200);
    assert_int_equal(expect_recorded("free-0002.wav", 0, 500, 2.0), 100);
    json_t *root = recording_sidecar("free.wav"); /* whole, although the disk was nearly full */
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_decref(root);
}

static void test_grows_into_rf64(void **state)
{
    (void)state;
    struct sink_options options = recording_options("grow.wav", "s16le");
    struct writer_system system = {.riff_bytes_max = 5000};
    struct recording_writer *writer = writer_of(&options, &system);
    for (uint64_t frame = 0; frame < 3000; frame += 300) {
        put(writer, 0, frame, 300);
        recording_writer_flush(writer);
        assert_int_equal(expect_recorded("grow.wav", 0, 0, 2.0), frame + 300);
        FILE *file = fopen(scratch_path("grow.wav"), "r");
        char magic[5] = {0};
        assert_int_equal(fread(magic, 1, 4, file), 4);
        fclose(file);
        assert_string_equal(magic, frame + 300 < 1230 ? "RIFF" : "RF64");
    }
    recording_writer_close(writer);
}

static void test_raw(void **state)
{
    (void)state;
    /* 12-bit offset binary, big endian: recorded as s16le with the same normalised values. */
    static const struct channel_scale scales[RECORDING_CHANNELS] = {
        {.full_scale = 10, .unit = "V"}, {.full_scale = 1, .gain_db = 40, .unit = "mV"}};
    struct sink_options options = recording_options("raw.wav", "f32le");
    options.raw = true;
    options.stream.input_format = (struct sample_format){SAMPLE_UNSIGNED, 2, 12, true, false};
    options.stream.input_channels = RECORDING_CHANNELS;
    options.stream.input_rate_hz = RECORDING_RATE;
    options.stream.input_scales = scales;
    struct recording_writer *writer = writer_of(&options, NULL);
    uint8_t wire[4096 * 2 * RECORDING_CHANNELS];
    for (unsigned i = 0; i < 4096 * RECORDING_CHANNELS; i++) {
        wire[2 * i] = (uint8_t)((i & 4095) >> 8);
        wire[2 * i + 1] = (uint8_t)i;
    }
    struct result result = {.flags = RESULT_RAW,
                            .frames = 4096,
                            .channels = RECORDING_CHANNELS,
                            .raw = wire,
                            .rate_hz = RECORDING_RATE,
                            .capture_ns = RECORDING_ORIGIN_NS};
    recording_writer_put(writer, &result);
    recording_writer_close(writer);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(scratch_path("raw.wav"), SFM_READ, &info);
    assert_non_null(file);
    assert_int_equal(info.format, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    for (unsigned i = 0; i < 4096 * RECORDING_CHANNELS; i += RECORDING_CHANNELS) {
        short got[RECORDING_CHANNELS];
        assert_int_equal(sf_readf_short(file, got, 1), 1);
        for (unsigned c = 0; c < RECORDING_CHANNELS; c++)
            assert_int_equal(got[c], ((int)((i + c) & 4095) - 2048) * 16);
    }
    sf_close(file);
    json_t *root = recording_sidecar("raw.wav");
    assert_string_equal(json_string_value(json_object_get(root, "content")), "input");
    json_t *channel = json_array_get(json_object_get(root, "channels"), 1);
    assert_true(json_number_value(json_object_get(channel, "gain_db")) == 40);
    json_decref(root);
}

static void test_check(void **state)
{
    (void)state;
    const struct sink_options good = recording_options("x.wav", "s16le");
    struct problem problem = {0};
    assert_int_equal(recording_check(&good, &problem), 0);
    static const struct {
        const char *container, *format;
        double rate_hz, full_scale;
        uint32_t channels;
        int64_t rotate_ns;
        uint64_t rotate_bytes;
        const char *words;
    } table[] = {
        {"mp3", "s16le", 1e6, 1, 2, 0, 0, "write wav, rf64 or w64"},
        {"wav", "s16be", 1e6, 1, 2, 0, 0, "write u8, s16le"},
        {"wav", "u16le", 1e6, 1, 2, 0, 0, "u16le"},
        {"wav", "s16le", 44100.5, 1, 2, 0, 0, "whole numbers"},
        {"wav", "s16le", 0.5, 1, 2, 0, 0, "whole numbers"},
        {"w64", "s16le", 3e9, 1, 2, 0, 0, "2147483647"},
        {"wav", "f32le", 1e6, 1, 20000, 0, 0, "65535"},
        {"wav", "s16le", 1e6, 0, 2, 0, 0, "full scale"},
        {"wav", "s16le", 1e6, 1, 2, 100, 0, "rotate"},
        {"wav", "s16le", 1e6, 1, 2, 0, 80, "rotate"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sink_options options = recording_options("x.wav", "s16le");
        recording_own(&options)->container = table[i].container;
        assert_int_equal(sample_format_parse(table[i].format, &options.format), 0);
        options.stream.rate_hz = table[i].rate_hz;
        options.full_scale = table[i].full_scale;
        options.stream.channels = table[i].channels;
        recording_own(&options)->rotate_ns = table[i].rotate_ns;
        recording_own(&options)->rotate_bytes = table[i].rotate_bytes;
        assert_int_equal(recording_check(&options, &problem), ERROR_CONFIG);
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("row %zu: \"%s\" does not mention \"%s\"", i, problem.text, table[i].words);
    }
    struct recording_writer *writer;
    struct sink_options options = recording_options("x.wav", "s16le");
    recording_own(&options)->path = scratch_path("missing/x.wav");
    assert_int_equal(recording_writer_open(&options, NULL, &writer, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "mkdir -p"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_one_file, recording_clean),
        cmocka_unit_test_teardown(test_rotation_is_gapless, recording_clean),
        cmocka_unit_test_teardown(test_rotation_by_size, recording_clean),
        cmocka_unit_test_teardown(test_keep, recording_clean),
        cmocka_unit_test_teardown(test_never_overwritten, recording_clean),
        cmocka_unit_test_teardown(test_epochs_and_jumps, recording_clean),
        cmocka_unit_test_teardown(test_sidecar, recording_clean),
        cmocka_unit_test_teardown(test_devices_in_the_sidecar, recording_clean),
        cmocka_unit_test_teardown(test_clock_steps_in_the_sidecar, recording_clean),
        cmocka_unit_test_teardown(test_missing_at_the_end, recording_clean),
        cmocka_unit_test_teardown(test_found_uncertain_later, recording_clean),
        cmocka_unit_test_teardown(test_flush, recording_clean),
        cmocka_unit_test_teardown(test_min_free, recording_clean),
        cmocka_unit_test_teardown(test_grows_into_rf64, recording_clean),
        cmocka_unit_test_teardown(test_raw, recording_clean),
        cmocka_unit_test_teardown(test_check, recording_clean),
    };
    return cmocka_run_group_tests(tests, recording_set_up, NULL);
}
