/*
 * New files: creates a file without overwriting one that is there. Beside hits.csv it makes
 * hits-0002.csv, hits-0003.csv and so on, as recordings do. A named pipe (mkfifo) holds nothing
 * that could be overwritten: it is opened as it is, with O_NONBLOCK.
 *
 * Any thread; waits for the disk.
 */
#ifndef CONVOLVD_IO_NEW_FILE_H
#define CONVOLVD_IO_NEW_FILE_H

#include <limits.h>

#include "core/error.h"

/* Creates it, opens it for writing, and logs the name where it is not `path` itself; `sink` is the
 * sink's, for messages. *name: of the file. Returns the descriptor, or ERROR_CONFIG (the path is
 * too long), ERROR_NO_FILE (it cannot be created). */
int new_file_create(const char *sink, const char *path, char name[PATH_MAX],
                    struct problem *problem);

#endif
