/*
 * The excitation of an active measurement: when the pulse that travels was sent. Without it a frame
 * number is a time only since the epoch or record began, with it a time of flight.
 *
 * A value; any thread.
 */
#ifndef CONVOLVD_IO_EXCITATION_H
#define CONVOLVD_IO_EXCITATION_H

#include <stdbool.h>

/* Frames from the first of each epoch or record, at the rate of the signal that it belongs to. The
 * pulse begins with frame start_frame; the echo of a matched filter peaks the time of flight and
 * the filter's delay after it. */
struct excitation {
    bool known;
    double start_frame;
    double period_frames; /* from one pulse to the next; 0: one in an epoch or record */
};

/* The same where one frame of `decimate` is kept. */
static inline struct excitation excitation_decimated(struct excitation excitation, double decimate)
{
    return (struct excitation){excitation.known, excitation.start_frame / decimate,
                               excitation.period_frames / decimate};
}

#endif
