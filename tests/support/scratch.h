/*
 * A folder for a test program's files, below $TMPDIR (or /tmp). The first call creates it; the end
 * of the program, also after a failed test, removes it with all it holds. Test thread only.
 */
#ifndef CONVOLVD_TESTS_SCRATCH_H
#define CONVOLVD_TESTS_SCRATCH_H

/* Its path; fails the test when it cannot be created. */
const char *scratch_folder(void);
/* "FOLDER/name", valid until 15 more calls; `name` may contain slashes. */
const char *scratch_path(const char *name);
/* Writes a file with this text; returns its path as scratch_path does. */
const char *scratch_write(const char *name, const char *text);
/* Makes a folder in it; returns its path as scratch_path does. */
const char *scratch_make(const char *name);
/* The number of its entries whose names begin without a dot. */
int scratch_count(void);
/* Removes everything in it. */
void scratch_clear(void);

#endif
