/*
 * direct: the definition itself, y[n] = sum_k h[k] x[n - k], for filters so short that a transform
 * would cost more.
 *
 * Group (k, r): block k of output row r. With vectors the block is cut into LANES stretches of
 * `stretch` frames that are computed side by side, frame i of each at a time; work-items take runs
 * of RUN frames. A tile of TILE frames of every stretch, and the frames before it that the taps
 * reach, are converted into local memory once:
 *
 *     local:   x[0 … taps - 2] frames before the tile | x[taps - 1 …] the tile
 *     run:     RUN sums; 8 taps take RUN + 7 values of x into registers and RUN x 8 products
 *
 * Sums go in two levels, so that long filters keep the error of short ones, and in the same order
 * for every frame: what is decimated is the same to the bit. Taps are padded with zeros to whole
 * eights, gains folded in, so the row's gain is 1.
 */
#include "arguments.clh"

#define RUN   8u
#define EIGHT 8u
#define PART  32u /* taps summed before their sum is added to the whole */

/* Items begin RUN values apart: an odd distance in memory, so that they meet no bank twice. */
#if ITEMS > 1
#define PLACE(i) ((i) + ((i) >> 3))
#else
#define PLACE(i) (i)
#endif

/* The tile's frames and those before it, from window index `from` on. */
inline void tile_load(__local real *x, __global const uchar *input, __global const struct row *row,
                      uint k, uint from, uint before, uint frames, uint padded, uint stretch,
                      bool measured, struct seen *seen)
{
    for (uint i = ITEM; i < before + padded; i += ITEMS)
        x[PLACE(i)] = sample_load(input, row, k, from - before + i, stretch,
                                  measured && i >= before && i - before < frames, seen);
}

/* Frames i … i + RUN - 1 of the tile. */
inline void sum_run(__local const real *x, __global const float *h, uint taps, uint i, real sum[RUN])
{
#pragma unroll
    for (uint r = 0; r < RUN; r++)
        sum[r] = (real)0.0f;
    for (uint from = 0; from < taps; from += PART) {
        real part[RUN];
#pragma unroll
        for (uint r = 0; r < RUN; r++)
            part[r] = (real)0.0f;
        const uint until = min(from + PART, taps);
        for (uint tap = from; tap < until; tap += EIGHT) {
            const uint first = i + taps - EIGHT - tap; /* what tap + 7 takes for frame i */
            real window[RUN + EIGHT - 1];
#pragma unroll
            for (uint w = 0; w < RUN + EIGHT - 1; w++)
                window[w] = x[PLACE(first + w)];
#pragma unroll
            for (uint t = 0; t < EIGHT; t++) {
                const float factor = h[tap + t];
#pragma unroll
                for (uint r = 0; r < RUN; r++)
                    part[r] = window[EIGHT - 1 - t + r] * factor + part[r];
            }
        }
#pragma unroll
        for (uint r = 0; r < RUN; r++)
            sum[r] += part[r];
    }
}

/* Frame i alone, in the same order. */
inline real sum_one(__local const real *x, __global const float *h, uint taps, uint i)
{
    real sum = (real)0.0f;
    for (uint from = 0; from < taps; from += PART) {
        real part = (real)0.0f;
        const uint until = min(from + PART, taps);
        for (uint tap = from; tap < until; tap++)
            part = x[PLACE(i + taps - 1 - tap)] * h[tap] + part;
        sum += part;
    }
    return sum;
}

__kernel void direct(ARGUMENTS)
{
    __global const struct row *row = rows + row_first + get_group_id(1);
    const uint k = block_first + (uint)get_group_id(0);
    if (k >= row->blocks)
        return;
    __local real *x = (__local real *)local_points;
    const uint hop = row->hop, decimate = row->decimate;
    const uint taps = row->form == FORM_NONE ? 1u : row->width;
    /* The lanes' stretches: a power of two, that lanes_write can tell them. */
    uint log_stretch = 0;
    while (LANES > 1 && ((uint)LANES << log_stretch) < hop)
        log_stretch++;
    const uint stretch = LANES > 1 ? 1u << log_stretch : hop;
    struct destination destination;
    destination_open(&destination, output, row, k);
    /* Frames that are kept stand at the same places of every stretch. */
    const bool sparse = decimate > 1 && (LANES == 1 || stretch % decimate == 0);
    struct seen seen;
    seen_reset(&seen);
    for (uint tile = 0; tile < stretch; tile += TILE) {
        const uint frames = min((uint)TILE, stretch - tile);
        const uint n = row->new_from + tile;
        tile_load(x, input, row, k, n, taps - 1, frames, (frames + RUN - 1) / RUN * RUN, stretch,
                  row->report != ROW_NONE, &seen);
        SYNC();
        for (uint component = 0; row->form != FORM_NONE && component < row->components;
             component++) {
            __global const float *h =
                spectra + (component == 0 ? row->spectrum : row->spectrum_im);
            if (sparse) {
                /* first - n, both modulo 2^32, may lie before the tile or after it. */
                const uint past = n - destination.first;
                const uint skip = past < 1u << 31 ? (decimate - past % decimate) % decimate
                                                  : destination.first - n;
                for (uint i = skip + ITEM * decimate; i < frames; i += ITEMS * decimate)
                    lanes_write(&destination, component, n + i, log_stretch,
                                sum_one(x, h, taps, i));
                continue;
            }
            for (uint i = ITEM * RUN; i < frames; i += ITEMS * RUN) {
                real sum[RUN];
                sum_run(x, h, taps, i, sum);
                for (uint r = 0; r < RUN && i + r < frames; r++)
                    lanes_write(&destination, component, n + i + r, log_stretch, sum[r]);
            }
        }
        SYNC();
    }
    if (row->report != ROW_NONE)
        seen_write(&seen, output, row, k, shared);
}
