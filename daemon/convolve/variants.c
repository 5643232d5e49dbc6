/*
 * The table of variants, in order of preference; what each can do is checked in layout.c.
 * Adding one is a kernel file, its stages in plan.c, and a row here. The paces were measured on an
 * AVX-512 Xeon with PoCL 3.1, 16 channels, blocks of 512 frames, 1025 to 4095 taps.
 */
#include <stddef.h>

#include "convolve/internal.h"

static const struct variant variants[] = {
    {
        .name = "lanes",
        .sentence =
            "overlap-save on CPUs, one launch: a channel in each lane, one edge each, one block",
        .pace = 3.3,
        .one_launch = true,
        .lanes = true,
    },
    {
        .name = "fused",
        .sentence = "overlap-save in one launch: outputs of one edge, filters that fit one block",
        .pace = 1.4,
        .one_launch = true,
    },
    {
        .name = "general",
        .sentence = "overlap-save for any set of edges, filters of any length in partitions",
        .partitions = true,
    },
    {
        .name = "overlap-add",
        .sentence = "zero-padded blocks in one launch, their tails gathered in a second",
        .pace = 1.0,
        .one_launch = true,
        .overlap_add = true,
    },
    {
        .name = "overlap-add-general",
        .sentence = "overlap-add for any set of edges, filters of any length in partitions",
        .partitions = true,
        .overlap_add = true,
    },
};

const struct variant *variant_at(int index)
{
    if (index < 0 || index >= (int)(sizeof variants / sizeof variants[0]))
        return NULL;
    return &variants[index];
}

const char *engine_variant_name(int index)
{
    const struct variant *variant = variant_at(index);
    return variant != NULL ? variant->name : NULL;
}
