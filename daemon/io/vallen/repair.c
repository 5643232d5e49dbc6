/* Repair: see repair.h. */
#include "io/vallen/repair.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "io/vallen/database.h"
#include "io/vallen/names.h"
#include "io/vallen/schema.h"

enum { DATE_BYTES = 40, TABLE_BYTES = 32, VALUE_BYTES = 64, PRIMARY_CODE = 0xff };
enum { HEADER_BYTES = 100 + 8 }; /* SQLite's header and that of the first page */

/* What a repair does to each kind of file, behind FileStatus. */
static const char *const repairs[VALLEN_FILES] = {
    [VALLEN_PRIDB] =
        "INSERT INTO ae_markers SELECT SetID + 1,"
        " (SELECT count(*) + 1 FROM ae_data WHERE SetType = 4), 'Suspend (repaired)'"
        " FROM ae_data ORDER BY SetID DESC LIMIT 1;"
        "INSERT INTO ae_data (SetID, SetType, Time)"
        " SELECT SetID + 1, 4, Time FROM ae_data ORDER BY SetID DESC LIMIT 1;"
        "UPDATE ae_globalinfo SET Value = (SELECT CAST(ifnull(max(SetID), 0) AS TEXT) FROM ae_data)"
        " WHERE Key = 'ValidSets';"
        "UPDATE ae_globalinfo SET Value = (SELECT CAST(ifnull(max(TRAI), 0) AS TEXT) FROM ae_data)"
        " WHERE Key = 'TRAI';",
    [VALLEN_TRADB] =
        "UPDATE tr_globalinfo SET Value = (SELECT CAST(ifnull(max(SetID), 0) AS TEXT) FROM tr_data)"
        " WHERE Key = 'ValidSets';"
        "UPDATE tr_globalinfo SET Value = (SELECT CAST(ifnull(max(TRAI), 0) AS TEXT) FROM tr_data)"
        " WHERE Key = 'TRAI';",
    [VALLEN_TRFDB] = "UPDATE trf_globalinfo SET Value = (SELECT CAST(ifnull(max(TRAI), 0) AS TEXT) "
                     "FROM trf_data)"
                     " WHERE Key = 'ValidSets';",
};

/* Whether a key of the file has a value that begins with these words. */
static bool says(sqlite3 *db, enum vallen_file file, const char *key, const char *words)
{
    char table[TABLE_BYTES], value[VALUE_BYTES] = "";
    snprintf(table, sizeof table, "%s_globalinfo", vallen_prefix(file));
    return database_key(db, table, key, value, sizeof value) &&
           strncmp(value, words, strlen(words)) == 0;
}

/* In a transaction. Returns SQLite's result code. */
static int finish(sqlite3 *db, enum vallen_file file)
{
    const char *const prefix = vallen_prefix(file);
    char date[DATE_BYTES];
    const time_t now = time(NULL);
    struct tm utc = {0};
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &utc);
    int status = database_run(db, "BEGIN");
    if (status == SQLITE_OK)
        status = vallen_schema_info(db, prefix, "FileStatus", "0");
    if (status == SQLITE_OK)
        status = vallen_schema_info(db, prefix, "convolvd.repaired", date);
    if (status == SQLITE_OK)
        status = database_run(db, repairs[file]);
    return status == SQLITE_OK ? database_run(db, "COMMIT") : status;
}

/* SQLite makes it anew for each log, and leaves that of a killed process where it is. */
static void remove_index(const char *path)
{
    char name[2 * PATH_MAX + 8];
    snprintf(name, sizeof name, "%s-shm", path);
    unlink(name);
}

/* Returns SQLite's result code; *repaired: it was unfinished, and is no more. */
static int repair(sqlite3 *db, const char *path, enum vallen_file file, bool *repaired)
{
    int status = database_run(db, "SELECT 1 FROM sqlite_schema");
    if (status != SQLITE_OK || (!says(db, file, "WriterID", "convolvd ") && !database_is_empty(db)))
        return status;
    if (says(db, file, "FileStatus", "2")) {
        status = finish(db, file);
        *repaired = status == SQLITE_OK;
    }
    if (status == SQLITE_OK)
        status = database_leave_log(db);
    if (status == SQLITE_OK)
        remove_index(path); /* nobody else has the file open */
    return status;
}

/* SQLite reads the bytes that such a file lacks as zeros, and would write them. */
static bool ends_in_its_header(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && file.st_size > 0 && file.st_size < HEADER_BYTES;
}

static void repair_file(const char *sink, const char *path, enum vallen_file file)
{
    if (ends_in_its_header(path)) {
        log_info("sink %s: %s is too short to be a database; it is left alone", sink, path);
        return;
    }
    sqlite3 *db;
    bool repaired = false;
    int status = database_open_own(path, &db);
    if (status == SQLITE_OK)
        status = repair(db, path, file, &repaired);
    if ((status & PRIMARY_CODE) == SQLITE_BUSY)
        log_info("sink %s: somebody has %s open; it is left alone", sink, path);
    else if (status != SQLITE_OK && (status & PRIMARY_CODE) != SQLITE_NOTADB)
        log_warning("sink %s: %s of an earlier run cannot be repaired: %s", sink, path,
                    sqlite3_errstr(status));
    else if (repaired)
        log_notice("sink %s: %s was not finished by an earlier run and is repaired: it holds what "
                   "was committed",
                   sink, path);
    sqlite3_close(db);
}

void vallen_repair(const char *sink, const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX], name[2 * PATH_MAX];
    enum vallen_file file;
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 2,
             slash != NULL ? path : "./");
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!vallen_names_match(path, entry->d_name, &file))
            continue;
        snprintf(name, sizeof name, "%s%s", folder, entry->d_name);
        repair_file(sink, name, file);
    }
    closedir(directory);
}
