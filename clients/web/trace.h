/*
 * A trace: the newest frames of a few channels of one side of a stream, by frame number. What did
 * not come is there as zeros with the cause UNSEEN; another epoch begins anew.
 *
 * One owner; allocates in open only.
 */
#ifndef CONVOLV_WEB_TRACE_H
#define CONVOLV_WEB_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/packet.h"

/* Bits of the causes besides those of invalid frames: input that is not there; not looked at. */
enum { CAUSE_ABSENT = 1 << INVALID_CAUSES, CAUSE_UNSEEN = 2 << INVALID_CAUSES };

struct trace {
    uint32_t channels, capacity; /* a power of two */
    float *values;               /* [capacity][channels]: frame n at n mod capacity */
    uint16_t *causes;            /* [capacity]; 0: valid */
    uint64_t epoch;
    uint64_t oldest, next;  /* the frames kept; equal: none */
    bool begun, from_start; /* of the epoch: frame 0 has been seen */
    bool ended;
    double rate_hz;
    uint64_t capture_frame; /* captured at capture_ns (realtime); 0: unknown */
    int64_t capture_ns;
};

/* Room for at least `frames`. 0 or ERROR_MEMORY; close either way. */
int trace_open(struct trace *trace, uint32_t channels, uint32_t frames, double rate_hz);
void trace_close(struct trace *trace); /* a zeroed one is fine */

/* Whether these frames belong to another epoch than those kept: what is kept goes when they are
 * put. */
bool trace_restarts(const struct trace *trace, uint64_t epoch, uint64_t first_frame);
/* values[frames][channels]; they are valid until trace_mark says otherwise. */
void trace_put(struct trace *trace, uint64_t epoch, uint64_t first_frame, uint32_t frames,
               const float *values);
/* Frames [from, until) are invalid for these causes, besides others. */
void trace_mark(struct trace *trace, uint64_t from, uint64_t until, uint16_t causes);

/* Of a frame that is kept. */
static inline const float *trace_frame(const struct trace *trace, uint64_t frame)
{
    return trace->values + (frame & (trace->capacity - 1)) * trace->channels;
}

static inline uint16_t trace_causes(const struct trace *trace, uint64_t frame)
{
    return trace->causes[frame & (trace->capacity - 1)];
}

/* Realtime; 0: unknown. */
int64_t trace_capture_ns(const struct trace *trace, uint64_t frame);

#endif
