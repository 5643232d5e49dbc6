/*
 * long: also, every point of every order of changes, in every container
 * turns: yes
 *
 * A kill or a power cut at any point of a recording's changes on the disk: what was flushed (kill)
 * or synced (power cut) is readable by libsndfile and described by its sidecar; after the next
 * start the header agrees with the length, and every frame that cannot be trusted is flagged.
 * Also: what a sidecar says after a disk error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/recording/container.h"
#include "io/recording/sidecar.h"
#include "io/recording/writer.h"
#include "tests/support/disk_log.h"
#include "tests/support/recording_files.h"
#include "tests/support/scratch.h"

enum { RESULTS = 9, RESULT_FRAMES = 1500 };

static int64_t simulated_ns;

static int64_t simulated_time(void)
{
    return simulated_ns += NS_PER_MS;
}

static struct recording_writer *writer_of(const struct sink_options *options)
{
    struct recording_writer *writer = NULL;
    struct problem problem = {0};
    if (recording_writer_open(options, NULL, &writer, &problem) != 0)
        fail_msg("open: %s", problem.text);
    return writer;
}

static void put(struct recording_writer *writer, uint64_t epoch, uint64_t first, uint32_t frames)
{
    struct result result = recording_result(epoch, first, frames);
    recording_writer_put(writer, &result);
}

static struct sink_options tight_options(const char *name, const char *format)
{
    disk_faults = (struct disk_faults){0};
    return recording_options(name, format);
}

/* ---- every point of an order of changes -------------------------------------------------- */

static const struct invalid_range gap = {2000, 2010, INVALID_NETWORK};

/* Frames the sidecar's `invalid` names with one of the causes of a repair; `flagged` has one byte
 * for each frame of the file. Counts what lies outside the file. */
static unsigned mark_flagged(const json_t *sidecar, uint64_t frames, uint8_t *flagged)
{
    unsigned outside = 0;
    size_t index;
    json_t *range, *first = json_object_get(sidecar, "first_frame");
    json_int_t begin = json_is_integer(first) ? json_integer_value(first) : 0;
    json_array_foreach(json_object_get(sidecar, "invalid"), index, range)
    {
        const char *cause = json_string_value(json_object_get(range, "cause"));
        if (strcmp(cause, "unflushed") != 0 && strcmp(cause, "unwritten") != 0)
            continue;
        for (json_int_t n = sidecar_integer(range, "from"); n < sidecar_integer(range, "until");
             n++) {
            if (n < begin || (uint64_t)(n - begin) >= frames)
                outside++;
            else
                flagged[n - begin] = 1;
        }
    }
    return outside;
}

static bool names_gap(const json_t *sidecar)
{
    size_t index;
    json_t *range;
    json_array_foreach(json_object_get(sidecar, "invalid"), index, range)
    {
        if (sidecar_integer(range, "from") == (json_int_t)gap.from &&
            sidecar_integer(range, "until") == (json_int_t)gap.until)
            return true;
    }
    return false;
}

/* As scratch_path, but the text lives until the next call: the options keep theirs. */
static const char *path_of(const char *name, const char *extension)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/%.255s%s", scratch_folder(), name, extension);
    return path;
}

static json_t *load_sidecar(const char *name)
{
    return json_load_file(path_of(name, ".json"), 0, NULL);
}

struct reading {
    bool readable;
    uint64_t frames; /* that libsndfile finds */
    uint64_t right;  /* of those, the ones before the first that differs */
    uint8_t wrong[RESULTS * RESULT_FRAMES];
};

static double wanted(uint64_t frame, unsigned channel)
{
    static double values[RESULTS * RESULT_FRAMES][RECORDING_CHANNELS];
    static bool known;
    for (uint64_t n = 0; !known && n < RESULTS * RESULT_FRAMES; n++) {
        for (unsigned c = 0; c < RECORDING_CHANNELS; c++)
            values[n][c] = (double)recording_value(0, n, c);
    }
    known = true;
    return values[frame][channel];
}

