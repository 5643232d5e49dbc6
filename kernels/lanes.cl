/*
 * lanes: overlap-save on a CPU, 16 signals at once, one work-item a vector of blocks. Every lane of
 * a float16 is one of
 *
 *     16 = BLOCKS x RUN x SPAN      lane (b RUN + p) SPAN + c COMPONENTS + i
 *
 * component i of channel c of point v RUN + p of block b. Interleaved frames lie in that order as
 * they arrive and as they leave: RUN frames of SPAN channels are one vector. Sixteen channels have
 * RUN = 1 and no operation ever crosses lanes; with fewer, lanes are also consecutive points, which
 * only the leaf has to tell apart. SPAN is channels times components, rounded up to a power of two.
 *
 * The transform is that of tree.clh without root lanes, walked depth first to stay in the nearest
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
 * Options: LOG_Q; LOG_0 … LOG_4 radices of the levels above the leaf, 0: there is none;
 * CHANNELS, COMPONENTS, SPAN, RUN, BLOCKS; FORM; STRIDE of an output frame; FRAME_BYTES, WORD,
 * SWAP, FLOATS, UNSIGNED, SHIFT_LEFT, SHIFT_RIGHT of a sample; SCALED, OFFSETS where some channel
 * needs them; LATE: no new frame lies in the window's first half.
 *
 * Group (k, r): blocks k BLOCKS … of row r. In SPECTRUM:
 *
 *     row.spectrum     [Q / RUN][re: 16][im: 16], gains folded in, in the order of the leaf
 *     row.spectrum_im  scale[16], offset_hi[16], offset_lo[16], suspect[16]: the least magnitude
 *                      that can be full scale
 *     row.delay_line   factors [Q][re, im]; then with RUN > 1 the leaf's own [Q / 8 RUN][7][re, im]
 */

/* A compiler that thinks 256 bits faster is told otherwise: its guess was made for older parts. */
#ifdef __has_attribute
#if __has_attribute(min_vector_width)
#define WIDE_VECTORS
#pragma clang attribute push(__attribute__((min_vector_width(512))), apply_to = function)
#endif
#endif

#include "arguments.clh"

#if LANES != 16 || ITEMS != 1
#error "lanes.cl is for devices whose work-items are threads with vectors"
#endif

#define Q      (1u << LOG_Q)
#define STEP_0 (Q >> LOG_0)
#define STEP_1 (STEP_0 >> LOG_1)
#define STEP_2 (STEP_1 >> LOG_2)
#define STEP_3 (STEP_2 >> LOG_3)
#define STEP_4 (STEP_3 >> LOG_4)
#define VALUES (FORM == FORM_ENVELOPE ? CHANNELS : CHANNELS * COMPONENTS) /* floats of a frame */

/* RUN frames of a block are one stretch of memory, in the order of the lanes. */
#define WHOLE_LANES (CHANNELS * COMPONENTS == SPAN)
#define WORDS       (RUN * CHANNELS)
#define IN_STRETCH                                                                                 \
    (WHOLE_LANES && (RUN == 1 || FRAME_BYTES == CHANNELS * WORD) && (WORD != 3 || WORDS == 16))
#define OUT_STRETCH (WHOLE_LANES && (RUN == 1 || STRIDE == VALUES))

#define INLINE inline __attribute__((always_inline))
#define APART  __attribute__((noinline)) /* what is rare is compiled once */

/* The point of each lane, the block of each lane. */
#define LANE_POINT ((LANE_INDEX / (uint16)SPAN) & (uint16)(RUN - 1))
#define LANE_BLOCK (LANE_INDEX / (uint16)(SPAN * RUN))

/* ---- what a work-item knows of its blocks ---------------------------------------------------- */

struct source {
    __global const uchar *channel; /* the row's first channel at slot 0 */
    __global const uint *present;  /* 0: every frame is */
    uint start, mask, hop, blocks;
    uint load_from, new_from; /* window indices */
    real scale, offset_hi, offset_lo, suspect;
    int16 used; /* lanes in use */
};

/* The new frames of the blocks, lane by lane. */
struct levels {
    real sum, sum_squares;
    int16 peak, old; /* magnitudes as bits: of new frames, of the others */
    int16 overload, nonfinite, present;
    uint16 first, last;
};

