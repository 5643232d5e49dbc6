/* Databases: see database.h. */
#include "io/vallen/database.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUSY_MS = 1000, /* how long a statement waits for somebody who locks the file */
    BLOB_BYTES_MAX = 256 << 20,
    SQL_BYTES_MAX = 1 << 20,
};

int database_run(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL);
}

sqlite3_stmt *database_prepare(sqlite3 *db, const char *text, struct problem *problem)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK)
        problem_set(problem, ERROR_FORMAT, "%s", sqlite3_errmsg(db));
    return statement;
}

int database_step(sqlite3_stmt *statement)
{
    const int status = sqlite3_step(statement);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status == SQLITE_DONE || status == SQLITE_ROW ? SQLITE_OK : status;
}

void database_bind_code(sqlite3_stmt *statement, int index, double value, double unit)
{
    const double most = 9007199254740992.0; /* 2^53: integers up to it are exact in a double */
    const double code = rint(value / unit);
    if (isnan(code) || unit == 0.0)
        sqlite3_bind_null(statement, index);
    else
        sqlite3_bind_int64(statement, index, (int64_t)fmax(fmin(code, most), -most));
}

void database_bind_real(sqlite3_stmt *statement, int index, double value)
{
    if (isnan(value))
        sqlite3_bind_null(statement, index);
    else
        sqlite3_bind_double(statement, index, value);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Before WAL, no journal: nobody has to roll back a file that holds nothing yet. */
static const char *const write_pragmas = "PRAGMA page_size=8192;"
                                         "PRAGMA encoding='UTF-8';"
                                         "PRAGMA journal_mode=OFF;"
                                         "PRAGMA journal_mode=WAL;"
                                         "PRAGMA synchronous=NORMAL;"
                                         "PRAGMA journal_size_limit=16777216;"
                                         "PRAGMA cache_size=-1024;"
                                         "PRAGMA temp_store=MEMORY;";

int database_create(const char *path, sqlite3 **out, struct problem *problem)
{
    *out = NULL;
    int status = sqlite3_open_v2(
        path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (status == SQLITE_OK) {
        sqlite3_busy_timeout(*out, BUSY_MS);
        status = database_run(*out, write_pragmas);
    }
    if (status == SQLITE_OK)
        return 0;
    problem_set(problem, ERROR_SYSTEM, "%s cannot be written: %s", path,
                *out != NULL ? sqlite3_errmsg(*out) : sqlite3_errstr(status));
    sqlite3_close(*out);
    *out = NULL;
    return ERROR_SYSTEM;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The path as the URI that SQLite wants; false: too long. */
static bool file_uri(const char *path, bool immutable, char *uri, size_t bytes)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t used = (size_t)snprintf(uri, bytes, "file:%s", path[0] == '/' ? "//" : "");
    for (; *path != '\0'; path++) {
        if (used + 32 > bytes)
            return false;
        const unsigned char c = (unsigned char)*path;
        if (c == '%' || c == '?' || c == '#' || c < 0x20) {
            uri[used++] = '%';
            uri[used++] = hex[c >> 4];
            uri[used++] = hex[c & 15];
        } else {
            uri[used++] = (char)c;
        }
    }
    snprintf(uri + used, bytes - used, "?mode=ro%s", immutable ? "&immutable=1" : "");
    return true;
}

/* Whether somebody may be writing: then SQLite must look after locks and the log. */
static bool has_log(const char *path)
{
    static const char *const endings[] = {"-wal", "-journal"};
    char name[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        if (access(name, F_OK) == 0)
            return true;
    }
    return false;
}

/* Nothing in the file's schema can do anything. */
static void distrust(sqlite3 *db)
{
    static const struct {
        int limit, value;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, BLOB_BYTES_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX},
        {SQLITE_LIMIT_COLUMN, 256},
        {SQLITE_LIMIT_EXPR_DEPTH, 32},
        {SQLITE_LIMIT_COMPOUND_SELECT, 4},
        {SQLITE_LIMIT_VDBE_OP, 25000},
        {SQLITE_LIMIT_FUNCTION_ARG, 8},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 16},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        sqlite3_limit(db, limits[i].limit, limits[i].value);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    /* An mmap of a file that is cut off meanwhile would be a SIGBUS. */
    database_run(db, "PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;");
}

int database_open_untrusted(const char *path, sqlite3 **out, struct problem *problem)
{
    char uri[3 * PATH_MAX + 64];
    *out = NULL;
    if (access(path, R_OK) != 0)
        return problem_set(problem, ERROR_NO_FILE, "%s cannot be read: %s", path, strerror(errno));
    if (!file_uri(path, !has_log(path), uri, sizeof uri))
        return problem_set(problem, ERROR_NO_FILE, "the path %.60s… is too long", path);
    const int flags =
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int status = sqlite3_open_v2(uri, out, flags, NULL);
    if (status == SQLITE_OK) {
        sqlite3_busy_timeout(*out, BUSY_MS);
        distrust(*out);
        database_run(*out, "PRAGMA query_only=ON");
        return 0;
    }
    problem_set(problem, ERROR_NO_FILE, "%s cannot be read: %s", path,
                *out != NULL ? sqlite3_errmsg(*out) : sqlite3_errstr(status));
    sqlite3_close(*out);
    *out = NULL;
    return ERROR_NO_FILE;
}

int database_open_own(const char *path, sqlite3 **out)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int status = sqlite3_open_v2(path, out, flags, NULL);
    if (status != SQLITE_OK)
        return status;
    distrust(*out);
    return database_run(*out, "PRAGMA locking_mode=EXCLUSIVE");
}

int database_leave_log(sqlite3 *db)
{
    /* From WAL to DELETE, SQLite would put a journal beside the file until a byte of its header is
     * changed, and who may not write could not read the file of a writer killed in between. */
    return database_run(db, "PRAGMA journal_mode=MEMORY");
}

/* ---- tables of keys ---------------------------------------------------------------------- */

bool database_is_empty(sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    const char *const text = "SELECT 1 FROM sqlite_schema LIMIT 1";
    const bool empty =
        sqlite3_prepare_v2(db, text, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_DONE;
    sqlite3_finalize(s);
    return empty;
}

bool database_is_table(sqlite3 *db, const char *name)
{
    sqlite3_stmt *s = NULL;
    bool plain = false;
    const char *const text = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
                             " AND name = ? COLLATE NOCASE";
    if (sqlite3_prepare_v2(db, text, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        plain = sqlite3_step(s) == SQLITE_ROW;
    }
    sqlite3_finalize(s);
    return plain;
}

bool database_key(sqlite3 *db, const char *table, const char *key, char *text, size_t bytes)
{
    char sql[100];
    sqlite3_stmt *s = NULL;
    bool found = false;
    if (!database_is_table(db, table))
        return false;
    snprintf(sql, sizeof sql, "SELECT Value FROM %.40s WHERE Key = ?", table);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
        found = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_BLOB &&
                sqlite3_column_text(s, 0) != NULL;
        if (found)
            snprintf(text, bytes, "%s", (const char *)sqlite3_column_text(s, 0));
    }
    sqlite3_finalize(s);
    return found;
}
