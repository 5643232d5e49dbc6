/*
 * Reading .tradb files: epochs of adjoining records, channels beside each other, every code as it
 * was stored; and files that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "io/event_sinks.h"
#include "io/vallen/timeline.h"
#include "io/vallen/times.h"
#include "io/vallen/tradb.h"
#include "tests/support/scratch.h"
#include "tests/support/vallen_files.h"

/* ---- the timeline ------------------------------------------------------------------------ */

struct given {
    uint16_t channel;
    int64_t frame; /* of the trigger */
    int32_t lead;
    uint32_t frames;
};

static void add(struct timeline *t, const struct given *given, int64_t offset_ticks, int64_t row)
{
    const struct timeline_record record = {
        .row = row,
        .ticks = offset_ticks + vallen_rescale(given->frame, t->time_base, t->rate_hz),
        .lead = given->lead,
        .frames = given->frames,
        .channel = given->channel,
    };
    assert_int_equal(timeline_add(t, &record), 0);
}

static void test_epochs_of_adjoining_records(void **state)
{
    (void)state;
    static const struct given records[] = {
        {0, 110, 10, 100}, /* 100 … 200 */
        {1, 150, 0, 100},  /* 150 … 250 */
        {0, 200, 0, 50},   /* adjoins the first */
        {0, 260, 10, 20},  /* 250 … 270: adjoins that of channel 1 */
        {1, 300, 0, 10},   /* a gap before it: the next epoch */
        {0, 305, 3, 30},   /* 302 … 332 */
        {0, 330, 10, 20},  /* 320 … 340: 12 frames lie under the one before */
        {0, 325, 0, 5},    /* wholly under it */
    };
    static const int64_t rates[] = {500000, 1000000, 3000000, 10000000, 333333, 2000001};
    for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
        struct timeline t;
        timeline_open(&t, rates[r], 10000000);
        for (int i = 7; i >= 0; i--) /* in any order */
            add(&t, &records[i], 123457, i);
        assert_int_equal(timeline_build(&t), 0);
        assert_int_equal(t.epoch_count, 2);
        assert_int_equal(t.covered, 1);
        assert_int_equal(t.frames, 170 + 40);
        assert_int_equal(t.epochs[0].until, 170);
        assert_int_equal(t.epochs[1].from, 200);
        assert_int_equal(t.epochs[1].until, 240);
        assert_int_equal(t.samples, 100 + 100 + 50 + 20 + 10 + 30 + 8);
        assert_int_equal(t.first[1], 5);
        assert_int_equal(t.first[2], 7);
        const struct timeline_record *cut = &t.records[4];
        assert_int_equal(cut->row, 6);
        assert_int_equal(cut->lead, 12);
        assert_int_equal(cut->ticks, 232);
        assert_int_equal(timeline_settling(&t, 50), 50 + 40);
        timeline_close(&t);
    }
}

/* However rates and ticks fall, records that were one signal are one again. */
static void test_continuous_at_any_rate(void **state)
{
    (void)state;
    struct random_state random = {21};
    for (int run = 0; run < 300; run++) {
        const int64_t rate = 1 + random_below(&random, run % 2 == 0 ? 10000000 : 200000000);
        struct timeline t;
        timeline_open(&t, rate, 10000000);
        int64_t frame = random_below(&random, 1000000);
        uint64_t frames = 0;
        for (int i = 0; i < 200; i++) {
            const struct given record = {0, frame, 0, 1000 + random_below(&random, 1000)};
            add(&t, &record, 987654321, i);
            frame += record.frames;
            frames += record.frames;
        }
        assert_int_equal(timeline_build(&t), 0);
        assert_int_equal(t.epoch_count, 1);
        assert_int_equal(t.frames, frames);
        assert_int_equal(t.samples, frames);
        timeline_close(&t);
    }
}

