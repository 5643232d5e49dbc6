/*
 * The table of variants in the order of preference. Adding a variant is a kernel file, a C file
 * with its `const struct variant variant_NAME`, and a row here.
 *
 * The paces of the variants were measured on an AVX-512 Xeon with PoCL 3.1, 16 channels, blocks of
 * 512 frames, 1025 to 4095 taps.
 */
#include "convolve/plan/variant.h"

#include <stddef.h>

#define VARIANTS(row)                                                                              \
    row(host)                    /* without a launch: tiny batches, one edge an output */          \
        row(lanes)               /* CPU, one launch: a channel in each lane of a vector */         \
        row(fused)               /* GPU, one launch: a block in the registers of its work-group */ \
        row(staged)              /* GPU, long blocks: the transform in columns and rows */         \
        row(direct)              /* the time domain, for short filters: one edge an output */      \
        row(local)               /* one launch: one edge an output, filters that fit one block */  \
        row(partitioned)         /* long filters: one edge an output */                            \
        row(general)             /* any edges, filters of any length */                            \
        row(overlap_add)         /* as local, with tails instead of a window */                    \
        row(overlap_add_general) /* as general, with tails instead of a window */

#define DECLARE(name) extern const struct variant variant_##name;
#define POINTER(name) &variant_##name,

VARIANTS(DECLARE)

static const struct variant *const variants[] = {VARIANTS(POINTER)};

const struct variant *variant_at(int index)
{
    const int count = (int)(sizeof variants / sizeof variants[0]);
    return index >= 0 && index < count ? variants[index] : NULL;
}
