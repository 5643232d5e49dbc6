/*
 * lanes: overlap-save on a CPU, LANES signals at once, one work-item a vector of blocks. Every lane
 * of a vector (a float16, float8 or float4) is one of
 *
 *     LANES = BLOCKS x RUN x SPAN      lane (b RUN + p) SPAN + c COMPONENTS + i
 *
 * component i of channel c of point v RUN + p of block b. Interleaved frames lie in that order as
 * they arrive and as they leave: RUN frames of SPAN channels are one vector. LANES channels have
 * RUN = 1 and no operation ever crosses lanes; with fewer, lanes are also consecutive points, which
 * only the leaf has to tell apart. SPAN is channels times components, rounded up to a power of two.
 *
 * The transform is that of fft.clh without root lanes, walked depth first to stay in the nearest
 * cache. All sizes are constants of the program, so that every loop has known bounds:
 *
 *     frames -> level 0 -> ( level 1 -> ( .. leaf: forward, x spectrum, inverse .. ) -> level 1 )
 *            -> level 0 -> frames
 *
 * A level takes points `step` apart; as step is a multiple of RUN, its vectors have one factor
 * each. The leaf takes RUN nodes of 8 points: it exchanges the bits of the lane that count points
 * with bits of the vector's number, and lanes are nodes then, with factors of their own.
 *
 * A complex filter is two real ones: its channel has two lanes, the real component first.
 *
 * The first pass adds up the new frames' levels. What is rare is looked for by the largest
 * magnitude alone: values that are not finite, and samples at full scale, send the block to a
 * careful reading. A row whose frames may be absent is read carefully at once.
 *
 * With decimation the inverse computes the vectors that hold kept frames and no others: all of them
 * are congruent modulo the powers of two of D, and so are the points of each level that they are
 * made of. They stay in the scratch memory, whence the kept frames go to the output one after the
 * other. Blocks of which none is kept are read for their reports alone.
 *
 * Options: LOG_Q; LOG_0 … LOG_4 radices of the levels above the leaf, 0: there is none;
 * CHANNELS, COMPONENTS, SPAN, RUN, BLOCKS; FORM; STRIDE of an output frame; FRAME_BYTES, WORD,
 * SWAP, FLOATS, UNSIGNED, SHIFT_LEFT, SHIFT_RIGHT of a sample; SCALED, OFFSETS where some channel
 * needs them; LATE: no new frame lies in the window's first half; DECIMATED: D > 1.
 *
 * Group (k, r): blocks k BLOCKS … of row r. In SPECTRUM:
 *
 *     own.spectra      [Q / RUN][re: LANES][im: LANES], gains folded in, in the order of the leaf
 *     own.constants    scale, offset_hi, offset_lo, suspect, [LANES] each; suspect: the least
 *                      magnitude that can be full scale
 *     own.twiddles     twiddles [Q][re, im]; then with RUN > 1 the leaf's own [Q / 8 RUN][7][re,
 * im]
 */

/* A compiler that thinks 256 bits faster is told otherwise: its guess was made for older parts. */
#ifdef __has_attribute
#if __has_attribute(min_vector_width)
#define WIDE_VECTORS
#pragma clang attribute push(__attribute__((min_vector_width(512))), apply_to = function)
#endif
#endif

#include "lanes_frames.clh"

/* ---- butterflies ------------------------------------------------------------------------- */

INLINE struct point times_factor(struct point a, real re, real im)
{
    struct point c = {a.re * re - a.im * im, a.im * re + a.re * im};
    return c;
}

INLINE struct point times_factor_conjugate(struct point a, real re, real im)
{
    struct point c = {a.re * re + a.im * im, a.im * re - a.re * im};
    return c;
}

INLINE void sum_2(struct point x[2], struct point y[2])
{
    y[0] = point_add(x[0], x[1]);
    y[1] = point_subtract(x[0], x[1]);
}

