/*
 * The sink `vallen`: what its files hold of hits, intervals, marks and parameters, in which order,
 * and what becomes of them when a disk is full, somebody reads them, or the process is killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "core/random.h"
#include "io/event_sinks.h"
#include "io/vallen/transient.h"
#include "tests/support/scratch.h"
#include "tests/support/vallen_files.h"

static const struct event_sink_ops *const ops = &event_sink_vallen;

static void put(struct event_sink *sink, uint64_t number, uint64_t epoch, uint64_t frame)
{
    const struct analysis_event event = vallen_hit(number, epoch, frame);
    assert_int_equal(ops->put(sink, &event), 0);
}

static bool exists(const char *name)
{
    return access(scratch_path(name), F_OK) == 0;
}

/* ---- contents ---------------------------------------------------------------------------- */

static void test_a_hit(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("a.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    put(sink, 1, 0, 0);   /* channel 2, V */
    put(sink, 2, 0, 500); /* channel 3, mV */
    ops->close(sink);

    const char *pri = scratch_path("a.pridb"), *tra = scratch_path("a.tradb"),
               *trf = scratch_path("a.trfdb");
    static const struct {
        const char *column;
        double first, second, step; /* as the view gives them; step: half a code */
    } table[] = {
        {"Time", 0.25, 0.2505, 1e-9}, {"Chan", 2, 3, 0},        {"Status", 0, 0, 0},
        {"Thr", 100, 100, 7.7},       {"Amp", 1001, 1002, 7.7}, {"RiseT", 20.5, 20.5, 1e-9},
        {"Dur", 150, 150, 0.0501}, /* 1500.5 ticks are 1500 to even */
        {"Eny", 1001, 1002, 0.005},   {"SS", 51, 52, 0.002},    {"RMS", 300, 300, 0.051},
        {"Counts", 8, 9, 0},          {"TRAI", 1, 2, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char sql[200];
        for (int hit = 0; hit < 2; hit++) {
            snprintf(
                sql, sizeof sql,
                "SELECT %s FROM view_ae_data WHERE SetType = 2 ORDER BY SetID LIMIT 1 OFFSET %d",
                table[i].column, hit);
            const double value = vallen_number(pri, sql);
            const double expect = hit == 0 ? table[i].first : table[i].second;
            if (!(fabs(value - expect) <= table[i].step))
                fail_msg("%s of hit %d: %.12g, not %.12g", table[i].column, hit, value, expect);
        }
    }
    assert_int_equal(vallen_number(pri, "SELECT Dur FROM ae_data WHERE TRAI = 1"), 1500);
    assert_true(isnan(vallen_number(pri, "SELECT CHits FROM ae_data WHERE TRAI = 1")));

    /* The tables of scales fit together. */
    assert_float_equal(vallen_number(pri, "SELECT \"ADC_\u00b5V\" * 2 FROM ae_params WHERE ID = 3"),
                       1e6 / 32768, 1e-9);
    assert_float_equal(
        vallen_number(pri, "SELECT ADC_SS / \"ADC_\u00b5V\" FROM ae_params WHERE Chan = 2"),
        2e-6 / 1e7 / 1e-9, 1e-15);
    assert_int_equal(vallen_number(pri, "SELECT sum(\"ADC_\u00b5V\") FROM ae_params WHERE ID = 1"),
                     0);
    assert_true(vallen_number(tra, "SELECT TR_mV FROM tr_params WHERE Chan = 3") == 1000.0 / 32768);

    /* Transients: every code. */
    int16_t codes[VALLEN_SAMPLES];
    for (uint64_t hit = 1; hit <= 2; hit++) {
        char sql[80];
        snprintf(sql, sizeof sql, "SELECT Data FROM tr_data WHERE TRAI = %d", (int)hit);
        assert_int_equal(vallen_codes(tra, sql, codes, VALLEN_SAMPLES), VALLEN_SAMPLES);
        for (uint32_t i = 0; i < VALLEN_SAMPLES; i++)
            assert_int_equal(codes[i], vallen_hit_code(hit, i));
    }
    assert_string_equal(
        vallen_text(tra, "SELECT printf('%d %d %d %d %d %d %d %d', Status, ParamID, Chan,"
                         " Pretrigger, SampleRate, Samples, DataFormat, Time) FROM tr_data"
                         " WHERE TRAI = 2"),
        "32768 4 3 100 1000000 300 0 2505000");

    /* Features: the exact doubles, in volts, NULL where undefined. */
    assert_true(vallen_number(trf, "SELECT kurtosis FROM trf_data WHERE TRAI = 1") == 1.0 / 3);
    assert_true(vallen_number(trf, "SELECT partial_2 FROM trf_data WHERE TRAI = 1") == 0.5);
    assert_true(isnan(vallen_number(trf, "SELECT average_khz FROM trf_data WHERE TRAI = 1")));
    assert_true(fabs(vallen_number(trf, "SELECT amplitude FROM trf_data WHERE TRAI = 2") -
                     0.001002) < 1e-12);
    assert_true(vallen_number(trf, "SELECT frame FROM trf_data WHERE TRAI = 2") == 500);
    assert_string_equal(vallen_text(trf, "SELECT Unit FROM trf_fieldinfo WHERE field = 'rms'"),
                        "[V]");
}

static void test_what_files_say_of_themselves(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("s.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    put(sink, 0, 0, 0);
    ops->close(sink);
    static const struct {
        const char *file, *table;
    } files[] = {{"s.pridb", "ae"}, {"s.tradb", "tr"}, {"s.trfdb", "trf"}};
    static const struct {
        const char *key, *value;
    } keys[] = {
        {"Version", "1"},
        {"FileStatus", "0"},
        {"WriterID", "convolvd " CONVOLVD_VERSION},
        {"convolvd.version", CONVOLVD_VERSION},
        {"convolvd.taps_hash", "0123abcd"},
        {"convolvd.preamp_db", "34, 34, 0"},
        {"convolvd.full_scale", "1, 1, 1000"},
        {"convolvd.units", "V, V, mV"},
        {"convolvd.analysis.threshold", "40 dB"},
        {"convolvd.analysis.hdt", "200 us"},
    };
    char sql[200], guid[80];
    for (size_t f = 0; f < 3; f++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            snprintf(sql, sizeof sql, "SELECT Value FROM %s_globalinfo WHERE Key = '%s'",
                     files[f].table, keys[k].key);
            assert_string_equal(vallen_text(scratch_path(files[f].file), sql), keys[k].value);
        }
    }
    snprintf(guid, sizeof guid, "%s",
             vallen_text(scratch_path("s.pridb"),
                         "SELECT Value FROM ae_globalinfo WHERE Key = 'FileID'"));
    assert_int_equal(strlen(guid), 38);
    assert_string_equal(vallen_text(scratch_path("s.tradb"),
                                    "SELECT Value FROM tr_globalinfo WHERE Key = 'ReferenceID'"),
                        guid);
    assert_string_equal(vallen_text(scratch_path("s.pridb"),
                                    "SELECT Value FROM ae_globalinfo WHERE Key = 'ValidSets'"),
                        "6"); /* section, resume, date, zone, hit, suspend */
    assert_string_equal(vallen_text(scratch_path("s.pridb"),
                                    "SELECT group_concat(SetType || ':' || Data, '|')"
                                    " FROM view_ae_markers WHERE SetID < 6"),
                        "6:rig|4:22:13 Resume|5:2023-11-14 22:13:20|4:TimeZone: +00:00 (UTC)");
}

static void test_flags_become_status(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("f.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    struct analysis_event event = vallen_hit(0, 0, 0);
    event.flags = ANALYSIS_TIMEOUT | ANALYSIS_SATURATED | ANALYSIS_PULSE | ANALYSIS_AFTER_TIMEOUT |
                  ANALYSIS_CUT | ANALYSIS_EDGE;
    assert_int_equal(ops->put(sink, &event), 0);
    ops->close(sink);
    assert_int_equal(
        vallen_number(scratch_path("f.pridb"), "SELECT Status FROM ae_data WHERE SetType = 2"),
        1 + 16 + 64 + 256);
    assert_int_equal(vallen_number(scratch_path("f.trfdb"), "SELECT flags FROM trf_data"),
                     event.flags);
}

static void test_flac_and_none(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("c.pridb"));
    world.own.transients = VALLEN_TRANSIENTS_FLAC;
    struct event_sink *sink = vallen_world_open(&world);
    put(sink, 1, 0, 0);
    ops->close(sink);
    assert_int_equal(vallen_number(scratch_path("c.tradb"), "SELECT DataFormat FROM tr_data"),
                     VALLEN_FLAC);
    int16_t bytes[VALLEN_SAMPLES], codes[VALLEN_SAMPLES];
    const uint32_t count = vallen_codes(scratch_path("c.tradb"),
                                        "SELECT Data || x'00' FROM tr_data", bytes, VALLEN_SAMPLES);
    assert_in_range(count, 20, VALLEN_SAMPLES);
    const double length =
        vallen_number(scratch_path("c.tradb"), "SELECT length(Data) FROM tr_data");
    assert_int_equal(
        vallen_decode(VALLEN_FLAC, (const uint8_t *)bytes, (size_t)length, VALLEN_SAMPLES, codes),
        0);
    for (uint32_t i = 0; i < VALLEN_SAMPLES; i++)
        assert_int_equal(codes[i], vallen_hit_code(1, i));

    vallen_world(&world, scratch_path("n.pridb"));
    world.own.transients = VALLEN_TRANSIENTS_NONE;
    sink = vallen_world_open(&world);
    put(sink, 1, 0, 0);
    ops->close(sink);
    assert_false(exists("n.tradb"));
    assert_int_equal(vallen_number(scratch_path("n.trfdb"), "SELECT count(*) FROM trf_data"), 1);
}

static void test_clipped_samples_are_counted(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("k.pridb"));
    world.own.range_v = 0.5;
    struct event_sink *sink = vallen_world_open(&world);
    uint64_t expect = 0;
    for (uint32_t i = 0; i < VALLEN_SAMPLES; i++) {
        const int code = 2 * vallen_hit_code(0, i);
        expect += code > 32767 || code < -32768;
    }
    assert_true(expect > 0);
    put(sink, 0, 0, 0);
    struct event_sink_ledger ledger = {0};
    ops->ledger(sink, &ledger);
    assert_int_equal(ledger.clipped, expect);
    ops->close(sink);
    assert_int_equal(
        vallen_number(scratch_path("k.tradb"), "SELECT TR_mV * 32768 FROM tr_params WHERE ID = 2"),
        500);
}

static void test_intervals_are_status_sets(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world_intervals(&world, scratch_path("i.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    const struct interval body = {
        .rms = 2e-3, .energy_eu = 500, .strength_nvs = 20, .threshold = 1e-4};
    const struct analysis_event event = {.kind = ANALYSIS_INTERVAL,
                                         .ordered = true,
                                         .channel = 1,
                                         .arrival_ns = VALLEN_TEST_NS,
                                         .body = &body,
                                         .body_bytes = sizeof body};
    assert_int_equal(ops->put(sink, &event), 0);
    ops->close(sink);
    assert_false(exists("i.tradb") || exists("i.trfdb"));
    assert_string_equal(
        vallen_text(scratch_path("i.pridb"),
                    "SELECT printf('%d %d %d %.0f %.0f %.0f', SetType, Chan, Status, RMS, Eny, SS)"
                    " FROM view_ae_data WHERE SetType = 3"),
        "3 2 4 2000 500 20");
}

static void test_parameters_when_they_change(void **state)
{
    (void)state;
    static const char *const names[] = {"load", "pressure"};
    struct vallen_world world;
    vallen_world(&world, scratch_path("p.pridb"));
    world.analysis.parameters = names;
    world.analysis.parameter_count = 2;
    struct event_sink *sink = vallen_world_open(&world);
    const double values[][2] = {{12.5, NAN}, {12.5, NAN}, {12.5, 3}, {12.5, 3}, {13, 3}};
    for (uint64_t i = 0; i < 5; i++) {
        struct analysis_event event = vallen_hit(i, 0, i * 10);
        memcpy(event.parameters, values[i], sizeof values[i]);
        event.parameter_count = 2;
        assert_int_equal(ops->put(sink, &event), 0);
    }
    ops->close(sink);
    assert_string_equal(
        vallen_text(scratch_path("p.pridb"),
                    "SELECT group_concat(SetType || coalesce('=' || PA0, '') ||"
                    " coalesce(',' || PA1, ''), ' ') FROM view_ae_data WHERE SetType < 4"),
        "1=12.5 2 2 1=12.5,3.0 2 2 1=13.0,3.0 2");
    assert_string_equal(vallen_text(scratch_path("p.pridb"), "SELECT Value FROM ae_globalinfo"
                                                             " WHERE Key = 'convolvd.parameters'"),
                        "load, pressure");
}

/* ---- order ------------------------------------------------------------------------------- */

static int falls(const char *path, const char *table, const char *order)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM (SELECT Time - lag(Time) OVER (ORDER BY %s) AS step FROM %s)"
             " WHERE step < 0",
             order, table);
    return (int)vallen_number(path, sql);
}

