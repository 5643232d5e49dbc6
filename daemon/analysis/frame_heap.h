/*
 * A binary heap of numbers ordered by (frame, channel): hits that wait for their turn. Fixed
 * capacity, the caller's memory. One owner.
 */
#ifndef CONVOLVD_ANALYSIS_FRAME_HEAP_H
#define CONVOLVD_ANALYSIS_FRAME_HEAP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct frame_heap_item {
    uint64_t frame;
    uint32_t channel;
    uint32_t value;
};

struct frame_heap {
    struct frame_heap_item *items; /* [capacity] */
    uint32_t count, capacity;
};

static inline bool frame_before(uint64_t frame, uint32_t channel, uint64_t other_frame,
                                uint32_t other_channel)
{
    return frame != other_frame ? frame < other_frame : channel < other_channel;
}

static inline bool frame_heap_less(const struct frame_heap_item *a, const struct frame_heap_item *b)
{
    return frame_before(a->frame, a->channel, b->frame, b->channel);
}

/* There is room. */
static inline void frame_heap_put(struct frame_heap *heap, struct frame_heap_item item)
{
    assert(heap->count < heap->capacity);
    uint32_t at = heap->count++;
    for (; at > 0 && frame_heap_less(&item, &heap->items[(at - 1) / 2]); at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

/* The least; the heap is not empty. */
static inline struct frame_heap_item frame_heap_take(struct frame_heap *heap)
{
    assert(heap->count > 0);
    const struct frame_heap_item least = heap->items[0], last = heap->items[--heap->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            frame_heap_less(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (child >= heap->count || !frame_heap_less(&heap->items[child], &last))
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    if (heap->count > 0)
        heap->items[at] = last;
    return least;
}

#endif
