/*
 * Taps: what viewers see of one side of one stream, written into their watch rings: minimum and
 * maximum of every channel at a fixed decimation, and the frames of a few channels as they are.
 * Minima and maxima are computed once, for all viewers who want them.
 *
 * Loop thread; allocates in open and add only.
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
};

/* What one viewer wants of it. */
struct tap_viewer {
    struct watch_writer *writer; /* outlives the tap */
    uint32_t request;            /* watch_head.request */
    bool minmax;
    uint16_t list[TAP_CHANNELS_MAX]; /* channels whose frames are written; others than the side's
                                        are left out */
    uint32_t list_count;
};

struct tap;

/* 0 or ERROR_MEMORY. */
int tap_open(const struct tap_options *options, struct tap **out);
/* 0 or ERROR_MEMORY; `viewer` is copied. */
int tap_add(struct tap *tap, const struct tap_viewer *viewer);
void tap_close(struct tap *tap); /* NULL is fine */

/* Frames of a point at this rate: about 500 to 1000 points a second. A power of two. */
uint32_t tap_frames_per_point(double rate_hz);

/* Samples that are read of a frame, at least 1. */
uint32_t tap_samples(const struct tap *tap);

/* Of the frames from here on, each viewer gets single frames if what `frames` of them take is left
 * of *bytes, and is subtracted. Before, all do. True: all of them get theirs. */
bool tap_allow(struct tap *tap, uint32_t frames, double *bytes);
/* Writes what frames [from, until) of the run hold, counted from its first one. */
void tap_put(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until);
/* The run is not looked at: the next record says so. */
void tap_skip(struct tap *tap);
/* Writes the points gathered so far. */
void tap_flush(struct tap *tap);

#endif
