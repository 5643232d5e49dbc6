/*
 * The variant "partitioned": long filters at short blocks, one edge an output, with partitions of
 * two sizes (Gardner 1995, Garcia 2002). The head, taps [0, 2·R·L), is cut into partitions of whole
 * blocks of L frames; the tail, the taps from 2·R·L on, into partitions of R·L taps, which are
 * multiplied with spectra of long blocks, R blocks each.
 *
 *   block b, long block W = b / R:
 *
 *     partitioned_tail_forward   rows with number = b mod R: the window that ends with long block
 *                                W - 1 -> tail delay line, slot W
 *     partitioned_tail_sums      the same rows, on GPUs: sum_p line[W - p] x tail[p] over each
 *                                CHUNK of partitions -> partial sums
 *     partitioned_tail_product   the same rows: sum_p line[W - p] x tail[p], or the sum of the
 *                                partial sums -> inverse -> plane of long block W + 1
 *     partitioned_head           window -> head delay line; sum_p line[b - p·step] x head[p] ->
 *                                inverse, + plane of W -> output
 *
 * The tail of a long block is due one long block later, so its rows are spread over the R blocks in
 * between, and every launch has the same share. One group would take milliseconds for the products
 * of 254 partitions: it waits for memory most of the time. So on a GPU tail_groups groups share a
 * row's tail, each a strip of bins of one chunk, and the product adds up the chunks in their order:
 * a long block has the same bits in whatever item it is due. Option: TAIL_SUMS, with LANES = 1.
 *
 * One launch of the head serves all blocks of an item: a group computes a row's blocks in order, so
 * that each finds the spectra of those before it. span = R; 0: there is no tail. Slots and planes
 * are powers of two, indexed by block number.
 */
#include "arguments.clh"
#include "partitions.clh"

#define TAIL_ARGUMENTS                                                                             \
    ulong span, ulong head_slots, ulong tail_slots, ulong tail_planes, ulong tail_groups

/* z = the sum over partitions of delay line times filter; partition 0 uses `slot`. */
inline void products(SCRATCH real *z, __global const real *line, __global const real *h,
                     uint points, uint slot, uint slots, uint step, uint partitions)
{
    for (uint v = ITEM; v < points; v += BINS * ITEMS) {
        const uint bins = min(BINS, (points - v + ITEMS - 1) / ITEMS);
        struct point total[BINS];
        for (uint b = 0; b < BINS; b++)
            total[b].re = total[b].im = (real)0.0f;
        if (bins == BINS)
            sum_edge(line, h, points, slot, slots, step, partitions, v, BINS, total);
        else
            sum_edge(line, h, points, slot, slots, step, partitions, v, bins, total);
        for (uint b = 0; b < bins; b++)
            point_store(z, v + b * ITEMS, total[b]);
    }
}

/* ---- head -------------------------------------------------------------------------------- */

/* The tail at window indices n + (l << log_step); tail[0] is that of index new_from. */
inline real tail_lanes(__global const float *tail, uint new_from, uint n, uint log_step)
{
    float lanes[LANES];
    for (uint l = 0; l < LANES; l++) {
        const uint at = n + (l << log_step);
        lanes[l] = at >= new_from ? tail[at - new_from] : 0.0f;
    }
#if LANES == 16
    return vload16(0, lanes);
#else
    return lanes[0];
#endif
}

/* Writes the block's frames with the tail's plane added. */
inline void write_with_tail(SCRATCH const real *z, __global float *output, __global float *state,
                            __global const float *tail, __global const struct row *row, uint k,
                            uint component, uint log_points)
{
    const uint points = 1u << log_points, q = points * LANES;
    const float gain = row->gain;
    struct destination destination;
    destination_open(&destination, output, state, row, k);
    for (uint v = ITEM; v < points; v += ITEMS) {
        const struct point x = lane_pass_inverse(point_load(z, v));
        if (v + q > row->new_from)
            lanes_write(&destination, component, v, log_points,
                        (x.re + tail_lanes(tail, row->new_from, v, log_points)) * gain);
        lanes_write(&destination, component, v + q, log_points,
                    (x.im + tail_lanes(tail, row->new_from, v + q, log_points)) * gain);
    }
    destination_close(&destination, output, k);
}

