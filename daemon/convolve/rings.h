/*
 * The rings of an engine: their memory in the device's INPUT arena. Worker threads holding
 * planner.workers.
 */
#ifndef CONVOLVD_CONVOLVE_RINGS_H
#define CONVOLVD_CONVOLVE_RINGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "convolve/ring.h"
#include "core/error.h"

struct device;

struct ring_memory {
    struct ring ring;                      /* first: the caller's pointer */
    uint64_t bytes_offset, present_offset; /* in INPUT */
    uint64_t serial; /* never used twice, so that a plan's cache knows its ring */
    _Atomic uint32_t feeds_waiting;
    /* device thread: positions whose presence bits are not on the device yet, ring_unseen */
    uint64_t unseen_from, unseen_until;
    /* device thread, mirror.h: the device was given positions below mirrored_until; those below
     * stale_until have to be copied again, since a copy may have failed; as of that failure */
    uint64_t mirrored_until, stale_until;
    uint64_t failure_seen;
    struct ring_memory *next_left; /* of a lost engine, see engine_leave_ring */
};

struct rings {
    struct device *device;
    uint64_t serial; /* of the ring made last */
    uint32_t open;
};

/* As engine_ring_open and engine_ring_close; no feed may wait for a ring that is given back. */
int rings_take(struct rings *rings, uint64_t frames_min, uint32_t frame_bytes, struct ring **out,
               struct problem *problem);
void rings_give(struct rings *rings, struct ring *ring); /* NULL is fine */

/* Device thread: the presence of positions [from, until) has changed; the device is told when a
 * batch first reads it. */
void ring_unseen(struct ring_memory *ring, uint64_t from, uint64_t until);

#endif
