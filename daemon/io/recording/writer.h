/*
 * Recording writer: turns the results of one sink into files with sidecars. It decides which file a
 * frame belongs to, begins and rotates files, deletes old ones, and pauses while the disk has less
 * free space than the sink wants to leave.
 *
 * Within one file, frame = first_frame + index always holds: a new epoch, a jump in the frame
 * numbers or a changed delay begins another file. Rotation cuts at an exact frame, also inside a
 * result; the next file starts with the following frame. No file is ever overwritten: the writer
 * takes the next free number.
 *
 *     STEM.EXT, then STEM-0002.EXT …                      without rotation
 *     STEM-20261121T021604.123456Z-0001.EXT, …            with rotation: UTC of the first frame
 *
 * After a write error the writer ends the file, drops and counts frames for a second, and then
 * begins another file, whose sidecar lists the frames that no file holds; where none begins any
 * more, the last file's sidecar lists them. A file is complete only when no write to it has failed.
 * An open file holds some space of the disk for its last sidecar; one that the disk does not take
 * all the same is written as soon as it can be (owed.h). With `sync`, the disk holds a file before
 * its sidecar says that it is complete. When the writer opens it repairs files of earlier runs
 * (repair.h).
 *
 * One thread (the sink's writer thread), which waits for the disk and allocates.
 */
#ifndef CONVOLVD_IO_RECORDING_WRITER_H
#define CONVOLVD_IO_RECORDING_WRITER_H

#include <stdint.h>

#include "core/error.h"
#include "io/recording/shown.h"
#include "io/recording/sidecar.h"
#include "io/sink.h"
#include "stream/result.h"

struct recording_writer;

/* What a writer buffers before it writes. */
enum { RECORDING_BUFFER_BYTES = 1 << 20 };

struct writer_counts {
    uint64_t delivered;      /* frames written to a file */
    uint64_t dropped[DROPS]; /* frames; only DROP_PAUSED and DROP_DISK are used */
    uint64_t bytes;          /* of samples written, headers not included */
    uint64_t saturated;      /* samples clipped */
    uint64_t files;          /* begun */
};

/* What tests replace; members that are zero keep the default. */
struct writer_system {
    /* Free space of the file system with this directory, for unprivileged users [bytes]. */
    uint64_t (*free_bytes)(const char *directory);
    uint64_t riff_bytes_max; /* see container.h */
};

/* Makes a writer; it creates no file before the first put. The options outlive it; `system` may be
 * NULL. Checks that the directory exists and, when the sink keeps a number of files, finds those of
 * earlier runs. Returns 0, ERROR_CONFIG (as recording_check), ERROR_NO_FILE or ERROR_MEMORY. */
int recording_writer_open(const struct sink_options *options, const struct writer_system *system,
                          struct recording_writer **out, struct problem *problem);

/* The format of the samples in the files. A result holds floats, or samples already in this format
 * (result.wire). Any thread. */
struct result_format recording_writer_format(const struct sink_options *options);

/* Takes every frame of the result: writes it, buffers it, or drops and counts it. A result without
 * frames ends an epoch and says what is missing last. */
void recording_writer_put(struct recording_writer *writer, const struct result *result);

/* Every file that holds the mark's frame lists it in its sidecar. */
void recording_writer_mark(struct recording_writer *writer, const struct sink_mark *mark);

/* Frames that never come, because the sink dropped them, and why. In the order of their results,
 * before the put of what follows them. */
void recording_writer_lose(struct recording_writer *writer, const struct sidecar_missing *missing);

/* Writes the buffered frames to the file, so that delivered + dropped covers every frame put. */
void recording_writer_drain(struct recording_writer *writer);

/* Drains, then rewrites header and sidecar: the file is readable up to the last frame put. Waits
 * for the disk first when `sync` is due; when that fails it ends the file. */
void recording_writer_flush(struct recording_writer *writer);

/* Somebody stops the recording: ends the file, and no put follows until somebody starts it again;
 * the next put then begins another file. */
void recording_writer_record(struct recording_writer *writer, bool on, const char *who);

/* Not all of the stream's input came: the newest file is not complete, its sidecar says why, and
 * lists what is missing behind its last frame. */
void recording_writer_cut(struct recording_writer *writer, const struct source_cut *cut);

/* Nothing follows: ends the file, which lists what is missing behind its last frame. `reason`:
 * REASON_END, or REASON_INTERRUPTED, which makes no file complete. */
void recording_writer_end(struct recording_writer *writer, enum sidecar_reason reason);

/* Valid until the writer is closed. */
const struct writer_counts *recording_writer_counts(const struct recording_writer *writer);

/* Brings up to date what the status shows; the path is copied only for another file. `shown` starts
 * zeroed. */
void recording_writer_show(const struct recording_writer *writer, struct recording_shown *shown);

/* While it is stopped it looks at the free space of the disk here, when it is time. Returns when to
 * call again [monotonic]; INT64_MAX: it is not stopped. */
int64_t recording_writer_look(struct recording_writer *writer);

/* True when a flush would write something. */
bool recording_writer_dirty(const struct recording_writer *writer);

/* Finishes the file and frees the writer. NULL is fine. */
void recording_writer_close(struct recording_writer *writer);

/* Any thread: `min free` from the next frames on. */
void recording_writer_set_min_free(struct recording_writer *writer, uint64_t bytes);

#endif
