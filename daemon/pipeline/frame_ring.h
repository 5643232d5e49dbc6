/*
 * Frame ring: frames of a stream on their way from the loop to the thread of an analysis. Its
 * memory is mapped twice in a row, so that any run of frames, with those before it, lies at
 * consecutive addresses wherever the ring wraps, and nothing is copied a second time.
 *
 *     [ .. kept history | not yet taken | free .. ][ the same memory again ]
 *          released ^                  written ^
 *
 * One producer, one consumer; positions are byte counts that never wrap. Neither side waits,
 * allocates or calls the kernel.
 */
#ifndef CONVOLVD_PIPELINE_FRAME_RING_H
#define CONVOLVD_PIPELINE_FRAME_RING_H

#include <stdatomic.h>
#include <stdint.h>

struct frame_ring {
    uint8_t *bytes;            /* capacity bytes, and the same again behind them */
    uint64_t capacity;         /* a multiple of the page size */
    uint64_t written;          /* producer: everything before it has been passed on */
    _Atomic uint64_t released; /* consumer: everything before it may be overwritten */
};

/* Rounds the capacity up to whole pages; memory is touched when used. 0 or ERROR_MEMORY. */
int frame_ring_open(struct frame_ring *ring, uint64_t capacity_bytes);
void frame_ring_close(struct frame_ring *ring); /* a zeroed ring is fine */

/* Producer: bytes that can be written now. */
static inline uint64_t frame_ring_room(const struct frame_ring *ring)
{
    return ring->capacity - (ring->written - atomic_load(&ring->released));
}

/* The memory of position `at`; that of the positions behind it follows, up to one capacity. */
static inline uint8_t *frame_ring_at(const struct frame_ring *ring, uint64_t at)
{
    return ring->bytes + at % ring->capacity;
}

#endif
