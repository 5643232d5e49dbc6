/*
 * The table of variants, in order of preference; what each can do and how it does it
 * stands in its own file. Adding one is a kernel file, a C file, and a row here. The paces were
 * measured on an AVX-512 Xeon with PoCL 3.1, 16 channels, blocks of 512 frames, 1025 to 4095 taps.
 */
#include <stddef.h>

#include "convolve/internal.h"

static const struct variant variants[] = {
    {
        .name = "host",
        .sentence = "overlap-save on CPUs without a launch, for tiny batches: one edge an output",
        .pace = 3.3,
        .formats = true,
        .decimates = true,
        .objection = host_objection,
        .layout = host_layout,
        .measure = host_measure,
        .fill = host_fill,
    },
    {
        .name = "lanes",
        .sentence =
            "overlap-save on CPUs, one launch: a channel in each lane, one edge each, one block",
        .pace = 3.3,
        .formats = true,
        .vectors = true,
        .decimates = true,
        .objection = lanes_objection,
        .layout = lanes_layout,
        .measure = lanes_measure,
        .fill = lanes_fill,
    },
    {
        .name = "fused",
        .sentence = "overlap-save on GPUs, one launch: a block in the registers of its work-group",
        .pace = 6,
        .decimates = true,
        .formats = true,
        .objection = fused_objection,
        .layout = fused_layout,
        .measure = fused_measure,
        .fill = fused_fill,
    },
    {
        .name = "staged",
        .sentence = "overlap-save on GPUs for long blocks: the transform in columns and rows",
        .pace = 4,
        .decimates = true,
        .formats = true,
        .objection = staged_objection,
        .layout = staged_layout,
        .measure = staged_measure,
        .fill = staged_fill,
    },
    {
        .name = "direct",
        .sentence = "the time domain in one launch, for short filters: one edge an output",
        .pace = 1.0,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .objection = direct_objection,
        .layout = direct_layout,
        .measure = direct_measure,
        .fill = direct_fill,
    },
    {
        .name = "local",
        .sentence = "overlap-save in one launch: outputs of one edge, filters that fit one block",
        .pace = 1.4,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .objection = local_objection,
        .layout = local_layout,
        .measure = local_measure,
        .fill = local_fill,
    },
    {
        .name = "partitioned",
        .sentence = "overlap-save in partitions, long filters with a tail of longer ones: one edge "
                    "an output",
        .pace = 1.0,
        .partitions = true,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .objection = partitioned_objection,
        .layout = partitioned_layout,
        .measure = partitioned_measure,
        .fill = partitioned_fill,
    },
    {
        .name = "general",
        .sentence = "overlap-save for any set of edges, filters of any length in partitions",
        .partitions = true,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .measure = general_measure,
        .fill = general_fill,
    },
    {
        .name = "overlap-add",
        .sentence = "zero-padded blocks in one launch, their tails gathered in a second",
        .pace = 1.0,
        .overlap_add = true,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .objection = local_objection,
        .layout = local_layout,
        .measure = overlap_add_measure,
        .fill = overlap_add_fill,
    },
    {
        .name = "overlap-add-general",
        .sentence = "overlap-add for any set of edges, filters of any length in partitions",
        .partitions = true,
        .overlap_add = true,
        .formats = true,
        .components_apart = true,
        .decimates = true,
        .measure = overlap_add_general_measure,
        .fill = overlap_add_general_fill,
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
