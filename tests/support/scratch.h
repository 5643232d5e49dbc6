/*
 * A folder for a test program's files, under $TMPDIR (or /tmp): made when it is first asked for,
 * removed with all in it when the program ends, also after a failed test. Test thread only.
 */
#ifndef CONVOLVD_TESTS_SCRATCH_H
#define CONVOLVD_TESTS_SCRATCH_H

/* Its path; fails the test when it cannot be made. */
const char *scratch_folder(void);
/* "FOLDER/name", as long as the next 15 calls; `name` may hold slashes. */
const char *scratch_path(const char *name);
/* A file with this text; returns its path as scratch_path. */
const char *scratch_write(const char *name, const char *text);
/* A folder in it; returns its path as scratch_path. */
const char *scratch_make(const char *name);
/* Entries in it whose names begin without a dot. */
int scratch_count(void);
/* Removes all that is in it. */
void scratch_clear(void);

#endif