static void test_values_beyond_any_file(void **state)
{
    (void)state;
    struct timeline t;
    timeline_open(&t, 4000000000, 1);
    static const struct timeline_record wrong[] = {
        {.ticks = INT64_MAX, .frames = 1},
        {.ticks = INT64_MIN, .frames = 1},
        {.ticks = 900000000, .frames = 1},
        {.frames = 0},
        {.frames = TIMELINE_SAMPLES_MAX + 1},
        {.frames = 1, .lead = INT32_MIN},
        {.frames = 1, .channel = TIMELINE_CHANNELS_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(timeline_add(&t, &wrong[i]), ERROR_ARGUMENT);
    assert_int_equal(timeline_build(&t), 0);
    assert_int_equal(t.frames, 0);
    timeline_close(&t);
}

/* ---- files ------------------------------------------------------------------------------- */

/* Writes hits 0 … count − 1 at these frames of one epoch. */
static const char *write_hits(const char *name, const uint64_t *frames, uint64_t count,
                              enum vallen_transients transients)
{
    struct vallen_world world;
    char path[64];
    snprintf(path, sizeof path, "%s.pridb", name);
    vallen_world(&world, scratch_path(path));
    world.own.transients = transients;
    struct event_sink *sink = vallen_world_open(&world);
    for (uint64_t i = 0; i < count; i++) {
        const struct analysis_event event = vallen_hit(i, 0, frames[i]);
        assert_int_equal(event_sink_vallen.put(sink, &event), 0);
    }
    event_sink_vallen.close(sink);
    snprintf(path, sizeof path, "%s.tradb", name);
    return scratch_path(path);
}

static struct tradb *open_file(const char *path, uint32_t channel)
{
    struct tradb *tradb;
    struct problem problem = {0};
    if (tradb_open(path, channel, &tradb, &problem) != 0)
        fail_msg("%s: %s", path, problem.text);
    return tradb;
}

/* What the live stream of three channels had at a frame: the hits' samples, else 0. */
static int16_t code_at(const uint64_t *frames, uint64_t count, uint64_t channel, int64_t frame)
{
    for (uint64_t i = 0; i < count; i++) {
        const int64_t at = frame - (int64_t)frames[i] + VALLEN_PRETRIGGER;
        if (i % VALLEN_CHANNELS == channel && at >= 0 && at < VALLEN_SAMPLES)
            return vallen_hit_code(i, (uint32_t)at);
    }
    return 0;
}

/* Reads all of it in chunks of random length and compares every sample and time. */
static void test_every_sample_and_time(void **state)
{
    (void)state;
    /* Hits 0 to 2 overlap on their channels, 3 follows 0 without a gap, 4 is alone. */
    static const uint64_t frames[] = {1000, 1100, 1250, 1300, 9000};
    enum { COUNT = 5, BEGIN = 1000 - VALLEN_PRETRIGGER };
    struct random_state random = {2};
    for (int transients = VALLEN_TRANSIENTS_RAW; transients <= VALLEN_TRANSIENTS_FLAC;
         transients++) {
        const char *path = write_hits(transients == VALLEN_TRANSIENTS_RAW ? "raw" : "flac", frames,
                                      COUNT, transients);
        struct tradb *tradb = open_file(path, 0);
        struct tradb_facts facts;
        tradb_facts(tradb, &facts);
        assert_int_equal(facts.channels, VALLEN_CHANNELS);
        assert_int_equal(facts.epochs, 2);
        assert_int_equal(facts.records, COUNT);
        assert_int_equal(facts.frames, 600 + 300);
        assert_true(facts.rate_hz == 1e6 && facts.dated && facts.format.bytes == 2);
        assert_int_equal(tradb_settling(tradb, 400), 400 + 300);
        struct channel_scale scales[VALLEN_CHANNELS];
        tradb_scales(tradb, scales);
        for (int c = 0; c < VALLEN_CHANNELS; c++)
            assert_true(scales[c].full_scale == 1.0 && strcmp(scales[c].unit, "V") == 0);
        int16_t chunk[VALLEN_CHANNELS * 64];
        uint32_t count, begins = 0, ends = 0;
        uint64_t total = 0;
        struct tradb_part part;
        while ((count = tradb_read(tradb, (uint8_t *)chunk, 1 + random_below(&random, 64), &part)) >
               0) {
            begins += part.begins;
            ends += part.ends;
            total += count;
            assert_true(part.invalid_from == part.invalid_until);
            assert_int_equal(part.capture_ns,
                             VALLEN_TEST_NS + (int64_t)(part.first_frame + BEGIN) * 1000);
            for (uint32_t i = 0; i < count * VALLEN_CHANNELS; i++)
                assert_int_equal(chunk[i],
                                 code_at(frames, COUNT, i % VALLEN_CHANNELS,
                                         (int64_t)part.first_frame + BEGIN + i / VALLEN_CHANNELS));
        }
        assert_int_equal(begins, 2);
        assert_int_equal(ends, 2);
        assert_int_equal(total, facts.frames);
        tradb_close(tradb);
    }
}

/* One channel alone: its records are epochs, whatever others did meanwhile. */
static void test_one_channel(void **state)
{
    (void)state;
    static const uint64_t frames[] = {1000, 1100, 1250, 1300, 9000};
    struct tradb *tradb = open_file(write_hits("one", frames, 5, VALLEN_TRANSIENTS_RAW), 2);
    struct tradb_facts facts;
    tradb_facts(tradb, &facts);
    assert_int_equal(facts.channels, 1);
    assert_int_equal(facts.epochs, 2);
    assert_int_equal(facts.frames, 600);
    assert_int_equal(facts.samples, 600);
    tradb_close(tradb);
}

/* ---- files that lie ---------------------------------------------------------------------- */

static void edit(const char *path, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *words; /* of the message */
    } table[] = {
        {"DROP VIEW view_tr_data; DROP TABLE tr_data;"
         "CREATE VIEW tr_data AS SELECT 1 AS SetID",
         "is no .tradb"},
        {"DELETE FROM tr_globalinfo WHERE Key = 'TimeBase'", "TimeBase"},
        {"UPDATE tr_globalinfo SET Value = '1e300' WHERE Key = 'TimeBase'", "TimeBase"},
        {"UPDATE tr_globalinfo SET Value = '-1' WHERE Key = 'TimeBase'", "TimeBase"},
        {"DELETE FROM tr_data", "no record"},
        {"UPDATE tr_data SET SampleRate = 0", "no record"},
        {"UPDATE tr_data SET SampleRate = 500000 WHERE TRAI = 2", "at 1000000 Hz and at 500000"},
        {"UPDATE tr_data SET SampleRate = 500000 WHERE TRAI = 2", "one `file channel`, if"},
        {"UPDATE tr_data SET Samples = Samples + 1", "no record"},
        {"UPDATE tr_data SET Samples = 1000000000", "no record"},
        {"UPDATE tr_data SET Time = 9223372036854775807", "no record"},
        {"UPDATE tr_data SET Data = NULL", "no record"},
        {"UPDATE tr_data SET Data = 'text'", "no record"},
        {"UPDATE tr_data SET DataFormat = 1", "no record"},
        {"UPDATE tr_data SET Chan = 0", "no record"},
        {"UPDATE tr_data SET Chan = 1025", "no record"},
        {"UPDATE tr_data SET ParamID = 99", "no record"},
        {"UPDATE tr_data SET Pretrigger = 1e15", "no record"},
        {"UPDATE tr_params SET TR_mV = -1", "no record"},
        {"UPDATE tr_params SET TR_mV = 9e999", "no record"},
        {"ALTER TABLE tr_data DROP COLUMN Pretrigger", NULL},
    };
    static const uint64_t frames[] = {1000, 2000};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct tradb *tradb = NULL;
        struct problem problem = {0};
        scratch_clear();
        const char *path = write_hits("lie", frames, 2, VALLEN_TRANSIENTS_RAW);
        if (table[i].words == NULL) /* the view names the column */
            edit(path, "DROP VIEW view_tr_data");
        edit(path, table[i].sql);
        if (tradb_open(path, 0, &tradb, &problem) == 0)
            fail_msg("opened after %s", table[i].sql);
        assert_null(tradb);
        if (table[i].words != NULL && strstr(problem.text, table[i].words) == NULL)
            fail_msg("%s: %s", table[i].sql, problem.text);
    }
}

