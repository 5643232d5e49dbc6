/*
 * The rows of a batch, made in the memory of a device that has its own: each is the template of its
 * plan, which lies there since the plan was prepared, and what the item says. So the rows, which
 * are long and many, are not copied to the device.
 *
 *     template (SPECTRUM) + struct row_item ─► row (TABLE)
 *
 * Item (i, g) makes row i of group g. A few groups come as an argument by value, which costs no
 * copy; more of them lie in TABLE. words_clear clears counts that other kernels add to.
 */
#include "row.h"

inline void row_make(__global const uchar *spectrum, __global uchar *table, struct row_group group)
{
    const uint i = (uint)get_global_id(0);
    if (i >= group.count)
        return;
    struct row row = ((__global const struct row *)(spectrum + group.templates))[i];
    row_fill(&row, &group.item);
    ((__global struct row *)table)[group.first + i] = row;
}

__kernel void rows_fill(__global const uchar *restrict spectrum, __global uchar *restrict table,
                        struct row_groups all)
{
    row_make(spectrum, table, all.groups[get_global_id(1)]);
}

/* Words of OUTPUT from `first` on become zero. The driver's own fill failed 9 GiB behind a buffer's
 * beginning (NVIDIA's, 580). */
__kernel void words_clear(__global uint *restrict output, ulong first, ulong count)
{
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
        output[first + i] = 0;
}

__kernel void rows_fill_many(__global const uchar *restrict spectrum, __global uchar *table,
                             ulong groups)
{
    row_make(spectrum, table,
             ((__global const struct row_group *)(table + groups))[get_global_id(1)]);
}
