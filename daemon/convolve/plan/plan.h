/*
 * A plan: how one stream is computed on one device. It holds the launches of a batch (stages) with
 * templates of their rows, its pieces of device memory, and what a block costs. assemble.h makes
 * one of a specification and a layout.
 *
 * Immutable once prepared, except what it keeps in STATE (cache.h) and the costs, which any thread
 * reads.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_PLAN_H
#define CONVOLVD_CONVOLVE_PLAN_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/cache.h"
#include "convolve/plan/layout.h"
#include "convolve/plan/spec.h"
#include "kernels/row.h"

struct device;
struct device_fft_plan;
struct kernel;
struct plan_reference;
struct planner;

enum { STAGES_MAX = 8, STAGE_NUMBERS = 5, STAGE_KERNELS = 3 };

/* struct report_row in words of OUTPUT. */
enum { REPORT_FLOATS = sizeof(struct report_row) / sizeof(float) };

/* What a stage leaves in STATE for later blocks: it runs again for the blocks before an item when
 * the state is not there. */
enum stage_keeps {
    KEEPS_NOTHING,
    KEEPS_SPECTRA, /* for layout.history_blocks + layout.tail_blocks */
    KEEPS_PLANES,  /* for layout.tail_blocks */
};

/* Reports that the kernels pack, and of what (struct report_row and below, kernels/row.h). */
enum plan_packing { PACKS_NOTHING, PACKS_INT16, PACKS_FLOAT };

/* Computes a stage's rows on the device thread, or enqueues what does. rows[count] lie in TABLE.
 * 0 or ERROR_DEVICE, logged. */
typedef int stage_function(struct device *device, const struct plan *plan, const struct row *rows,
                           uint32_t count);

/*
 * One launch of a batch. A batch runs the stages of its plans in the order of their numbers;
 * plans whose stages are alike (stages_alike) share the launch: their rows lie side by side.
 */
struct stage {
    struct kernel *kernel; /* NULL: `run` computes the rows */
    /* NULL: `kernel` computes every block. Else it computes blocks that are written whole and whose
     * window has no absent frames, does not wrap in the ring and begins at a multiple of
     * `whole_slots` there; `rare` computes all others. Both give the same bits, and leave out what
     * is the other's. */
    struct kernel *rare;
    uint32_t whole_slots;
    stage_function *run;
    uint32_t items;           /* work-items of a group */
    uint32_t group_blocks;    /* blocks of a row that a group computes */
    uint32_t block_groups;    /* groups that share these blocks of a row */
    uint32_t groups_together; /* neighbouring groups that one launch has to compute; 1: any */
    uint32_t group_rows;      /* rows that a group computes; `count` is a multiple of it */
    /* The kernels read the items' struct row_group and the templates in place of rows: they get the
     * number of the launch's first group for that of its first row. They also write the counts of
     * clipped samples of every block, which nobody needs to clear. */
    bool reads_groups;
    uint32_t sides; /* groups of rows, a divisor of those of an item, that lie side by side in the
                       launch's first dimension, before the next blocks */
    uint64_t local_bytes;  /* of the argument local_points */
    uint64_t shared_bytes; /* of the argument shared; 0: a report for each item */
    enum stage_keeps keeps;
    struct kernel *own[STAGE_KERNELS]; /* those that `run` launches itself */
    uint32_t keeps_blocks; /* at most so many blocks before the item leave what is needed; 0: all */
    uint32_t span_blocks; /* its rows take so many blocks as one: row.start is where the span of the
                             first block begins; 0: one */
    struct device_fft_plan *fft_plan; /* NULL: the plan's */
    uint64_t numbers[STAGE_NUMBERS];  /* further arguments of the kernel, ulong */
    uint32_t number_count;
    struct row *rows; /* templates, [count] of `capacity` */
    uint32_t count, capacity;
    uint64_t templates; /* SPECTRUM, in bytes: the same on a device with memory of its own */
};

struct plan {
    /* immutable once prepared */
    struct planner *planner;
    struct plan_info info;
    struct layout layout;
    struct device_fft_plan *fft_plan;      /* NULL: layout.fft_lanes is 0 */
    struct device_fft_plan *tail_fft_plan; /* NULL: layout.tail.span is 0 */
    double input_limit;                    /* of its edges, see input_limit.h */
    uint32_t hop, blocks_max;
    uint32_t report_rows; /* of a block: its inputs' reports, and room for packed ones and for its
                             clip counts */
    enum plan_packing packing;
    struct stage stages[STAGES_MAX];
    uint32_t stage_count;
    uint32_t rows_most; /* rows one item can need */
    uint32_t slots, plane_slots;
    /* bytes; ROW_NONE: none */
    uint64_t spectra_offset, state_offset, scratch_offset, templates_offset;
    /* make rows of templates (kernels/rows.cl); NULL: the host writes them */
    struct kernel *rows_fill, *rows_fill_many;
    struct kernel *words_clear; /* likewise; clears counts of clipped samples */
    uint32_t scratch_groups;
    uint64_t scratch_queue_bytes; /* from one queue's scratch to the next one's; 0: one for all */
    bool stateful;
    struct plan_reference *reference; /* NULL: not prepared yet */

    /* device thread: which blocks lie in STATE */
    struct plan_cache cache;
    /* device thread: batches whose full reports are copied, too; some lately were full (reports.h)
     */
    uint32_t full_lately;
    /* LOOP: which will, once all that was submitted is computed; an estimate after a failed batch
     */
    struct plan_cache submitted;

    /* written by the device thread, read by any */
    _Atomic int64_t cost_base_ns, cost_block_ps;
    _Atomic int64_t cost_spectra_ps; /* of a block whose spectra alone are computed again */
};

/* The first frame of an item at this block of its epoch that the plan keeps, below D. */
uint32_t plan_kept_first(const struct plan *plan, uint64_t epoch_block);
/* Frames that the plan keeps of `blocks` blocks from there on. */
uint64_t plan_kept(const struct plan *plan, uint64_t epoch_block, uint32_t blocks);

/* Reports whose room the counts of clipped samples of so many outputs and packed reports of so many
 * inputs take. */
uint32_t plan_small_rows(uint32_t outputs, uint32_t inputs);

/* What it keeps on the device. */
struct plan_keeps plan_keeps(const struct plan *plan);

/* Floats of OUTPUT that the samples of so many frames take. */
uint64_t plan_floats(const struct plan *plan, uint64_t frames);

/* Blocks of the plan that an empty batch holds, at most its blocks_max, at least 1. */
uint32_t plan_blocks_fit(const struct plan *plan);

/* Expected device time of computing this again [ns]. A block of planes counts as one of an item,
 * which is an upper bound. */
int64_t plan_rebuild_cost_ns(const struct plan *plan, const struct plan_rebuild *rebuild);

/* Device thread: moves the cost of this plan's items, or of its spectra alone, towards `factor` of
 * what it is. */
void plan_cost_scale(struct plan *plan, double factor);
void plan_spectra_cost_scale(struct plan *plan, double factor);

#endif
