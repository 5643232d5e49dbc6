/*
 * The program of the variant "fused" for windows that are too long for one work-group, for the
 * plans of fused_wide.cl: SPLIT = 2 groups share a window of Q = 2 POINTS points. Each computes one
 * half of the spectrum, with the transform of fused_wide.cl, and the one that is done last joins
 * the results:
 *
 *     ring ─┬► half 0 ─► FFT ─► × filter spectrum ─► inverse FFT ─┬► the second to arrive:
 *           └► half 1 ─► FFT ─► × filter spectrum ─► inverse FFT ─┘  join ─► encode ─► output
 *
 * No group waits for another, so nothing is assumed about which groups run side by side, or in
 * which order. A group leaves its results in a scratch in device memory and counts itself in; the
 * first to arrive is through, the second reads what the first has left. What it computes is the
 * same whichever group it is, so the bits do not depend on the order. Both halves of all windows
 * are in one launch, which begins and ends with counts of zero.
 *
 * A window's groups are neighbours in the launch, so that the second reads the samples from the
 * cache. RARE is as in fused_wide.cl.
 *
 * Options: those of fused_wide.cl and split.clh; POINTS is that of a half. TURNED: the
 * halves of a window change places in the launch, for tests.
 */
#include "row.h"
#define SPLIT 2u
#include "encode.clh"
#include "registers.clh"
#include "wide.clh"
#include "split.clh"

#ifndef TURNED
#define TURNED 0u
#endif

__kernel
#ifndef UNSIZED
    __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
#endif
    void
    fused_split(__global const uchar *restrict input, __global const float *restrict spectra,
                __global float *restrict output, __global float *state,
                __global const struct row_group *restrict groups, uint first_group, uint first_span,
                uint zero, ulong radices, ulong twiddles, uint planes, __local float16 *exchanges,
                __local uint *reports, ulong scratch)
{
    const uint t = (uint)get_local_id(0);
    __local struct events *events = (__local struct events *)reports;
    __local float *sums = (__local float *)reports + EVENT_WORDS + t;
    if (t == 0)
        events_reset(events);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint number = (uint)get_group_id(0) / SPLIT;
    const uint half_number = (uint)get_group_id(0) % SPLIT ^ TURNED;
    const uint channel = number % SIDES, k = first_span / SPLIT + number / SIDES;
    __global const struct row_group *group = groups + first_group + get_group_id(1);
    __global const struct row_item *item = &group->item;
    __global const struct row *row =
        (__global const struct row *)((__global const uchar *)spectra + group->templates) + channel;
    const bool mine = is_mine(item, channel, k); /* the same for all items of the group */
#if LEAVE
    if (!mine)
        return;
#endif
    const uint own = t + zero; /* see exchange() */
    __local float *memory = (__local float *)exchanges;
    const float angle = ((float)half_number + 0.25f) / SPLIT;
    const uint spectrum = half_number * 2u * POINTS;

    float2 x[EACH];
    half_load(x, input, item, row, channel, k, t, half_number, mine, sums, events);
    if (half_number == 0)
        first_pass(x, ROOT_QUARTER / SPLIT);
    else
        first_pass(x, ROOT_QUARTER / SPLIT * 5u);
    if (PREFETCH != 0)
        spectra_prefetch(spectra, row, spectrum, t);
    passes_forward(x, memory, angle, 0, t, own);
    sums_gather(sums, t);
    filter_points(x, spectra + row->own.filter.re + spectrum, t);
    passes_inverse(x, memory, angle + (float)zero, 0, own, 0); /* `zero`: see fused_wide.cl */
    if (half_number == 0)
        first_pass_inverse(x, ROOT_QUARTER / SPLIT);
    else
        first_pass_inverse(x, ROOT_QUARTER / SPLIT * 5u);

    const uint window = (uint)(get_group_id(1) * (get_num_groups(0) / SPLIT)) + number;
    __global uint *head = (__global uint *)(state + scratch) + window * SPLIT_HEAD_WORDS;
    __global float4 *halves =
        (__global float4 *)(state + scratch + SPLIT_WINDOWS * SPLIT_HEAD_WORDS) +
        (ulong)window * POINTS;
    __local uint *second = (__local uint *)exchanges; /* the exchanges are over */
    if (mine) {
        half_leave(halves + half_number * (POINTS / 2u), x, t);
        if (t == 0)
            part_leave(head + PART_AT(half_number), sums_total(sums, 0, 1, GATHER_ITEMS), *events);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t == 0)
        *second = mine && arrive(head);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool joins = *second != 0;
    if (joins)
        results_join(x, halves + (1u - half_number) * (POINTS / 2u), output, item, row, channel, k,
                     t, half_number, events);
#ifdef RESULT_WORD
    barrier(CLK_LOCAL_MEM_FENCE); /* for events.clipped */
#endif
    if (joins && t == 0) {
        struct sums total;
        struct events all = *events;
        parts_add(head, &total, &all);
        report_write(output, item, row, channel, k, total, all);
        *head = 0;
    }
}
