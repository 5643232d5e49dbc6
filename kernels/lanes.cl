/*
 * The variant "lanes": overlap-save on a CPU in one launch, one work-item for each vector of
 * blocks and all of its work: convert, forward FFT, times the filter spectrum, inverse, output
 * format. Group (k, r) has one work-item and computes blocks k BLOCKS … of row r.
 *
 * Data. A vector of LANES floats (16, 8 or 4) holds
 *
 *     LANES = BLOCKS x RUN x SPAN      lane (b RUN + p) SPAN + c COMPONENTS + i
 *
 * component i of channel c of point v RUN + p of block b. SPAN is channels times components,
 * rounded up to a power of two. Interleaved frames have this order as they arrive and as they
 * leave: RUN frames of SPAN channels are one vector, and nothing is transposed. With LANES
 * channels RUN is 1 and no operation crosses lanes; with fewer, lanes also hold consecutive points,
 * which matters to the leaf only. A complex filter counts as two real ones: its channel has two
 * lanes, the real component first.
 *
 * Passes. The FFT is that of fft.clh without its first pass across lanes. It recurses depth first,
 * so that the points of a sub-transform stay in the nearest cache:
 *
 *     frames -> pass 0 -> ( pass 1 -> ( … leaf: forward, x spectrum, inverse … ) -> pass 1 )
 *            -> pass 0 -> frames
 *
 * A pass combines points `step` apart; step is a multiple of RUN, so a vector has one twiddle. The
 * leaf, the last pass, takes RUN sub-transforms of 8 points: it transposes 8 vectors of RUN points
 * so that each lane holds a sub-transform of its own, with twiddles of its own. All sizes are
 * constants of the program.
 *
 * Statistics for the report are taken by pass 0 (lanes_input.clh). If the largest magnitude shows
 * that some value was not finite, pass 0 runs again on the slow path; if it is at full scale, the
 * new frames are read again to count the overloads. Rows whose frames may be absent take the slow
 * path at once.
 *
 * Decimation by D: the inverse computes only vectors that hold kept frames. Those are congruent
 * modulo the largest power of two in D, and so are the points of each pass that they depend on.
 * Blocks that keep no frame are read for their statistics only (lanes_output.clh).
 *
 * ROWS rows of neighbouring channels are one group's work: pass 0 reads and writes the frames of
 * all of them together, the passes below take them one after the other. This changes no result.
 *
 * Options: ROWS; LOG_Q; LOG_0 … LOG_4, log2 of the radices above the leaf, 0: no such pass;
 * CHANNELS, COMPONENTS, SPAN, RUN, BLOCKS; FORM; STRIDE of an output frame; FRAME_BYTES, WORD,
 * SWAP, FLOATS, UNSIGNED, SHIFT_LEFT, SHIFT_RIGHT of a sample; SCALED, OFFSETS where some channel
 * needs them; LATE: no new frame is in the window's first half; DECIMATED: D > 1.
 *
 * In SPECTRUM (struct row_lanes):
 *
 *     spectra     [Q / RUN][re: LANES][im: LANES], gains folded in, in the order of the leaf
 *     constants   scale, offset_hi, offset_lo, near_full_scale: [LANES] each; the last is the least
 *                 magnitude that can be at full scale
 *     twiddles    [Q][re, im]; with RUN > 1 then those of the leaf, [Q / 8 RUN][7][re, im]
 *
 * In STATE, where the points do not fit local memory: a piece for each group of a launch, or, with
 * SLOTS, SLOT_WORDS words that tell which slots are taken, and one piece a slot.
 */

/* Asks clang for 512-bit operations: it prefers 256 bits because of the first AVX-512 CPUs. */
#ifdef __has_attribute
#if __has_attribute(min_vector_width)
#define WIDE_VECTORS
#pragma clang attribute push(__attribute__((min_vector_width(512))), apply_to = function)
#endif
#endif

#include "lanes_input.clh"
#include "lanes_output.clh"

/* ---- butterflies ------------------------------------------------------------------------- */

INLINE struct point times_twiddle(struct point a, real re, real im)
{
    struct point c = {a.re * re - a.im * im, a.im * re + a.re * im};
    return c;
}