INLINE void source_open(struct source *source, __global const uchar *input,
                        __global const float *spectra, __global const struct row *row, uint block)
{
    source->channel = input + row->ring + row->channel_byte;
    source->present =
        (row->flags & ROW_ABSENT) != 0 ? (__global const uint *)(input + row->present) : 0;
    source->start = row->start + block * row->hop;
    source->mask = row->mask;
    source->hop = row->hop;
    source->blocks = min((uint)BLOCKS, row->blocks - block);
    source->load_from = row->load_from;
    source->new_from = row->new_from;
    __global const real *constants = (__global const real *)(spectra + row->spectrum_im);
    source->scale = constants[0];
    source->offset_hi = constants[1];
    source->offset_lo = constants[2];
    source->suspect = constants[3];
    source->used = (LANE_BLOCK < (uint16)source->blocks) &
                   ((LANE_INDEX & (uint16)(SPAN - 1)) < (uint16)(CHANNELS * COMPONENTS));
}

INLINE void levels_open(struct levels *levels)
{
    levels->sum = levels->sum_squares = (real)0.0f;
    levels->peak = levels->old = levels->overload = levels->nonfinite = levels->present = (int16)0;
    levels->first = (uint16)0xffffffffu;
    levels->last = (uint16)0;
}

/* ---- frames in ------------------------------------------------------------------------------- */

/* Frame n of block b; blocks that the row does not have are the last one once more. */
INLINE uint slot_of(const struct source *source, uint n, uint b)
{
    return (source->start + n + (BLOCKS == 1 ? 0u : min(b, source->blocks - 1u) * source->hop)) &
           source->mask;
}

INLINE uint word_at(__global const uchar *at)
{
#if WORD == 2
    return *(__global const ushort *)at;
#elif WORD == 4
    return *(__global const uint *)at;
#else
    uint w = at[0];
    for (uint b = 1; b < WORD; b++)
        w |= (uint)at[b] << 8 * b;
    return w;
#endif
}

#if IN_STRETCH && WORD == 3
/* Sixteen words of three bytes. */
INLINE uint16 stretch(__global const uchar *at)
{
    const uchar16 a = vload16(0, at), b = vload16(1, at), c = vload16(2, at);
    const uchar o = 0;
    const uchar16 p = (uchar16)(a.s012, o, a.s345, o, a.s678, o, a.s9ab, o);
    const uchar16 q = (uchar16)(a.scde, o, a.sf, b.s01, o, b.s234, o, b.s567, o);
    const uchar16 r = (uchar16)(b.s89a, o, b.sbcd, o, b.sef, c.s0, o, c.s123, o);
    const uchar16 s = (uchar16)(c.s456, o, c.s789, o, c.sabc, o, c.sdef, o);
    return (uint16)(as_uint4(p), as_uint4(q), as_uint4(r), as_uint4(s));
}
#elif IN_STRETCH
#if WORD == 1
#define WORD_TYPE uchar
#elif WORD == 2
#define WORD_TYPE ushort
#else
#define WORD_TYPE uint
#endif
#define WORDS_OF(n, at) convert_uint##n(vload##n(0, (__global const WORD_TYPE *)(at)))
#if WORDS == 1
#define stretch(at) ((uint) * (__global const WORD_TYPE *)(at))
#elif WORDS == 2
#define stretch(at) WORDS_OF(2, at)
#elif WORDS == 4
#define stretch(at) WORDS_OF(4, at)
#elif WORDS == 8
#define stretch(at) WORDS_OF(8, at)
#else
#define stretch(at) WORDS_OF(16, at)
#endif
#endif

/* The words at window indices n + p of every block, in the order of the lanes: one by one. */
APART uint16 source_words_apart(const struct source *source, uint n)
{
    uint words[16];
    vstore16((uint16)0u, 0, words);
    for (uint b = 0; b < BLOCKS; b++)
        for (uint p = 0; p < RUN; p++) {
            __global const uchar *at =
                source->channel + (size_t)slot_of(source, n + p, b) * FRAME_BYTES;
            for (uint c = 0; c < CHANNELS * COMPONENTS; c++)
                words[(b * RUN + p) * SPAN + c] = word_at(at + c / COMPONENTS * WORD);
        }
    return vload16(0, words);
}

