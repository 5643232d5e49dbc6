/*
 * Batches: what one submission holds, and what the engine answers. Plain data; LOOP fills an item's
 * first group of fields, engine_batch_add the second, the device thread completes it.
 */
#ifndef CONVOLVD_CONVOLVE_BATCH_H
#define CONVOLVD_CONVOLVE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/spec.h"
#include "convolve/ring.h"

/*
 * What the first pass saw in the new frames of one block of one input channel (present frames
 * only). Counts and peaks are exact, sums those of single floats. Where a plan packs its reports
 * (reports.h), sums of blocks below full scale are rounded: the squares of 16-bit integers to 2e-6
 * of their value; those of floats to 6.2e-5 of it, and their sum to 1.6e-5 of block · peak.
 */
struct block_report {
    float sum, sum_squares, peak; /* physical values; peak = max |value| */
    uint32_t overload;  /* samples at either full-scale code (float: |normalised| ≥ 1) */
    uint32_t nonfinite; /* samples that were NaN, infinite or beyond the plan's limit, taken as 0 */
    uint32_t nonfinite_first, nonfinite_last; /* frame within the block; valid when nonfinite > 0 */
    uint32_t present;                         /* frames of the block that are present */
};

enum { BATCH_ITEMS_MAX = 64 };

/* J consecutive blocks of one stream. The caller sets the first group, batch_add the second. */
struct batch_item {
    struct plan *plan;
    struct ring *ring;
    void *owner;       /* the caller's */
    uint64_t position; /* ring position of the first new frame of the first block */
    uint64_t
        epoch_block;  /* number of the first block within its epoch: blocks before 0 are silence */
    uint32_t blocks;  /* J, 1…blocks_max, or 0 */
    uint32_t rebuild; /* blocks 0: how many of those that engine_missing tells are computed, the
                         earliest first, for what the plan keeps of them; no results */
    uint32_t write_from, write_until; /* frames t of the item (0…J·L) to write, kept ones; others
                                         keep what the memory held */
    uint64_t fresh_from,
        fresh_until;     /* ring positions whose bytes or presence changed since last submitted */
    bool absent;         /* some frame within reach may have its presence bit 0 */
    bool share_previous; /* writes into the previous item's samples: a change of plan inside one
                            block */

    /* [kept frames][output_floats], valid after completion until the batch is released: the frames
     * epoch_block·L + t ≡ phase (mod D) with t = 0…J·L-1, in order; with D = 1 all J·L. */
    float *samples;               /* with plan_info.results set: samples of that format, packed */
    struct block_report *reports; /* [J][inputs] */
    const uint64_t *packed; /* the engine's: what it makes them of (reports.h); NULL: nothing */
    /* [J][outputs]: samples between write_from and write_until that an integer format has clipped,
     * or that were no number; NULL: the plan's results are native. */
    const uint32_t *saturated;
};

enum batch_status { BATCH_OK = 0, BATCH_FAILED = -1 };

struct batch {
    uint32_t count;
    struct batch_item items[BATCH_ITEMS_MAX];
    int status;           /* enum batch_status; failed: samples are not valid */
    int64_t cost_ns;      /* expected device time of its items */
    int64_t part_ns;      /* the caller's: it goes to the device in parts that should take so long,
                             and batches submitted later overtake it, see engine_submit; 0: whole */
    int64_t submitted_ns; /* monotonic: engine_submit called */
    int64_t started_ns;   /* handed to the device */
    int64_t completed_ns; /* the device said complete */
    int64_t overtaken_ns; /* of the time from started to completed: between its parts */
};

#endif