INLINE void sum_4(struct point x[4], struct point y[4])
{
    const struct point a = point_add(x[0], x[2]), c = point_subtract(x[0], x[2]);
    const struct point d = point_add(x[1], x[3]), e = point_times_i(point_subtract(x[1], x[3]));
    y[0] = point_add(a, d);
    y[1] = point_add(c, e);
    y[2] = point_subtract(a, d);
    y[3] = point_subtract(c, e);
}

/* A node's factors, in every lane. */
#define FACTORS(R, w)                                                                              \
    real re[R], im[R];                                                                             \
    _Pragma("unroll") for (uint j = 1; j < R; j++)                                                 \
    {                                                                                              \
        re[j] = (real)((w)[2 * j - 2]);                                                            \
        im[j] = (real)((w)[2 * j - 1]);                                                            \
    }

/* Butterfly i of a node: LOAD(j) and STORE(j, p) are its points i + j step. */
#define FORWARD(R, LOAD, STORE)                                                                    \
    do {                                                                                           \
        struct point x[R], y[R];                                                                   \
        x[0] = LOAD(0);                                                                            \
        _Pragma("unroll") for (uint j = 1; j < R; j++) x[j] = times_factor(LOAD(j), re[j], im[j]); \
        sum_##R(x, y);                                                                             \
        _Pragma("unroll") for (uint j = 0; j < R; j++) STORE(j, y[j]);                             \
    } while (0)

/* The same sum read backwards has the conjugate factors. */
#define INVERSE(R, LOAD, STORE)                                                                    \
    do {                                                                                           \
        struct point x[R], y[R];                                                                   \
        _Pragma("unroll") for (uint j = 0; j < R; j++) x[j] = LOAD(j);                             \
        sum_##R(x, y);                                                                             \
        STORE(0, y[0]);                                                                            \
        _Pragma("unroll") for (uint j = 1; j < R; j++)                                             \
            STORE(j, times_factor_conjugate(y[R - j], re[j], im[j]));                              \
    } while (0)

#define NODE_LOAD(j)     point_load(z, (i + (j)*step) / RUN)
#define NODE_STORE(j, p) point_store(z, (i + (j)*step) / RUN, p)

#define EACH_RADIX(log, BODY)                                                                      \
    do {                                                                                           \
        if ((log) == 3) {                                                                          \
            BODY(8);                                                                               \
        } else if ((log) == 2) {                                                                   \
            BODY(4);                                                                               \
        } else {                                                                                   \
            BODY(2);                                                                               \
        }                                                                                          \
    } while (0)

INLINE void node_forward(SCRATCH real *z, __global const float *w, const uint log, const uint step)
{
#define NODE_FORWARD(R)                                                                            \
    FACTORS(R, w)                                                                                  \
    for (uint i = 0; i < step; i += RUN)                                                           \
    FORWARD(R, NODE_LOAD, NODE_STORE)
    EACH_RADIX(log, NODE_FORWARD);
}

INLINE void node_inverse(SCRATCH real *z, __global const float *w, const uint log, const uint step,
                         const struct kept kept)
{
#define NODE_INVERSE(R)                                                                            \
    FACTORS(R, w)                                                                                  \
    for (uint i = kept_from(kept, step); i < step; i += kept_each(kept, step))                     \
    INVERSE(R, NODE_LOAD, NODE_STORE)
    EACH_RADIX(log, NODE_INVERSE);
}

/* ---- the leaf ---------------------------------------------------------------------------- */

#if RUN > 1
/* Exchanges a bit of the lane's number, of value D, with the bit between the vectors a and b. */
#if LANES == 16
#define LOW_1(a, b)                                                                                \
    ((real)((a).s0, (b).s0, (a).s2, (b).s2, (a).s4, (b).s4, (a).s6, (b).s6, (a).s8, (b).s8,        \
            (a).sa, (b).sa, (a).sc, (b).sc, (a).se, (b).se))
