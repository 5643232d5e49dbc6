/*
 * Round trip: measures how many frames after it was played a known chirp is captured, by its
 * matched filter. The chirp is linear from 2 % to 40 % of the rate with soft ends, so that it
 * passes every converter's reconstruction filter and its compressed peak is a few frames wide.
 *
 * Pure functions, any thread but the loop: finding allocates.
 */
#ifndef CONVOLVD_SIGNAL_ROUND_TRIP_H
#define CONVOLVD_SIGNAL_ROUND_TRIP_H

#include <stdbool.h>
#include <stdint.h>

enum { ROUND_TRIP_CHIRP_FRAMES = 4096 };

/* Fills chirp[ROUND_TRIP_CHIRP_FRAMES] with a peak of 1. */
void round_trip_chirp(float *chirp);

struct round_trip {
    bool found;
    double frames; /* from the chirp's first frame in `heard`, to a fraction of a frame */
    double
        clearness; /* the peak over the largest value elsewhere; found: at least ROUND_TRIP_CLEAR */
    double level;  /* of what came back, against the chirp that was sent with a peak of 1 */
};

#define ROUND_TRIP_CLEAR 4.0

/* heard[frames] begins at the frame at which the chirp was played. Returns 0 or ERROR_MEMORY. */
int round_trip_find(const double *heard, uint64_t frames, struct round_trip *out);

#endif
