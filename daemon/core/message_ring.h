/*
 * Message ring: passes messages of any length from one producing thread to one consuming thread in
 * memory allocated once. Like spsc.h it never blocks, allocates or calls the kernel; the caller
 * wakes the other side.
 *
 *     head (consumer) ──► [length|message][length|message][skip … to the end] ◄── tail (producer)
 *
 * Positions are byte counts that never wrap. A message is never split: where it does not fit before
 * the end of the memory, the ring skips the rest.
 */
#ifndef CONVOLVD_CORE_MESSAGE_RING_H
#define CONVOLVD_CORE_MESSAGE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MESSAGE_ALIGNMENT = 64,                   /* of every message, and of what it takes */
    MESSAGE_OVERHEAD = 2 * MESSAGE_ALIGNMENT, /* at most this beyond its own bytes */
};

struct message_ring {
    uint8_t *bytes;
    uint64_t capacity; /* a multiple of MESSAGE_ALIGNMENT */
    alignas(64) _Atomic uint64_t head;
    uint64_t head_next; /* consumer: where `release` puts head */
    alignas(64) _Atomic uint64_t tail;
    uint64_t tail_next; /* producer: where `commit` puts tail */
};

/* capacity_bytes: rounded up to a multiple of MESSAGE_ALIGNMENT; touched only when used. Returns 0
 * or ERROR_MEMORY. */
int message_ring_open(struct message_ring *ring, uint64_t capacity_bytes);
void message_ring_close(struct message_ring *ring); /* a zeroed ring is fine */

/* The longest message that is sure to fit once the ring is empty. */
uint64_t message_ring_longest(const struct message_ring *ring);

/* Producer: memory for a message of `bytes`, or NULL when there is no room. Valid until commit. */
void *message_ring_reserve(struct message_ring *ring, uint64_t bytes);
/* Producer: passes on the message reserved last. */
void message_ring_commit(struct message_ring *ring);

/* Consumer: the oldest message, or NULL. Valid until release. */
void *message_ring_peek(struct message_ring *ring, uint64_t *bytes);
void message_ring_release(struct message_ring *ring);

/* Producer: the message at *position, which then is that of the next one; NULL past the newest.
 * Begin with *position = UINT64_MAX, the oldest that the consumer has not released. What the
 * consumer releases meanwhile stays readable until the next reserve. */
const void *message_ring_look(const struct message_ring *ring, uint64_t *position, uint64_t *bytes);

/* Bytes not in use, headers and skips not deducted. Either thread; the other one may be changing
 * it. */
uint64_t message_ring_unused(const struct message_ring *ring);

#endif