/* Records that begin before the last event, by the wall clock, as after it was set back. */
static void test_time_never_falls(void **state)
{
    (void)state;
    struct random_state random = {3};
    struct vallen_world world;
    vallen_world(&world, scratch_path("o.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    uint64_t number = 0;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        uint64_t frame = 0;
        const int64_t shift_ns =
            (int64_t)random_below(&random, 2000000000) * (epoch % 3 == 1 ? -30 : 1);
        for (int i = 0; i < 20; i++) {
            frame += random_below(&random, 1000);
            struct analysis_event event = vallen_hit(number++, epoch, frame);
            event.arrival_ns += shift_ns;
            assert_int_equal(ops->put(sink, &event), 0);
        }
    }
    ops->close(sink);
    assert_int_equal(falls(scratch_path("o.pridb"), "ae_data", "SetID"), 0);
    assert_int_equal(falls(scratch_path("o.tradb"), "tr_data", "TRAI"), 0);
    /* The clock that stepped stands beside it: more date-time sets than the first. */
    assert_true(vallen_number(scratch_path("o.pridb"),
                              "SELECT count(*) FROM ae_data WHERE SetType = 5") > 3);
}

static struct sink_mark mark_at(uint64_t epoch, uint64_t frame, const char *text)
{
    struct sink_mark mark = {.epoch = epoch,
                             .frame = frame,
                             .realtime_ns = VALLEN_TEST_NS + (int64_t)frame * 1000 + 5000000};
    snprintf(mark.text, sizeof mark.text, "%s", text);
    snprintf(mark.who, sizeof mark.who, "anna");
    return mark;
}

/* A mark comes before the hits of its time are released, and stands between them all the same. */
static void test_marks_stand_in_order(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("m.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    const struct sink_mark marks[] = {mark_at(0, 300, "late"), mark_at(0, 150, "pump on"),
                                      mark_at(2, 10, "next"), mark_at(2, 9000, "end")};
    for (int i = 0; i < 4; i++)
        assert_int_equal(ops->mark(sink, &marks[i]), 0);
    for (uint64_t i = 0; i < 5; i++)
        put(sink, i, 0, i * 100);
    put(sink, 5, 2, 20);
    ops->close(sink);
    const char *path = scratch_path("m.pridb");
    assert_int_equal(falls(path, "ae_data", "SetID"), 0);
    /* 2500000 ticks are the first hit, 10 a frame; label 5 is the suspension. */
    assert_string_equal(
        vallen_text(path, "SELECT group_concat(coalesce(m.Number || m.Data, '-'), ' ') FROM ae_data"
                          " d LEFT JOIN ae_markers m USING (SetID) WHERE d.SetID BETWEEN 5 AND 14"),
        "- - 3pump on (anna) - 4late (anna) - - 5next (anna) - 6end (anna)");
    assert_int_equal(vallen_number(path, "SELECT Time FROM view_ae_markers WHERE Number = 3") * 1e7,
                     2501500);
}

/* ---- readers, kills, disks --------------------------------------------------------------- */

/* Who reads while the sink writes sees all that was flushed, and never a hit without its
 * transient. */
static void test_read_while_written(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("r.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    const char *path = scratch_path("r.pridb");
    sqlite3 *db;
    char sql[PATH_MAX + 40];
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    snprintf(sql, sizeof sql, "ATTACH '%s' AS t", scratch_path("r.tradb"));
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    for (int round = 1; round <= 5; round++) {
        for (uint64_t i = 0; i < 10; i++)
            put(sink, (uint64_t)round * 10 + i, 0, (uint64_t)round * 1000 + i);
        assert_int_equal(vallen_number(path, "SELECT count(*) FROM ae_data WHERE SetType = 2"),
                         10 * (round - 1));
        ops->flush(sink);
        sqlite3_stmt *statement;
        sqlite3_prepare_v2(db,
                           "SELECT count(*), count(t.TRAI) FROM ae_data d"
                           " LEFT JOIN t.tr_data t ON t.TRAI = d.TRAI WHERE SetType = 2",
                           -1, &statement, NULL);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(statement, 0), 10 * round);
        assert_int_equal(sqlite3_column_int(statement, 1), 10 * round);
        sqlite3_finalize(statement);
        assert_string_equal(
            vallen_text(path, "SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'"), "2");
    }
    sqlite3_close(db);
    ops->close(sink);
    assert_false(exists("r.pridb-wal") || exists("r.tradb-wal") || exists("r.trfdb-wal"));
    assert_string_equal(vallen_text(path, "PRAGMA journal_mode"), "delete");
    assert_string_equal(
        vallen_text(path, "SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'"), "0");
}

static char commits[16];

static int note_commit(void *context)
{
    const char *name = sqlite3_db_filename(context, NULL), *dot = strrchr(name, '.');
    const size_t used = strlen(commits);
    if (used + 1 < sizeof commits)
        commits[used] = dot[1] == 'p' ? 'p' : dot[3] == 'a' ? 'a' : 'f';
    return 0;
}

static int watch_commits(sqlite3 *db, char **message, const void *routines)
{
    (void)message;
    (void)routines;
    sqlite3_commit_hook(db, note_commit, db);
    return SQLITE_OK;
}

/* The .tradb, the .trfdb, and then the .pridb that refers to them. */
static void test_commit_order(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("order.pridb"));
    sqlite3_auto_extension((void (*)(void))watch_commits);
    struct event_sink *sink = vallen_world_open(&world);
    memset(commits, 0, sizeof commits);
    put(sink, 0, 0, 0);
    ops->flush(sink);
    assert_string_equal(commits, "afp");
    sqlite3_cancel_auto_extension((void (*)(void))watch_commits);
    ops->close(sink);
}

