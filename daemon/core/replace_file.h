/*
 * File replacement: gives a file new contents at once. The contents go to a temporary file beside
 * it, which is then renamed over it, so that a reader finds the old contents or the new ones and
 * never a part. After a failure the old file is as it was and the temporary file is gone.
 *
 * Unless the function says so, the file is not synced to the disk: after a power failure it may be
 * the old one, or on some file systems an empty one.
 *
 * Any thread, several at once too: each thread's temporary file has its own name. Waits for the
 * disk, so never on the loop per block.
 */
#ifndef CONVOLVD_CORE_REPLACE_FILE_H
#define CONVOLVD_CORE_REPLACE_FILE_H

#include <stddef.h>

#include "core/error.h"

/* A run of bytes of the contents. */
struct file_part {
    const void *bytes;
    size_t count;
};

/* Replaces the file at `path` with the `parts` in order. Returns 0, or ERROR_NO_FILE (the temporary
 * file cannot be created) or ERROR_SYSTEM (writing or renaming failed) with the sentence "PATH
 * cannot be written: REASON". */
int replace_file(const char *path, const struct file_part *parts, size_t part_count,
                 struct problem *problem);

/* The same with the contents in a text; a text that is NULL is ERROR_MEMORY. */
int replace_file_text(const char *path, const char *text, struct problem *problem);

/* The same, and the disk holds the new contents under that name when the call returns 0. */
int replace_file_text_synced(const char *path, const char *text, struct problem *problem);

#endif