__kernel void partitioned_head(ARGUMENTS, TAIL_ARGUMENTS)
{
    __global const struct row *row = rows + row_first + get_group_id(1);
    const uint points = 1u << log_points;
    __global const real *table = (__global const real *)(spectra + twiddles);
    SCRATCH real *z = POINTS;
    const uint slots = (uint)head_slots, long_frames = (uint)span * row->hop;
    __global const struct row_partitioned *own = &row->own.partitioned;
    __global real *line = (__global real *)(state + own->line);
    for (uint k = 0; k < row->blocks; k++) {
        const uint block = (uint)row->block + k;
        const uint age = (uint)min(row->block + k, (ulong)UINT_MAX);
        const uint slot = block & (slots - 1);
        window_load(z, input, output, row, k, log_points, true, shared);
        if (row->form == FORM_NONE) {
            SYNC();
            continue;
        }
        fft_forward(z, table, log_points, radices);
        for (uint v = ITEM; v < points; v += ITEMS)
            point_store_global(line + (size_t)slot * 2 * points, v, point_load(z, v));
        if (row->flags & ROW_REBUILD) {
            SYNC();
            continue;
        }
        const uint partitions = min(own->partitions, age / own->partition_blocks + 1);
        for (uint component = 0; component < row->components; component++) {
            __global const real *h =
                (__global const real *)(spectra + (component == 0 ? own->re : own->im));
            products(z, line, h, points, slot, slots, own->partition_blocks, partitions);
            window_inverse(z, table, log_points, radices, row, k);
            if (span == 0 || age < span) {
                window_write(z, output, state, row, k, component, log_points);
            } else {
                const uint plane = block / (uint)span & ((uint)tail_planes - 1);
                __global const float *tail =
                    state + own->tail + ((ulong)plane * row->components + component) * long_frames +
                    (block & ((uint)span - 1)) * row->hop;
                write_with_tail(z, output, state, tail, row, k, component, log_points);
            }
            SYNC();
        }
    }
}

/* ---- tail -------------------------------------------------------------------------------- */

/* Declares the row's tail that is due `due` long blocks after the item's first one, at block k;
 * returns when the item ends before it. long_block is W modulo 2^32. */
#define TAIL_GROUP(due)                                                                            \
    __global const struct row *row = rows + row_first + get_group_id(1);                           \
    __global const struct row_partitioned *own = &row->own.partitioned;                            \
    const uint k = ((own->number - (uint)row->block) & ((uint)span - 1)) + (due) * (uint)span;     \
    if (k >= row->blocks)                                                                          \
        return;                                                                                    \
    const uint points = 1u << log_points, block = (uint)row->block + k;                            \
    const uint long_block = block / (uint)span, slot = long_block & ((uint)tail_slots - 1);        \
    __global real *line = (__global real *)(state + own->line)

/* Partitions whose input lies within the epoch. */
inline uint tail_partitions(__global const struct row *row, uint k, uint span)
{
    return min(row->own.partitioned.partitions, (uint)min(row->block + k, (ulong)UINT_MAX) / span);
}

__kernel void partitioned_tail_forward(ARGUMENTS, TAIL_ARGUMENTS)
{
    TAIL_GROUP(block_first + (uint)get_group_id(0));
    __global const real *table = (__global const real *)(spectra + twiddles);
    SCRATCH real *z = POINTS;
    const uint long_index = (((uint)row->block & ((uint)span - 1)) + k) / (uint)span;
    window_load(z, input, output, row, long_index, log_points, false, shared);
    fft_forward(z, table, log_points, radices);
    for (uint v = ITEM; v < points; v += ITEMS)
        point_store_global(line + (size_t)slot * 2 * points, v, point_load(z, v));
}

#ifdef TAIL_SUMS
/* The partial sums of the due-th long block of an item lie behind the delay line:
 * [due][component][chunk][points]. */
