/*
 * The variant "fused": overlap-save on GPUs in one launch, for outputs of one edge and filters that
 * fit one window. A block stays in the registers of its work-group from its first read to its last
 * write, so that device memory carries samples, spectra and results only.
 *
 *     ring ─► convert ─► FFT ─► × filter spectrum ─► inverse FFT ─► envelope, gain ─► output
 *
 * A work-group holds WIDTH rows (neighbouring channels, interleaved, so that it reads and writes
 * whole frames) of BLOCKS consecutive blocks: item li works on row li mod WIDTH, as item
 * li / WIDTH mod THREADS of its transform. Groups of the same blocks follow each other, so that
 * frames which several of them read, and the overlap of blocks, come from the cache.
 *
 * A complex filter is two real ones; both share the forward FFT. With decimation by a multiple of
 * KEPT, the inverse computes only every KEPT-th point, and one item in KEPT writes.
 *
 * Options: those of window.clh, BLOCKS, COMPONENTS. Spectra have the order in which the last pass
 * holds the points, two a vector: points 2j and 2j + 1 of item t in vector j THREADS + t.
 */
#include "window.clh"

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void
fused(__global const uchar *restrict input, __global const float *restrict spectra,
      __global float *restrict output, __global float *state,
      __global const struct row *restrict rows, uint row_first, uint group_first, uint zero,
      ulong radices, ulong twiddles, uint planes, __local float16 *exchanges, __local uint *reports,
      ulong scratch)
{
    __local float *memory = (__local float *)exchanges; /* declared so for its alignment */
    __global const float4 *table = 0;
    const uint li = (uint)get_local_id(0);
    const uint lane = li % WIDTH, t = li / WIDTH % THREADS, b = li / (WIDTH * THREADS);
    const uint linear = (uint)(get_group_id(1) * get_num_groups(0) + get_group_id(0));
    const uint row_groups = (uint)get_num_groups(1);
    const uint k = (group_first + linear / row_groups) * BLOCKS + b;
    __global const struct row *row = rows + row_first + linear % row_groups * WIDTH + lane;
    const bool active = k < row->blocks && row->load_until > 0;
#if TABLES
    table = (__global const float4 *)(spectra + row->own.filter.table);
#endif
    memory += b * EXCHANGE_FLOATS + lane * UNIT;
    reports += li;

    float2 x[EACH];
    struct statistics stats;
    if (active) {
        window_points(x, memory, input, row, k, t, 0, &stats);
    } else {
        stats_reset(&stats);
        UNROLL
        for (uint j = 0; j < EACH; j++)
            x[j] = (float2)(0.0f, 0.0f);
    }
    stats_store(reports, &stats);
    first_pass(x, ROOT_QUARTER);
    passes_forward(x, memory, 0.25f, table, t, t + zero);
    stats_gather(reports, t);

    /* The inverse computes its twiddles again: there are not enough registers to keep them. `zero`,
     * which is 0, keeps the compiler from noticing that they are the same. */
    const uint again = t + zero;
    const uint kept = window_kept(row, k, KEPT);
#if COMPONENTS == 2
    float2 y[EACH], both[EACH];
    UNROLL
    for (uint j = 0; j < EACH; j++)
        both[j] = x[j];
    filter_points(x, spectra + row->own.filter.re, t);
    passes_inverse(x, memory, 0.25f, table, again, kept);
    /* The second passes_inverse writes memory that slower items may still read. */
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool imaginary = row->own.filter.im != ROW_NONE;
    UNROLL
    for (uint j = 0; j < EACH; j++)
        y[j] = imaginary ? both[j] : (float2)(0.0f, 0.0f);
    filter_points(y, spectra + (imaginary ? row->own.filter.im : row->own.filter.re), t);
    passes_inverse(y, memory, 0.25f, table, again + zero, kept);
#else
    filter_points(x, spectra + row->own.filter.re, t);
    passes_inverse(x, memory, 0.25f, table, again, kept);
    float2 *y = x; /* not used */
#endif
    const uint own = kept_item(POINTS, t, kept);
    if (!active)
        return;
    if (is_active(own) && row->components > 0) {
        first_pass_inverse(x, ROOT_QUARTER);
        if (COMPONENTS == 2)
            first_pass_inverse(y, ROOT_QUARTER);
        struct destination to = destination_of(output, row, k, own, 0);
        points_put(&to, output, row, k, x, y);
    }
    if (row->report != ROW_NONE)
        report_put(report_of(output, row, k), reports, t, HOP, row->scale);
}
