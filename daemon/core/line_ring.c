/* Line ring: see line_ring.h. */
#include "core/line_ring.h"

#include <stddef.h>

void line_ring_reset(struct line_ring *ring)
{
    for (uint64_t i = 0; i < LINE_RING_SLOTS; i++)
        atomic_store_explicit(&ring->lines[i].turn, i, memory_order_relaxed);
    atomic_store_explicit(&ring->refused, 0, memory_order_relaxed);
    ring->tail = 0;
    atomic_store_explicit(&ring->head, 0, memory_order_release);
}

struct line *line_ring_claim(struct line_ring *ring)
{
    uint64_t position = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {
        struct line *line = &ring->lines[position % LINE_RING_SLOTS];
        uint64_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);
        if (turn == position) {
            if (atomic_compare_exchange_weak_explicit(&ring->head, &position, position + 1,
                                                      memory_order_relaxed, memory_order_relaxed))
                return line;
        } else if (turn < position) { /* still holds the line of one round ago */
            atomic_fetch_add_explicit(&ring->refused, 1, memory_order_relaxed);
            return NULL;
        } else { /* another writer has claimed this position meanwhile */
            position = atomic_load_explicit(&ring->head, memory_order_relaxed);
        }
    }
}

void line_ring_publish(struct line *line)
{
    /* Until then nobody but the claimer writes the turn. */
    uint64_t position = atomic_load_explicit(&line->turn, memory_order_relaxed);
    atomic_store_explicit(&line->turn, position + 1, memory_order_release);
}

const struct line *line_ring_front(struct line_ring *ring)
{
    struct line *line = &ring->lines[ring->tail % LINE_RING_SLOTS];
    uint64_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);
    return turn == ring->tail + 1 ? line : NULL;
}

void line_ring_release(struct line_ring *ring)
{
    struct line *line = &ring->lines[ring->tail % LINE_RING_SLOTS];
    atomic_store_explicit(&line->turn, ring->tail + LINE_RING_SLOTS, memory_order_release);
    ring->tail++;
}

uint64_t line_ring_take_refused(struct line_ring *ring)
{
    return atomic_exchange_explicit(&ring->refused, 0, memory_order_relaxed);
}
