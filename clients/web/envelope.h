/*
 * The envelope: minimum and maximum of every channel over the last points, a point being some
 * frames on the grid of frame numbers. It gathers the daemon's finer points; what it has not seen
 * is UNSEEN.
 *
 * One owner; allocates in open only.
 */
#ifndef CONVOLV_WEB_ENVELOPE_H
#define CONVOLV_WEB_ENVELOPE_H

#include "trace.h"

struct envelope {
    uint32_t channels, points;
    uint64_t frames_per_point;
    uint16_t *list;   /* [channels] of the stream's */
    float *values;    /* [points][channels][2]: point p at p mod points */
    uint16_t *causes; /* [points] */
    bool begun;
    uint64_t epoch;
    uint64_t next;      /* the point after the newest, on the grid of the epoch */
    uint64_t first;     /* the oldest that belongs to this epoch */
    int64_t capture_ns; /* of the newest point's first frame; 0: unknown */
};

/* list[channels] NULL: all. 0 or ERROR_MEMORY; close either way. */
int envelope_open(struct envelope *envelope, const uint16_t *list, uint32_t channels,
                  uint32_t points, uint64_t frames_per_point);
void envelope_close(struct envelope *envelope); /* a zeroed one is fine */

/* One finer point: values[count][2] of the stream's channels first_channel … + count - 1, from
 * frame `frame` on. */
void envelope_put(struct envelope *envelope, uint64_t epoch, uint64_t frame, int64_t capture_ns,
                  uint16_t causes, const float *values, uint32_t first_channel, uint32_t count);

/* values[channels]: minima [points], then maxima [points], oldest first; causes[points]. Returns
 * the number of the first point's first frame; points before the epoch began count below it, from
 * 0. */
uint64_t envelope_read(const struct envelope *envelope, float *values, uint16_t *causes);

#endif
