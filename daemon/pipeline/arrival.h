/*
 * Arrival: whether frames come at the declared rate. Checked about once a second with the frames
 * received so far, it says when none have come for ten seconds, when they come again, when for five
 * seconds a quarter too few or too many have come, and when the rate is right again.
 *
 * A process that was stopped, and a sender whose frames have waited on their way, get them at once
 * afterwards. Such frames are no wrong rate, as long as they are no more than were due since the
 * rate was right last, and a stop of the process is no silence of the sender.
 *
 * Pure state machine, no clock: driven by its arguments. One owner.
 */
#ifndef CONVOLVD_PIPELINE_ARRIVAL_H
#define CONVOLVD_PIPELINE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

enum arrival_event {
    ARRIVAL_NONE,
    ARRIVAL_SILENT,     /* figure: seconds without a frame */
    ARRIVAL_AGAIN,      /* figure: seconds that the silence has lasted */
    ARRIVAL_OFF_RATE,   /* figure: frames a second */
    ARRIVAL_ON_RATE,    /* figure: frames a second */
    ARRIVAL_STOPPED,    /* figure: seconds since the check before */
    ARRIVAL_CATCHES_UP, /* figure: seconds by which frames are late */
};

/* Start zeroed. */
struct arrival {
    bool started, silent, off_rate;
    uint64_t frames;   /* at the last check */
    int64_t grown_ns;  /* when they had grown */
    int64_t window_ns; /* the rate is measured from here on; 0: the next frame begins a window */
    uint64_t window_frames;
    bool catches_up;
    int64_t checked_ns; /* the last check */
    int64_t right_ns;   /* the rate was right until then, or the stream began … */
    uint64_t right_frames;
};

enum arrival_event arrival_check(struct arrival *arrival, uint64_t frames, double rate_hz,
                                 int64_t now_ns, double *figure);

#endif
