/*
 * Sidecar: what is known of a recording beyond its samples, as JSON beside it (NAME.json). It
 * is replaced as a whole (written aside, then renamed), so a reader never sees half of one.
 *
 * Frame numbers are those of the epoch: the file's sample i is frame first_frame + i. In an output
 * with decimation D they count kept frames: number m is the source's frame m·D.
 *
 * One thread at a time; allocates (writer threads only).
 */
#ifndef CONVOLVD_IO_RECORDING_SIDECAR_H
#define CONVOLVD_IO_RECORDING_SIDECAR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/sink.h"
#include "stream/result.h"

/* Ranges, and changes of the filters, that a file lists before the next file is begun instead. */
enum { SIDECAR_RANGES_MAX = 4096, SIDECAR_FILTERS_MAX = 64 };

/* From this frame on: other filters. */
struct sidecar_filters {
    uint64_t first_frame;
    const char *taps_hash;
    uint32_t taps_longest;
};

struct sidecar {
    const struct sink_options *options;
    struct sample_format format; /* in the file */
    bool complete;
    uint64_t frames;
    uint64_t epoch, record, first_frame, timeline_frame;
    int64_t capture_ns, last_capture_ns; /* of the first and the last frame */
    enum clock_source clock;
    int64_t clock_error_ns; /* the largest seen */
    double delay_frames;
    bool aligned;
    uint64_t saturated; /* samples clipped in this file */
    uint32_t range_count, missing_count, filters_count;
    struct sidecar_filters
        filters[SIDECAR_FILTERS_MAX];                /* the first from the file's first frame on */
    struct invalid_range ranges[SIDECAR_RANGES_MAX]; /* within the file */
    struct invalid_range
        missing[INVALID_CAUSES]; /* frames that stand before first_frame and were never given */
    uint32_t last_range[INVALID_CAUSES]; /* index + 1 of the latest of each cause */
};

/* Forgets ranges and counts; what describes the file is set by the caller. */
void sidecar_reset(struct sidecar *sidecar);

/* Adds a range, joined to the latest of its cause where they touch. Clip it first. False when full.
 */
bool sidecar_add(struct sidecar *sidecar, struct invalid_range range);

/* Frames from `first` on were computed with these; the same as before count for nothing. False when
 * full. */
bool sidecar_filter(struct sidecar *sidecar, const struct sidecar_filters *filters);

/* Writes RECORDING.json. Returns 0, ERROR_SYSTEM or ERROR_MEMORY. */
int sidecar_write(const struct sidecar *sidecar, const char *recording, struct problem *problem);

/* "2026-11-21T02:16:04.123456789Z". Returns `text`. */
const char *sidecar_time(int64_t realtime_ns, char text[40]);

#endif
