/*
 * Recording files: the names of a sink's files, which of them exist, and deleting the oldest.
 * The writer thread's; see recording/writer.h for how files are named.
 */
#ifndef CONVOLVD_IO_RECORDING_FILES_H
#define CONVOLVD_IO_RECORDING_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/recording/container.h"
#include "io/sink.h"

struct recording_files {
    const char *sink;
    char directory[PATH_MAX];
    char stem[PATH_MAX]; /* with the directory */
    char extension[16];  /* with its dot, or "" */
    bool dated;          /* names carry the time of the first frame */
    unsigned number;     /* of the next file, from 1 */
    char **finished;     /* oldest first */
    size_t finished_count, finished_capacity;
};

/* The directory must be there and writable. With `dated` and options->keep, files of earlier runs
 * count, too. */
int recording_files_open(struct recording_files *files, const struct sink_options *options,
                         bool dated, struct problem *problem);
void recording_files_close(struct recording_files *files); /* zeroed is fine */

/* Creates the next file; its name goes to `path`. */
int recording_files_create(struct recording_files *files, struct container_file *file,
                           const struct container_spec *spec, int64_t capture_ns,
                           char path[PATH_MAX], struct problem *problem);

/* A file was finished: it may be deleted one day. */
void recording_files_add(struct recording_files *files, const char *path);

/* Deletes the oldest finished files (and sidecars) until, with one more to come, at most `keep`
 * remain; 0: all stay. */
void recording_files_prune(struct recording_files *files, uint32_t keep);

#endif
