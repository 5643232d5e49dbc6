/*
 * Recording files: names the files of one recording sink, creates the next one without overwriting
 * any, and deletes the oldest when the sink keeps only so many. writer.h shows the names.
 *
 * One thread (the sink's writer thread); every function waits for the disk and may allocate.
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
    const char *sink; /* its name, for messages */
    char directory[PATH_MAX];
    char stem[PATH_MAX]; /* path of a file without number and extension */
    char extension[16];  /* with its dot, or "" */
    bool dated;          /* names carry the time of the first frame */
    unsigned number;     /* of the next file, from 1 */
    char **finished;     /* paths of finished files, oldest first */
    size_t finished_count, finished_capacity;
};

/* Whether files can be made where the options' path says, at this instant and by this user. Returns
 * 0, ERROR_CONFIG (no usable path), ERROR_NO_FILE (there is no such directory) or ERROR_SYSTEM (it
 * cannot be written). */
int recording_files_check(const struct sink_options *options, struct problem *problem);

/* The same, and takes the path apart. With `dated` and a limit on the files to keep, it also finds
 * the files of earlier runs, which count towards the limit. The options outlive `files`. */
int recording_files_open(struct recording_files *files, const struct sink_options *options,
                         bool dated, struct problem *problem);
/* Frees the list of finished files. A zeroed structure is fine. */
void recording_files_close(struct recording_files *files);

/* True when a file with this name (without folder) is one of these: with or without number, with or
 * without a time. */
bool recording_files_match(const struct recording_files *files, const char *name);

/* Creates the next file under the first free name and returns that name in `path`. capture_ns: of
 * the file's first frame [ns, realtime]; it is part of a dated name. Returns 0, ERROR_CONFIG (path
 * too long), ERROR_NO_FILE or ERROR_SYSTEM. */
int recording_files_create(struct recording_files *files, struct container_file *file,
                           const struct container_spec *spec, int64_t capture_ns,
                           char path[PATH_MAX], struct problem *problem);

/* Adds a finished file to those that recording_files_prune may delete. When memory is short the
 * file is not added and so never deleted. */
void recording_files_add(struct recording_files *files, const char *path);

/* Deletes the oldest finished files and their sidecars until at most `keep` − 1 remain, which
 * leaves room for the next file; keep = 0 deletes none. */
void recording_files_prune(struct recording_files *files, uint32_t keep);

#endif
