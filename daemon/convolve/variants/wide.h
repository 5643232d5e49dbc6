/*
 * The shapes of "fused" in which a group moves whole memory sectors: for real results of an even
 * number of channels, or of one, from floats or 16-bit integers (kernels/fused_wide.cl). A table
 * says for each number of points, kind of samples and one or many channels how the transform is
 * cut, and whether groups share a window (kernels/fused_split.cl).
 *
 * The cut into passes depends on nothing else, so that plans which differ in their result format or
 * in their decimation compute the same bits.
 *
 * Pure functions, worker threads.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_WIDE_H
#define CONVOLVD_CONVOLVE_VARIANTS_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolve/variants/registers.h"

struct plan_spec;

struct wide {
    struct registers shape; /* its width and blocks as for 16 channels, or for one */
    uint32_t limit; /* registers of an item, on NVIDIA's devices; 0: the compiler's choice */
    enum { PREFETCH_NONE, PREFETCH_FIRST, PREFETCH_LATER } prefetch; /* kernels/fused_wide.cl */
    bool lines;                                                      /* likewise */
    uint32_t split; /* groups that share a window, each with a transform of shape.points; 1: none */
    uint32_t
        rule_channels; /* with more it is computed only where the user names "fused", or tunes */
    bool packs_late;   /* packed reports are made after the results, kernels/packed.clh */
};

/* The table's shape for Q points of this specification; NULL: there is none. */
const struct wide *wide_find(const struct plan_spec *spec, uint32_t points);

/* The shape of a group: with fewer channels more blocks, loads as the block's length allows. False:
 * it does not fit `local_bytes` and `items_most`. */
bool wide_fit(const struct wide *wide, const struct plan_spec *spec, uint64_t local_bytes,
              uint32_t items_most, struct registers *shape);

/* The bin at a place of the order in which the groups of a window hold spectra, one after the
 * other, and each two points of an item side by side. */
uint32_t wide_bin(const struct registers *shape, uint32_t split, uint32_t place);

/* Bytes of the argument `reports` of a group. */
uint64_t wide_report_bytes(const struct registers *shape);

/* Twiddles of the passes after the first, as registers.clh reads them; 0 floats: without TABLES. */
uint64_t wide_table_floats(const struct registers *shape);
void wide_table(const struct registers *shape, float *table);

/* Options of fused_wide.cl beside those of the shape; `nvidia`: for a device of that platform.
 * Returns the length. */
int wide_options(const struct wide *wide, const struct registers *shape, uint32_t channels,
                 bool nvidia, char *options, size_t bytes);

#endif
