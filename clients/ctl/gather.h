/*
 * Gathering: consecutive frames of both sides of one stream, out of the records of a watch ring
 * (wire/watch_ring.h). The input may begin with any frame n of an epoch; the result begins with
 * the first of its frames that is not before it: ceil(n / d) where the stream decimates by d. Frame
 * numbers alone decide what follows what: where frames were skipped, or another epoch begins,
 * everything is gathered anew from there.
 *
 * What lies there and is flagged stays, with its causes; input frames that never came are NaN.
 *
 * No I/O; allocates in open only; one owner.
 */
#ifndef CONVOLVCTL_GATHER_H
#define CONVOLVCTL_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/watch_ring.h"

enum { GATHER_RANGES_MAX = 256 };

enum gather_state {
    GATHER_MORE,    /* frames are missing still */
    GATHER_BROKEN,  /* the same, and those gathered so far were dropped: another epoch began … */
    GATHER_SKIPPED, /* … or frames of this one were not shown */
    GATHER_WHOLE,
};

/* Frames [from, until) of the side's numbering; bit n of `causes` is enum invalid_cause n, and bit
 * INVALID_CAUSES stands for frames that never came. */
struct gather_range {
    uint64_t from, until;
    uint32_t causes;
};

struct gather_side {
    uint32_t channels; /* of the request, in its order */
    float *values;     /* [frames][channels] */
    uint64_t first_frame, frames;
    int64_t capture_ns;                            /* realtime, of first_frame; 0: unknown */
    struct gather_range ranges[GATHER_RANGES_MAX]; /* past the last, it covers the rest */
    uint32_t range_count;
};

struct gather {
    uint64_t frames; /* wanted, of each side */
    uint32_t decimation;
    bool begun;
    uint64_t epoch, record;
    uint64_t longest; /* frames in a row that were dropped, at most: of the side that lacked some */
    struct gather_side input, output;
};

/* `decimation`: input frames a frame of the result, from 1 on. 0 or ERROR_MEMORY. */
int gather_open(struct gather *gather, uint64_t frames, uint32_t input_channels,
                uint32_t output_channels, uint32_t decimation);
void gather_close(struct gather *gather); /* one that is all zero is fine */

/* A record of the stream and of the request; others than frames are passed over. */
enum gather_state gather_put(struct gather *gather, const struct watch_record *record);
/* Drops what was gathered. */
void gather_reset(struct gather *gather);

#endif
