/*
 * Numbered: finds the frame that another receiver of the same sender means. Two receivers count
 * frames each for itself; RTP's time stamps, which both have seen, tell which of them are the same.
 * A time stamp has 32 bits, so it is taken as the one nearest to what this receiver has: within
 * that no clock is needed. Outside, the capture times of both have to agree within
 * NUMBERED_CLOCKS_NS, for the sender may have started anew meanwhile.
 *
 * Any thread; never allocates.
 */
#ifndef CONVOLVD_IO_NATS_NUMBERED_H
#define CONVOLVD_IO_NATS_NUMBERED_H

#include <stdint.h>

#include "wire/record.h"

/* How far clocks of two hosts, and what lies between capture and reception, may differ. */
#define NUMBERED_CLOCKS_NS (INT64_C(1000000000))

/* A frame, as another receiver knows it. */
struct numbered_mark {
    uint32_t ssrc, timestamp;
    int64_t capture_ns;
};

/* Frames [from, until) of one sender, as this receiver counts them. */
struct numbered_run {
    uint32_t ssrc;
    int64_t from, until;
    uint32_t timestamp; /* of `until` … */
    int64_t until_ns;   /* … and its capture time */
};

/* How well a run explains a mark; the later, the better. */
enum numbered_match {
    MATCH_NONE,
    MATCH_BEFORE, /* a time stamp from before the run, as long ago as the clocks say */
    MATCH_BEHIND, /* likewise, from behind its end */
    MATCH_INSIDE, /* a frame of the run or the one behind it, whatever the clocks say */
};

/* *position: where the mark lies, as this receiver counts; it may be below 0. */
enum numbered_match numbered_match(const struct numbered_run *run, double rate_hz,
                                   const struct numbered_mark *mark, int64_t *position);
/* The frame behind a record that has the sender's numbers (RECORD_SENDER). */
struct numbered_mark numbered_mark_of(const struct record *record);

#endif
