/*
 * The sink `recording`, with real files: what results hold must stand in the files, frame by
 * frame, and the sidecars must say where. The writer is driven directly where time, free space
 * or file names matter, the whole sink with its thread and a uv loop for the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "io/recording.h"
#include "io/recording_writer.h"
#include "io/sinks.h"

enum { CHANNELS = 2, RATE = 1000000 };

static char directory[64];
static const char *const units[CHANNELS] = {"V", "mV"};

static void remove_files(void)
{
    DIR *list = opendir(directory);
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(list);
}

static int set_up(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(directory, sizeof directory, "/tmp/convolvd-sink-XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return rmdir(directory);
}

static int clean(void **state)
{
    (void)state;
    remove_files();
    return 0;
}

static const char *path_of(const char *name)
{
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%.300s", directory, name);
    return path;
}

static int files_in_directory(void)
{
    DIR *list = opendir(directory);
    int count = 0;
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* Names of recordings (not sidecars), sorted; returns how many. */
static int recordings(char names[][256], int capacity)
{
    struct dirent **entries;
    int found = scandir(directory, &entries, NULL, alphasort), count = 0;
    assert_true(found >= 0);
    for (int i = 0; i < found; i++) {
        size_t length = strlen(entries[i]->d_name);
        bool sidecar = length > 5 && strcmp(entries[i]->d_name + length - 5, ".json") == 0;
        if (entries[i]->d_name[0] != '.' && !sidecar && count < capacity)
            snprintf(names[count++], 256, "%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return count;
}

/* ---- results ------------------------------------------------------------------------------ */

/* A value of 16 bits for every (epoch, frame, channel), full scale 2 V. */
static float value_of(uint64_t epoch, uint64_t frame, unsigned channel)
{
    struct random_state r = {epoch * 1000003 + frame * 2 + channel};
    return (float)((int)(random_u64(&r) >> 48) - 32768) / 32768.0f * 2.0f;
}

static const int64_t origin_ns = INT64_C(1795000000123456789);

/* A result of frames [first, first + frames); its samples live until the next call. */
static struct result result_of(uint64_t epoch, uint64_t first, uint32_t frames)
{
    static float samples[400000 * CHANNELS];
    assert_true(frames * CHANNELS <= sizeof samples / sizeof samples[0]);
    for (uint32_t i = 0; i < frames; i++) {
        for (unsigned c = 0; c < CHANNELS; c++)
            samples[i * CHANNELS + c] = value_of(epoch, first + i, c);
    }
    return (struct result){
        .epoch = epoch,
        .first_frame = first,
        .timeline_frame = first + epoch * 1000000,
        .frames = frames,
        .channels = CHANNELS,
        .samples = samples,
        .rate_hz = RATE,
        .capture_ns = origin_ns + (int64_t)first * 1000,
        .clock = CLOCK_SOURCE_RECEIVE,
        .clock_error_ns = 1500,
        .delay_frames = 31.5,
    };
}

static struct sink_options options_of(const char *name, const char *format)
{
    struct sink_options options = {
        .name = "rec",
        .stream = {.name = "vessel", .rate_hz = RATE, .channels = CHANNELS, .units = units,
                   .delay_frames = 31.5, .taps_longest = 64, .taps_hash = "aa", .config_hash = "bb",
                   .device = "cpu", .driver = "1", .loss_detectable = true},
        .full_scale = 2.0,
        .path = path_of(name),
        .container = "wav",
    };
    assert_int_equal(sample_format_parse(format, &options.format), 0);
    if (options.format.kind == SAMPLE_FLOAT)
        options.full_scale = 1.0;
    return options;
}

/* ---- what stands in the files --------------------------------------------------------------- */

static json_t *sidecar_of(const char *name)
{
    char path[500];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", directory, name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        fail_msg("%s: %s", path, error.text);
    return root;
}

static json_int_t integer(const json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);
    if (!json_is_integer(value))
        fail_msg("sidecar: no integer \"%s\"", key);
    return json_integer_value(value);
}

/* The file's samples are those of the frames its sidecar names. Returns its frames. */
static uint64_t expect_frames(const char *name, uint64_t epoch, uint64_t first, double scale)
{
    json_t *root = sidecar_of(name);
    assert_int_equal(integer(root, "epoch"), epoch);
    assert_int_equal(integer(root, "first_frame"), first);
    uint64_t frames = (uint64_t)integer(root, "frames");
    json_decref(root);
    char path[400];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    if (file == NULL)
        fail_msg("%s: %s", path, sf_strerror(NULL));
    assert_int_equal(info.samplerate, RATE);
    assert_int_equal(info.channels, CHANNELS);
    if ((uint64_t)info.frames < frames)
        fail_msg("%s holds %lld frames, its sidecar says %llu", name, (long long)info.frames,
                 (unsigned long long)frames);
    for (uint64_t n = 0; n < (uint64_t)info.frames; n++) {
        double values[CHANNELS];
        assert_int_equal(sf_readf_double(file, values, 1), 1);
        for (unsigned c = 0; c < CHANNELS; c++) {
            double want = (double)value_of(epoch, first + n, c);
            if (values[c] * scale != want)
                fail_msg("%s, frame %llu, channel %u: %.9g, want %.9g", name,
                         (unsigned long long)(first + n), c, values[c] * scale, want);
        }
    }
    sf_close(file);
    return (uint64_t)info.frames;
}

static struct recording_writer *writer_of(const struct sink_options *options,
                                          const struct writer_world *world)
{
    struct recording_writer *writer = NULL;
    struct problem problem = {0};
    if (recording_writer_open(options, world, &writer, &problem) != 0)
        fail_msg("open: %s", problem.text);
    return writer;
}

static void put(struct recording_writer *writer, uint64_t epoch, uint64_t first, uint32_t frames)
{
    struct result result = result_of(epoch, first, frames);
    recording_writer_put(writer, &result);
}

/* ---- the writer ----------------------------------------------------------------------------- */

static void test_one_file(void **state)
{
    (void)state;
    static const struct {
        const char *format, *container, *name;
        double scale;
    } table[] = {{"s16le", "wav", "a.wav", 2.0},  {"s24le", "w64", "b.w64", 2.0},
                 {"f32le", "wav", "c.wav", 1.0},  {"s32le", "rf64", "d.rf64", 2.0},
                 {"f32le", "w64", "e.w64", 1.0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sink_options options = options_of(table[i].name, table[i].format);
        options.container = table[i].container;
        struct recording_writer *writer = writer_of(&options, NULL);
        for (uint64_t frame = 5; frame < 3000; frame += 700)
            put(writer, 3, frame, 700);
        recording_writer_settle(writer);
        assert_int_equal(recording_writer_counts(writer)->delivered, 3500);
        assert_int_equal(recording_writer_counts(writer)->files, 1);
        recording_writer_close(writer);
        assert_int_equal(expect_frames(table[i].name, 3, 5, table[i].scale), 3500);
    }
}

static void test_rotation_is_gapless(void **state)
{
    (void)state;
    /* 1.2345 ms at 1 MHz: cut every 1235 frames (rounded), also inside a result. */
    struct sink_options options = options_of("rot.wav", "s16le");
    options.rotate_ns = 1234500;
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
    int count = recordings(names, 64);
    uint64_t next = 100, rotated = 1235;
    for (int i = 0; i < count; i++) {
        uint64_t frames = expect_frames(names[i], 0, next, 2.0);
        assert_true(i == count - 1 ? frames <= rotated : frames == rotated);
        json_t *root = sidecar_of(names[i]);
        assert_int_equal(integer(root, "capture_time_ns"), origin_ns + (int64_t)next * 1000);
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
    struct sink_options options = options_of("size.wav", "s24le");
    options.rotate_bytes = 10000;
    struct recording_writer *writer = writer_of(&options, NULL);
    put(writer, 0, 0, 10000);
    recording_writer_close(writer);
    char names[64][256];
    int count = recordings(names, 64);
    uint64_t next = 0;
    for (int i = 0; i < count; i++) {
        struct stat status;
        assert_int_equal(stat(path_of(names[i]), &status), 0);
        assert_true(status.st_size <= 10000 && (i == count - 1 || status.st_size > 10000 - 20));
        next += expect_frames(names[i], 0, next, 2.0);
    }
    assert_int_equal(next, 10000);
}

static void test_keep(void **state)
{
    (void)state;
    struct sink_options options = options_of("keep.wav", "s16le");
    options.rotate_ns = 1000 * 1000; /* 1000 frames */
    options.keep = 3;
    /* A stranger's file of a similar name stays. */
    FILE *other = fopen(path_of("keep-notes.wav"), "w");
    assert_non_null(other);
    fclose(other);
    struct recording_writer *writer = writer_of(&options, NULL);
    for (uint64_t frame = 0; frame < 7500; frame += 500) {
        put(writer, 0, frame, 500);
        assert_true(files_in_directory() <= 1 + 3 * 2);
    }
    recording_writer_close(writer);
    char names[16][256];
    assert_int_equal(recordings(names, 16), 4);
    expect_frames(names[0], 0, 5000, 2.0);
    assert_string_equal(names[3], "keep-notes.wav");
    /* A later run counts what an earlier one left. */
    writer = writer_of(&options, NULL);
    put(writer, 0, 8000, 1500);
    recording_writer_close(writer);
    assert_int_equal(recordings(names, 16), 4);
    expect_frames(names[0], 0, 7000, 2.0);
    expect_frames(names[1], 0, 8000, 2.0);
    assert_int_equal(files_in_directory(), 1 + 3 * 2);
}

static void test_never_overwritten(void **state)
{
    (void)state;
    struct sink_options options = options_of("once.wav", "s16le");
    for (int run = 0; run < 3; run++) {
        struct recording_writer *writer = writer_of(&options, NULL);
        put(writer, 0, (uint64_t)run * 10, 10);
        recording_writer_close(writer);
    }
    expect_frames("once.wav", 0, 0, 2.0);
    expect_frames("once-0002.wav", 0, 10, 2.0);
    expect_frames("once-0003.wav", 0, 20, 2.0);
}

/* frame = first_frame + index within every file, whatever happens to the stream. */
static void test_epochs_and_jumps(void **state)
{
    (void)state;
    struct sink_options options = options_of("epoch.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    put(writer, 0, 0, 100);
    put(writer, 0, 100, 100); /* follows */
    put(writer, 0, 250, 50);  /* 50 frames shed */
    put(writer, 1, 300, 10);  /* an epoch that happens to continue the count */
    put(writer, 2, 0, 10);
    struct result result = result_of(2, 10, 10);
    result.delay_frames = 7; /* another filter */
    recording_writer_put(writer, &result);
    result = result_of(2, 20, 10);
    result.delay_frames = 7;
    result.record = 5;
    recording_writer_put(writer, &result);
    recording_writer_close(writer);
    assert_int_equal(expect_frames("epoch.wav", 0, 0, 2.0), 200);
    assert_int_equal(expect_frames("epoch-0002.wav", 0, 250, 2.0), 50);
    assert_int_equal(expect_frames("epoch-0003.wav", 1, 300, 2.0), 10);
    assert_int_equal(expect_frames("epoch-0004.wav", 2, 0, 2.0), 10);
    assert_int_equal(expect_frames("epoch-0005.wav", 2, 10, 2.0), 10);
    assert_int_equal(expect_frames("epoch-0006.wav", 2, 20, 2.0), 10);
    assert_int_equal(files_in_directory(), 12);
}

static void expect_ranges(const json_t *root, const char *key, const struct invalid_range *expect,
                          size_t count)
{
    json_t *list = json_object_get(root, key);
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        json_t *range = json_array_get(list, i);
        assert_int_equal(integer(range, "from"), expect[i].from);
        assert_int_equal(integer(range, "until"), expect[i].until);
        assert_string_equal(json_string_value(json_object_get(range, "cause")),
                            invalid_cause_name(expect[i].cause));
    }
}

static void test_sidecar(void **state)
{
    (void)state;
    struct sink_options options = options_of("side.wav", "s16le");
    options.rotate_ns = 1000 * 1000;
    struct recording_writer *writer = writer_of(&options, NULL);
    /* One range over two results and two files; ranges that touch join; two causes overlap. */
    struct invalid_range first[] = {{600, 800, INVALID_SETTLING}, {650, 700, INVALID_NETWORK},
                                    {500, 600, INVALID_OVERLOAD}};
    struct invalid_range second[] = {{800, 1100, INVALID_SETTLING}, {1299, 1300, INVALID_NONFINITE}};
    struct result result = result_of(0, 600, 200);
    result.invalid = first;
    result.invalid_count = 3;
    recording_writer_put(writer, &result);
    result = result_of(0, 800, 1200);
    result.invalid = second;
    result.invalid_count = 2;
    result.clock_error_ns = 9000;
    ((float *)(uintptr_t)result.samples)[5] = 2.5f; /* beyond full scale */
    ((float *)(uintptr_t)result.samples)[6] = -2.5f;
    recording_writer_put(writer, &result);
    recording_writer_close(writer);

    char names[4][256];
    assert_int_equal(recordings(names, 4), 2);
    json_t *root = sidecar_of(names[0]);
    static const struct invalid_range in_first[] = {
        {600, 1100, INVALID_SETTLING}, {650, 700, INVALID_NETWORK}, {1299, 1300, INVALID_NONFINITE}};
    static const struct invalid_range missing[] = {{500, 600, INVALID_OVERLOAD}};
    expect_ranges(root, "invalid", in_first, 3);
    expect_ranges(root, "missing_before", missing, 1);
    assert_int_equal(integer(root, "frames"), 1000);
    assert_int_equal(integer(root, "first_frame"), 600);
    assert_int_equal(integer(root, "timeline_frame"), 600);
    assert_int_equal(integer(root, "saturated_samples"), 2);
    assert_int_equal(integer(root, "clock_error_ns"), 9000);
    assert_int_equal(integer(root, "capture_time_ns"), origin_ns + 600000);
    assert_int_equal(integer(root, "last_capture_time_ns"), origin_ns + 1599000);
    assert_true(json_is_true(json_object_get(root, "complete")));
    assert_true(json_is_true(json_object_get(root, "loss_detectable")));
    assert_true(json_is_false(json_object_get(root, "aligned")));
    assert_true(json_number_value(json_object_get(root, "delay_frames")) == 31.5);
    assert_true(json_number_value(json_object_get(root, "rate_hz")) == RATE);
    static const char *const texts[][2] = {
        {"file", NULL},        {"stream", "vessel"}, {"sink", "rec"},       {"content", "output"},
        {"clock", "receive"},  {"format", "s16le"},  {"version", CONVOLVD_VERSION},
        {"device", "cpu"},     {"driver", "1"},      {"config_hash", "bb"}, {"taps_hash", "aa"},
        {"capture_time", "2026-11-18T11:06:40.124056789Z"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(json_string_value(json_object_get(root, texts[i][0])),
                            texts[i][1] != NULL ? texts[i][1] : names[0]);
    json_t *channel = json_array_get(json_object_get(root, "channels"), 1);
    assert_string_equal(json_string_value(json_object_get(channel, "unit")), "mV");
    assert_true(json_number_value(json_object_get(channel, "full_scale")) == 2.0);
    json_decref(root);
    root = sidecar_of(names[1]);
    expect_ranges(root, "invalid", NULL, 0);
    expect_ranges(root, "missing_before", NULL, 0);
    json_decref(root);
}

/* Readable and true at every flush, not only at the end. */
static void test_flush(void **state)
{
    (void)state;
    struct sink_options options = options_of("flush.wav", "s16le");
    struct recording_writer *writer = writer_of(&options, NULL);
    for (uint64_t frame = 0; frame < 500; frame += 100) {
        put(writer, 0, frame, 100);
        recording_writer_flush(writer);
        assert_int_equal(expect_frames("flush.wav", 0, 0, 2.0), frame + 100);
        json_t *root = sidecar_of("flush.wav");
        assert_true(json_is_false(json_object_get(root, "complete")));
        json_decref(root);
    }
    recording_writer_close(writer);
}

static uint64_t simulated_free_bytes;

static uint64_t simulated_free(const char *where)
{
    assert_string_equal(where, directory);
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
    struct sink_options options = options_of("free.wav", "s16le");
    options.min_free_bytes = 16 << 20;
    struct writer_world world = {.free_bytes = simulated_free};
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    clock_replace(&clock);
    log_set_level((enum log_level)0);
    struct recording_writer *writer = writer_of(&options, &world);
    const struct writer_counts *counts = recording_writer_counts(writer);
    static const struct {
        uint64_t free_mib;
        bool paused;
    } steps[] = {{100, false}, {16, false}, {15, true}, {16, true}, {0, true}, {17, false}, {15, true}};
    uint64_t paused = 0;
    for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        simulated_free_bytes = steps[i].free_mib << 20;
        put(writer, 0, i * 100, 100);
        recording_writer_settle(writer);
        paused += steps[i].paused ? 100 : 0;
        if (counts->dropped[DROP_PAUSED] != paused || counts->delivered != (i + 1) * 100 - paused)
            fail_msg("step %u (%llu MiB free): %llu frames left out, want %llu", i,
                     (unsigned long long)steps[i].free_mib,
                     (unsigned long long)counts->dropped[DROP_PAUSED], (unsigned long long)paused);
    }
    recording_writer_close(writer);
    log_set_level(LOG_LEVEL_ERROR);
    clock_replace(NULL);
    assert_int_equal(expect_frames("free.wav", 0, 0, 2.0), 200);
    assert_int_equal(expect_frames("free-0002.wav", 0, 500, 2.0), 100);
    json_t *root = sidecar_of("free.wav"); /* whole, although the disk was nearly full */
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_decref(root);
}

static void test_grows_into_rf64(void **state)
{
    (void)state;
    struct sink_options options = options_of("grow.wav", "s16le");
    struct writer_world world = {.riff_bytes_max = 5000};
    struct recording_writer *writer = writer_of(&options, &world);
    for (uint64_t frame = 0; frame < 3000; frame += 300) {
        put(writer, 0, frame, 300);
        recording_writer_flush(writer);
        assert_int_equal(expect_frames("grow.wav", 0, 0, 2.0), frame + 300);
        FILE *file = fopen(path_of("grow.wav"), "r");
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
    static const struct channel_scale scales[CHANNELS] = {{.full_scale = 10, .unit = "V"},
                                                          {.full_scale = 1, .gain_db = 40, .unit = "mV"}};
    struct sink_options options = options_of("raw.wav", "f32le");
    options.raw = true;
    options.stream.input_format = (struct sample_format){SAMPLE_UNSIGNED, 2, 12, true, false};
    options.stream.input_channels = CHANNELS;
    options.stream.input_rate_hz = RATE;
    options.stream.input_scales = scales;
    struct recording_writer *writer = writer_of(&options, NULL);
    uint8_t wire[4096 * 2 * CHANNELS];
    for (unsigned i = 0; i < 4096 * CHANNELS; i++) {
        wire[2 * i] = (uint8_t)((i & 4095) >> 8);
        wire[2 * i + 1] = (uint8_t)i;
    }
    struct result result = {.flags = RESULT_RAW, .frames = 4096, .channels = CHANNELS, .raw = wire,
                            .rate_hz = RATE, .capture_ns = origin_ns};
    recording_writer_put(writer, &result);
    recording_writer_close(writer);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path_of("raw.wav"), SFM_READ, &info);
    assert_non_null(file);
    assert_int_equal(info.format, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    for (unsigned i = 0; i < 4096 * CHANNELS; i += CHANNELS) {
        short got[CHANNELS];
        assert_int_equal(sf_readf_short(file, got, 1), 1);
        for (unsigned c = 0; c < CHANNELS; c++)
            assert_int_equal(got[c], ((int)((i + c) & 4095) - 2048) * 16);
    }
    sf_close(file);
    json_t *root = sidecar_of("raw.wav");
    assert_string_equal(json_string_value(json_object_get(root, "content")), "input");
    json_t *channel = json_array_get(json_object_get(root, "channels"), 1);
    assert_true(json_number_value(json_object_get(channel, "gain_db")) == 40);
    json_decref(root);
}

static void test_check(void **state)
{
    (void)state;
    const struct sink_options good = options_of("x.wav", "s16le");
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
        struct sink_options options = good;
        options.container = table[i].container;
        assert_int_equal(sample_format_parse(table[i].format, &options.format), 0);
        options.stream.rate_hz = table[i].rate_hz;
        options.full_scale = table[i].full_scale;
        options.stream.channels = table[i].channels;
        options.rotate_ns = table[i].rotate_ns;
        options.rotate_bytes = table[i].rotate_bytes;
        assert_int_equal(recording_check(&options, &problem), ERROR_CONFIG);
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("row %zu: \"%s\" does not mention \"%s\"", i, problem.text, table[i].words);
    }
    struct recording_writer *writer;
    struct sink_options options = good;
    options.path = path_of("missing/x.wav");
    assert_int_equal(recording_writer_open(&options, NULL, &writer, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "mkdir -p"));
}

/* ---- the whole sink -------------------------------------------------------------------------- */

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
    if (sink_recording.open(options, &rig->loop, &rig->sink, &problem) != 0)
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
    struct sink_options options = options_of("sink.wav", "s16le");
    options.rotate_ns = 50 * NS_PER_MS;
    struct rig rig;
    open_sink(&rig, &options);
    uint64_t frame = 0;
    struct random_state random = {8};
    while (frame < 1000000) {
        uint32_t frames = 1 + random_below(&random, 50000);
        struct result result = result_of(0, frame, frames);
        assert_true(sink_recording.put(rig.sink, &result) > 0);
        struct sink_ledger ledger;
        sink_recording.ledger(rig.sink, &ledger);
        check_ledger(&ledger);
        assert_int_equal(ledger.dropped[DROP_QUEUE], 0); /* 64 MiB hold it all */
        frame += frames;
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    close_sink(&rig, in_10_s());
    assert_int_equal(rig.at_end.delivered, frame);
    assert_int_equal(rig.at_end.pending, 0);
    assert_int_equal(rig.at_end.bytes, frame * 4);
    char names[64][256];
    int count = recordings(names, 64);
    uint64_t next = 0;
    for (int i = 0; i < count; i++)
        next += expect_frames(names[i], 0, next, 2.0);
    assert_int_equal(next, frame);
}

/* A queue far too small for what comes at once: whole results are dropped, none silently. */
static void test_queue_overflow(void **state)
{
    (void)state;
    struct sink_options options = options_of("full.wav", "s16le");
    options.queue_bytes = 128 << 10;
    struct rig rig;
    open_sink(&rig, &options);
    const struct result all = result_of(0, 0, 300000); /* made before, so that all comes at once */
    for (uint64_t i = 0; i < 300; i++) {
        struct result result = all;
        result.first_frame = i * 1000;
        result.frames = 1000;
        result.samples = all.samples + i * 1000 * CHANNELS;
        sink_recording.put(rig.sink, &result);
        struct sink_ledger ledger;
        sink_recording.ledger(rig.sink, &ledger);
        check_ledger(&ledger);
    }
    close_sink(&rig, in_10_s());
    assert_true(rig.at_end.dropped[DROP_QUEUE] > 0);
    assert_true(rig.at_end.dropped[DROP_QUEUE] % 1000 == 0);
    assert_int_equal(rig.at_end.delivered + rig.at_end.dropped[DROP_QUEUE], 300000);
    char names[512][256];
    int count = recordings(names, 512);
    uint64_t frames = 0;
    for (int i = 0; i < count; i++) {
        json_t *root = sidecar_of(names[i]);
        frames += expect_frames(names[i], 0, (uint64_t)integer(root, "first_frame"), 2.0);
        json_decref(root);
    }
    assert_int_equal(frames, rig.at_end.delivered);
}

/* Who asks for room first never loses a frame, however small the queue and the pieces. */
static void test_back_pressure(void **state)
{
    (void)state;
    static const uint32_t pieces[] = {1, 64, 1000, 9000};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        struct sink_options options = options_of("wait.wav", "s16le");
        options.queue_bytes = 256 << 10;
        struct rig rig;
        open_sink(&rig, &options);
        uint64_t total = pieces[p] * 400ull, frame = 0;
        int64_t give_up_ns = in_10_s();
        while (frame < total && clock_monotonic_ns() < give_up_ns) {
            while (frame < total && sink_recording.room(rig.sink) >= pieces[p]) {
                struct result result = result_of(p, frame, pieces[p]);
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
        assert_int_equal(expect_frames("wait.wav", p, 0, 2.0), total);
        remove_files();
    }
}

static void test_close_without_put(void **state)
{
    (void)state;
    struct sink_options options = options_of("none.wav", "s16le");
    struct rig rig;
    open_sink(&rig, &options);
    close_sink(&rig, in_10_s());
    assert_int_equal(files_in_directory(), 0);
}

static void test_close_past_deadline(void **state)
{
    (void)state;
    struct sink_options options = options_of("late.wav", "s16le");
    struct rig rig;
    open_sink(&rig, &options);
    for (uint64_t i = 0; i < 20; i++) {
        struct result result = result_of(0, i * 100000, 100000);
        sink_recording.put(rig.sink, &result);
    }
    int64_t start_ns = clock_monotonic_ns();
    close_sink(&rig, start_ns - 1);
    assert_true(clock_monotonic_ns() - start_ns < 3 * NS_PER_SECOND);
    assert_int_equal(rig.at_end.pending, 0);
    assert_int_equal(rig.at_end.delivered + rig.at_end.dropped[DROP_STOPPED], 2000000);
    expect_frames("late.wav", 0, 0, 2.0);
}

/* kill -9 in the middle of writing: file and sidecar are whole up to a flush. */
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
            struct sink_options options = options_of(name, "s16le");
            options.container = containers[k];
            options.flush_ns = 10 * NS_PER_MS;
            struct rig rig;
            open_sink(&rig, &options);
            for (uint64_t frame = 0;; frame += 500) {
                struct result result = result_of(0, frame, 500);
                sink_recording.put(rig.sink, &result);
                usleep(300);
            }
        }
        char sidecar[128];
        snprintf(sidecar, sizeof sidecar, "%s/%s.json", directory, name);
        for (int i = 0; i < 2000 && access(sidecar, R_OK) != 0; i++)
            usleep(5000);
        usleep(60000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        uint64_t frames = expect_frames(name, 0, 0, 2.0);
        if (frames < 500)
            fail_msg("%s: %llu frames survived", name, (unsigned long long)frames);
        json_t *root = sidecar_of(name);
        assert_true(json_is_false(json_object_get(root, "complete")));
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_one_file, clean),
        cmocka_unit_test_teardown(test_rotation_is_gapless, clean),
        cmocka_unit_test_teardown(test_rotation_by_size, clean),
        cmocka_unit_test_teardown(test_keep, clean),
        cmocka_unit_test_teardown(test_never_overwritten, clean),
        cmocka_unit_test_teardown(test_epochs_and_jumps, clean),
        cmocka_unit_test_teardown(test_sidecar, clean),
        cmocka_unit_test_teardown(test_flush, clean),
        cmocka_unit_test_teardown(test_min_free, clean),
        cmocka_unit_test_teardown(test_grows_into_rf64, clean),
        cmocka_unit_test_teardown(test_raw, clean),
        cmocka_unit_test_teardown(test_check, clean),
        cmocka_unit_test_teardown(test_sink, clean),
        cmocka_unit_test_teardown(test_queue_overflow, clean),
        cmocka_unit_test_teardown(test_back_pressure, clean),
        cmocka_unit_test_teardown(test_close_without_put, clean),
        cmocka_unit_test_teardown(test_close_past_deadline, clean),
        cmocka_unit_test_teardown(test_kill, clean),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