/* A reader that does not go away keeps the log, and nothing else. */
static void test_closed_while_read(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("w.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    sqlite3 *db;
    put(sink, 0, 0, 0);
    ops->flush(sink);
    assert_int_equal(sqlite3_open_v2(scratch_path("w.pridb"), &db, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT * FROM ae_data", NULL, NULL, NULL), SQLITE_OK);
    ops->close(sink);
    sqlite3_close(db);
    assert_string_equal(vallen_text(scratch_path("w.pridb"),
                                    "SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'"),
                        "0");
}

/* Killed at any moment, the files hold what was flushed, whole. */
static void test_killed(void **state)
{
    (void)state;
    struct random_state random = {9};
    for (int run = 0; run < 12; run++) {
        const uint64_t flushed = 1 + random_below(&random, 40), more = random_below(&random, 40);
        char name[32];
        snprintf(name, sizeof name, "kill%d.pridb", run);
        const pid_t child = fork();
        if (child == 0) {
            struct vallen_world world;
            vallen_world(&world, scratch_path(name));
            struct event_sink *sink = vallen_world_open(&world);
            for (uint64_t i = 0; i < flushed + more; i++) {
                const struct analysis_event event = vallen_hit(i, 0, i * 10);
                ops->put(sink, &event);
                if (i == flushed - 1)
                    ops->flush(sink);
            }
            raise(SIGKILL);
        }
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        const char *path = scratch_path(name);
        assert_string_equal(vallen_text(path, "PRAGMA integrity_check"), "ok");
        assert_int_equal(vallen_number(path, "SELECT count(*) FROM ae_data WHERE SetType = 2"),
                         flushed);
        assert_int_equal(vallen_number(path, "SELECT Value FROM ae_globalinfo WHERE Key = 'TRAI'"),
                         flushed);
        assert_string_equal(
            vallen_text(path, "SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'"), "2");
    }
}

/* What exists is never touched: all three files get the next number. */
static void test_nothing_is_overwritten(void **state)
{
    (void)state;
    scratch_clear();
    scratch_write("x.trfdb", "somebody's");
    struct vallen_world world;
    for (int i = 0; i < 3; i++) {
        vallen_world(&world, scratch_path("x.pridb"));
        struct event_sink *sink = vallen_world_open(&world);
        put(sink, 0, 0, 0);
        ops->close(sink);
    }
    assert_false(exists("x.pridb"));
    assert_true(exists("x-0002.pridb") && exists("x-0002.tradb") && exists("x-0004.trfdb"));
    /* A log that was left belongs to another file. */
    scratch_write("y.tradb-wal", "");
    vallen_world(&world, scratch_path("y.pridb"));
    ops->close(vallen_world_open(&world));
    assert_true(exists("y-0002.pridb"));
    /* Without a single event a file still says when it was open. */
    assert_int_equal(
        vallen_number(scratch_path("y-0002.pridb"), "SELECT count(*) FROM view_ae_markers"), 5);
}

/* A full disk costs events, each counted; afterwards it goes on. */
static void test_disk_full(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("d.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 400000, .rlim_max = before.rlim_max};
    uint64_t refused = 0, number = 0;
    for (int phase = 0; phase < 3; phase++) {
        setrlimit(RLIMIT_FSIZE, phase == 1 ? &small : &before);
        for (int i = 0; i < 1000; i++, number++) {
            const struct analysis_event event = vallen_hit(number, 0, number * 10);
            refused += ops->put(sink, &event) != 0;
            if (i % 50 == 49)
                ops->flush(sink);
        }
    }
    struct event_sink_ledger ledger = {0};
    ops->ledger(sink, &ledger);
    ops->close(sink);
    const uint64_t lost = refused + ledger.lost;
    assert_in_range(lost, 500, 1000);
    const char *path = scratch_path("d.pridb");
    assert_string_equal(vallen_text(path, "PRAGMA integrity_check"), "ok");
    assert_int_equal(vallen_number(path, "SELECT count(*) FROM ae_data WHERE SetType = 2"),
                     3000 - lost);
    assert_int_equal(falls(path, "ae_data", "SetID"), 0);
    assert_int_equal(vallen_number(path, "SELECT count(*) FROM ae_data WHERE SetType = 6"), 1);
}

/* Days of hits take no more memory than their first minutes, and a log of bounded size. */
static void test_memory_does_not_grow(void **state)
{
    (void)state;
    struct vallen_world world;
    vallen_world(&world, scratch_path("mem.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    const int64_t before = sqlite3_memory_used();
    for (uint64_t i = 0; i < 20000; i++) {
        put(sink, i, i / 1000, i % 1000 * 10);
        if (i % 200 == 199)
            ops->flush(sink);
    }
    struct stat log;
    struct event_sink_ledger ledger = {0};
    assert_int_equal(stat(scratch_path("mem.tradb-wal"), &log), 0);
    assert_true(log.st_size < 20 << 20);
    ops->ledger(sink, &ledger);
    assert_int_equal(ledger.files, 3);
    assert_true(ledger.bytes > 20000 * 2 * VALLEN_SAMPLES);
    assert_true(sqlite3_memory_used() - before < 4 << 20); /* three caches of 1 MiB */
    ops->close(sink);
}

int main(void)
{
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hit),
        cmocka_unit_test(test_what_files_say_of_themselves),
        cmocka_unit_test(test_flags_become_status),
        cmocka_unit_test(test_flac_and_none),
        cmocka_unit_test(test_clipped_samples_are_counted),
        cmocka_unit_test(test_intervals_are_status_sets),
        cmocka_unit_test(test_parameters_when_they_change),
        cmocka_unit_test(test_time_never_falls),
        cmocka_unit_test(test_marks_stand_in_order),
        cmocka_unit_test(test_read_while_written),
        cmocka_unit_test(test_commit_order),
        cmocka_unit_test(test_closed_while_read),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_nothing_is_overwritten),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_memory_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
