/*
 * Recording writer: turns results into files: which file a frame belongs to, when the next one
 * begins, what is deleted and when to pause. Within one file frame = first_frame + index always
 * holds: an epoch, a jump or a changed delay begins another file. Rotation cuts at exact frames,
 * also inside a result, and the next file starts with the frame after the last.
 *
 *     STEM.EXT, then STEM-0002.EXT …                      without rotation
 *     STEM-20261121T021604.123456Z-0001.EXT, …            with it: UTC of the first frame
 *
 * An existing file is never overwritten: the next free number is taken.
 *
 * One thread (the sink's writer thread); it waits for the disk and allocates.
 */
#ifndef CONVOLVD_IO_RECORDING_WRITER_H
#define CONVOLVD_IO_RECORDING_WRITER_H

#include <stdint.h>

#include "core/error.h"
#include "io/sink.h"
#include "stream/result.h"

struct recording_writer;

struct writer_counts {
    uint64_t delivered;      /* frames written to a file */
    uint64_t dropped[DROPS]; /* PAUSED, DISK */
    uint64_t bytes;          /* of samples written */
    uint64_t saturated;      /* samples */
    uint64_t files;          /* begun */
};

/* What tests replace; zero: the real thing. */
struct writer_world {
    uint64_t (*free_bytes)(const char *directory); /* for users without privileges */
    uint64_t riff_bytes_max;                       /* see container.h */
};

/* The options outlive the writer. Touches the disk only to see that the directory is there and,
 * with `keep`, which files of earlier runs it holds. Errors as recording_check, and ERROR_NO_FILE.
 */
int recording_writer_open(const struct sink_options *options, const struct writer_world *world,
                          struct recording_writer **out, struct problem *problem);

/* Takes every frame of the result: written, buffered, or dropped under a name. */
/* What it makes of results that are floats; others have to be in this format. */
struct result_format recording_writer_format(const struct sink_options *options);

void recording_writer_put(struct recording_writer *writer, const struct result *result);

/* Writes what is buffered, so that delivered and dropped count every frame put. */
void recording_writer_settle(struct recording_writer *writer);

/* Makes the file and its sidecar readable up to the last frame put. */
void recording_writer_flush(struct recording_writer *writer);

/* Ends the file: nothing follows in it. A later put begins another. */
void recording_writer_finish(struct recording_writer *writer);

const struct writer_counts *recording_writer_counts(const struct recording_writer *writer);
/* Path of the file being written, "" when none is. */
const char *recording_writer_path(const struct recording_writer *writer);
/* True when a flush would write something. */
bool recording_writer_dirty(const struct recording_writer *writer);

/* Finishes and frees. NULL is fine. */
void recording_writer_close(struct recording_writer *writer);

#endif