/* The same, a stretch at once where no block's ring ends within it. */
INLINE uint16 source_words(const struct source *source, uint n)
{
#if IN_STRETCH
    bool whole = true;
#if RUN > 1
    for (uint b = 0; b < BLOCKS; b++)
        whole &= slot_of(source, n, b) + RUN <= source->mask + 1u;
#endif
    if (whole) {
#define BLOCK_WORDS(b) stretch(source->channel + (size_t)slot_of(source, n, b) * FRAME_BYTES)
#if BLOCKS == 1
#define ALL_WORDS BLOCK_WORDS(0)
#elif BLOCKS == 2
#define ALL_WORDS BLOCK_WORDS(0), BLOCK_WORDS(1)
#elif BLOCKS == 4
#define ALL_WORDS BLOCK_WORDS(0), BLOCK_WORDS(1), BLOCK_WORDS(2), BLOCK_WORDS(3)
#else
#error "at most four blocks lie side by side"
#endif
#if COMPONENTS == 2
        const uint8 words = (uint8)(ALL_WORDS);
        return words.s0011223344556677;
#else
        return (uint16)(ALL_WORDS);
#endif
    }
#endif
    return source_words_apart(source, n);
}

/* Non-zero in lanes whose frame is present. */
INLINE int16 source_present(const struct source *source, uint n)
{
    int bits[16];
    for (uint b = 0; b < BLOCKS; b++)
        for (uint p = 0; p < RUN; p++) {
            const uint slot = slot_of(source, n + p, b);
            const int bit = -(int)(source->present[slot >> 5] >> (slot & 31u) & 1u);
            for (uint c = 0; c < SPAN; c++)
                bits[(b * RUN + p) * SPAN + c] = bit;
        }
    return vload16(0, bits);
}

/* Words become codes: integers, or floats as they are. */
INLINE int16 codes_of(uint16 word)
{
#if SWAP && WORD == 2
    word = (word >> 8) | (word << 8 & 0xff00u);
#elif SWAP && WORD == 3
    word = (word >> 16) | (word & 0xff00u) | (word << 16 & 0xff0000u);
#elif SWAP && WORD == 4
    word = (word >> 24) | (word >> 8 & 0xff00u) | (word << 8 & 0xff0000u) | (word << 24);
#endif
#if FLOATS
    return as_int16(word);
#else
    return as_int16((word << SHIFT_LEFT) ^ (UNSIGNED ? 0x80000000u : 0u)) >> (int16)SHIFT_RIGHT;
#endif
}

INLINE real values_of(const struct source *source, int16 code)
{
#if FLOATS
    real value = as_float16(code);
#elif SHIFT_RIGHT >= 8 /* exact in a float; else in two */
    real value = convert_float16(code);
#else
    real value = convert_float16(code >> 8) * 256.0f;
    const real rest = convert_float16(code & 255);
#endif
#if OFFSETS && !FLOATS && SHIFT_RIGHT < 8
    value = (value - source->offset_hi) + (rest - source->offset_lo);
#elif OFFSETS
    value = (value - source->offset_hi) - source->offset_lo;
#elif !FLOATS && SHIFT_RIGHT < 8
    value += rest;
#endif
#if SCALED
    value *= source->scale;
#endif
    return value;
}

/* Lanes whose code is at full scale. */
INLINE int16 at_limit(int16 code)
{
#if FLOATS
    return fabs(as_float16(code)) >= (real)1.0f;
#else
    const int greatest = (int)(0x7fffffffu >> SHIFT_RIGHT);
    return (code == (int16)greatest) | (code == (int16)(-greatest - 1));
#endif
}

/* Magnitudes as bits: the order of floats, and nothing finite reaches NOT_FINITE. */
#define MAGNITUDE(value) (as_int16(value) & (int16)0x7fffffff)
#define NOT_FINITE       0x7f800000

/* Lanes of window index n from `from` on. */
INLINE int16 lanes_from(uint n, uint from)
{
    return (uint16)n + LANE_POINT >= (uint16)from;
}

INLINE void levels_add(struct levels *levels, real value)
{
    levels->sum += value;
    levels->sum_squares += value * value;
    levels->peak = max(levels->peak, MAGNITUDE(value));
}

/* How a pass reads: in windows that begin with half a window of old frames and have no silence, a
 * half is new or old as a whole. */
enum reading { READ_OLD, READ_NEW, READ_MIXED, READ_CAREFULLY };

