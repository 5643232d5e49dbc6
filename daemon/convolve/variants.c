/*
 * The table of variants, in order of preference; what each can do is checked in layout.c.
 * Adding one is a kernel file, its stages in plan.c, and a row here.
 */
#include <stddef.h>

#include "convolve/internal.h"

static const struct variant variants[] = {
    {
        .name = "lanes",
        .sentence = "overlap-save on CPUs, one launch: a channel in each lane, one edge each, one block",
        .one_launch = true,
        .lanes = true,
    },
    {
        .name = "fused",
        .sentence = "overlap-save in one launch: outputs of one edge, filters that fit one block",
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