static struct reading *read_file(const char *name, uint64_t first)
{
    static struct reading reading;
    memset(&reading, 0, sizeof reading);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path_of(name, ""), SFM_READ, &info);
    if (file == NULL)
        return &reading;
    reading.readable = true;
    reading.frames = (uint64_t)info.frames;
    const double scale = (info.format & SF_FORMAT_SUBMASK) == SF_FORMAT_FLOAT ? 1.0 : 2.0;
    static double values[RESULTS * RESULT_FRAMES][RECORDING_CHANNELS];
    assert_true(reading.frames <= RESULTS * RESULT_FRAMES);
    const uint64_t got = (uint64_t)sf_readf_double(file, values[0], (sf_count_t)reading.frames);
    bool differed = false;
    for (uint64_t n = 0; n < reading.frames; n++) {
        bool good = n < got;
        for (unsigned c = 0; good && c < RECORDING_CHANNELS; c++)
            good = values[n][c] * scale == wanted(first + n, c);
        reading.wrong[n] = !good;
        differed |= !good;
        reading.right += !differed;
    }
    sf_close(file);
    return &reading;
}

static uint64_t frames_of(const char *text)
{
    if (text == NULL)
        return 0;
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    uint64_t frames = (uint64_t)sidecar_integer(root, "frames");
    json_decref(root);
    return frames;
}

/* Where a check stands, for messages. */
static struct {
    const char *row, *name;
    size_t count;
    enum disk_kept kept;
    const char *when;
} at;

#define expect(condition, text)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s: %s %s after %zu changes, kept %d: %s", at.row, at.name, at.when,         \
                     at.count, (int)at.kept, text);                                                \
    } while (0)

/* Before the repair: what was promised is there. */
static void check_torn(uint64_t promised, uint64_t first, bool may_lie)
{
    at.when = "as it is";
    json_t *sidecar = load_sidecar(at.name);
    const struct reading *reading = read_file(at.name, first);
    if (at.kept == DISK_ALL || at.kept == DISK_SYNCED) {
        if (promised > 0)
            expect(reading->readable, "libsndfile cannot read it");
        expect(reading->right >= promised, "frames that were flushed are missing or wrong");
        if (sidecar != NULL)
            expect((uint64_t)sidecar_integer(sidecar, "frames") <= reading->right,
                   "the sidecar counts frames that are not in the file");
    }
    if (!may_lie && sidecar != NULL && json_is_true(json_object_get(sidecar, "complete")))
        expect(reading->readable && reading->right == reading->frames &&
                   reading->frames == (uint64_t)sidecar_integer(sidecar, "frames"),
               "the sidecar says complete and the file is not");
    json_decref(sidecar);
}

/* After it: header, length and sidecar agree, and what may be wrong is flagged. `promised` frames
 * may not be; those that the sidecar did not count (`known`) must be. */
static void check_repaired(uint64_t promised, uint64_t known, uint64_t first)
{
    static uint8_t flagged[RESULTS * RESULT_FRAMES];
    at.when = "repaired";
    json_t *sidecar = load_sidecar(at.name);
    const struct reading *reading = read_file(at.name, first);
    if (sidecar == NULL) { /* no header and no sidecar: nothing was promised */
        expect(promised == 0, "a promised file was not repaired");
        return;
    }
    bool complete = json_is_true(json_object_get(sidecar, "complete"));
    if (!complete && !json_is_true(json_object_get(sidecar, "repaired"))) {
        expect(promised == 0, "a promised file was not repaired");
        json_decref(sidecar);
        return;
    }
    expect(reading->readable, "libsndfile cannot read it");
    expect(reading->frames == (uint64_t)sidecar_integer(sidecar, "frames"),
           "the sidecar counts other frames than the header");
    expect(reading->frames >= promised, "frames that were promised are gone");
    memset(flagged, 0, sizeof flagged);
    expect(mark_flagged(sidecar, reading->frames, flagged) == 0, "a range is not in the file");
    for (uint64_t n = 0; n < reading->frames; n++) {
        expect(!reading->wrong[n] || flagged[n], "a wrong frame is not flagged");
        expect(n < known || flagged[n], "a frame after the last flush is not flagged");
        expect(n >= promised || (!reading->wrong[n] && !flagged[n]), "a promised frame is flagged");
    }
    if (first <= gap.from && promised >= gap.until - first)
        expect(names_gap(sidecar), "the sidecar forgets a gap");
    json_decref(sidecar);
}