/* Every exception: absent frames, values that are not finite, frames at both sides of a bound. */
APART real value_careful(const struct source *source, uint n, struct levels *levels)
{
    const int16 code = codes_of(source_words(source, n));
    int16 here = source->used & lanes_from(n, source->load_from);
    if (source->present != 0)
        here &= source_present(source, n);
    real value = values_of(source, code);
    const int16 bad = FLOATS ? here & (MAGNITUDE(value) >= (int16)NOT_FINITE) : (int16)0;
    here &= ~bad;
    value = as_float16(as_int16(value) & here);
    const int16 fresh = lanes_from(n, source->new_from);
    levels_add(levels, as_float16(as_int16(value) & fresh));
    levels->overload -= at_limit(code) & here & fresh;
    levels->present -= (here | bad) & fresh;
    if (FLOATS && any(bad & fresh)) {
        const uint16 frame = (uint16)(n - source->new_from) + LANE_POINT;
        levels->nonfinite -= bad & fresh;
        levels->first = select(levels->first, min(levels->first, frame), as_uint16(bad & fresh));
        levels->last = select(levels->last, max(levels->last, frame), as_uint16(bad & fresh));
    }
    return value;
}

INLINE real frame_value(const struct source *source, uint n, struct levels *levels,
                        const enum reading reading)
{
    if (reading >= READ_MIXED && n + RUN <= source->load_from)
        return (real)0.0f;
    if (reading == READ_CAREFULLY)
        return value_careful(source, n, levels);
    real value = values_of(source, codes_of(source_words(source, n)));
    if (RUN > 1 && reading == READ_MIXED && n < source->load_from)
        value = as_float16(as_int16(value) & lanes_from(n, source->load_from));
    if (reading == READ_NEW || (reading == READ_MIXED && n >= source->new_from)) {
        levels_add(levels, value);
    } else {
#if FLOATS
        levels->old = max(levels->old, MAGNITUDE(value));
#endif
        if (RUN > 1 && reading == READ_MIXED && n + RUN > source->new_from)
            levels_add(levels, as_float16(as_int16(value) & lanes_from(n, source->new_from)));
    }
    return value;
}

/* New frames at full scale, counted when there can be any. */
APART int16 overload_count(const struct source *source)
{
    int16 count = (int16)0;
    for (uint n = source->new_from & ~(RUN - 1u); n < 2 * Q; n += RUN)
        count -= at_limit(codes_of(source_words(source, n))) & lanes_from(n, source->new_from);
    return count;
}

INLINE void levels_write(const struct levels *levels, const struct source *source,
                         __global float *output, __global const struct row *row, uint block)
{
    float sums[16], squares[16];
    int peaks[16], overloads[16], nonfinites[16], presents[16];
    uint firsts[16], lasts[16];
    vstore16(levels->sum, 0, sums);
    vstore16(levels->sum_squares, 0, squares);
    vstore16(levels->peak, 0, peaks);
    vstore16(levels->overload, 0, overloads);
    vstore16(levels->nonfinite, 0, nonfinites);
    vstore16(levels->present, 0, presents);
    vstore16(levels->first, 0, firsts);
    vstore16(levels->last, 0, lasts);
    for (uint b = 0; b < source->blocks; b++) {
        __global struct report_row *reports =
            (__global struct report_row *)(output + row->report +
                                           (ulong)(block + b) * row->report_stride);
        for (uint c = 0; c < CHANNELS; c++) {
            uint lane = b * RUN * SPAN + c * COMPONENTS;
            struct report_row report = {sums[lane],
                                        squares[lane],
                                        as_float(peaks[lane]),
                                        (uint)overloads[lane],
                                        (uint)nonfinites[lane],
                                        firsts[lane],
                                        lasts[lane],
                                        (uint)presents[lane]};
            for (uint p = 1; p < RUN; p++) {
                lane += SPAN;
                report.sum += sums[lane];
                report.sum_squares += squares[lane];
                report.peak = fmax(report.peak, as_float(peaks[lane]));
                report.overload += (uint)overloads[lane];
                report.nonfinite += (uint)nonfinites[lane];
                report.nonfinite_first = min(report.nonfinite_first, firsts[lane]);
                report.nonfinite_last = max(report.nonfinite_last, lasts[lane]);
                report.present += (uint)presents[lane];
            }
            reports[c] = report;
        }
    }
}