INLINE struct point times_twiddle_conjugate(struct point a, real re, real im)
{
    struct point c = {a.re * re + a.im * im, a.im * re - a.re * im};
    return c;
}

INLINE void dft_2(struct point x[2], struct point y[2])
{
    y[0] = point_add(x[0], x[1]);
    y[1] = point_subtract(x[0], x[1]);
}

INLINE void dft_4(struct point x[4], struct point y[4])
{
    const struct point a = point_add(x[0], x[2]), c = point_subtract(x[0], x[2]);
    const struct point d = point_add(x[1], x[3]), e = point_times_i(point_subtract(x[1], x[3]));
    y[0] = point_add(a, d);
    y[1] = point_add(c, e);
    y[2] = point_subtract(a, d);
    y[3] = point_subtract(c, e);
}

/* A node's twiddles, the same in every lane. */
#define TWIDDLES(R, w)                                                                             \
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
        _Pragma("unroll") for (uint j = 1; j < R; j++) x[j] =                                      \
            times_twiddle(LOAD(j), re[j], im[j]);                                                  \
        dft_##R(x, y);                                                                             \
        _Pragma("unroll") for (uint j = 0; j < R; j++) STORE(j, y[j]);                             \
    } while (0)

/* Reading the same DFT backwards, R - j for j, conjugates its roots. */
#define INVERSE(R, LOAD, STORE)                                                                    \
    do {                                                                                           \
        struct point x[R], y[R];                                                                   \
        _Pragma("unroll") for (uint j = 0; j < R; j++) x[j] = LOAD(j);                             \
        dft_##R(x, y);                                                                             \
        STORE(0, y[0]);                                                                            \
        _Pragma("unroll") for (uint j = 1; j < R; j++)                                             \
            STORE(j, times_twiddle_conjugate(y[R - j], re[j], im[j]));                             \
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
    TWIDDLES(R, w)                                                                                 \
    for (uint i = 0; i < step; i += RUN)                                                           \
    FORWARD(R, NODE_LOAD, NODE_STORE)
    EACH_RADIX(log, NODE_FORWARD);
}

INLINE void node_inverse(SCRATCH real *z, __global const float *w, const uint log, const uint step,
                         const struct kept kept)
{
#define NODE_INVERSE(R)                                                                            \
    TWIDDLES(R, w)                                                                                 \
    for (uint i = kept_from(kept, step); i < step; i += kept_each(kept, step))                     \
    INVERSE(R, NODE_LOAD, NODE_STORE)
    EACH_RADIX(log, NODE_INVERSE);
}

/* ---- the leaf ---------------------------------------------------------------------------- */

#if RUN > 1
/* LOW_D and HIGH_D exchange the bit of value D in the lane number with the bit that tells vector a
 * from vector b. */
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
#define LOW_4(a, b)  LOW_HALF(a, b) /* never used: 4 lanes have no such bit */
#define HIGH_4(a, b) HIGH_HALF(a, b)
#endif
#define LOW_HALF(a, b)  ((real)((a).lo, (b).lo))
#define HIGH_HALF(a, b) ((real)((a).hi, (b).hi))

INLINE void transpose_bit(real rows[8], const uint lane_bit, const uint row_bit)
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

/* Turns eight vectors of RUN points into eight vectors of one sub-transform a lane, and back. */
INLINE void transpose(real rows[8])
{
#pragma unroll
    for (uint p = 1; p < RUN; p *= 2)
        transpose_bit(rows, p * SPAN, 8 / RUN * p);
}

/* Which of the leaf's 8 points vector v holds after the transposition. */
#define LEAF_POINT(v) ((v) / (8 / RUN) | ((v)*RUN & 7u))
#else
#define transpose(rows)
#define LEAF_POINT(v) (v)
#endif

/* The last pass: RUN sub-transforms of 8 points forward, times the spectrum and inverse, in
 * registers. */
