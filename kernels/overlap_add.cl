/*
 * The last launch of the overlap-add variants: gathers the tails. Earlier launches stored all N
 * frames of every block's product as a plane in a ring of planes. Group (k, r) sums for block k of
 * output r
 *
 *     y[k L + t] = sum over d of plane[k - d][t + d L]
 *
 * from the oldest plane that reaches the block to its own, so that a sum's bits do not depend on
 * how blocks are batched.
 */
#include "arguments.clh"

/* Frame n of a plane, which has the order in which the inverse FFT leaves its points. */
inline float plane_frame(__global const float *plane, uint n, uint log_points)
{
    const uint points = 1u << log_points, q = points * LANES;
    const uint second = n >= q, m = n - second * q;
    return plane[(m & (points - 1)) * 2 * LANES + second * LANES + (m >> log_points)];
}

__kernel void overlap_add_gather(ARGUMENTS)
{
    GROUP;
    (void)table;
    const uint hop = row->hop, q = points * LANES;
    const uint age = (uint)min(row->block + k, (ulong)UINT_MAX);
    const uint here = (uint)((row->block + k) % row->planes.slots);
    __global const float *planes_base = state + row->planes.first;
    struct destination destination;
    destination_open(&destination, output, state, row, k);
    for (uint t = ITEM; t < hop; t += ITEMS) {
        const uint frame = k * hop + t;
        if (frame < row->write_from || frame >= row->write_until || frame < row->kept ||
            (frame - row->kept) % row->decimate != 0)
            continue;
        const uint oldest = min((row->planes.reach - 1 - min(t, row->planes.reach - 1)) / hop, age);
        for (uint component = 0; component < row->components; component++) {
            float sum = 0.0f;
            for (uint d = oldest + 1; d-- > 0;) {
                const uint slot = here >= d ? here - d : here + row->planes.slots - d;
                __global const float *plane =
                    planes_base + ((ulong)slot * row->components + component) * 2 * q;
                const uint n = t + d * hop;
                if (n < row->planes.reach)
                    sum += plane_frame(plane, n, log_points);
            }
            __global result_unit *at =
                destination.frames + (row->decimate == 1
                                          ? (ulong)(row->new_from + t)
                                          : (ulong)((frame - row->kept) / row->decimate)) *
                                         destination.stride;
            if (row->components == 1)
                frame_write_real(&destination, at, sum);
            else
                frame_write(&destination, at, row->new_from + t, component, sum);
        }
    }
    destination_close(&destination, output, k);
}