/* ---- frames out ------------------------------------------------------------------------------ */

struct target {
    __global float *frames; /* the row's first channel at window index 0 of the first block */
    uint hop, new_from;
    uint from[BLOCKS], until[BLOCKS]; /* window indices that are written */
};

INLINE void target_open(struct target *target, const struct source *source, __global float *output,
                        __global const struct row *row, uint block)
{
    target->hop = row->hop;
    target->new_from = row->new_from;
    target->frames = output + row->output + (ulong)block * row->hop * STRIDE;
    target->frames -= (ulong)row->new_from * STRIDE;
    for (uint b = 0; b < BLOCKS; b++) {
        const uint before = (block + b) * row->hop; /* frames of the item */
        const uint from = row->write_from > before ? min(row->write_from - before, row->hop) : 0u;
        const uint until =
            row->write_until > before ? min(row->write_until - before, row->hop) : 0u;
        target->from[b] = row->new_from + from;
        target->until[b] = b < source->blocks ? row->new_from + until : 0u;
    }
}

/* True when the second half of the window is new and all of it is written, for every block. */
INLINE bool target_whole(const struct target *target)
{
    bool whole = LATE && target->new_from == Q;
    for (uint b = 0; b < BLOCKS; b++)
        whole &= target->from[b] == Q && target->until[b] == 2 * Q;
    return whole;
}

/* Magnitudes of the channels' two components. */
INLINE float8 envelopes(real value)
{
    const float8 re = value.even, im = value.odd;
    return sqrt(re * re + im * im);
}

#if OUT_STRETCH
#if FORM == FORM_ENVELOPE
#define OUT_FLOATS (8 / BLOCKS)
#else
#define OUT_FLOATS (16 / BLOCKS)
#endif
#if OUT_FLOATS == 16
#define STORE_STRETCH(b, all, at) vstore16(all, 0, at)
#elif OUT_FLOATS == 8 && BLOCKS == 1
#define STORE_STRETCH(b, all, at) vstore8(all, 0, at)
#elif OUT_FLOATS == 8
#define STORE_STRETCH(b, all, at) vstore8((b) == 0 ? (all).lo : (all).hi, 0, at)
#elif OUT_FLOATS == 4 && BLOCKS == 2
#define STORE_STRETCH(b, all, at) vstore4((b) == 0 ? (all).lo : (all).hi, 0, at)
#elif OUT_FLOATS == 4
#define STORE_STRETCH(b, all, at)                                                                  \
    vstore4((b) == 0   ? (all).lo.lo                                                               \
            : (b) == 1 ? (all).lo.hi                                                               \
            : (b) == 2 ? (all).hi.lo                                                               \
                       : (all).hi.hi,                                                              \
            0, at)
#else
#undef OUT_STRETCH
#define OUT_STRETCH 0
#endif
#endif

/* RUN frames from window index n on, those that are to be written, one by one. */
APART void target_value_apart(const struct target *target, uint n, real value)
{
    float frames[16];
#if FORM == FORM_ENVELOPE
    vstore8(envelopes(value), 0, frames);
#else
    vstore16(value, 0, frames);
#endif
    for (uint b = 0; b < BLOCKS; b++)
        for (uint p = 0; p < RUN; p++) {
            if (n + p < target->from[b] || n + p >= target->until[b])
                continue;
            __global float *at = target->frames + (size_t)(n + p + b * target->hop) * STRIDE;
            for (uint c = 0; c < VALUES; c++)
                at[c] = frames[(b * RUN + p) * (FORM == FORM_ENVELOPE ? SPAN / 2 : SPAN) + c];
        }
}

/* The same; `whole`: all of them. */
INLINE void target_value(const struct target *target, uint n, real value, const bool whole)
{
#if OUT_STRETCH
    bool all = true;
    if (!whole)
        for (uint b = 0; b < BLOCKS; b++)
            all &= n >= target->from[b] && n + RUN <= target->until[b];
    if (all) {
#if FORM == FORM_ENVELOPE
        const float8 lanes = envelopes(value);
#else
        const real lanes = value;
#endif
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++)
            STORE_STRETCH(b, lanes, target->frames + (size_t)(n + b * target->hop) * STRIDE);
        return;
    }
#endif
    if (n + RUN > target->new_from)
        target_value_apart(target, n, value);
}

/* ---- butterflies ----------------------------------------------------------------------------- */

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