INLINE void leaf(SCRATCH real *z, __global const real *h, __global const float *twiddles, uint node,
                 const struct kept kept)
{
    (void)kept;
#if RUN > 1
    __global const real *w = (__global const real *)(twiddles + 2 * Q) + node / RUN * 14;
#else
    __global const float *w = twiddles + 2 * ((Q / 8 - 1) + node * 7);
#pragma unroll
    for (uint v = 0; v < 16; v++)
        FETCH(h + 16 * LEAVES_AHEAD + v);
#endif
    struct point x[8], y[8];
    real re[8], im[8];
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        re[v] = z[2 * v];
        im[v] = z[2 * v + 1];
    }
    transpose(re);
    transpose(im);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        x[LEAF_POINT(v)].re = re[v];
        x[LEAF_POINT(v)].im = im[v];
    }
#pragma unroll
    for (uint j = 1; j < 8; j++)
        x[j] = times_twiddle(x[j], (real)w[2 * j - 2], (real)w[2 * j - 1]);
    dft_8(x, y);
#pragma unroll
    for (uint j = 0; j < 8; j++)
        x[j] = point_times(y[j], point_load_global(h, j));
    dft_8(x, y);
    x[0] = y[0];
#pragma unroll
    for (uint j = 1; j < 8; j++)
        x[j] = times_twiddle_conjugate(y[8 - j], (real)w[2 * j - 2], (real)w[2 * j - 1]);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        re[v] = x[LEAF_POINT(v)].re;
        im[v] = x[LEAF_POINT(v)].im;
    }
    transpose(re);
    transpose(im);
#pragma unroll
    for (uint v = 0; v < 8; v++) {
        z[2 * v] = re[v];
        z[2 * v + 1] = im[v];
    }
}

/* ---- the recursion ----------------------------------------------------------------------- */

/* Calls `below` for each sub-transform of a node, `step` points each; leaves go RUN at a time. */
#define CHILDREN(below, log, step, node)                                                           \
    for (uint child = 0; child < 1u << (log); child += (step) == 8 ? RUN : 1)                      \
    below(z + 2 * (step) / RUN * child, h + 2 * (step) / RUN * child, twiddles,                    \
          ((node) << (log)) + child, kept)

/* A pass and what lies below it. The twiddles of m nodes begin at entry m - 1 of the table. */
#define PASS(name, below, log, nodes, step)                                                        \
    INLINE void name(SCRATCH real *z, __global const real *h, __global const float *twiddles,      \
                     uint node, const struct kept kept)                                            \
    {                                                                                              \
        __global const float *w = twiddles + 2 * (((nodes)-1) + node * ((1u << (log)) - 1));       \
        node_forward(z, w, log, step);                                                             \
        CHILDREN(below, log, step, node);                                                          \
        node_inverse(z, w, log, step, kept);                                                       \
    }

#if LOG_4
PASS(pass_4, leaf, LOG_4, Q / STEP_3, STEP_4)
#else
#define pass_4 leaf
#endif
#if LOG_3
PASS(pass_3, pass_4, LOG_3, Q / STEP_2, STEP_3)
#else
#define pass_3 leaf
#endif
#if LOG_2
PASS(pass_2, pass_3, LOG_2, Q / STEP_1, STEP_2)
#else
#define pass_2 leaf
#endif
#if LOG_1
PASS(pass_1, pass_2, LOG_1, Q / STEP_0, STEP_1)
#else
#define pass_1 leaf
#endif

/* ---- pass 0: between frames and points --------------------------------------------------- */

/* `ROWS` rows that lie side by side in a frame, one butterfly of each in turn, so that a cache line
 * that holds words of two rows is read, and written, once. */
#define EACH_ROW(rows)  _Pragma("unroll") for (uint r = 0; r < (rows); r++)
#define ROW_LOAD(j)     point_load(z + r * POINTS_REALS, (i + (j)*step) / RUN)
#define ROW_STORE(j, p) point_store(z + r * POINTS_REALS, (i + (j)*step) / RUN, p)