static char *text_of(const char *name)
{
    json_t *root = load_sidecar(name);
    char *text = root != NULL ? json_dumps(root, 0) : strdup("");
    json_decref(root);
    return text;
}

static bool is_complete(const char *name)
{
    json_t *sidecar = load_sidecar(name);
    bool complete = json_is_true(json_object_get(sidecar, "complete"));
    json_decref(sidecar);
    return complete;
}

/* One point: the state of the disk, then two starts of the daemon. */
static void check_point(const struct sink_options *options, uint64_t seed)
{
    /* Without a sync a power cut may leave the sidecar and take the samples. */
    const bool may_lie = recording_own(options)->sync_ns == SYNC_NEVER && at.kept >= DISK_NAMES;
    char names[16][256];
    scratch_clear();
    disk_log_replay(scratch_folder(), at.count, at.kept, seed);
    int files = recording_names(names, 16);
    uint64_t firsts[16], known[16];
    for (int i = 0; i < files; i++) {
        const char *all = disk_log_sidecar(names[i], disk_log_count(), false);
        json_t *root = all != NULL ? json_loads(all, 0, NULL) : NULL;
        firsts[i] = root != NULL ? (uint64_t)sidecar_integer(root, "first_frame") : 0;
        json_decref(root);
        at.name = names[i];
        json_t *sidecar = load_sidecar(names[i]);
        known[i] = sidecar != NULL ? (uint64_t)sidecar_integer(sidecar, "frames") : 0;
        json_decref(sidecar);
        check_torn(frames_of(disk_log_sidecar(names[i], at.count, at.kept != DISK_ALL)), firsts[i],
                   may_lie);
    }
    recording_writer_close(writer_of(options));
    for (int i = 0; i < files; i++) {
        at.name = names[i];
        if (may_lie && is_complete(names[i]))
            continue;
        check_repaired(frames_of(disk_log_sidecar(names[i], at.count, at.kept != DISK_ALL)),
                       known[i], firsts[i]);
        char *before = text_of(names[i]);
        recording_writer_close(writer_of(options));
        char *after = text_of(names[i]);
        at.when = "repaired twice";
        expect(strcmp(before, after) == 0, "the second start changes the sidecar");
        free(before);
        free(after);
    }
}

struct order {
    const char *row, *name, *container, *format;
    int64_t sync_ns, rotate_ns;
};

/* Records with a log of the changes. The simulated clock moves by 1 ms with each look at it. */
static void record(const struct sink_options *options)
{
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    clock_replace(&clock);
    disk_log_start();
    struct recording_writer *writer = writer_of(options);
    for (unsigned i = 0; i < RESULTS; i++) {
        struct result result = recording_result(0, i * RESULT_FRAMES, RESULT_FRAMES);
        result.invalid = &gap;
        result.invalid_count = i == 1 ? 1 : 0;
        recording_writer_put(writer, &result);
        if (i % 3 == 1)
            recording_writer_flush(writer);
        else
            recording_writer_drain(writer);
    }
    recording_writer_close(writer);
    disk_log_stop();
    clock_replace(NULL);
}

