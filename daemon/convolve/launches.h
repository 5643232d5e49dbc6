/*
 * The launches of a batch, and what is left of them for a batch in parts. Plain data of the device
 * thread; launch.h makes them, parts.h enqueues them.
 */
#ifndef CONVOLVD_CONVOLVE_LAUNCHES_H
#define CONVOLVD_CONVOLVE_LAUNCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/plan.h"

/* Whether blocks of a launch are its stage's kernel's, and whether some are `rare`'s (plan.h). */
struct launch_share {
    bool whole, rare;
};

/* A stage's rows of all items of a batch that share it. */
struct launch {
    const struct plan *plan;
    const struct stage *stage;
    uint32_t first; /* row of TABLE, or group (stage.reads_groups) */
    uint32_t rows, blocks;
    struct launch_share share; /* of any of its items */
};

/* Launches of an item at most: each stage for the blocks before it and for its own. */
enum { ITEM_LAUNCHES = 2 * STAGES_MAX };

/* Items of a batch in parts at most: what two plans of one stream have to have seen before a block,
 * and the block by both. A batch of more items goes whole. */
enum { PARTED_ITEMS = 4 };

/* What is left of a batch in parts. */
struct parts {
    struct launch launches[PARTED_ITEMS * ITEM_LAUNCHES];
    uint32_t count, at;  /* launches; the one that the next part is of … */
    uint32_t row, group; /* … and where in it that begins */
    double share;        /* of the batch's time that a part may take, at least 0 */
};

#endif
