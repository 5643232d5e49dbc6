/*
 * Geometry: what a specification comes to before any memory is taken. Which N, how many partitions
 * of how many taps, how much state. The rule that chooses N counts operations; measured wisdom can
 * replace it.
 *
 * Pure functions, worker threads.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_LAYOUT_H
#define CONVOLVD_CONVOLVE_PLAN_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct device;
struct plan_spec;
struct variant;

/* Where a transform lies: in local memory, or, when it does not fit, in a scratch piece of STATE.
 * Such a piece belongs to a group of a launch; or it is a slot that a group takes while it runs, so
 * that a thread finds the piece of its last group in its cache. */
enum scratch { SCRATCH_LOCAL, SCRATCH_GLOBAL, SCRATCH_SLOTS };
/* Bytes before the slots: a word for each, 1 while it is taken. */
enum { SLOTS_MAX = 1024, SLOT_WORDS_BYTES = SLOTS_MAX * 4 };

/* The tail of "partitioned". */
struct tail_layout {
    uint32_t span;       /* R: blocks of a long block; 0: there is no tail */
    uint32_t fft;        /* its N, at least 2·R·L */
    uint32_t partitions; /* of R·L taps, behind the first 2·R·L */
    bool shared;         /* several groups share the products of a long block */
};

struct layout {
    const struct variant *variant;
    uint32_t fft;
    uint32_t taps_longest;
    uint32_t partitions;       /* of the longest filter */
    uint32_t partition_taps;   /* B, a multiple of L when there are several */
    uint32_t partition_blocks; /* B / L, 1 when there is one partition */
    uint32_t history_blocks;   /* (partitions - 1) · partition_blocks */
    uint32_t tail_blocks;      /* D: blocks whose tails reach into one, overlap-add only */
    enum scratch scratch;
    uint32_t planes;    /* transforms of scratch a group has */
    uint32_t items;     /* work-items of a group, unless a stage says otherwise */
    uint32_t vector;    /* lanes of a vector; 0: the kernels' own */
    uint32_t rows;      /* "lanes": rows that a group computes; 0: the variant has no choice */
    uint32_t fft_lanes; /* root lanes of its FFT: 1 or the device's; 0: it has tables of its own */
    struct tail_layout tail; /* partitioned only */
};

/* Geometry for one variant: 0, or ERROR_UNSUPPORTED / ERROR_LIMIT with the reason. `by_name`: the
 * user asked for this variant, so that it need not be a good choice. */
int layout_make(const struct device *device, const struct plan_spec *spec,
                const struct variant *variant, bool by_name, struct layout *layout,
                struct problem *problem);

/* ---- for the variants -------------------------------------------------------------------- */

/* For a variant's own `layout`, which may change the result: N by rule, partitions, local or global
 * scratch, one plane. Sets everything. */
int layout_standard(const struct device *device, const struct plan_spec *spec,
                    const struct variant *variant, bool by_name, struct layout *layout,
                    struct problem *problem);

/* The cheapest N for `taps` in partitions of whole blocks, by operations; 0: there is none. How
 * many partitions that makes, and the operations a block costs. */
uint32_t layout_partitioned_fft(const struct device *device, const struct plan_spec *spec,
                                uint32_t taps);
uint32_t layout_partition_count(uint32_t fft, uint32_t hop, uint32_t taps);
double layout_block_cost(uint32_t fft, uint32_t partitions);

/* For `objection`: not every output has one edge of an input of its own. NULL: they have. */
const char *layout_single_edges(const struct plan_spec *spec);
/* The same for one that lets several outputs hear one input: not every output has one edge. */
const char *layout_output_edges(const struct plan_spec *spec);
/* Some filter has an imaginary part that an output takes. */
bool layout_any_complex(const struct plan_spec *spec);

#endif