/* Forward takes its points from the ring; its inverse writes them to the output. */
INLINE void frames_forward(SCRATCH real *z, const struct source *sources, struct statistics *stats,
                           __global const float *w, const enum reading first,
                           const enum reading second, const uint rows)
{
    const uint step = STEP_0;
#define WINDOW_LOAD(j)                                                                             \
    ((struct point){frame_value(sources + r, i + (j)*step, stats + r, first),                      \
                    frame_value(sources + r, i + (j)*step + Q, stats + r, second)})
#define WINDOW_FORWARD(R)                                                                          \
    TWIDDLES(R, w)                                                                                 \
    for (uint i = 0; i < step; i += RUN)                                                           \
    EACH_ROW(rows) FORWARD(R, WINDOW_LOAD, ROW_STORE)
    EACH_RADIX(LOG_0, WINDOW_FORWARD);
}

/* Returns whether WRITE_FAST met samples outside the codes. */
INLINE bool frames_inverse(SCRATCH real *z, struct target *targets, __global const float *w,
                           const enum writing writing)
{
    const uint step = STEP_0;
    out_words bits[ROWS];
    EACH_ROW(ROWS) bits[r] = (out_words)0;
#define WINDOW_STORE(j, p)                                                                         \
    do {                                                                                           \
        const struct point out = p;                                                                \
        if (!LATE)                                                                                 \
            target_value(targets + r, i + (j)*step, out.re, WRITE_PART, bits + r);                 \
        target_value(targets + r, i + (j)*step + Q, out.im, writing, bits + r);                    \
    } while (0)
#define WINDOW_INVERSE(R)                                                                          \
    TWIDDLES(R, w)                                                                                 \
    for (uint i = 0; i < step; i += RUN)                                                           \
    EACH_ROW(ROWS) INVERSE(R, ROW_LOAD, WINDOW_STORE)
    EACH_RADIX(LOG_0, WINDOW_INVERSE);
#if ENCODE_FAST
    bool any_outside = false;
    EACH_ROW(ROWS) any_outside |= any(OF_OUT(as_int)(bits[r] >> (uint)RESULT_BITS) != 0);
    return any_outside;
#else
    return false;
#endif
}

/* Frames of which not all are written, or some of which saturate. */
NOINLINE void frames_rare(SCRATCH real *z, struct target *targets, __global const float *w)
{
    frames_inverse(z, targets, w, WRITE_PART);
}

INLINE void frames_write(SCRATCH real *z, struct target *targets, __global const float *w)
{
    if (!target_whole(targets) ||
        frames_inverse(z, targets, w, ENCODE_FAST ? WRITE_FAST : WRITE_WHOLE))
        frames_rare(z, targets, w);
}

NOINLINE void frames_slow(SCRATCH real *z, const struct source *source, struct statistics *stats,
                          __global const float *w)
{
    stats_reset(stats);
    frames_forward(z, source, stats, w, READ_SLOW, READ_SLOW, 1);
}

/* The rows of a group read the same frames, so either all of them or none have absent ones. */
INLINE void frames_read(SCRATCH real *z, const struct source sources[ROWS],
                        struct statistics stats[ROWS], __global const float *w)
{
    bool slow[ROWS];
    EACH_ROW(ROWS) slow[r] = sources[r].present != 0;
    if (!slow[0]) {
        struct statistics own[ROWS]; /* their addresses do not escape, so they stay in registers */
        EACH_ROW(ROWS) stats_reset(&own[r]);
        if (LATE && sources[0].load_from == 0 && sources[0].new_from == Q)
            frames_forward(z, sources, own, w, READ_OLD, READ_NEW, ROWS);
        else
            frames_forward(z, sources, own, w, READ_MIXED, READ_MIXED, ROWS);
        EACH_ROW(ROWS)
        {
            const struct source *source = &sources[r];
            own[r].present = (flag_lanes)(2 * Q - source->new_from) & (LANE_POINT == (word_lanes)0);
            const flag_lanes greatest = max(own[r].peak, own[r].old_peak);
            slow[r] = FLOATS && any(source->used & BEYOND(source, greatest));
            if (!slow[r] && any(source->used & (own[r].peak >= AS_FLAGS(source->near_full_scale))))
                own[r].overload = overload_count(source);
            stats[r] = own[r];
        }
    }
    EACH_ROW(ROWS)
    if (slow[r])
        frames_slow(z + r * POINTS_REALS, &sources[r], &stats[r], w);
}

