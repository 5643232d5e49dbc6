/*
 * What a plan keeps on the device from block to block, as a cache: spectra of input blocks (a delay
 * line) and planes (tails, sums) of the newest blocks of one epoch. A block needs both of the
 * blocks before it, as far as the plan's layout says. This module knows which blocks are there, and
 * which have to be computed again before a block that does not follow them: after blocks that were
 * left out (shed, say) only those, else all that the block depends on.
 *
 *     blocks of the epoch   … ├──── history ────┼── tail ──┤ first
 *     spectra needed          ├────────────────────────────┤
 *     planes needed                             ├──────────┤
 *
 * A plan has two of them: the device thread's tells what is there, LOOP's what will be there when
 * all that was submitted is computed. Plain values: no thread, no device.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_CACHE_H
#define CONVOLVD_CONVOLVE_PLAN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* How far a plan reaches back, in blocks; all 0: it keeps nothing. */
struct plan_keeps {
    uint32_t history;       /* spectra that a block reads, */
    uint32_t tail;          /* planes, and further spectra that these are computed from */
    uint32_t slots, planes; /* what there is room for */
};

/* Zeroed: nothing is there. */
struct plan_cache {
    uint64_t ring_serial;
    uint64_t origin; /* ring position of the epoch's block 0, modulo 2^64 */
    uint64_t spectra_from, planes_from, until; /* blocks of the epoch */
    bool valid;
};

/* Where an item begins. */
struct plan_place {
    uint64_t ring_serial, origin;
    uint64_t first; /* block of the epoch */
};

/* Blocks [from, until) of an epoch. */
struct plan_blocks {
    uint64_t from, until;
};

/* What is computed again before an item; both empty: nothing. */
struct plan_rebuild {
    struct plan_blocks spectra, planes;
};

/* What is missing before an item at this place. */
struct plan_rebuild plan_cache_missing(const struct plan_keeps *keeps,
                                       const struct plan_cache *cache,
                                       const struct plan_place *place);

/* The first `blocks` blocks of it. */
struct plan_rebuild plan_rebuild_part(const struct plan_rebuild *missing, uint32_t blocks);

/* The cache after `rebuilt`, a part of what was missing at this place, has been computed. */
void plan_cache_rebuilt(const struct plan_keeps *keeps, struct plan_cache *cache,
                        const struct plan_place *place, const struct plan_rebuild *rebuilt);

/* The cache after the item's own blocks, before which nothing is missing. */
void plan_cache_computed(const struct plan_keeps *keeps, struct plan_cache *cache,
                         const struct plan_place *place, uint32_t blocks);

static inline uint32_t plan_blocks_count(const struct plan_blocks *blocks)
{
    return blocks->until > blocks->from ? (uint32_t)(blocks->until - blocks->from) : 0;
}

#endif