inline __global float *tail_sums(__global float *line, __global const struct row *row, uint points,
                                 uint slots, uint due, uint component)
{
    const uint chunks = (row->own.partitioned.partitions + TAIL_CHUNK - 1) / TAIL_CHUNK;
    return line + ((ulong)slots + (ulong)(due * row->components + component) * chunks) * 2 * points;
}

/* Group (g, r): strip g mod strips of the bins, chunk g / strips mod chunks, and so on over the
 * long blocks. An item takes two neighbouring bins. */
__kernel void partitioned_tail_sums(ARGUMENTS, TAIL_ARGUMENTS)
{
    const uint group = block_first + (uint)get_group_id(0);
    const uint due = group / (uint)tail_groups, share = group % (uint)tail_groups;
    TAIL_GROUP(due);
    const uint strips = (points / 2 + ITEMS - 1) / ITEMS;
    const uint from = share / strips * TAIL_CHUNK, v = share % strips * ITEMS + ITEM;
    const uint until = min(from + TAIL_CHUNK, tail_partitions(row, k, (uint)span));
    if (from >= until || v >= points / 2)
        return;
    __global const float4 *inputs = (__global const float4 *)line + v;
    for (uint component = 0; component < row->components; component++) {
        __global const float4 *h =
            (__global const float4 *)(spectra + (component == 0 ? own->re : own->im)) + v;
        __global float4 *sums =
            (__global float4 *)tail_sums(line, row, points, (uint)tail_slots, due, component) + v;
        float4 sum = (float4)(0.0f);
        _Pragma("unroll 8") for (uint p = from; p < until; p++)
        {
            const size_t at = (slot - p) & ((uint)tail_slots - 1);
            const float4 x = inputs[at * (points / 2)], f = h[(size_t)p * (points / 2)];
            sum.even += x.even * f.even;
            sum.even -= x.odd * f.odd;
            sum.odd += x.even * f.odd;
            sum.odd += x.odd * f.even;
        }
        sums[(size_t)(from / TAIL_CHUNK) * (points / 2)] = sum;
    }
}

/* z = the sum of the chunks, in their order. */
inline void sums_add(SCRATCH real *z, __global const float *sums, uint points, uint chunks)
{
    for (uint v = ITEM; v < points; v += ITEMS) {
        struct point total = {0.0f, 0.0f};
        _Pragma("unroll 8") for (uint c = 0; c < chunks; c++)
        {
            total = point_add(total, point_load_global(sums, (size_t)c * points + v));
        }
        point_store(z, v, total);
    }
}
#endif

__kernel void partitioned_tail_product(ARGUMENTS, TAIL_ARGUMENTS)
{
    const uint due = block_first + (uint)get_group_id(0);
    TAIL_GROUP(due);
    __global const real *table = (__global const real *)(spectra + twiddles);
    SCRATCH real *z = POINTS;
    const uint partitions = tail_partitions(row, k, (uint)span);
    const uint plane = (long_block + 1) & ((uint)tail_planes - 1), q = points * LANES;
    for (uint component = 0; component < row->components; component++) {
        __global float *tail =
            state + own->tail + ((ulong)plane * row->components + component) * row->hop;
#ifdef TAIL_SUMS
        sums_add(z, tail_sums(line, row, points, (uint)tail_slots, due, component), points,
                 (partitions + TAIL_CHUNK - 1) / TAIL_CHUNK);
#else
        __global const real *h =
            (__global const real *)(spectra + (component == 0 ? own->re : own->im));
        products(z, line, h, points, slot, (uint)tail_slots, 1, partitions);
#endif
        SYNC();
        fft_inverse(z, table, log_points, radices);
        for (uint v = ITEM; v < points; v += ITEMS) {
            const struct point x = lane_pass_inverse(point_load(z, v));
            float re[LANES], im[LANES];
#if LANES == 16
            vstore16(x.re, 0, re);
            vstore16(x.im, 0, im);
#else
            re[0] = x.re;
            im[0] = x.im;
#endif
            for (uint l = 0; l < LANES; l++) {
                const uint n = v + (l << log_points);
                if (n >= row->new_from)
                    tail[n - row->new_from] = re[l];
                if (n + q >= row->new_from)
                    tail[n + q - row->new_from] = im[l];
            }
        }
        SYNC();
    }
}