#define HIGH_1(a, b)                                                                               \
    ((real)((a).s1, (b).s1, (a).s3, (b).s3, (a).s5, (b).s5, (a).s7, (b).s7, (a).s9, (b).s9,        \
            (a).sb, (b).sb, (a).sd, (b).sd, (a).sf, (b).sf))
#define LOW_2(a, b) ((real)((a).s01, (b).s01, (a).s45, (b).s45, (a).s89, (b).s89, (a).scd, (b).scd))
#define HIGH_2(a, b)                                                                               \
    ((real)((a).s23, (b).s23, (a).s67, (b).s67, (a).sab, (b).sab, (a).sef, (b).sef))
#define LOW_4(a, b)  ((real)((a).s0123, (b).s0123, (a).s89ab, (b).s89ab))
#define HIGH_4(a, b) ((real)((a).s4567, (b).s4567, (a).scdef, (b).scdef))
#elif LANES == 8
#define LOW_1(a, b)  ((real)((a).s0, (b).s0, (a).s2, (b).s2, (a).s4, (b).s4, (a).s6, (b).s6))
#define HIGH_1(a, b) ((real)((a).s1, (b).s1, (a).s3, (b).s3, (a).s5, (b).s5, (a).s7, (b).s7))
#define LOW_2(a, b)  ((real)((a).s01, (b).s01, (a).s45, (b).s45))
#define HIGH_2(a, b) ((real)((a).s23, (b).s23, (a).s67, (b).s67))
#define LOW_4(a, b)  LOW_HALF(a, b)
#define HIGH_4(a, b) HIGH_HALF(a, b)
#else
#define LOW_1(a, b)  ((real)((a).s0, (b).s0, (a).s2, (b).s2))
#define HIGH_1(a, b) ((real)((a).s1, (b).s1, (a).s3, (b).s3))
#define LOW_2(a, b)  LOW_HALF(a, b)
#define HIGH_2(a, b) HIGH_HALF(a, b)
#define LOW_4(a, b)  LOW_HALF(a, b) /* not a bit of theirs */
#define HIGH_4(a, b) HIGH_HALF(a, b)
#endif
#define LOW_HALF(a, b)  ((real)((a).lo, (b).lo))
#define HIGH_HALF(a, b) ((real)((a).hi, (b).hi))

INLINE void exchange_bit(real rows[8], const uint lane_bit, const uint row_bit)
{
#pragma unroll
    for (uint i = 0; i < 8; i++)
        if ((i & row_bit) == 0) {
            const real a = rows[i], b = rows[i + row_bit];
            rows[i] = lane_bit == 1   ? LOW_1(a, b)
                      : lane_bit == 2 ? LOW_2(a, b)
                      : lane_bit == 4 ? LOW_4(a, b)
                                      : LOW_HALF(a, b);
            rows[i + row_bit] = lane_bit == 1   ? HIGH_1(a, b)
                                : lane_bit == 2 ? HIGH_2(a, b)
                                : lane_bit == 4 ? HIGH_4(a, b)
                                                : HIGH_HALF(a, b);
        }
}

/* Eight vectors of points become eight vectors of nodes, and back: exchanges undo themselves. */
INLINE void exchange(real rows[8])
{
#pragma unroll
    for (uint p = 1; p < RUN; p *= 2)
        exchange_bit(rows, p * SPAN, 8 / RUN * p);
}

/* The leaf's point in vector v after the exchange: bits 8 / RUN … of v count first. */
#define LEAF_POINT(v) ((v) / (8 / RUN) | ((v)*RUN & 7u))
#else
#define exchange(rows)
#define LEAF_POINT(v) (v)
#endif

/* RUN nodes of eight points forward, times the spectrum, and back, without leaving the registers.
 */
INLINE void leaf(SCRATCH real *z, __global const real *h, __global const float *factors, uint node,
                 const struct kept kept)
{
    (void)kept;
#if RUN > 1
    __global const real *w = (__global const real *)(factors + 2 * Q) + node / RUN * 14;
#else
    __global const float *w = factors + 2 * ((Q / 8 - 1) + node * 7);
#endif
    struct point x[8], y[8];
    real re[8], im[8];
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        re[v] = z[2 * v];
        im[v] = z[2 * v + 1];
    }
    exchange(re);
    exchange(im);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        x[LEAF_POINT(v)].re = re[v];
        x[LEAF_POINT(v)].im = im[v];
    }