static void test_every_point(void **state)
{
    (void)state;
    static const struct order orders[] = {
        {"wav, synced", "a.wav", "wav", "s16le", 4 * NS_PER_MS, 0},
        {"wav, rotated", "b.wav", "wav", "s24le", SYNC_ROTATE, 8 * NS_PER_MS},
        {"w64, synced", "c.w64", "w64", "f32le", 4 * NS_PER_MS, 0},
        {"w64, never", "d.w64", "w64", "s16le", SYNC_NEVER, 0},
        {"rf64, rotated", "e.wav", "rf64", "f32le", 4 * NS_PER_MS, 8 * NS_PER_MS},
        {"wav, never", "f.wav", "wav", "f32le", SYNC_NEVER, 8 * NS_PER_MS},
    };
    const char *wanted = getenv("CONVOLVD_TEST_LONG");
    const bool all = wanted != NULL && *wanted != '\0';
    unsigned points = 0;
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        const struct order *order = &orders[o];
        scratch_clear();
        struct sink_options options = tight_options(order->name, order->format);
        recording_own(&options)->container = order->container;
        recording_own(&options)->sync_ns = order->sync_ns;
        recording_own(&options)->rotate_ns = order->rotate_ns;
        record(&options);
        at.row = order->row;
        for (size_t count = 0; count <= disk_log_count(); count++) {
            for (int kept = 0; kept < DISK_KEPT; kept++) {
                if (!all && (count + (size_t)kept + o) % 5 != 0)
                    continue;
                at.count = count;
                at.kept = (enum disk_kept)kept;
                for (uint64_t seed = 0; seed < (all && kept == DISK_PAGES ? 8 : 1);
                     seed++, points++)
                    check_point(&options, seed + count);
            }
        }
    }
    print_message("# %u points\n", points);
}

/* ---- other files ------------------------------------------------------------------------- */

/* A start repairs neither a file that another recording has open nor one that it did not write. */
static void test_what_a_repair_leaves_alone(void **state)
{
    (void)state;
    struct sink_options options = tight_options("live.wav", "s16le");
    scratch_write("live-0007.wav", "not a recording");
    struct recording_writer *writer = writer_of(&options);
    put(writer, 0, 0, 100);
    recording_writer_flush(writer);
    put(writer, 0, 100, 100);
    recording_writer_drain(writer);
    scratch_write("live.wav.json.4711.part", "{");
    char *before = text_of("live.wav");
    recording_writer_close(writer_of(&options));
    char *after = text_of("live.wav");
    assert_string_equal(before, after);
    assert_int_equal(access(scratch_path("live.wav.json.4711.part"), F_OK), 0);
    free(before);
    free(after);
    recording_writer_close(writer);
    assert_int_equal(expect_recorded("live.wav", 0, 0, 2.0), 200);
    recording_writer_close(writer_of(&options));
    assert_int_not_equal(access(scratch_path("live.wav.json.4711.part"), F_OK), 0);
    assert_int_not_equal(access(scratch_path("live-0007.wav.json"), F_OK), 0);
    struct stat status;
    assert_int_equal(stat(scratch_path("live-0007.wav"), &status), 0);
    assert_int_equal(status.st_size, strlen("not a recording"));
}

/* The padding of a closed file is not taken for a frame. */
static void test_padding_is_no_frame(void **state)
{
    (void)state;
    struct container_spec spec = {CONTAINER_WAV, 1000, 1, {SAMPLE_UNSIGNED, 1, 8, false, false}, 0};
    struct container_file file;
    struct problem problem;
    static const uint8_t samples[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint64_t frames = 0; frames < 8; frames++) {
        const char *path = scratch_path("pad.wav");
        assert_int_equal(container_create(&file, path, &spec, &problem), 0);
        assert_int_equal(container_append(&file, samples, frames), frames);
        int fd = dup(file.fd);
        assert_int_equal(container_close(&file, false), 0);
        uint64_t found = 99;
        assert_int_equal(container_repair(fd, &spec, &found), 0);
        assert_int_equal(found, frames);
        close(fd);
        unlink(path);
    }
}

/* ---- a disk that refuses ----------------------------------------------------------------- */

static void expect_missing(const json_t *root, size_t index, uint64_t from, uint64_t until,
                           const char *cause)
{
    json_t *range = json_array_get(json_object_get(root, "missing_before"), index);
    if (range == NULL)
        fail_msg("`missing_before` has no range %zu", index);
    assert_int_equal(sidecar_integer(range, "from"), from);
    assert_int_equal(sidecar_integer(range, "until"), until);
    assert_string_equal(json_string_value(json_object_get(range, "cause")), cause);
}

