/*
 * Files that a killed writer has left: the next one that writes beside them finishes them, once,
 * and touches nothing that somebody has open or that is not its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "io/event_sinks.h"
#include "io/vallen/names.h"
#include "io/vallen/repair.h"
#include "tests/support/scratch.h"
#include "tests/support/vallen_files.h"

static const struct event_sink_ops *const ops = &event_sink_vallen;
static const char *const statuses[] = {"SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'",
                                       "SELECT Value FROM tr_globalinfo WHERE Key = 'FileStatus'",
                                       "SELECT Value FROM trf_globalinfo WHERE Key = 'FileStatus'"};

/* The path of a file, for longer than scratch_path. */
static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(name));
    return path;
}

static bool exists(const char *name)
{
    return access(scratch_path(name), F_OK) == 0;
}

static void put(struct event_sink *sink, uint64_t hits)
{
    for (uint64_t i = 0; i < hits; i++) {
        const struct analysis_event event = vallen_hit(i, 0, i * 10);
        assert_int_equal(ops->put(sink, &event), 0);
    }
    ops->flush(sink);
}

/* A process writes so many hits, commits them, and is killed. */
static void write_and_die(const char *name, uint64_t hits, enum vallen_transients transients)
{
    const pid_t child = fork();
    if (child == 0) {
        struct vallen_world world;
        vallen_world(&world, scratch_path(name));
        world.own.transients = transients;
        put(vallen_world_open(&world), hits);
        raise(SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_closed(const char *path)
{
    assert_string_equal(vallen_text(path, statuses[0]), "0");
    assert_string_equal(vallen_text(path, "PRAGMA journal_mode"), "delete");
    assert_string_equal(vallen_text(path, "PRAGMA integrity_check"), "ok");
}

static void test_all_that_was_committed(void **state)
{
    (void)state;
    static const struct {
        uint64_t hits;
        enum vallen_transients transients;
        int sets; /* of the .pridb, once repaired */
    } table[] = {
        {0, VALLEN_TRANSIENTS_RAW, 0}, /* no section was begun, so none ends */
        {1, VALLEN_TRANSIENTS_RAW, 6}, /* four that open, a hit, the label */
        {30, VALLEN_TRANSIENTS_FLAC, 35},
        {30, VALLEN_TRANSIENTS_NONE, 35},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        scratch_clear();
        write_and_die("a.pridb", table[i].hits, table[i].transients);
        const char *pri = path_of("a.pridb");
        assert_string_equal(vallen_text(pri, statuses[0]), "2");
        for (int again = 0; again < 2; again++) {
            vallen_repair("archive", pri);
            assert_closed(pri);
            assert_int_equal(vallen_number(pri, "SELECT count(*) FROM ae_data"), table[i].sets);
            assert_int_equal(
                vallen_number(pri, "SELECT Value FROM ae_globalinfo WHERE Key = 'ValidSets'"),
                table[i].sets);
        }
        assert_int_equal(vallen_number(pri, "SELECT count(*) FROM ae_data WHERE SetType = 2"),
                         table[i].hits);
        assert_int_equal(vallen_number(pri, "SELECT Value FROM ae_globalinfo WHERE Key = 'TRAI'"),
                         table[i].hits);
        assert_int_equal(vallen_number(pri, "SELECT count(*) FROM ae_globalinfo WHERE"
                                            " Key = 'convolvd.repaired' AND Value > '2020'"),
                         1);
        assert_false(exists("a.pridb-wal") || exists("a.trfdb-wal") || exists("a.tradb-wal"));
        assert_string_equal(vallen_text(scratch_path("a.trfdb"), statuses[2]), "0");
        if (table[i].transients != VALLEN_TRANSIENTS_NONE) {
            assert_string_equal(vallen_text(scratch_path("a.tradb"), statuses[1]), "0");
            assert_int_equal(vallen_number(scratch_path("a.tradb"), "SELECT count(*) FROM tr_data"),
                             table[i].hits);
        }
        if (table[i].sets == 0)
            continue;
        assert_string_equal(
            vallen_text(pri, "SELECT Number || ' ' || Data FROM view_ae_markers WHERE SetType = 4"
                             " ORDER BY SetID DESC LIMIT 1"),
            "3 Suspend (repaired)");
        assert_int_equal(vallen_number(pri, "SELECT count(*) FROM ae_data a JOIN ae_data b"
                                            " ON b.SetID = a.SetID + 1 WHERE b.Time < a.Time"),
                         0);
    }
}

/* The sink that begins beside them does it, and takes the next number. */
static void test_the_next_sink_repairs(void **state)
{
    (void)state;
    scratch_clear();
    write_and_die("b.pridb", 5, VALLEN_TRANSIENTS_RAW);
    write_and_die("b.pridb", 5, VALLEN_TRANSIENTS_RAW); /* repairs the first, writes b-0002 */
    assert_closed(scratch_path("b.pridb"));
    assert_string_equal(vallen_text(scratch_path("b-0002.pridb"), statuses[0]), "2");
    struct vallen_world world;
    vallen_world(&world, scratch_path("b"));
    ops->close(vallen_world_open(&world));
    assert_closed(scratch_path("b-0002.pridb"));
    assert_true(exists("b-0003.pridb"));
}

/* A file that is open, by its writer or a reader, in this process or another, stays as it is. */
static void test_what_is_open_is_left_alone(void **state)
{
    (void)state;
    scratch_clear();
    struct vallen_world world;
    vallen_world(&world, scratch_path("c.pridb"));
    struct event_sink *sink = vallen_world_open(&world);
    const char *pri = path_of("c.pridb");
    put(sink, 3);
    vallen_repair("archive", pri);
    assert_string_equal(vallen_text(pri, statuses[0]), "2");
    assert_string_equal(vallen_text(pri, "PRAGMA journal_mode"), "wal");
    const pid_t child = fork();
    if (child == 0) {
        vallen_repair("archive", pri);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_string_equal(vallen_text(pri, statuses[0]), "2");
    put(sink, 3);
    ops->close(sink);
    assert_closed(pri);
    assert_int_equal(vallen_number(pri, "SELECT count(*) FROM ae_data WHERE SetType = 2"), 6);

    write_and_die("d.pridb", 3, VALLEN_TRANSIENTS_RAW);
    pri = path_of("d.pridb");
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(pri, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT * FROM ae_data", NULL, NULL, NULL), SQLITE_OK);
    vallen_repair("archive", pri);
    assert_string_equal(vallen_text(pri, statuses[0]), "2");
    sqlite3_close(db);
    vallen_repair("archive", pri);
    assert_closed(pri);
}

static void run(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* A writer killed before its first transaction leaves no log and no index beside an empty file. */
static void test_empty_files_leave_their_log(void **state)
{
    (void)state;
    scratch_clear();
    const char *pri = path_of("f.pridb");
    const pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        sqlite3_open(pri, &db);
        sqlite3_exec(db, "PRAGMA journal_mode=WAL; SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    assert_true(exists("f.pridb-wal") && exists("f.pridb-shm"));
    vallen_repair("archive", pri);
    assert_false(exists("f.pridb-wal") || exists("f.pridb-shm"));
    assert_string_equal(vallen_text(pri, "PRAGMA journal_mode"), "delete");
}

/* A writer killed within its very first write. The header is SQLite's 100 bytes and the 8 of the
 * first page. */
static void test_a_file_cut_off_in_its_header_is_left_alone(void **state)
{
    (void)state;
    static const off_t cuts[] = {1, 23, 24, 100, 101, 105, 107};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        scratch_clear();
        const char *pri = path_of("g.pridb");
        run(pri, "PRAGMA journal_mode=WAL");
        assert_int_equal(truncate(pri, cuts[i]), 0);
        vallen_repair("archive", pri);
        struct stat left;
        assert_int_equal(stat(pri, &left), 0);
        assert_int_equal(left.st_size, cuts[i]);
        assert_false(exists("g.pridb-wal") || exists("g.pridb-shm"));
    }
}

/* Others' files of such a name, and what is no database. */
static void test_what_is_not_ours_is_left_alone(void **state)
{
    (void)state;
    scratch_clear();
    write_and_die("e.pridb", 3, VALLEN_TRANSIENTS_RAW);
    const char *pri = path_of("e.pridb");
    run(pri, "UPDATE ae_globalinfo SET Value = 'AMSY-6' WHERE Key = 'WriterID'");
    scratch_write("e-0002.pridb", "no database, but longer than the header of one has to be: "
                                  "one hundred bytes, which these words are");
    scratch_write("e-0003.pridb", "");
    write_and_die("e-copy.pridb", 3, VALLEN_TRANSIENTS_NONE);
    vallen_repair("archive", pri);
    assert_string_equal(vallen_text(pri, statuses[0]), "2");
    assert_string_equal(vallen_text(scratch_path("e-copy.pridb"), statuses[0]), "2");
    assert_string_equal(vallen_text(scratch_path("e.tradb"), statuses[1]), "0");
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *path, *name;
        int file; /* -1: none */
    } table[] = {
        {"/x/vessel.pridb", "vessel.pridb", VALLEN_PRIDB},
        {"/x/vessel.pridb", "vessel.tradb", VALLEN_TRADB},
        {"/x/vessel", "vessel-0002.trfdb", VALLEN_TRFDB},
        {"vessel", "vessel-100000.pridb", VALLEN_PRIDB},
        {"vessel", "vessel-002.pridb", -1},
        {"vessel", "vessel-00a2.pridb", -1},
        {"vessel", "vessel-0002x.pridb", -1},
        {"vessel", "vessel-old.pridb", -1},
        {"vessel", "vessel2.pridb", -1},
        {"vessel", "vesse.pridb", -1},
        {"vessel", "vessel.pridb-wal", -1},
        {"vessel", "vessel", -1},
        {"v.1", "v.pridb", -1},
        {"v.1", "v.1.pridb", VALLEN_PRIDB},
        {"/x/", "vessel.pridb", -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        enum vallen_file file = VALLEN_FILES;
        const bool match = vallen_names_match(table[i].path, table[i].name, &file);
        if (match != (table[i].file >= 0) || (match && (int)file != table[i].file))
            fail_msg("%s of %s", table[i].name, table[i].path);
    }
}

int main(void)
{
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    scratch_folder(); /* before a child makes one of its own */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_was_committed),
        cmocka_unit_test(test_the_next_sink_repairs),
        cmocka_unit_test(test_what_is_open_is_left_alone),
        cmocka_unit_test(test_empty_files_leave_their_log),
        cmocka_unit_test(test_a_file_cut_off_in_its_header_is_left_alone),
        cmocka_unit_test(test_what_is_not_ours_is_left_alone),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
