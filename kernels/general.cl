/*
 * The variant "general": any set of edges (banks, matrices) and filters of any length, in two
 * launches, because an output needs the spectra of several inputs and of earlier blocks.
 *
 * general_forward   group (k, r): forward FFT of block k of input r, stored in the input's delay
 *                   line of spectra (row.own.general.line, a ring of slots).
 * general_product   group (k, r): block k of output r, the sum over its edges and over their
 *                   partitions p of delay line slot k - p·step times the partition's spectrum,
 *                   inverted once.
 *
 * An item sums BINS bins in registers; sums over partitions go in two levels (partitions.clh).
 * Blocks before the epoch do not exist: a sum ends at the epoch's first block.
 */
#include "arguments.clh"
#include "partitions.clh"

__kernel void general_forward(ARGUMENTS)
{
    GROUP;
    SCRATCH real *z = POINTS;
    window_load(z, input, output, row, k, log_points, true, shared);
    if (row->form == FORM_NONE)
        return;
    fft_forward(z, table, log_points, radices);
    const ulong slot = (row->block + k) % row->own.general.slots;
    __global real *line =
        (__global real *)(state + row->own.general.line + slot * 2 * points * LANES);
    for (uint v = ITEM; v < points; v += ITEMS)
        point_store_global(line, v, point_load(z, v));
}

__kernel void general_product(ARGUMENTS)
{
    GROUP;
    SCRATCH real *z = POINTS;
    __global const struct row_general *own = &row->own.general;
    __global const struct edge_row *edges =
        (__global const struct edge_row *)(spectra + own->edges);
    const uint age = (uint)min(row->block + k, (ulong)UINT_MAX);
    const uint reach = age / own->partition_blocks + 1;
    const uint slot = (uint)((row->block + k) % own->slots);
    for (uint component = 0; component < row->components; component++) {
        for (uint v = ITEM; v < points; v += BINS * ITEMS) {
            const uint bins = min(BINS, (points - v + ITEMS - 1) / ITEMS);
            struct point sum[BINS];
            for (uint b = 0; b < BINS; b++)
                sum[b].re = sum[b].im = (real)0.0f;
            for (uint e = 0; e < own->edge_count; e++) {
                const ulong spectrum = component == 0 ? edges[e].spectrum : edges[e].spectrum_im;
                if (spectrum == ROW_NONE)
                    continue;
                const float gain = edges[e].gain;
                struct point total[BINS];
                for (uint b = 0; b < BINS; b++)
                    total[b].re = total[b].im = (real)0.0f;
                __global const real *line = (__global const real *)(state + edges[e].delay_line);
                __global const real *h = (__global const real *)(spectra + spectrum);
                const uint partitions = min(edges[e].partitions, reach);
                if (bins == BINS)
                    sum_edge(line, h, points, slot, own->slots, own->partition_blocks, partitions,
                             v, BINS, total);
                else
                    sum_edge(line, h, points, slot, own->slots, own->partition_blocks, partitions,
                             v, bins, total);
                for (uint b = 0; b < BINS; b++) {
                    sum[b].re += gain * total[b].re;
                    sum[b].im += gain * total[b].im;
                }
            }
            for (uint b = 0; b < bins; b++)
                point_store(z, v + b * ITEMS, sum[b]);
        }
        window_inverse(z, table, log_points, radices, row, k);
        window_write(z, output, state, row, k, component, log_points);
        SYNC();
    }
}