/* A full disk: the file that it ends is not complete, and the next one says which frames no file
 * holds. */
static void test_full_disk(void **state)
{
    (void)state;
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    clock_replace(&clock);
    log_set_level((enum log_level)0);
    struct sink_options options = tight_options("full.wav", "s16le");
    struct recording_writer *writer = writer_of(&options);
    const struct writer_counts *counts = recording_writer_counts(writer);
    disk_faults.room_bytes = 150 * 4; /* 150 frames */
    for (uint64_t frame = 0; frame < 500; frame += 100) {
        put(writer, 0, frame, 100);
        recording_writer_drain(writer);
    }
    assert_int_equal(counts->delivered, 150);
    assert_int_equal(counts->dropped[DROP_DISK], 350);
    /* Space again. A block shed by the stream, and one that the sink's queue dropped. */
    disk_faults.full = false;
    simulated_ns += 2 * NS_PER_SECOND;
    static const struct invalid_range shed = {600, 700, INVALID_OVERLOAD};
    struct result result = recording_result(0, 700, 100);
    result.invalid = &shed;
    result.invalid_count = 1;
    recording_writer_put(writer, &result);
    recording_writer_close(writer);
    log_set_level(LOG_LEVEL_ERROR);
    clock_replace(NULL);

    json_t *root = recording_sidecar("full.wav");
    assert_true(json_is_false(json_object_get(root, "complete")));
    assert_string_equal(json_string_value(json_object_get(root, "error")), strerror(ENOSPC));
    assert_int_equal(sidecar_integer(root, "frames"), 150);
    assert_int_equal(sidecar_integer(root, "last_capture_time_ns"), RECORDING_ORIGIN_NS + 149000);
    json_decref(root);
    assert_int_equal(expect_recorded("full.wav", 0, 0, 2.0), 150);
    root = recording_sidecar("full-0002.wav");
    assert_int_equal(json_array_size(json_object_get(root, "missing_before")), 3);
    expect_missing(root, 0, 150, 500, "disk");
    expect_missing(root, 1, 600, 700, "overload");
    expect_missing(root, 2, 500, 600, "queue");
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_decref(root);
    /* The next start finds the first file ended in order. */
    char *before = text_of("full.wav");
    recording_writer_close(writer_of(&options));
    char *after = text_of("full.wav");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* Records 500 frames onto a disk that is full after 150 of them. */
static struct recording_writer *fill_disk(const struct sink_options *options)
{
    struct recording_writer *writer = writer_of(options);
    put(writer, 0, 0, 100);
    recording_writer_flush(writer);
    disk_faults.room_bytes = 50 * 4;
    for (uint64_t frame = 100; frame < 500; frame += 100) {
        put(writer, 0, frame, 100);
        simulated_ns += 2 * NS_PER_SECOND; /* it tries to begin another file */
        recording_writer_flush(writer);
    }
    return writer;
}

/* True: the sidecar says that a full disk ended the file after 150 frames. */
static bool says_full(const char *name)
{
    json_t *root = recording_sidecar(name);
    const char *error = json_string_value(json_object_get(root, "error")),
               *ended = json_string_value(json_object_get(root, "ended"));
    const bool says = error != NULL && strcmp(error, strerror(ENOSPC)) == 0 && ended != NULL &&
                      strcmp(ended, "disk") == 0 && sidecar_integer(root, "frames") == 150 &&
                      json_is_false(json_object_get(root, "complete"));
    json_decref(root);
    return says;
}

static void expect_missing_after(const char *name)
{
    json_t *root = recording_sidecar(name), *after = json_object_get(root, "missing_after");
    json_t *range = json_array_get(after, 0);
    assert_int_equal(json_array_size(after), 1);
    assert_int_equal(sidecar_integer(range, "from"), 150);
    assert_int_equal(sidecar_integer(range, "until"), 500);
    assert_string_equal(json_string_value(json_object_get(range, "cause")), "disk");
    json_decref(root);
}

/* Error, end and range of a full disk are in the sidecar at once, as an open file holds space for
 * that; where the file system cannot hold any, as soon as there is space again; else after the next
 * start. */
static void test_sidecar_of_a_full_disk(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool no_reserve, space_again;
    } table[] = {
        {"reserve.wav", false, false},
        {"later.wav", true, true},
        {"next-start.wav", true, false},
    };
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    log_set_level((enum log_level)0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        clock_replace(&clock);
        struct sink_options options = tight_options(table[i].name, "s16le");
        disk_faults.no_reserve = table[i].no_reserve;
        struct recording_writer *writer = fill_disk(&options);
        assert_int_equal(says_full(table[i].name), !table[i].no_reserve);
        assert_int_equal(recording_writer_dirty(writer), table[i].no_reserve);
        if (table[i].space_again) {
            disk_faults.full = false;
            recording_writer_flush(writer);
            assert_true(says_full(table[i].name));
            assert_false(recording_writer_dirty(writer));
        }
        recording_writer_end(writer, REASON_END);
        recording_writer_close(writer);
        clock_replace(NULL);
        disk_faults = (struct disk_faults){0};
        if (!table[i].no_reserve || table[i].space_again) {
            assert_true(says_full(table[i].name));
            expect_missing_after(table[i].name);
        }
        recording_writer_close(writer_of(&options));
        json_t *root = recording_sidecar(table[i].name);
        assert_int_equal(sidecar_integer(root, "frames"), 150);
        json_decref(root);
        assert_int_equal(expect_recorded(table[i].name, 0, 0, 2.0), 150);
    }
    log_set_level(LOG_LEVEL_ERROR);
}

