/*
 * Names of the files of one measurement: PATH.pridb, PATH.tradb and PATH.trfdb always carry the
 * same number, and nothing that exists is overwritten. Where one of the three names is in use, or a
 * log that a killed writer has left beside it, the next number is taken:
 *
 *     vessel.pridb, vessel-0002.pridb, vessel-0003.pridb …
 *
 * Any thread that may wait for a disk.
 */
#ifndef CONVOLVD_IO_VALLEN_NAMES_H
#define CONVOLVD_IO_VALLEN_NAMES_H

#include <limits.h>
#include <stdbool.h>

#include "core/error.h"

enum vallen_file {
    VALLEN_PRIDB,
    VALLEN_TRADB,
    VALLEN_TRFDB,
    VALLEN_FILES,
};

struct vallen_names {
    char path[VALLEN_FILES][PATH_MAX];
    unsigned number; /* 1: the path as it was written */
};

/* Whether a path, with or without `.pridb`, is one of a file in a folder that exists and can be
 * written to at this instant. 0, ERROR_CONFIG (no such path), ERROR_NO_FILE (no such folder) or
 * ERROR_SYSTEM (not by this user). */
int vallen_names_check(const char *path, struct problem *problem);

/* Creates empty files of which `wanted` says that they are needed, under the first number that is
 * free. 0, ERROR_CONFIG, ERROR_NO_FILE or ERROR_SYSTEM; then no file is left. */
int vallen_names_create(const char *path, const bool wanted[VALLEN_FILES],
                        struct vallen_names *names, struct problem *problem);

/* Whether a file of the folder of `path` may be one that vallen_names_create has made for it, and
 * which. */
bool vallen_names_match(const char *path, const char *name, enum vallen_file *file);

/* Deletes the files that vallen_names_create has made, and their logs. */
void vallen_names_remove(const struct vallen_names *names, const bool wanted[VALLEN_FILES]);

#endif
