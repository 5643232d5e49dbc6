/*
 * The second program of the variant "fused", for plans of real results without decimation from
 * floats or 16-bit integers, one channel or an even number of them, input n to output n. It
 * computes what fused.cl computes, to the bit, and moves whole memory sectors: an item loads and
 * stores PAIR neighbouring channels, or RUN neighbouring frames of one channel, at once.
 *
 *     ring ─► convert, statistics ─► FFT ─► × filter spectrum ─► inverse FFT ─► encode ─► output
 *
 * A work-group holds WIDTH · PAIR neighbouring channels of BLOCKS consecutive blocks: item li works
 * on channels PAIR (li mod WIDTH) …, as item li / WIDTH mod THREADS of their transforms. The groups
 * of an item's channels run side by side, then those of its next blocks, then the next item's, so
 * that few memory pages are open at a time.
 *
 * There are no rows: TABLE holds what the batch says of each item (struct row_group), and a channel
 * takes its filter, scale and gain from the template of its number. So nothing runs on the device
 * between the batch before and this kernel.
 *
 * Points are the codes of the samples. The scale of the input, and with CODES that of the results,
 * are part of the filter spectra. What is rare is looked for in what is computed anyhow: sums and
 * peaks show whether a sample was not finite or at full scale, and the largest result whether one
 * saturates. Only then an item goes through its registers again and counts.
 *
 * Blocks whose window wraps in the ring, has absent frames or does not begin at a whole load, and
 * blocks that are not written whole, are left to the same program built with RARE, which reads and
 * writes frame by frame and leaves all other blocks out. Both compute the same bits from the same
 * window; the host launches the second only where a batch has such blocks.
 *
 * Options: those of registers.clh and encode.clh; WORD (2 or 4 bytes), SWAP, KIND (0 two's
 * complement, 2 float), FRAME_BYTES, STRIDE, HOP, LOAD_FROM, SCALED and GAINS as in window.clh;
 * SIDES (groups of channels that an item has, which lie in the first dimension of the launch),
 * CODES (results are 16-bit integers whose scale is part of the spectra), PACKED (not 0: reports
 * are, as row.h describes), RARE, LEAVE (a group without rare blocks returns at once; not on CPUs,
 * where PoCL 3.1 has all items behind such a return take the branches of the first), UNSIZED (the
 * group's size is not declared: NVIDIA's compiler ignores a limit of registers where it is), NVIDIA
 * (inline PTX), with it PREFETCH (of spectra: 1 at the start, 2 after the first pass) and LINES
 * (loads fetch lines of 128 bytes).
 */
#include "row.h"
#include "encode.clh"
#include "registers.clh"
#include "wide.clh"
#include "packed.clh"

__kernel
#ifndef UNSIZED
    __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
#endif
    void
    fused_wide(__global const uchar *restrict input, __global const float *restrict spectra,
               __global float *restrict output, __global float *state,
               __global const struct row_group *restrict groups, uint first_group, uint first_span,
               uint zero, ulong radices, ulong twiddles, uint planes, __local float16 *exchanges,
               __local uint *reports, ulong scratch)
{
    const uint li = (uint)get_local_id(0);
    const uint column = li % WIDTH, t = li / WIDTH % THREADS, b = li / (WIDTH * THREADS);
    __local struct events *events = (__local struct events *)reports + (b * WIDTH + column) * PAIR;
    if (t == 0)
        events_reset(events);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint side = (uint)get_group_id(0) % SIDES, span = (uint)get_group_id(0) / SIDES;
    const uint first_block = (first_span + span) * BLOCKS, k = first_block + b;
    __global const struct row_group *group = groups + first_group + get_group_id(1);
    __global const struct row_item *item = &group->item;
    const uint channel = (side * WIDTH + column) * PAIR; /* the first of PAIR */
    __global const struct row *row =
        (__global const struct row *)((__global const uchar *)spectra + group->templates) + channel;
    const bool mine = is_mine(item, channel, k);
#if RARE && LEAVE
    bool any = false; /* the same for all items of the group */
    for (uint i = 0; i < BLOCKS; i++)
        any |= is_mine(item, side * (WIDTH * PAIR), first_block + i);
    if (!any)
        return;
#endif
    const uint own = t + zero; /* see exchange() */
    __local float *memory = (__local float *)exchanges + b * EXCHANGE_FLOATS + column * UNIT;
    __local float *sums = (__local float *)reports + EVENT_WORDS * PAIR * WIDTH * BLOCKS + li;
#if TABLES
    __global const float4 *table = (__global const float4 *)(spectra + row->own.filter.table);
#else
    __global const float4 *table = 0;
#endif

    float2 x[PAIR * EACH];
    window_load(x, input, item, channel, k, t, mine, events);
    if (PREFETCH == 1)
        spectra_prefetch(spectra, row, 0, t);
    window_measure(x, row, t, sums, events);
    first_pass(x, ROOT_QUARTER);
    if (PREFETCH == 2)
        spectra_prefetch(spectra, row, 0, t);
    passes_forward(x, memory, 0.25f, table, t, own);
    const bool full = mine && reports_begin(output, item, channel, k, t, sums, events);
    UNROLL
    for (uint p = 0; p < PAIR; p++)
        filter_points(x + p * EACH, spectra + row[p].own.filter.re, t);
    /* The inverse computes its twiddles again: there are not enough registers to keep them. `zero`,
     * which is 0, keeps the compiler from noticing that they are the same. */
    passes_inverse(x, memory, 0.25f, table, own, 0);
    first_pass_inverse(x, ROOT_QUARTER);
#ifndef RESULT_WORD
    if (!mine)
        return;
#endif
    if (mine)
        window_store(x, output, item, row, channel, k, t, events);
#ifdef RESULT_WORD
    barrier(CLK_LOCAL_MEM_FENCE); /* for events.clipped */
#endif
    if (mine)
        reports_end(output, item, row, channel, k, t, sums, events, full);
}
