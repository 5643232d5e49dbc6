/*
 * When the next batch should come: batches of a stream come block by block, at regular intervals.
 * A thread that knows when can be awake by then; to wake it takes as long as a small batch's
 * kernel.
 *
 * Pure functions of their arguments; an object belongs to one thread.
 */
#ifndef CONVOLVD_CONVOLVE_ARRIVALS_H
#define CONVOLVD_CONVOLVE_ARRIVALS_H

#include <stdint.h>

/* A thread should be awake from so long before the time that arrivals_next_ns says to so long after
 * it; part of the first goes by while it wakes. */
extern const int64_t arrivals_early_ns, arrivals_late_ns;

/* Begins as all zeros. */
struct arrivals {
    int64_t last_ns;            /* when the last batch was submitted, monotonic */
    int64_t mean_ns, jitter_ns; /* of the intervals: their mean, and how far they are off it */
};

/* A batch was submitted. */
void arrivals_note(struct arrivals *arrivals, int64_t submitted_ns);

/* When the next one should come; 0: intervals are too irregular to say, or too short to be awake in
 * time for a small share of a processor. */
int64_t arrivals_next_ns(const struct arrivals *arrivals);

#endif