/* A disk that is mounted again read-only and later writable: header and sidecar count all frames
 * then. */
static void test_read_only_for_a_while(void **state)
{
    (void)state;
    log_set_level((enum log_level)0);
    struct sink_options options = tight_options("read-only.wav", "s16le");
    struct recording_writer *writer = writer_of(&options);
    put(writer, 0, 0, 100);
    recording_writer_flush(writer); /* header and sidecar count 100 frames */
    put(writer, 0, 100, 50);
    recording_writer_drain(writer);
    disk_faults.read_only = true;
    put(writer, 0, 150, 100);
    recording_writer_flush(writer);
    assert_true(recording_writer_dirty(writer));
    json_t *root = recording_sidecar("read-only.wav");
    assert_int_equal(sidecar_integer(root, "frames"), 100);
    json_decref(root);
    disk_faults.read_only = false;
    recording_writer_flush(writer);
    assert_false(recording_writer_dirty(writer));
    root = recording_sidecar("read-only.wav");
    assert_int_equal(sidecar_integer(root, "frames"), 150);
    assert_string_equal(json_string_value(json_object_get(root, "error")), strerror(EROFS));
    assert_string_equal(json_string_value(json_object_get(root, "ended")), "disk");
    json_decref(root);
    assert_int_equal(expect_recorded("read-only.wav", 0, 0, 2.0), 150);
    recording_writer_end(writer, REASON_END);
    recording_writer_close(writer);
    log_set_level(LOG_LEVEL_ERROR);
}

/* What another writer of the same files finds to repair: nothing that one of them still owes. */
static void expect_nothing_to_repair(const struct sink_options *options)
{
    struct recording_writer *other = writer_of(options);
    assert_false(recording_writer_dirty(other));
    recording_writer_close(other);
}

/* A repair that the full disk does not take is completed while the sink runs. */
static void test_repair_on_a_full_disk(void **state)
{
    (void)state;
    log_set_level((enum log_level)0);
    struct sink_options options = tight_options("owed.wav", "s16le");
    disk_faults.no_reserve = true;
    struct recording_writer *writer = fill_disk(&options);
    expect_nothing_to_repair(&options);
    recording_writer_close(writer); /* the sidecar stays behind its file */
    writer = writer_of(&options);
    assert_true(recording_writer_dirty(writer));
    expect_nothing_to_repair(&options);
    disk_faults.full = false;
    recording_writer_flush(writer);
    assert_false(recording_writer_dirty(writer));
    json_t *root = recording_sidecar("owed.wav");
    assert_true(json_is_true(json_object_get(root, "repaired")));
    assert_int_equal(sidecar_integer(root, "frames"), 150);
    json_decref(root);
    recording_writer_close(writer);
    log_set_level(LOG_LEVEL_ERROR);
}

