/*
 * staged: transforms too long for a work-group, on GPUs, in three launches (four-step: the tree's
 * first level has radix POINTS of the columns, and everything below one of its children is a
 * transform of its own, of the points of a row):
 *
 *     ring ─► convert ─► columns forward ─┐        Q = rows · columns, point n = row · Q2 + column
 *                                 scratch [rows][columns]
 *           rows forward × spectrum inverse, in place
 *                                 scratch [rows][columns]
 *     output ◄── envelope, gain ◄── columns back ─┘
 *
 * No twiddles in between and no transposition: row K carries the angle (K + 1/4) / rows, which its
 * first pass takes in. Groups of columns take SIDE neighbouring channels of WIDTH / SIDE
 * neighbouring columns, so that they read whole frames, or whole sectors of them, one after the
 * other.
 *
 * One program for the columns (STAGED_COLUMNS, POINTS = rows, STEP = columns of them, with
 * window.clh's options) and one for the rows (POINTS = columns, ROWS). With decimation by a
 * multiple of KEPT_COLUMNS the rows bring back only the columns that hold kept frames, one in
 * KEPT_COLUMNS (their KEPT), side by side at the beginning of each row, and the last launch has as
 * few groups.
 *
 *   row_first, rows_each   entries of the slice: e stands for row row_first + e mod rows_each and
 *   block_first            block block_first + e / rows_each
 *   scratch                float of STATE: COMPONENTS planes of Q points for each entry, then
 *                          COLUMNS reports each
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

/* Names for what an item works on: group (g, e) has columns g WIDTH / SIDE … of the SIDE entries
 * from e SIDE on, which are of one block. `own` is where the scratch has the column's points. */
#define COLUMN_GROUP                                                                               \
    __local float *memory = (__local float *)exchanges;                                            \
    const uint li = (uint)get_local_id(0), lane = li % WIDTH, t = li / WIDTH;                      \
    const uint entry = (uint)get_group_id(1) * SIDE + lane % SIDE;                                 \
    const uint column = (uint)get_group_id(0) * (WIDTH / SIDE) + lane / SIDE;                      \
    const uint k = block_first + entry / rows_each;                                                \
    __global const struct row *row = rows + row_first + entry % rows_each;                         \
    __global float2 *plane = (__global float2 *)(state + scratch + entry * ENTRY_FLOATS);          \
    __global struct report_row *seen_columns =                                                     \
        (__global struct report_row *)(state + scratch + entries * ENTRY_FLOATS);                  \
    const uint own = bin_of(place_item(SIZE_LAST, t)) * COLUMNS + column;                          \
    memory += lane * (SPLIT ? 1 : 2);                                                              \
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
    struct seen seen;
    window_points(x, memory, input, row, k, t, column, &seen);
    seen_store(reports, &seen);
    turn_root(x, false);
    points_forward(x, memory, 0.25f, t);
    seen_gather(reports, t);
    UNROLL
    for (uint j = 0; j < EACH; j++)
        plane[own + bin_of(place_point(SIZE_LAST, RADIX_LAST, j)) * COLUMNS] = x[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    report_put(seen_columns + (ulong)entry * COLUMNS + column, reports, t,
               column_frames(row, column));
}

/* The reports of the columns become the block's, always in the same order. */
inline void report_join(struct report_row *all, const struct report_row *one)
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

#define JOINERS 64u /* items that add up columns, no more than a group has */

inline void report_write(__global const struct report_row *seen_columns, __local float *memory,
                         __global struct report_row *report, uint li)
{
    __local struct report_row *sums = (__local struct report_row *)memory;
    if (li < JOINERS) {
        struct report_row sum = seen_columns[li];
        for (uint i = li + JOINERS; i < COLUMNS; i += JOINERS) {
            const struct report_row one = seen_columns[i];
            report_join(&sum, &one);
        }
        sums[li] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (li == 0) {
        struct report_row sum = sums[0];
        for (uint i = 1; i < JOINERS; i++) {
            const struct report_row one = sums[i];
            report_join(&sum, &one);
        }
        *report = sum;
    }
}

inline void column_back(float2 *x, __global const float2 *plane, __local float *memory, uint own,
                        uint t)
{
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = plane[own + bin_of(place_point(SIZE_LAST, RADIX_LAST, j)) * COLUMNS];
    points_inverse(x, memory, 0.25f, t, 0);
    turn_root(x, true);
}

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void staged_back(ARGUMENTS)
{
    COLUMN_GROUP;
    float2 x[EACH];
    column_back(x, plane, memory, own, t);
#if COMPONENTS == 2
    float2 y[EACH];
    barrier(CLK_LOCAL_MEM_FENCE);
    column_back(y, plane + POINTS * COLUMNS, memory, own, t + zero);
    if (row->components < 2) { /* what was there is of an earlier block */
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
            report_write(seen_columns + (ulong)other * COLUMNS, (__local float *)exchanges,
                         report_of(output, row, k), li);
    }
}

#else

#define ENTRY_FLOATS (2UL * COMPONENTS * ROWS * POINTS)

/* Item t's share of a row that came back, side by side with the others'. In pass 0 an item's place
 * is its number. */
inline void row_store(__global float2 *points, float2 *x, float root, uint t, uint kept)
{
    const uint own = kept_item(POINTS, t, kept);
    if (!takes_part(own))
        return;
    turn_points(x, SIZE_0, RADIX_0, root, own, true);
    UNROLL
    for (uint j = 0; j < EACH; j++)
        points[place_point(POINTS, RADIX_0, j) / KEPT] = x[j];
}

/* Group (g, e): rows g BLOCKS … of entry e. */
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
    const float root = ((float)bin + 0.25f) / ROWS;
    memory += b * EXCHANGE_FLOATS;

    float2 x[EACH];
    UNROLL
    for (uint j = 0; j < EACH; j++)
        x[j] = points[place_point(POINTS, RADIX_0, j)];
    turn_points(x, SIZE_0, RADIX_0, root, t, false);
    points_forward(x, memory, root, t);
    const uint again = t + zero;
    const float same = root + (float)zero;
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
