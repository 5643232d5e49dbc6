/*
 * Databases: SQLite as the files here use it. One connection, one thread.
 *
 * Functions return SQLite's result codes where they have one (SQLITE_OK is 0), so that callers tell
 * a full disk from a damaged file.
 */
#ifndef CONVOLVD_IO_VALLEN_DATABASE_H
#define CONVOLVD_IO_VALLEN_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* Opens an empty file for writing, with a write-ahead log that readers may follow; synchronous is
 * NORMAL: what is committed survives the process, and is on the disk from the next checkpoint on.
 */
int database_create(const char *path, sqlite3 **out, struct problem *problem);

/*
 * Opens somebody else's file for reading. Nothing in it is trusted: no views, triggers, virtual
 * tables or functions of its schema can do anything, cell sizes and nesting are bounded, and
 * nothing is written. A file without a write-ahead log counts as immutable and takes no locks.
 * Returns 0, ERROR_NO_FILE or ERROR_FORMAT.
 */
int database_open_untrusted(const char *path, sqlite3 **out, struct problem *problem);

/* Opens a file that this program has written, to finish it. From the first statement on nobody else
 * may have it open: SQLITE_BUSY where somebody has, at once. Its schema is trusted no more than
 * somebody else's. Returns SQLite's result code; close *out in any case. */
int database_open_own(const char *path, sqlite3 **out);

/* Brings the log into the file, which is then a single one: the last statement before it is closed.
 * Killed at any point, it leaves a file that can be read without writing to it. SQLITE_BUSY:
 * somebody else has it open. */
int database_leave_log(sqlite3 *db);

/* Whether nothing stands in it: a writer was killed before its first transaction. */
bool database_is_empty(sqlite3 *db);

/* Whether it is a plain table: neither a view nor anything that code of the file computes. */
bool database_is_table(sqlite3 *db, const char *name);

/* A value of a table of keys as text; false: there is none. `table` has at most 40 bytes. */
bool database_key(sqlite3 *db, const char *table, const char *key, char *text, size_t bytes);

/* Runs statements without results. */
int database_run(sqlite3 *db, const char *text);

/* Compiles a statement that is used again and again; NULL: `problem` says why. */
sqlite3_stmt *database_prepare(sqlite3 *db, const char *text, struct problem *problem);

/* Runs a bound statement without results, resets it and clears its bindings. */
int database_step(sqlite3_stmt *statement);

/* Binds `value` / `unit` as an integer, rounded to nearest even; NAN, or a unit of 0: NULL. */
void database_bind_code(sqlite3_stmt *statement, int index, double value, double unit);

/* Binds a real; NAN: NULL. */
void database_bind_real(sqlite3_stmt *statement, int index, double value);

#endif
