/*
 * Recordings: the options of the source `file` (source.c), which reads recordings, and of the sink
 * `recording` (sink.c), which writes them, and the checks of both before anything is opened.
 *
 * Any thread that may wait for a disk.
 */
#ifndef CONVOLVD_IO_RECORDING_RECORDING_H
#define CONVOLVD_IO_RECORDING_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/option.h"
#include "io/recording/container.h"
#include "io/sink.h"
#include "wire/format.h"

/* Of the source `file`. */
struct file_options {
    const char *path;
    bool loop;
    bool ignore_validity; /* validity = ignore: the sidecar is not applied */
};

/* Of the sink `recording`. */
struct recording_options {
    const char *path; /* directory/prefix: files are PREFIX-<UTC of first frame>-<nnnn>.<ext> when
                         rotating, else the path itself */
    const char *container;             /* "wav" (RF64 past 4 GiB), "w64", "rf64" */
    const struct option_value *rotate; /* as written: a time or a size */
    int64_t rotate_ns;     /* 0: never; files are cut at exact frames: round(rotate · rate) */
    uint64_t rotate_bytes; /* 0: never */
    uint32_t keep;         /* files, 0: all */
    uint64_t min_free_bytes;
    int64_t flush_ns;     /* file readable up to the last flush after a kill; 0: 1 s */
    uint64_t queue_bytes; /* between loop and writer thread, 0: 64 MiB */
    int64_t sync_ns; /* how often the writer waits until the disk holds the file: SYNC_NEVER, at
                        the end of each file (SYNC_ROTATE), or at least this often too */
    bool input;      /* record = input */
    bool start_by_command; /* start = command */
};

static const int64_t SYNC_NEVER = 0, SYNC_ROTATE = INT64_MAX;

enum { RECORDING_ROWS = 10 };
extern const struct option_row recording_rows[RECORDING_ROWS];

/* The members of struct sink_ops. */
void recording_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                          const struct stream_facts *stream, struct sink_options *options);
void recording_sink_check_all(const struct driver_sections *all, uint32_t self);
void recording_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out);
uint64_t recording_sink_memory(const struct sink_options *options);

/* Of the queue between the loop and the writer thread. */
uint64_t recording_queue_bytes(const struct sink_options *options);

/*
 * Reads the header of a recording (opening.h): its rate [Hz], channels, frames in the file
 * (UINT64_MAX: only reading tells, as of a FLAC without a length), and the
 * format in which the source `file` delivers its samples: little endian, as wide as in the file;
 * 64-bit float becomes f32le. Each out pointer may be NULL. Returns 0, ERROR_NO_FILE, ERROR_FORMAT
 * (not a recording) or ERROR_UNSUPPORTED (compressed samples).
 */
int recording_probe(const char *path, double *rate_hz, uint32_t *channels,
                    struct sample_format *format, uint64_t *frames, struct problem *problem);

/* The shape of a sink's files and how many frames each holds (UINT64_MAX: no rotation); what
 * recording_check says of the options holds here too. */
int recording_spec(const struct sink_options *options, struct container_spec *spec,
                   uint64_t *frames_per_file, struct problem *problem);

/*
 * Checks the options of a recording sink: the container is known and can hold the format, the rate
 * is a whole number of Hz that a header can hold, a frame fits, and `rotate` leaves room for at
 * least one frame. The caller has set stream.rate_hz and stream.channels (for raw input:
 * stream.input_rate_hz, stream.input_channels and stream.input_format). Touches no file. Returns 0
 * or ERROR_CONFIG with a sentence.
 */
int recording_check(const struct sink_options *options, struct problem *problem);

#endif
