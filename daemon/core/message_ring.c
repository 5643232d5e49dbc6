/*
 * Message ring: see message_ring.h. A message is preceded by one alignment unit that holds its
 * length, so that messages stay aligned for any type; the length SKIP means that nothing more
 * follows up to the end of the memory.
 */
#include "core/message_ring.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "core/error.h"

#define SKIP UINT64_MAX

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + MESSAGE_ALIGNMENT - 1) / MESSAGE_ALIGNMENT * MESSAGE_ALIGNMENT;
}

int message_ring_open(struct message_ring *ring, uint64_t capacity_bytes)
{
    memset(ring, 0, sizeof *ring);
    uint64_t capacity = round_up(capacity_bytes > 4096 ? capacity_bytes : 4096);
    void *bytes = mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return ERROR_MEMORY;
    ring->bytes = bytes;
    ring->capacity = capacity;
    return 0;
}

void message_ring_close(struct message_ring *ring)
{
    if (ring->bytes != NULL)
        munmap(ring->bytes, ring->capacity);
    memset(ring, 0, sizeof *ring);
}

uint64_t message_ring_longest(const struct message_ring *ring)
{
    return ring->capacity / 2 - MESSAGE_OVERHEAD;
}

uint64_t message_ring_unused(const struct message_ring *ring)
{
    uint64_t head = atomic_load(&ring->head);
    return ring->capacity - (atomic_load(&ring->tail) - head);
}

static uint64_t *length_at(struct message_ring *ring, uint64_t position)
{
    return (uint64_t *)(void *)(ring->bytes + position % ring->capacity);
}

void *message_ring_reserve(struct message_ring *ring, uint64_t bytes)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t unused =
        ring->capacity - (tail - atomic_load_explicit(&ring->head, memory_order_acquire));
    uint64_t taken = MESSAGE_ALIGNMENT + round_up(bytes);
    uint64_t before_end = ring->capacity - tail % ring->capacity;
    uint64_t skipped = taken > before_end ? before_end : 0;
    if (bytes > ring->capacity || skipped + taken > unused)
        return NULL;
    if (skipped > 0)
        *length_at(ring, tail) = SKIP;
    *length_at(ring, tail + skipped) = bytes;
    ring->tail_next = tail + skipped + taken;
    return ring->bytes + (tail + skipped) % ring->capacity + MESSAGE_ALIGNMENT;
}

void message_ring_commit(struct message_ring *ring)
{
    atomic_store_explicit(&ring->tail, ring->tail_next, memory_order_release);
}

void *message_ring_peek(struct message_ring *ring, uint64_t *bytes)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return NULL;
    if (*length_at(ring, head) == SKIP)
        head += ring->capacity - head % ring->capacity; /* the message itself follows: one commit */
    *bytes = *length_at(ring, head);
    ring->head_next = head + MESSAGE_ALIGNMENT + round_up(*bytes);
    return ring->bytes + head % ring->capacity + MESSAGE_ALIGNMENT;
}

const void *message_ring_look(const struct message_ring *ring, uint64_t *position, uint64_t *bytes)
{
    uint64_t at = *position == UINT64_MAX ? atomic_load(&ring->head) : *position;
    if (at == atomic_load_explicit(&ring->tail, memory_order_relaxed))
        return NULL;
    if (*length_at((struct message_ring *)ring, at) == SKIP)
        at += ring->capacity - at % ring->capacity;
    *bytes = *length_at((struct message_ring *)ring, at);
    *position = at + MESSAGE_ALIGNMENT + round_up(*bytes);
    return ring->bytes + at % ring->capacity + MESSAGE_ALIGNMENT;
}

void message_ring_release(struct message_ring *ring)
{
    assert(ring->head_next > atomic_load_explicit(&ring->head, memory_order_relaxed));
    atomic_store_explicit(&ring->head, ring->head_next, memory_order_release);
}
