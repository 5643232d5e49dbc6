/*
 * A-scans: runs of `frames` frames, one a record (epoch) or one a period, averaged frame by frame
 * over `average` of them. An invalid frame makes its point of the average invalid.
 *
 * One owner; allocates in open only.
 */
#ifndef CONVOLV_WEB_ASCAN_H
#define CONVOLV_WEB_ASCAN_H

#include "trace.h"
#include "want.h"

struct ascan {
    uint32_t frames, channels, average;
    uint64_t period; /* 0: records */
    uint16_t list[WANT_SCOPE_CHANNELS];
    double *sums;     /* [channels][frames] */
    uint16_t *causes; /* [frames] */
    uint32_t averages;
    uint64_t epoch, next; /* the next A-scan's first frame */
    bool begun;
    uint64_t first_epoch, first_frame; /* of the newest A-scan added */
};

/* 0 or ERROR_MEMORY; close either way. */
int ascan_open(struct ascan *ascan, uint32_t frames, uint64_t period, uint32_t average,
               const uint16_t *list, uint32_t channels);
void ascan_close(struct ascan *ascan); /* a zeroed one is fine */

/* Adds the next A-scan if all of its frames are there; true: the average is complete, and stays
 * until ascan_clear. Call it after every part of the trace, until it returns false. */
bool ascan_take(struct ascan *ascan, const struct trace *trace);
/* values[channels][frames] */
void ascan_read(const struct ascan *ascan, float *values);
void ascan_clear(struct ascan *ascan);

#endif
