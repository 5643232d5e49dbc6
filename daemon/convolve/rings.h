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
    /* device thread: positions whose presence bits are not on the device yet */
    uint64_t unseen_from, unseen_until;
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

#endif