/* ---- the work of a group ----------------------------------------------------------------- */

/* All passes between the frames: down to the leaves and back, row after row. */
INLINE void spectra_multiply(SCRATCH real *z, __global const float *spectra,
                             __global const struct row *row, const struct kept kept)
{
    __global const real *h = (__global const real *)(spectra + row->own.lanes.spectra);
    __global const float *twiddles = spectra + row->own.lanes.twiddles;
    CHILDREN(pass_1, LOG_0, STEP_0, 0);
    if (DECIMATED)
        node_inverse(z, twiddles, LOG_0, STEP_0, kept);
}

/* Not inlined: some compilers make several copies of a kernel. */
NOINLINE void convolve_blocks(SCRATCH real *z, __global const uchar *input,
                              __global const float *spectra, __global float *output,
                              __global const struct row *rows, uint block)
{
    __global const float *twiddles = spectra + rows->own.lanes.twiddles;
    struct source sources[ROWS];
    struct statistics stats[ROWS];
    struct target targets[ROWS];
    EACH_ROW(ROWS) source_open(&sources[r], input, spectra, rows + r, block);
    frames_read(z, sources, stats, twiddles);
    EACH_ROW(ROWS) stats_write(&stats[r], &sources[r], output, rows + r, block);
    const struct kept kept = kept_open(rows, block);
    EACH_ROW(ROWS) target_open(&targets[r], &sources[r], output, rows + r, block);
#if DECIMATED
    if (!target_keeps(targets))
        return;
#endif
    _Pragma("nounroll") for (uint r = 0; r < ROWS; r++)
        spectra_multiply(z + r * POINTS_REALS, spectra, rows + r, kept);
#if DECIMATED
    EACH_ROW(ROWS) target_kept(&targets[r], z + r * POINTS_REALS);
#else
    frames_write(z, targets, twiddles);
#endif
    EACH_ROW(ROWS) encoder_close(&targets[r].encoder, output, block, sources[r].blocks);
}

#ifdef SLOTS
/* A group takes one of SLOTS pieces of scratch memory while it runs. No more groups run at once, so
 * one is free, and the lowest is most likely still in this thread's cache. */
INLINE uint slot_take(volatile __global uint *taken)
{
    uint slot = 0;
    while (atomic_xchg(taken + slot, 1u) != 0)
        slot = (slot + 1) % SLOTS;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    return slot;
}

INLINE void slot_give(volatile __global uint *taken, uint slot)
{
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_xchg(taken + slot, 0u);
}
#endif

__kernel void lanes(ARGUMENTS)
{
    /* Short blocks: all rows of a block follow each other, so that a frame wider than a row is read
     * while its cache lines are near. Long blocks: row by row, so that a row's spectra stay in the
     * cache. */
    const uint group = (uint)(get_group_id(1) * get_num_groups(0) + get_group_id(0));
    const uint rows_here = (uint)get_num_groups(1), blocks_here = (uint)get_num_groups(0);
    const uint g = LOG_Q < 12 ? group % rows_here : group / blocks_here;
    const uint k = LOG_Q < 12 ? group / rows_here : group % blocks_here;
    __global const struct row *own = rows + row_first + g * ROWS;
    const uint block = (block_first + k) * BLOCKS;
    if (block >= own->blocks)
        return;
#ifdef SLOTS
    volatile __global uint *taken = (volatile __global uint *)(state + scratch);
    const uint place = slot_take(taken);
    SCRATCH real *z =
        (__global real *)(state + scratch + SLOT_WORDS) + place * (ROWS * POINTS_REALS);
#elif defined GLOBAL_SCRATCH
    SCRATCH real *z = (__global real *)(state + scratch) + group * (ROWS * POINTS_REALS);
#else
    SCRATCH real *z = (SCRATCH real *)local_points;
#endif
    convolve_blocks(z, input, spectra, output, own, block);
#ifdef SLOTS
    slot_give(taken, place);
#endif
}

#ifdef WIDE_VECTORS
#pragma clang attribute pop
#endif
