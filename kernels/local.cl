/*
 * The variant "local": overlap-save in one launch for outputs of one edge and filters that fit one
 * window, with every choice read from the row; it works for any channel, format and form.
 *
 * Group (k, r) computes block k of output row r. The window of N frames lies in local memory (or in
 * STATE when it does not fit) as Q = N/2 complex points:
 *
 *     ring ─► convert ─► forward FFT ─► × filter spectrum ─► inverse FFT ─► form, gain ─► output
 *
 * A complex filter is two real ones. Both share the forward FFT if the memory holds a second
 * transform (planes = 2); else the second component computes it again.
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
