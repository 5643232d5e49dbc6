/*
 * local: one launch does everything for outputs that have one edge each and filters that
 * fit one block: convert -> transform -> x filter spectrum -> inverse -> envelope/format.
 *
 * Group (k, r): block k of output row r. A complex filter is two real ones: both
 * components share the forward transform where there is memory for a second one; where
 * there is not, it is computed again.
 */
#include "arguments.clh"

__kernel void local_memory(ARGUMENTS)
{
    GROUP;
    SCRATCH real *z = POINTS;
    const bool keep = row->components == 2 && planes == 2;
    for (uint component = 0; component < row->components; component++) {
        SCRATCH real *product = z;
        if (component == 0 || !keep) {
            window_load(z, input, output, row, k, log_points, component == 0, shared);
            if (row->form == FORM_NONE)
                return;
            fft_forward(z, table, log_points, radices);
        }
        if (keep)
            product = z + 2 * points;
        __global const real *h =
            (__global const real *)(spectra +
                                    (component == 0 ? row->own.filter.re : row->own.filter.im));
        for (uint v = ITEM; v < points; v += ITEMS)
            point_store(product, v, point_times(point_load(z, v), point_load_global(h, v)));
        window_inverse(product, table, log_points, radices, row, k);
        window_write(product, output, state, row, k, component, log_points);
        SYNC();
    }
}
