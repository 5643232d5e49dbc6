/*
 * Taps: what one viewer sees of one side of one stream, written into its watch ring: minimum and
 * maximum of every channel at a fixed decimation, and the frames of a few channels as they are.
 *
 * Loop thread; allocates in open only.
 */
#ifndef CONVOLVD_CONTROL_TAP_H
#define CONVOLVD_CONTROL_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "signal/extract.h"
#include "wire/watch_ring.h"

enum {
    TAP_CHANNELS_MAX = 16, /* with all of their frames */
    TAP_POINTS_MAX = 64,   /* gathered before they are written */
    TAP_RANGES_MAX = 8,
};

/* Frames [from, until) of a run, counted from its first one. */
struct tap_range {
    uint32_t from, until;
    uint32_t causes;
    bool absent; /* the samples there mean nothing: they count as 0 */
};

/* Consecutive frames of one side of a stream. */
struct tap_run {
    struct extract samples;
    uint64_t epoch, record, first_frame;
    uint32_t frames;
    int64_t capture_ns, latency_ns;
    uint32_t flags; /* WATCH_BEGINS, WATCH_ENDS */
    struct tap_range ranges[TAP_RANGES_MAX];
    uint32_t range_count;
};

struct tap_options {
    const char *stream;
    bool input;
    double rate_hz;
    uint32_t channels;
    const double *factor, *offset; /* [channels]: normalised code to value; copied */
    uint32_t request;              /* watch_head.request */
    bool minmax;
    uint16_t list[TAP_CHANNELS_MAX]; /* channels whose frames are written */
    uint32_t list_count;
};

struct tap;

/* 0 or ERROR_MEMORY. */
int tap_open(const struct tap_options *options, struct tap **out);
void tap_close(struct tap *tap); /* NULL is fine */

/* Frames of a point at this rate: about 500 to 1000 points a second. A power of two. */
uint32_t tap_frames_per_point(double rate_hz);

/* Writes what the run holds. `frames`: whether single frames too. */
void tap_put(struct tap *tap, struct watch_writer *writer, const struct tap_run *run, bool frames);
/* The run is not looked at: the next record says so. */
void tap_skip(struct tap *tap, struct watch_writer *writer);
/* Writes the points gathered so far. */
void tap_flush(struct tap *tap, struct watch_writer *writer);

#endif
