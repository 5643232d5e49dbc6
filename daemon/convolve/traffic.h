/*
 * Traffic: the bytes that cross between the host and a device with memory of its own. The device
 * thread counts, any thread reads.
 */
#ifndef CONVOLVD_CONVOLVE_TRAFFIC_H
#define CONVOLVD_CONVOLVE_TRAFFIC_H

#include <stdatomic.h>
#include <stdint.h>

/* struct engine_traffic of engine.h explains the fields. */
struct traffic {
    _Atomic uint64_t ring, presence, table, result, fed;
};

/* Adds to a figure that only the calling thread writes. */
static inline void traffic_add(_Atomic uint64_t *figure, uint64_t bytes)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

#endif