/* More losses than a sidecar lists: ranges are joined, none is left out. */
static void test_many_losses(void **state)
{
    (void)state;
    struct sidecar_losses losses = {0};
    for (uint64_t i = 0; i < 1000; i++)
        sidecar_lose(&losses, &(struct sidecar_missing){i / 500, i * 10, i * 10 + 5,
                                                        i % 2 != 0 ? "disk" : "paused"});
    assert_int_equal(losses.count, SIDECAR_MISSING_MAX);
    for (uint64_t i = 0; i < 1000; i++) {
        bool told = false;
        for (uint32_t r = 0; r < losses.count; r++) {
            const struct sidecar_missing *range = &losses.ranges[r];
            told |= range->epoch == i / 500 && range->from <= i * 10 && range->until >= i * 10 + 5;
        }
        if (!told)
            fail_msg("range %llu is in no entry", (unsigned long long)i);
    }
}

static void test_sync(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t sync_ns;
        bool fails;
        unsigned syncs, files; /* of three results, each flushed a second after the one before */
        uint64_t synced;       /* frames, of the first file */
    } table[] = {
        {"never.wav", SYNC_NEVER, false, 0, 1, 0},
        {"rotate.wav", SYNC_ROTATE, false, 1, 1, 300},
        {"often.wav", NS_PER_SECOND / 2, false, 4, 1, 300},
        {"rarely.wav", 1500 * NS_PER_MS, false, 2, 1, 300},
        {"failed-end.wav", SYNC_ROTATE, true, 1, 1, 0},
        {"failed.wav", NS_PER_SECOND / 2, true, 3, 3, 0},
    };
    struct clock_functions clock = {.monotonic_ns = simulated_time, .realtime_ns = simulated_time};
    log_set_level((enum log_level)0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        clock_replace(&clock);
        struct sink_options options = tight_options(table[i].name, "s16le");
        recording_own(&options)->sync_ns = table[i].sync_ns;
        struct recording_writer *writer = writer_of(&options);
        disk_faults.sync_fails = table[i].fails;
        for (uint64_t frame = 0; frame < 300; frame += 100) {
            put(writer, 0, frame, 100);
            simulated_ns += NS_PER_SECOND;
            recording_writer_flush(writer);
        }
        uint64_t files = recording_writer_counts(writer)->files;
        recording_writer_close(writer);
        clock_replace(NULL);
        json_t *root = recording_sidecar(table[i].name);
        if (disk_faults.syncs != table[i].syncs || files != table[i].files ||
            json_is_true(json_object_get(root, "complete")) == table[i].fails ||
            (uint64_t)sidecar_integer(root, "synced_frames") != table[i].synced)
            fail_msg("%s: %u syncs, %s", table[i].name, disk_faults.syncs, text_of(table[i].name));
        json_decref(root);
    }
    disk_faults = (struct disk_faults){0};
    log_set_level(LOG_LEVEL_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_every_point, recording_clean),
        cmocka_unit_test_teardown(test_what_a_repair_leaves_alone, recording_clean),
        cmocka_unit_test_teardown(test_padding_is_no_frame, recording_clean),
        cmocka_unit_test_teardown(test_full_disk, recording_clean),
        cmocka_unit_test_teardown(test_sidecar_of_a_full_disk, recording_clean),
        cmocka_unit_test_teardown(test_read_only_for_a_while, recording_clean),
        cmocka_unit_test_teardown(test_repair_on_a_full_disk, recording_clean),
        cmocka_unit_test_teardown(test_many_losses, recording_clean),
        cmocka_unit_test_teardown(test_sync, recording_clean),
    };
    return cmocka_run_group_tests(tests, recording_set_up, NULL);
}
