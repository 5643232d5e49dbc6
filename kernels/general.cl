/*
 * general: any set of edges and filters of any length, in two launches.
 *
 * general_forward   group (k, r): block k of input r is transformed once into its slot of
 *                   the input's delay line.
 * general_product   group (k, r): output r of block k is the sum over its edges and their
 *                   partitions p of delay line slot k - p·step times the partition's
 *                   spectrum; inverted once.
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
    const uint slot = (row->slot + k) % row->slots;
    __global real *line =
        (__global real *)(state + row->delay_line + (ulong)slot * 2 * points * LANES);
    for (uint v = ITEM; v < points; v += ITEMS)
        point_store_global(line, v, point_load(z, v));
}

__kernel void general_product(ARGUMENTS)
{
    GROUP;
    SCRATCH real *z = POINTS;
    __global const struct edge_row *edges =
        (__global const struct edge_row *)(spectra + row->spectrum);
    const uint age = row->age + min(k, ~row->age); /* saturates */
    const uint reach = age / row->partition_blocks + 1;
    const uint slot = (row->slot + k) % row->slots;
    for (uint component = 0; component < row->components; component++) {
        for (uint v = ITEM; v < points; v += BINS * ITEMS) {
            const uint bins = min(BINS, (points - v + ITEMS - 1) / ITEMS);
            struct point sum[BINS];
            for (uint b = 0; b < BINS; b++)
                sum[b].re = sum[b].im = (real)0.0f;
            for (uint e = 0; e < row->edge_count; e++) {
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
                    sum_edge(line, h, points, slot, row->slots, row->partition_blocks, partitions,
                             v, BINS, total);
                else
                    sum_edge(line, h, points, slot, row->slots, row->partition_blocks, partitions,
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