/* A record that turns out damaged is flagged, and the others are played. */
static void test_damaged_record_is_invalid(void **state)
{
    (void)state;
    static const uint64_t frames[] = {1000, 1100, 1250};
    scratch_clear();
    const char *path = write_hits("hurt", frames, 3, VALLEN_TRANSIENTS_FLAC);
    edit(path, "UPDATE tr_data SET Data = substr(Data, 1, 60) || randomblob(length(Data) - 60)"
               " WHERE TRAI = 2");
    struct tradb *tradb = open_file(path, 0);
    int16_t codes[VALLEN_CHANNELS * 550];
    struct tradb_part part;
    assert_int_equal(tradb_read(tradb, (uint8_t *)codes, 550, &part), 550);
    assert_int_equal(part.invalid_from, 100);
    assert_int_equal(part.invalid_until, 400);
    for (uint32_t i = 0; i < 550; i++) {
        assert_int_equal(codes[3 * i], code_at(frames, 3, 0, 900 + i));
        assert_int_equal(codes[3 * i + 1], 0);
        assert_int_equal(codes[3 * i + 2], code_at(frames, 3, 2, 900 + i));
    }
    tradb_close(tradb);
}

/* A gain that changes within the file: floats, each record with its own scale. */
static void test_scale_that_changes(void **state)
{
    (void)state;
    static const uint64_t frames[] = {1000, 2000, 3000, 4000};
    scratch_clear();
    const char *path = write_hits("gain", frames, 4, VALLEN_TRANSIENTS_RAW);
    edit(path, "INSERT INTO tr_params SELECT 9, 2, Chan, \"ADC_\u00b5V\", TR_mV * 8 FROM tr_params"
               " WHERE ID = 2; UPDATE tr_data SET ParamID = 9 WHERE TRAI = 4");
    struct tradb *tradb = open_file(path, 0);
    struct tradb_facts facts;
    tradb_facts(tradb, &facts);
    assert_int_equal(facts.format.kind, SAMPLE_FLOAT);
    float values[VALLEN_CHANNELS * 300];
    struct tradb_part part;
    for (int epoch = 0; epoch < 4; epoch++) {
        assert_int_equal(tradb_read(tradb, (uint8_t *)values, 300, &part), 300);
        const int c = epoch % VALLEN_CHANNELS;
        for (uint32_t i = 0; i < 300; i++)
            assert_true(values[VALLEN_CHANNELS * i + c] ==
                        (float)vallen_hit_code((uint64_t)epoch, i) / 32768 * (epoch == 3 ? 8 : 1));
    }
    tradb_close(tradb);
}

int main(void)
{
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_of_adjoining_records),
        cmocka_unit_test(test_continuous_at_any_rate),
        cmocka_unit_test(test_values_beyond_any_file),
        cmocka_unit_test(test_every_sample_and_time),
        cmocka_unit_test(test_one_channel),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_damaged_record_is_invalid),
        cmocka_unit_test(test_scale_that_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
