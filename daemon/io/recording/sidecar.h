/*
 * Sidecar: the JSON file beside a recording (RECORDING.json) with everything its container cannot
 * hold: capture times, invalid ranges, units, filters, saturation, hashes. core/replace_file.h
 * replaces it as a whole, so a reader never sees a part of one.
 *
 * Frame numbers are those of the epoch: frame i of the file is frame first_frame + i. In an output
 * with decimation D they count kept frames: number m is frame m·D of the source.
 *
 * One thread at a time (a writer thread); sidecar_write allocates and waits for the disk.
 */
#ifndef CONVOLVD_IO_RECORDING_SIDECAR_H
#define CONVOLVD_IO_RECORDING_SIDECAR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/recording/container.h"
#include "io/recording/marks.h"
#include "io/sink.h"
#include "io/source.h"
#include "stream/ranges.h"
#include "stream/result.h"

/* How many invalid ranges and changes one file lists; the writer begins another file before
 * there are more. */
enum {
    SIDECAR_RANGES_MAX = 4096,
    SIDECAR_FILTERS_MAX = 64,
    SIDECAR_DEVICES_MAX = 64,
    SIDECAR_MISSING_MAX = 64,
    SIDECAR_GAINS_MAX = 1024,
    SIDECAR_STEPS_MAX = 64
};

/* The filters in use from one frame on. */
struct sidecar_filters {
    uint64_t first_frame;
    const char *taps_hash;
    uint32_t taps_longest;
    char who[EVENT_WHO_BYTES]; /* asked for them; empty: nobody */
};

/* What computed the frames from one on; the names live as long as the sink. */
struct sidecar_device {
    uint64_t first_frame;
    const char *device, *driver;
};

/* The gains and mutes beside the configuration's, from one frame on. */
struct sidecar_gains {
    uint64_t first_frame;
    uint32_t changes; /* 0: as configured since the stream began */
    uint32_t outputs;
    const float *factors; /* [outputs] */
    const bool *muted;    /* [outputs] */
    const char *who;      /* asked for them; NULL: nobody */
};

/* A step of the capture times, which were recognised to begin again at `frame` of the epoch. */
struct sidecar_step {
    uint64_t frame;
    int64_t step_ns;
};

/* Frames [from, until) of an epoch that no file holds, and why: the name of an invalid cause, or of
 * the sink's drop. */
struct sidecar_missing {
    uint64_t epoch, from, until;
    const char *cause;
};

/* Frames that no file holds, oldest first. In a full list, ranges of one epoch are joined: a range
 * may then cover frames between them that a file holds, but leaves none out. */
struct sidecar_losses {
    uint32_t count;
    struct sidecar_missing ranges[SIDECAR_MISSING_MAX];
};

/* Adds frames that no file holds; merges them with the latest range when they continue it. */
void sidecar_lose(struct sidecar_losses *losses, const struct sidecar_missing *missing);

/* Why a file begins or ends. */
enum sidecar_reason {
    REASON_NONE,        /* it has not ended */
    REASON_OPEN,        /* the sink's first file */
    REASON_END,         /* the stream, its sink or the daemon ends */
    REASON_INTERRUPTED, /* likewise, before the end to which the source would have come by itself */
    REASON_ROTATE,      /* `rotate` */
    REASON_BREAK,   /* another epoch or record, frames missing between two, another delay, or more
                       ranges and changes than one sidecar lists */
    REASON_COMMAND, /* record-start, record-stop */
    REASON_FREE,    /* `min free` */
    REASON_DISK,    /* a write failed */
    REASONS,
};

struct sidecar_cause {
    enum sidecar_reason reason;
    char who[EVENT_WHO_BYTES]; /* who gave the command; empty: nobody did */
};

/* who: NULL where nobody asked for it. */
struct sidecar_cause sidecar_cause(enum sidecar_reason reason, const char *who);

struct sidecar {
    const struct sink_options *options;
    struct sidecar_cause began, ended;
    enum container container;
    struct sample_format format; /* in the file */
    bool complete; /* the file ended in order, uninterrupted, and every write to it succeeded */
    int error;     /* errno of the first write that failed, 0: none has */
    char cut[SOURCE_SENTENCE_BYTES]; /* not all of the stream's input came; "": nothing is known of
                                        that */
    uint64_t frames;
    uint64_t synced_frames; /* the disk has confirmed that it holds the first so many */
    uint64_t epoch, record, first_frame, timeline_frame;
    int64_t capture_ns, last_capture_ns; /* of the first and the last frame */
    enum clock_source clock;
    int64_t clock_error_ns; /* largest of all results in the file */
    double delay_frames;
    bool aligned;
    uint64_t saturated; /* samples clipped in this file */
    uint32_t range_count, filters_count, devices_count, gains_count, steps_count;
    struct sidecar_step steps[SIDECAR_STEPS_MAX];
    struct sidecar_filters
        filters[SIDECAR_FILTERS_MAX]; /* [0] applies from the file's first frame */
    struct sidecar_device devices[SIDECAR_DEVICES_MAX]; /* likewise */
    struct invalid_range ranges[SIDECAR_RANGES_MAX];    /* within the file */
    struct ranges partial;         /* frames of the file that are partial (stream/result.h) */
    struct sidecar_losses missing; /* before first_frame */
    const struct marks *marks;     /* of the stream, newest frames too; NULL: none */
    struct sidecar_losses after;   /* behind the last frame, where epoch or command ends it */
    struct sidecar_gains gains[SIDECAR_GAINS_MAX]; /* [0] applies from the file's first frame */
    uint32_t last_range[INVALID_CAUSES]; /* index + 1 of the latest range of each cause; 0: none */
};

/* Clears ranges, changes and counts for a new file. The caller sets the fields that describe it. */
void sidecar_reset(struct sidecar *sidecar);

/* Adds an invalid range, which the caller has clipped to the file; merges it with the latest range
 * of its cause when they touch. Returns false when the list is full. */
bool sidecar_add(struct sidecar *sidecar, struct invalid_range range);

/* Adds a filter change; ignores one to the filters already in use. Returns false when the list is
 * full. */
bool sidecar_filter(struct sidecar *sidecar, const struct sidecar_filters *filters);

/* Adds a change of the device; ignores one to the same. Returns false when the list is full. */
bool sidecar_device(struct sidecar *sidecar, const struct sidecar_device *device);

/* Adds a change of gains, copied; ignores one already in force. Returns false when the list is full
 * or there is no memory. */
bool sidecar_gain(struct sidecar *sidecar, const struct sidecar_gains *gains);

/* Adds a step of the capture times. Returns false when the list is full. */
bool sidecar_step(struct sidecar *sidecar, const struct sidecar_step *step);

/* Frees the gains. */
void sidecar_close(struct sidecar *sidecar);

/* Returns the text of the recording's sidecar, which the caller frees; NULL without memory. */
char *sidecar_text(const struct sidecar *sidecar, const char *recording);

/* Writes RECORDING.json beside the recording at that path; with `sync` the disk holds it when the
 * call returns 0. Returns 0, ERROR_NO_FILE, ERROR_SYSTEM or ERROR_MEMORY. */
int sidecar_write(const struct sidecar *sidecar, const char *recording, bool sync,
                  struct problem *problem);

#endif
