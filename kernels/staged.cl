/*
 * The variant "staged": overlap-save on GPUs for windows that are too long for a work-group. The
 * FFT of Q = rows · columns points takes three launches over a scratch in device memory (a
 * four-step FFT without transposition); point n = row · columns + column.
 *
 *     staged_forward   ring ─► convert ─► FFT of the points of a column ─► scratch [rows][columns]
 *     staged_rows      scratch: FFT of a row × spectrum ─► inverse FFT, in place
 *     staged_inverse   scratch: inverse FFT of a column ─► envelope, gain ─► output
 *
 * The first pass has the radix `rows`, computed by a whole FFT over the column; row K is then a
 * sub-transform with the angle (K + 1/4) / rows, whose first pass applies that angle. So no
 * separate multiplication by twiddles is needed in between. A work-group takes the columns
 * of SIDE neighbouring channels and WIDTH / SIDE neighbouring columns, so that it reads and
 * writes whole frames, or whole sectors of them.
 *
 * Two programs: STAGED_COLUMNS with POINTS = rows, STEP = columns and window.clh's options for the
 * first and third launch; ROWS with POINTS = columns for the second. With decimation by a multiple
 * of KEPT_COLUMNS only every KEPT_COLUMNS-th column holds kept frames: the rows' inverse (KEPT)
 * computes those columns only and stores them side by side at the start of each row, and the third
 * launch has that many fewer groups.
 *
 *   row_first, rows_each   entry e of the slice is row row_first + e mod rows_each,
 *   block_first            block block_first + e / rows_each
 *   scratch                float of STATE: for each entry COMPONENTS planes of Q points; then for
 *                          each entry one report a column
 */
#include "row.h"
#include "registers.clh"

#define ARGUMENTS                                                                                  \
    __global const uchar *restrict input, __global const float *restrict spectra,                  \
        __global float *restrict output, __global float *restrict state,                           \
        __global const struct row *restrict rows, uint row_first, uint rows_each,                  \
        uint block_first, uint entries, uint zero, ulong scratch, __local float16 *exchanges,      \
        __local uint *reports

#ifdef STAGED_COLUMNS
#include "window.clh"

#define COLUMNS      STEP
#define ENTRY_FLOATS (2UL * COMPONENTS * POINTS * COLUMNS)

/* Declares what an item works on: group (g, e) has columns g WIDTH / SIDE … of the SIDE entries
 * from e SIDE on, which belong to one block. `own` is the index of the column's points in the
 * scratch. */
#define COLUMN_GROUP                                                                               \
    __local float *memory = (__local float *)exchanges;                                            \
    const uint li = (uint)get_local_id(0), lane = li % WIDTH, t = li / WIDTH;                      \
    const uint entry = (uint)get_group_id(1) * SIDE + lane % SIDE;                                 \
    const uint column = (uint)get_group_id(0) * (WIDTH / SIDE) + lane / SIDE;                      \
    const uint k = block_first + entry / rows_each;                                                \
    __global const struct row *row = rows + row_first + entry % rows_each;                         \
    __global float2 *plane = (__global float2 *)(state + scratch + entry * ENTRY_FLOATS);          \
    __global struct report_row *column_stats =                                                     \
        (__global struct report_row *)(state + scratch + entries * ENTRY_FLOATS);                  \
    const uint own = bin_index(item_index(SIZE_LAST, t)) * COLUMNS + column;                       \
    memory += lane * UNIT;                                                                         \
    reports += li