#pragma unroll
    for (uint j = 1; j < 8; j++)
        x[j] = times_factor(x[j], (real)w[2 * j - 2], (real)w[2 * j - 1]);
    sum_8(x, y);
#pragma unroll
    for (uint j = 0; j < 8; j++)
        x[j] = point_times(y[j], point_load_global(h, j));
    sum_8(x, y);
    x[0] = y[0];
#pragma unroll
    for (uint j = 1; j < 8; j++)
        x[j] = times_factor_conjugate(y[8 - j], (real)w[2 * j - 2], (real)w[2 * j - 1]);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        re[v] = x[LEAF_POINT(v)].re;
        im[v] = x[LEAF_POINT(v)].im;
    }
    exchange(re);
    exchange(im);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        z[2 * v] = re[v];
        z[2 * v + 1] = im[v];
    }
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* The children of a node, each `step` points; leaves go RUN at a time. */
#define CHILDREN(below, log, step, node)                                                           \
    for (uint child = 0; child < 1u << (log); child += (step) == 8 ? RUN : 1)                      \
    below(z + 2 * (step) / RUN * child, h + 2 * (step) / RUN * child, factors,                     \
          ((node) << (log)) + child, kept)

/* Factors of a level of m nodes begin at entry m - 1 of the table. */
#define LEVEL(name, below, log, nodes, step)                                                       \
    INLINE void name(SCRATCH real *z, __global const real *h, __global const float *factors,       \
                     uint node, const struct kept kept)                                            \
    {                                                                                              \
        __global const float *w = factors + 2 * (((nodes)-1) + node * ((1u << (log)) - 1));        \
        node_forward(z, w, log, step);                                                             \
        CHILDREN(below, log, step, node);                                                          \
        node_inverse(z, w, log, step, kept);                                                       \
    }

#if LOG_4
LEVEL(level_4, leaf, LOG_4, Q / STEP_3, STEP_4)
#else
#define level_4 leaf
#endif
#if LOG_3
LEVEL(level_3, level_4, LOG_3, Q / STEP_2, STEP_3)
#else
#define level_3 leaf
#endif
#if LOG_2
LEVEL(level_2, level_3, LOG_2, Q / STEP_1, STEP_2)
#else
#define level_2 leaf
#endif
#if LOG_1
LEVEL(level_1, level_2, LOG_1, Q / STEP_0, STEP_1)
#else
#define level_1 leaf
#endif

/* The first level takes its points from the window, the last one gives its own back. */
INLINE void frames_forward(SCRATCH real *z, const struct source *source, struct levels *levels,
                           __global const float *w, const enum reading first,
                           const enum reading second)
{
    const uint step = STEP_0;
#define WINDOW_LOAD(j)                                                                             \
    ((struct point){frame_value(source, i + (j)*step, levels, first),                              \
                    frame_value(source, i + (j)*step + Q, levels, second)})
#define WINDOW_FORWARD(R)                                                                          \
    FACTORS(R, w)                                                                                  \
    for (uint i = 0; i < step; i += RUN)                                                           \
    FORWARD(R, WINDOW_LOAD, NODE_STORE)
    EACH_RADIX(LOG_0, WINDOW_FORWARD);
}

INLINE void frames_inverse(SCRATCH real *z, struct target *target, __global const float *w,
                           const bool whole)
{
    const uint step = STEP_0;
#define WINDOW_STORE(j, p)                                                                         \
    do {                                                                                           \
        const struct point out = p;                                                                \
        if (!LATE)                                                                                 \
            target_value(target, i + (j)*step, out.re, false);                                     \
        target_value(target, i + (j)*step + Q, out.im, whole);                                     \
    } while (0)
#define WINDOW_INVERSE(R)                                                                          \
    FACTORS(R, w)                                                                                  \
    for (uint i = 0; i < step; i += RUN)                                                           \
    INVERSE(R, NODE_LOAD, WINDOW_STORE)
    EACH_RADIX(LOG_0, WINDOW_INVERSE);
}

