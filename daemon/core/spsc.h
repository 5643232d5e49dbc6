/*
 * SPSC ring of pointers: one producing thread, one consuming thread, no locks. The two
 * indices live on cache lines of their own; each side keeps a copy of the other's index and
 * refreshes it only when the copy says full or empty.
 *
 *     head (consumer) ──► [ . . x x x x . . ] ◄── tail (producer)
 *
 * push and pop never block, allocate or call the kernel. The caller wakes the other side; wakes
 * coalesce, so a woken consumer pops until NULL.
 */
#ifndef CONVOLVD_CORE_SPSC_H
#define CONVOLVD_CORE_SPSC_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spsc {
    void **slots;
    size_t mask;
    alignas(64) _Atomic size_t head;
    size_t tail_seen; /* consumer's copy */
    alignas(64) _Atomic size_t tail;
    size_t head_seen; /* producer's copy */
};

/* capacity: rounded up to a power of two, at least 2. Returns 0 or ERROR_MEMORY. */
int spsc_open(struct spsc *ring, size_t capacity);

/* Frees the slots; items still in the ring stay the caller's. A zeroed ring is fine. */
void spsc_close(struct spsc *ring);

/* Producer thread. False when full. item must not be NULL. */
static inline bool spsc_push(struct spsc *ring, void *item)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen > ring->mask)
            return false;
    }
    ring->slots[tail & ring->mask] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

/* Consumer thread. NULL when empty. */
static inline void *spsc_pop(struct spsc *ring)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->tail_seen)
            return NULL;
    }
    void *item = ring->slots[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

/* Consumer thread. */
static inline bool spsc_empty(const struct spsc *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}

#endif