/* New frames of a column: indices column + i STEP, i < 2 POINTS, from NEW_FROM on. */
inline uint column_frames(__global const struct row *row, uint column)
{
    const uint old = NEW_FROM;
    return 2 * POINTS - (old > column ? (old - column + STEP - 1) / STEP : 0u);
}

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void staged_forward(ARGUMENTS)
{
    COLUMN_GROUP;
    float2 x[EACH];
    struct statistics stats;
    window_points(x, memory, input, row, k, t, column, &stats);
    stats_store(reports, &stats);
    twiddle_first_pass(x, false);
    points_forward(x, memory, 0.25f, t);
    stats_gather(reports, t);
    UNROLL
    for (uint j = 0; j < EACH; j++)
        plane[own + bin_index(point_index(SIZE_LAST, RADIX_LAST, j)) * COLUMNS] = x[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    report_put(column_stats + (ulong)entry * COLUMNS + column, reports, t,
               column_frames(row, column), row->scale);
}

/* Merges the statistics of columns into the block's report, always in the same order. */
inline void report_merge(struct report_row *all, const struct report_row *one)
{
    all->sum += one->sum;
    all->sum_squares += one->sum_squares;
    all->peak = fmax(all->peak, one->peak);
    all->overload += one->overload;
    all->nonfinite += one->nonfinite;
    all->nonfinite_first = min(all->nonfinite_first, one->nonfinite_first);
    all->nonfinite_last = max(all->nonfinite_last, one->nonfinite_last);
    all->present += one->present;
}

#define MERGE_ITEMS 64u /* items that merge columns, at most those of a group */

inline void report_write(__global const struct report_row *column_stats, __local float *memory,
                         __global struct report_row *report, uint li)
{
    __local struct report_row *sums = (__local struct report_row *)memory;
    if (li < MERGE_ITEMS) {
        struct report_row sum = column_stats[li];
        for (uint i = li + MERGE_ITEMS; i < COLUMNS; i += MERGE_ITEMS) {
            const struct report_row one = column_stats[i];
            report_merge(&sum, &one);
        }
        sums[li] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (li == 0) {
        struct report_row sum = sums[0];
        for (uint i = 1; i < MERGE_ITEMS; i++) {
            const struct report_row one = sums[i];
            report_merge(&sum, &one);
        }
        *report = sum;
    }
}

inline void column_inverse(float2 *x, __global const float2 *plane, __local float *memory, uint own,
                           uint t)
{
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = plane[own + bin_index(point_index(SIZE_LAST, RADIX_LAST, j)) * COLUMNS];
    points_inverse(x, memory, 0.25f, t, 0);
    twiddle_first_pass(x, true);
}

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void staged_inverse(ARGUMENTS)
{
    COLUMN_GROUP;
    float2 x[EACH];
    column_inverse(x, plane, memory, own, t);
#if COMPONENTS == 2
    float2 y[EACH];
    barrier(CLK_LOCAL_MEM_FENCE);
    column_inverse(y, plane + POINTS * COLUMNS, memory, own, t + zero);
    if (row->components < 2) { /* the scratch still holds an earlier block */
        UNROLL
        for (uint j = 0; j < EACH; j++)
            y[j] = (float2)(0.0f, 0.0f);
    }
#else
    const float2 *y = x; /* not used */
#endif
    if (row->components > 0) {
        const uint first = window_kept(row, k, KEPT_COLUMNS);
        struct destination to = destination_of(output, row, k, t, first + column * KEPT_COLUMNS);
        points_put(&to, output, row, k, x, y);
    }
    if (get_group_id(0) != 0)
        return;
    for (uint side = 0; side < SIDE; side++) {
        const uint other = (uint)get_group_id(1) * SIDE + side;
        row = rows + row_first + other % rows_each;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row->report != ROW_NONE) /* the same for all items */
            report_write(column_stats + (ulong)other * COLUMNS, (__local float *)exchanges,
                         report_of(output, row, k), li);
    }
}

#else

#define ENTRY_FLOATS (2UL * COMPONENTS * ROWS * POINTS)

/* Stores item t's points of an inverted row, kept points side by side. In pass 0 item_index(t) is
 * t. */
inline void row_store(__global float2 *points, float2 *x, float start_angle, uint t, uint kept)
{
    const uint own = kept_item(POINTS, t, kept);
    if (!is_active(own))
        return;
    twiddle_points(x, SIZE_0, RADIX_0, start_angle, own, true);
    UNROLL
    for (uint j = 0; j < EACH; j++)
        points[point_index(POINTS, RADIX_0, j) / KEPT] = x[j];
}

/* Group (g, e) computes rows g BLOCKS … of entry e. */
__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void staged_rows(ARGUMENTS)
{
    __local float *memory = (__local float *)exchanges;
    const uint li = (uint)get_local_id(0), entry = (uint)get_group_id(1);
    const uint t = li % THREADS, b = li / THREADS;
    const uint bin = (uint)get_group_id(0) * BLOCKS + b;
    __global const struct row *row = rows + row_first + entry % rows_each;
    __global float2 *points =
        (__global float2 *)(state + scratch + entry * ENTRY_FLOATS) + bin * POINTS + t;
    const uint k = block_first + entry / rows_each;
    const uint kept = (row->new_from + row->kept - k * row->hop) % KEPT;
    const float start_angle = ((float)bin + 0.25f) / ROWS;
    memory += b * EXCHANGE_FLOATS;

    float2 x[EACH];
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = points[point_index(POINTS, RADIX_0, j)];
    twiddle_points(x, SIZE_0, RADIX_0, start_angle, t, false);
    points_forward(x, memory, start_angle, t);
    const uint again = t + zero;
    const float same = start_angle + (float)zero;
    __global const float2 *h =
        (__global const float2 *)(spectra + row->own.filter.re) + bin * POINTS + t;
#if COMPONENTS == 2
    float2 both[EACH];
    UNROLL
    for (uint j = 0; j < EACH; j++)
        both[j] = x[j];
#endif
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = times(x[j], h[j * THREADS]);
    points_inverse(x, memory, same, again, kept);
    row_store(points, x, same, again, kept);
#if COMPONENTS == 2
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row->components < 2)
        return;
    h = (__global const float2 *)(spectra + row->own.filter.im) + bin * POINTS + t;
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = times(both[j], h[j * THREADS]);
    points_inverse(x, memory, same, again + zero, kept);
    row_store(points + ROWS * POINTS, x, same, again + zero, kept);
#endif
}

#endif