INLINE void node_inverse(SCRATCH real *z, __global const float *w, const uint log, const uint step)
{
#define NODE_INVERSE(R)                                                                            \
    FACTORS(R, w)                                                                                  \
    for (uint i = 0; i < step; i += RUN)                                                           \
    INVERSE(R, NODE_LOAD, NODE_STORE)
    EACH_RADIX(log, NODE_INVERSE);
}

/* ---- the leaf -------------------------------------------------------------------------------- */

#if RUN > 1
/* Exchanges a bit of the lane's number, of value D, with the bit between the vectors a and b. */
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
#define LOW_8(a, b)  ((real)((a).lo, (b).lo))
#define HIGH_8(a, b) ((real)((a).hi, (b).hi))

INLINE void exchange_bit(real rows[8], const uint lane_bit, const uint row_bit)
{
#pragma unroll
    for (uint i = 0; i < 8; i++)
        if ((i & row_bit) == 0) {
            const real a = rows[i], b = rows[i + row_bit];
            rows[i] = lane_bit == 1   ? LOW_1(a, b)
                      : lane_bit == 2 ? LOW_2(a, b)
                      : lane_bit == 4 ? LOW_4(a, b)
                                      : LOW_8(a, b);
            rows[i + row_bit] = lane_bit == 1   ? HIGH_1(a, b)
                                : lane_bit == 2 ? HIGH_2(a, b)
                                : lane_bit == 4 ? HIGH_4(a, b)
                                                : HIGH_8(a, b);
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
INLINE void leaf(SCRATCH real *z, __global const real *h, __global const float *factors, uint node)
{
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

/* ---- the walk -------------------------------------------------------------------------------- */

/* The children of a node, each `step` points; leaves go RUN at a time. */
#define CHILDREN(below, log, step, node)                                                           \
    for (uint child = 0; child < 1u << (log); child += (step) == 8 ? RUN : 1)                      \
    below(z + 2 * (step) / RUN * child, h + 2 * (step) / RUN * child, factors,                     \
          ((node) << (log)) + child)

/* Factors of a level of m nodes begin at entry m - 1 of the table. */
#define LEVEL(name, below, log, nodes, step)                                                       \
    INLINE void name(SCRATCH real *z, __global const real *h, __global const float *factors,       \
                     uint node)                                                                    \
    {                                                                                              \
        __global const float *w = factors + 2 * (((nodes)-1) + node * ((1u << (log)) - 1));        \
        node_forward(z, w, log, step);                                                             \
        CHILDREN(below, log, step, node);                                                          \
        node_inverse(z, w, log, step);                                                             \
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

INLINE void frames_inverse(SCRATCH real *z, const struct target *target, __global const float *w,
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
        seen.present = (int16)(2 * Q - source->new_from) & (LANE_POINT == (uint16)0);
        careful = FLOATS && any(source->used & (max(seen.peak, seen.old) >= (int16)NOT_FINITE));
        if (!careful && any(source->used & (seen.peak >= as_int16(source->suspect))))
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
    __global const real *h = (__global const real *)(spectra + row->spectrum);
    __global const float *factors = spectra + row->delay_line;
    struct source source;
    struct levels levels;
    struct target target;
    source_open(&source, input, spectra, row, block);
    frames_read(z, &source, &levels, factors);
    levels_write(&levels, &source, output, row, block);
    CHILDREN(level_1, LOG_0, STEP_0, 0);
    target_open(&target, &source, output, row, block);
    if (target_whole(&target))
        frames_inverse(z, &target, factors, true);
    else
        frames_inverse(z, &target, factors, false);
}

__kernel void lanes(ARGUMENTS)
{
    __global const struct row *row = rows + row_first + get_group_id(1);
    const uint block = (block_first + (uint)get_group_id(0)) * BLOCKS;
    if (block >= row->blocks)
        return;
#ifdef GLOBAL_SCRATCH
    SCRATCH real *z =
        (__global real *)(state + scratch) +
        (size_t)(get_group_id(1) * get_num_groups(0) + get_group_id(0)) * (2 * Q / RUN);
#else
    SCRATCH real *z = (SCRATCH real *)local_points;
#endif
    convolve_blocks(z, input, spectra, output, row, block);
}

#ifdef WIDE_VECTORS
#pragma clang attribute pop
#endif