APART void frames_careful(SCRATCH real *z, const struct source *source, struct levels *levels,
                          __global const float *w)
{
    levels_open(levels);
    frames_forward(z, source, levels, w, READ_CAREFULLY, READ_CAREFULLY);
}

INLINE void frames_read(SCRATCH real *z, const struct source *source, struct levels *levels,
                        __global const float *w)
{
    bool careful = source->present != 0;
    if (!careful) {
        struct levels seen; /* its address goes nowhere, so that it lives in registers */
        levels_open(&seen);
        if (LATE && source->load_from == 0 && source->new_from == Q)
            frames_forward(z, source, &seen, w, READ_OLD, READ_NEW);
        else
            frames_forward(z, source, &seen, w, READ_MIXED, READ_MIXED);
        seen.present = (flag_lanes)(2 * Q - source->new_from) & (LANE_POINT == (word_lanes)0);
        const flag_lanes most = max(seen.peak, seen.old);
        careful = FLOATS && any(source->used & (most >= (flag_lanes)NOT_FINITE));
        if (!careful && any(source->used & (seen.peak >= AS_FLAGS(source->suspect))))
            seen.overload = overload_count(source);
        *levels = seen;
    }
    if (careful)
        frames_careful(z, source, levels, w);
}

/* Apart from the kernel, of which some compilers make several. */
APART void convolve_blocks(SCRATCH real *z, __global const uchar *input,
                           __global const float *spectra, __global float *output,
                           __global const struct row *row, uint block)
{
    __global const real *h = (__global const real *)(spectra + row->own.lanes.spectra);
    __global const float *factors = spectra + row->own.lanes.twiddles;
    struct source source;
    struct levels levels;
    struct target target;
    source_open(&source, input, spectra, row, block);
    frames_read(z, &source, &levels, factors);
    levels_write(&levels, &source, output, row, block);
    const struct kept kept = kept_open(row, block);
#if DECIMATED
    target_open(&target, &source, output, row, block);
    if (!target_keeps(&target))
        return;
    CHILDREN(level_1, LOG_0, STEP_0, 0);
    node_inverse(z, factors, LOG_0, STEP_0, kept);
    target_kept(&target, z);
#else
    CHILDREN(level_1, LOG_0, STEP_0, 0);
    target_open(&target, &source, output, row, block);
    if (target_whole(&target))
        frames_inverse(z, &target, factors, true);
    else
        frames_inverse(z, &target, factors, false);
#endif
    encoder_close(&target.encoder, output, block, source.blocks);
}

__kernel void lanes(ARGUMENTS)
{
    /* The rows of a block in turns, so that frames wider than a group are read while they are near;
     * long blocks push each other's spectra out and go row by row. */
    const uint turn = (uint)(get_group_id(1) * get_num_groups(0) + get_group_id(0));
    const uint rows_here = (uint)get_num_groups(1), blocks_here = (uint)get_num_groups(0);
    const uint r = LOG_Q < 12 ? turn % rows_here : turn / blocks_here;
    const uint k = LOG_Q < 12 ? turn / rows_here : turn % blocks_here;
    __global const struct row *row = rows + row_first + r;
    const uint block = (block_first + k) * BLOCKS;
    if (block >= row->blocks)
        return;
#ifdef GLOBAL_SCRATCH
    SCRATCH real *z = (__global real *)(state + scratch) + (size_t)turn * (2 * Q / RUN);
#else
    SCRATCH real *z = (SCRATCH real *)local_points;
#endif
    convolve_blocks(z, input, spectra, output, row, block);
}

#ifdef WIDE_VECTORS
#pragma clang attribute pop
#endif
