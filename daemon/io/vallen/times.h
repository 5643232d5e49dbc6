/*
 * Times of a file: turns frames into ticks of 100 ns since the file's origin.
 *
 * The origin is the whole second of wall-clock time before the first event, so that the date-time
 * set of the file, which has no fractions, names it exactly. Within an epoch a time follows from
 * the frame number alone, rounded once: differences between channels are those of the sample clock,
 * whatever the wall clock does. The first event of an epoch ties the epoch to the wall clock.
 *
 * Ticks never fall: an epoch that begins before the last time given (the wall clock was set back,
 * or records overlap) is moved behind it and counted in `moved`.
 *
 * Pure, one owner.
 */
#ifndef CONVOLVD_IO_VALLEN_TIMES_H
#define CONVOLVD_IO_VALLEN_TIMES_H

#include <stdbool.h>
#include <stdint.h>

/* Ticks a second: `TimeBase` of every file written here. */
#define VALLEN_TIME_BASE INT64_C(10000000)

/* count · to / from, rounded to nearest, ties to even; from, to > 0. Saturates at 64 bits. */
int64_t vallen_rescale(int64_t count, int64_t to, int64_t from);

struct vallen_times {
    int64_t rate_hz;
    bool begun;
    int64_t origin_ns; /* realtime of tick 0 */
    int64_t last;      /* the latest time given */
    uint64_t epoch, anchor_frame;
    int64_t anchor; /* ticks of that frame */
    bool anchored;
    uint64_t moved; /* epochs that would have begun before `last` */
};

void vallen_times_open(struct vallen_times *times, int64_t rate_hz);

/* Ties the epoch to the wall clock, unless it is the present one: so much is the time of its frame
 * at the sensor [realtime]. */
void vallen_times_anchor(struct vallen_times *times, uint64_t epoch, uint64_t frame,
                         int64_t arrival_ns);

/* The ticks of a frame of the present epoch, at least `last`, and so from now on the latest. */
int64_t vallen_times_at(struct vallen_times *times, uint64_t frame);

/* The same of an instant that belongs to no present epoch. */
int64_t vallen_times_wall(struct vallen_times *times, int64_t realtime_ns);

#endif
