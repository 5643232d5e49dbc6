/*
 * lanes: overlap-save on a CPU, 16 signals at once: every lane of a float16 holds one channel of
 * one block. Interleaved frames of 16 channels are in lane order as they arrive and as they
 * leave; fewer channels lie side by side with those of the following blocks. No operation ever
 * crosses lanes, so a channel's result is the same whatever its neighbours hold.
 *
 * The transform is that of tree.clh without root lanes (a node's factors are scalars), walked
 * depth first to stay in the nearest cache:
 *
 *     frames -> first level -> ( level -> .. leaf: forward, x spectrum, inverse .. -> level )
 *            -> last level -> frames
 *
 * A node is transformed when the walk reaches its first leaf and inverted after its last. Every
 * level has radix 4 or 8, the leaf 8.
 *
 * A complex filter is two real ones: its channel has two lanes, the real component first.
 *
 * Group (k, r): row.width channels of row r from row.channel_byte on. A block has
 * span = width x components lanes, and 16 / span blocks (rounded down) lie side by side, from
 * block k (16 / span) on. Lane b span + c components + i is component i of channel c of block b.
 * In SPECTRUM:
 *
 *     row.spectrum     [Q][re: 16][im: 16], gains folded in
 *     row.spectrum_im  scale[16], offset_hi[16], offset_lo[16]
 */
#include "arguments.clh"

#if LANES != 16 || ITEMS != 1
#error "lanes.cl is for devices whose work-items are threads with vectors"
#endif

/* Frames of wide rows lie too far apart for the hardware to see them coming: a line is asked for
 * so many frames before its turn. A hint: simulators, which do not optimise, do not know it. */
#define AHEAD 4
#ifdef __OPTIMIZE__
#define PREFETCH_READ(address)  __builtin_prefetch((const void *)(size_t)(address), 0, 3)
#define PREFETCH_WRITE(address) __builtin_prefetch((const void *)(size_t)(address), 1, 3)
#else
#define PREFETCH_READ(address)
#define PREFETCH_WRITE(address)
#endif

/* ---- between frames and lanes ---------------------------------------------------------------- */

/* Exchanges bit log2 D of the lane number with that of a: lanes of a and b in turns. */
#define LOW_1(a, b)                                                                                \
    ((uint16)((a).s0, (b).s0, (a).s2, (b).s2, (a).s4, (b).s4, (a).s6, (b).s6, (a).s8, (b).s8,      \
              (a).sa, (b).sa, (a).sc, (b).sc, (a).se, (b).se))
#define HIGH_1(a, b)                                                                               \
    ((uint16)((a).s1, (b).s1, (a).s3, (b).s3, (a).s5, (b).s5, (a).s7, (b).s7, (a).s9, (b).s9,      \
              (a).sb, (b).sb, (a).sd, (b).sd, (a).sf, (b).sf))
#define LOW_2(a, b)                                                                                \
    ((uint16)((a).s01, (b).s01, (a).s45, (b).s45, (a).s89, (b).s89, (a).scd, (b).scd))
#define HIGH_2(a, b)                                                                               \
    ((uint16)((a).s23, (b).s23, (a).s67, (b).s67, (a).sab, (b).sab, (a).sef, (b).sef))
#define LOW_4(a, b)  ((uint16)((a).s0123, (b).s0123, (a).s89ab, (b).s89ab))
#define HIGH_4(a, b) ((uint16)((a).s4567, (b).s4567, (a).scdef, (b).scdef))
#define LOW_8(a, b)  ((uint16)((a).lo, (b).lo))
#define HIGH_8(a, b) ((uint16)((a).hi, (b).hi))

#define EXCHANGE_ROWS(D)                                                                           \
    for (uint i = 0; i < count; i++)                                                               \
        if ((i & d) == 0) {                                                                        \
            const uint16 a = rows[i], b = rows[i + d];                                             \
            rows[i] = LOW_##D(a, b);                                                               \
            rows[i + d] = HIGH_##D(a, b);                                                          \
        }

/* rows[b], each `count` frames of `width` values, become rows[t], each `count` blocks of `width`
 * values, and the other way round. count · width = 16. */
inline void transpose(uint16 rows[16], uint count, uint width)
{
    for (uint d = 1; d < count; d *= 2)
        switch (d * width) {
        case 1:
            EXCHANGE_ROWS(1);
            break;
        case 2:
            EXCHANGE_ROWS(2);
            break;
        case 4:
            EXCHANGE_ROWS(4);
            break;
        default:
            EXCHANGE_ROWS(8);
        }
}

/* ---- frames in ------------------------------------------------------------------------------- */

/* What a work-item reads again and again, out of reach of stores that might alias it. */
struct source {
    __global const uchar *channel; /* the row's first channel at slot 0 */
    __global const uint *present;  /* 0: every frame is */
    uint start, mask, frame_bytes, word;
    uint width, copies, span;      /* channels; lanes of each; lanes of a block */
    uint blocks, hop;              /* side by side; L frames apart */
    uint tile;                     /* frames that fill a vector, 0: they do not lie so */
    uint load_from, load_until, new_from; /* window indices */
    uint shift_left, shift_right;
    bool swap, aligned, floats;
    uint invert;                   /* the sign bit of offset binary */
    int greatest;                  /* code at full scale */
    real scale, offset_hi, offset_lo;
    int16 used;                    /* lanes in use */
};

inline uint word_at(const struct source *source, __global const uchar *at)
{
    if (source->aligned)
        return source->word == 2 ? (uint)*(__global const ushort *)at : *(__global const uint *)at;
    uint w = at[0];
    for (uint b = 1; b < source->word; b++)
        w |= (uint)at[b] << 8 * b;
    return w;
}

/* 16 words one after the other, of 1, 2 or 4 bytes; with two lanes a channel 8, each twice. */
inline uint16 words_at(const struct source *source, __global const uchar *at)
{
    if (source->copies == 2) {
        const uint8 w = source->word == 2   ? convert_uint8(vload8(0, (__global const ushort *)at))
                        : source->word == 4 ? vload8(0, (__global const uint *)at)
                                            : convert_uint8(vload8(0, at));
        return w.s0011223344556677;
    }
    if (source->word == 2)
        return convert_uint16(vload16(0, (__global const ushort *)at));
    if (source->word == 4)
        return vload16(0, (__global const uint *)at);
    return convert_uint16(vload16(0, at));
}

/* The words of window index n, in the order of the lanes. Lanes not in use are 0. */
inline uint16 source_words(const struct source *source, uint n)
{
    const uint first = source->start + n;
    if (source->span == 16 && source->word != 3) {
        PREFETCH_READ(source->channel +
                      (size_t)((first + AHEAD) & source->mask) * source->frame_bytes);
        return words_at(source, source->channel +
                                    (size_t)(first & source->mask) * source->frame_bytes);
    }
    uint words[16];
    vstore16((uint16)0u, 0, words);
    for (uint b = 0, lane = 0; b < source->blocks; b++) {
        const uint slot = (first + b * source->hop) & source->mask;
        __global const uchar *at = source->channel + (size_t)slot * source->frame_bytes;
        for (uint c = 0; c < source->width; c++, at += source->word)
            for (uint i = 0; i < source->copies; i++)
                words[lane++] = word_at(source, at);
    }
    return vload16(0, words);
}

/* Non-zero in lanes whose frame is present. */
inline int16 source_present(const struct source *source, uint n)
{
    int bits[16];
    vstore16((int16)0, 0, bits);
    for (uint b = 0, lane = 0; b < source->blocks; b++) {
        const uint slot = (source->start + n + b * source->hop) & source->mask;
        const int bit = -(int)(source->present[slot >> 5] >> (slot & 31u) & 1u);
        for (uint i = 0; i < source->span; i++)
            bits[lane++] = bit;
    }
    return vload16(0, bits);
}

/* The new frames of the blocks, lane by lane. */
struct levels {
    real sum, sum_squares, peak;
    int16 overload, nonfinite, present;
    uint16 first, last;
};

/* The words of window index n as physical values. New frames are added to `levels`. */
inline real source_values(const struct source *source, uint n, uint16 word, struct levels *levels)
{
    int16 here = source->used;
    if (source->present != 0)
        here &= source_present(source, n);
    if (source->swap) {
        if (source->word == 2)
            word = (word >> 8) | (word << 8 & 0xff00u);
        else if (source->word == 3)
            word = (word >> 16) | (word & 0xff00u) | (word << 16 & 0xff0000u);
        else
            word = (word >> 24) | (word >> 8 & 0xff00u) | (word << 8 & 0xff0000u) | (word << 24);
    }
    real value;
    int16 limit, bad = (int16)0;
    if (source->floats) {
        const real code = as_float16(word);
        value = ((code - source->offset_hi) - source->offset_lo) * source->scale;
        bad = here & ((as_int16(value) & 0x7f800000) == 0x7f800000);
        limit = here & ~bad & (fabs(code) >= (real)1.0f);
        here &= ~bad;
    } else {
        const int16 code =
            as_int16((word << source->shift_left) ^ source->invert) >> (int16)source->shift_right;
        if (source->shift_right >= 8) /* exact in a float; else in two */
            value =
                ((convert_float16(code) - source->offset_hi) - source->offset_lo) * source->scale;
        else
            value = ((convert_float16(code >> 8) * 256.0f - source->offset_hi) +
                     (convert_float16(code & 255) - source->offset_lo)) *
                    source->scale;
        limit = (code == (int16)source->greatest) | (code == (int16)(-source->greatest - 1));
        limit &= here;
    }
    value = as_float16(as_int16(value) & here);
    if (n >= source->new_from) {
        levels->sum += value;
        levels->sum_squares += value * value;
        levels->peak = fmax(levels->peak, fabs(value));
        levels->overload -= limit;
        levels->present -= here | bad;
        if (source->floats && any(bad)) {
            const uint16 frame = (uint16)(n - source->new_from);
            levels->nonfinite -= bad;
            levels->first = select(levels->first, min(levels->first, frame), as_uint16(bad));
            levels->last = select(levels->last, frame, as_uint16(bad));
        }
    }
    return value;
}

/* Blocks side by side: the words of the window to where the first level will look for them, so that
 * whole vectors are read from each block. */
inline void source_gather(const struct source *source, SCRATCH real *z, uint q)
{
    const uint tile = source->tile, frames = source->mask + 1;
    for (uint n = 0; n < 2 * q;) {
        SCRATCH real *at = n < q ? z + 2 * n : z + 2 * (n - q) + 1;
        bool whole = tile != 0 && n + tile > source->load_from && n < source->load_until &&
                     (n >= q || n + tile <= q);
        for (uint b = 0; whole && b < source->blocks; b++)
            whole = ((source->start + n + b * source->hop) & source->mask) + tile <= frames;
        if (whole) {
            uint16 rows[16];
            for (uint b = 0; b < tile; b++) {
                const uint block = min(b, source->blocks - 1);
                const uint slot = (source->start + n + block * source->hop) & source->mask;
                rows[b] = words_at(source, source->channel + (size_t)slot * source->frame_bytes);
            }
            transpose(rows, tile, source->span);
            for (uint t = 0; t < tile; t++)
                at[2 * t] = as_float16(rows[t]);
            n += tile;
        } else {
            if (n >= source->load_from && n < source->load_until)
                at[0] = as_float16(source_words(source, n));
            n++;
        }
    }
}

/* `block` is the first of the group's blocks. */
inline void source_open(struct source *source, __global const uchar *input,
                        __global const float *spectra, __global const struct row *row, uint block)
{
    const uint flags = row->flags;
    source->channel = input + row->ring + row->channel_byte;
    source->present = (flags & ROW_ABSENT) != 0 ? (__global const uint *)(input + row->present) : 0;
    source->start = row->start + block * row->hop;
    source->mask = row->mask;
    source->frame_bytes = row->frame_bytes;
    source->word = row->word;
    source->width = row->width;
    source->copies = row->components;
    source->span = row->width * row->components;
    source->blocks = min(16u / source->span, row->blocks - block);
    source->hop = row->hop;
    source->load_from = row->load_from;
    source->load_until = row->load_until;
    source->new_from = row->new_from;
    source->shift_left = row->shift_left;
    source->shift_right = row->shift_right;
    const bool dense =
        row->frame_bytes == row->width * row->word && (row->word & (row->word - 1)) == 0;
    source->tile = dense && (row->width & (row->width - 1)) == 0 ? 16u / source->span : 0u;
    source->swap = (flags & ROW_SWAP) != 0;
    source->aligned = (flags & ROW_ALIGNED) != 0;
    source->floats = (flags & ROW_FLOAT) != 0;
    source->invert = (flags & ROW_UNSIGNED) != 0 ? 0x80000000u : 0u;
    source->greatest = (int)(0x7fffffffu >> row->shift_right);
    __global const float *constants = spectra + row->spectrum_im;
    source->scale = vload16(0, constants);
    source->offset_hi = vload16(1, constants);
    source->offset_lo = vload16(2, constants);
    source->used = LANE_INDEX < (uint16)(source->blocks * source->span);
}

inline void levels_write(const struct levels *levels, const struct source *source,
                         __global float *output, __global const struct row *row, uint block)
{
    float sums[16], squares[16], peaks[16];
    int overloads[16], nonfinites[16], presents[16];
    uint firsts[16], lasts[16];
    vstore16(levels->sum, 0, sums);
    vstore16(levels->sum_squares, 0, squares);
    vstore16(levels->peak, 0, peaks);
    vstore16(levels->overload, 0, overloads);
    vstore16(levels->nonfinite, 0, nonfinites);
    vstore16(levels->present, 0, presents);
    vstore16(levels->first, 0, firsts);
    vstore16(levels->last, 0, lasts);
    for (uint b = 0, lane = 0; b < source->blocks; b++) {
        __global struct report_row *reports =
            (__global struct report_row *)(output + row->report +
                                           (ulong)(block + b) * row->report_stride);
        for (uint c = 0; c < source->width; c++, lane += source->copies) {
            reports[c].sum = sums[lane];
            reports[c].sum_squares = squares[lane];
            reports[c].peak = peaks[lane];
            reports[c].overload = (uint)overloads[lane];
            reports[c].nonfinite = (uint)nonfinites[lane];
            reports[c].nonfinite_first = firsts[lane];
            reports[c].nonfinite_last = lasts[lane];
            reports[c].present = (uint)presents[lane];
        }
    }
}

/* ---- frames out ------------------------------------------------------------------------------ */

struct target {
    __global float *output; /* the row's first channel in the item's frame 0 */
    uint stride, span, values, blocks, hop; /* values: floats a frame has of a block's lanes */
    uint new_from;                      /* window index */
    uint before, write_from, write_until; /* frames of the item */
};

/* Magnitudes of the channels' two components. */
inline float8 envelopes(real value)
{
    const float8 re = value.even, im = value.odd;
    return sqrt(re * re + im * im);
}

/* A whole vector of frames or channels. */
inline void target_store(const struct target *target, real value, __global float *at)
{
    if (target->values < target->span)
        vstore8(envelopes(value), 0, at);
    else
        vstore16(value, 0, at);
}

inline void target_frame(const struct target *target, uint n, real value)
{
    if (n < target->new_from || n - target->new_from >= target->hop)
        return;
    uint frame = target->before + (n - target->new_from);
    if (target->span == 16) {
        PREFETCH_WRITE(target->output + (size_t)(frame + AHEAD) * target->stride);
        if (frame >= target->write_from && frame < target->write_until)
            target_store(target, value, target->output + (size_t)frame * target->stride);
        return;
    }
    float lanes[16];
    if (target->values < target->span)
        vstore8(envelopes(value), 0, lanes);
    else
        vstore16(value, 0, lanes);
    for (uint b = 0, lane = 0; b < target->blocks; b++, frame += target->hop) {
        __global float *at = target->output + (size_t)frame * target->stride;
        if (frame >= target->write_from && frame < target->write_until)
            for (uint c = 0; c < target->values; c++)
                at[c] = lanes[lane + c];
        lane += target->values;
    }
}

/* Blocks side by side: the points that the last level has left, to the output. */
inline void target_scatter(const struct target *target, SCRATCH const real *z, uint q)
{
    const uint until = target->new_from + target->hop;
    const uint tile = target->stride == target->values && (target->span & (target->span - 1)) == 0
                          ? 16u / target->span
                          : 0u;
    const bool all = target->write_from <= target->before &&
                     target->write_until >= target->before + target->blocks * target->hop;
    for (uint n = target->new_from; n < until;) {
        SCRATCH const real *at = n < q ? z + 2 * n : z + 2 * (n - q) + 1;
        if (tile != 0 && all && n + tile <= until && (n >= q || n + tile <= q)) {
            uint16 rows[16];
            for (uint t = 0; t < tile; t++)
                rows[t] = as_uint16(at[2 * t]);
            transpose(rows, tile, target->span);
            __global float *out =
                target->output +
                (size_t)(target->before + (n - target->new_from)) * target->stride;
            for (uint b = 0; b < target->blocks; b++)
                target_store(target, as_float16(rows[b]),
                             out + (size_t)b * target->hop * target->stride);
            n += tile;
        } else {
            target_frame(target, n, at[0]);
            n++;
        }
    }
}

inline void target_open(struct target *target, const struct source *source, __global float *output,
                        __global const struct row *row, uint block)
{
    target->output = output + row->output;
    target->stride = row->stride;
    target->span = source->span;
    target->values = row->form == FORM_ENVELOPE ? source->width : source->span;
    target->blocks = source->blocks;
    target->hop = row->hop;
    target->new_from = row->new_from;
    target->before = block * row->hop;
    target->write_from = row->write_from;
    target->write_until = row->write_until;
}

/* ---- butterflies ----------------------------------------------------------------------------- */

inline struct point times_scalar(struct point a, __global const float *w)
{
    struct point c = {a.re * w[0] - a.im * w[1], a.im * w[0] + a.re * w[1]};
    return c;
}

inline struct point times_scalar_conjugate(struct point a, __global const float *w)
{
    struct point c = {a.re * w[0] + a.im * w[1], a.im * w[0] - a.re * w[1]};
    return c;
}

inline void sum_4(struct point x[4], struct point y[4])
{
    const struct point a = point_add(x[0], x[2]), c = point_subtract(x[0], x[2]);
    const struct point d = point_add(x[1], x[3]), e = point_times_i(point_subtract(x[1], x[3]));
    y[0] = point_add(a, d);
    y[1] = point_add(c, e);
    y[2] = point_subtract(a, d);
    y[3] = point_subtract(c, e);
}

/* Butterfly i of a node of radix R, over z[j step + i]: LOAD(j) and STORE(j, p). */
#define FORWARD(R, w, LOAD, STORE)                                                                 \
    do {                                                                                           \
        struct point x[R], y[R];                                                                   \
        x[0] = LOAD(0);                                                                            \
        _Pragma("unroll") for (uint j = 1; j < R; j++)                                             \
            x[j] = times_scalar(LOAD(j), (w) + 2 * (j - 1));                                       \
        sum_##R(x, y);                                                                             \
        _Pragma("unroll") for (uint j = 0; j < R; j++)                                             \
            STORE(j, y[j]);                                                                        \
    } while (0)

/* The same sum read backwards has the conjugate factors. */
#define INVERSE(R, w, LOAD, STORE)                                                                 \
    do {                                                                                           \
        struct point x[R], y[R];                                                                   \
        _Pragma("unroll") for (uint j = 0; j < R; j++)                                             \
            x[j] = LOAD(j);                                                                        \
        sum_##R(x, y);                                                                             \
        STORE(0, y[0]);                                                                            \
        _Pragma("unroll") for (uint j = 1; j < R; j++)                                             \
            STORE(j, times_scalar_conjugate(y[R - j], (w) + 2 * (j - 1)));                         \
    } while (0)

#define NODE_LOAD(j)     point_load(z, i + (j) * step)
#define NODE_STORE(j, p) point_store(z, i + (j) * step, p)

inline void node_forward(SCRATCH real *z, __global const float *w, uint log_radix, uint step)
{
    if (log_radix == 3)
        for (uint i = 0; i < step; i++)
            FORWARD(8, w, NODE_LOAD, NODE_STORE);
    else
        for (uint i = 0; i < step; i++)
            FORWARD(4, w, NODE_LOAD, NODE_STORE);
}

inline void node_inverse(SCRATCH real *z, __global const float *w, uint log_radix, uint step)
{
    if (log_radix == 3)
        for (uint i = 0; i < step; i++)
            INVERSE(8, w, NODE_LOAD, NODE_STORE);
    else
        for (uint i = 0; i < step; i++)
            INVERSE(4, w, NODE_LOAD, NODE_STORE);
}

/* Eight points forward, times the spectrum, and back, without leaving the registers. */
inline void leaf(SCRATCH real *z, __global const real *h, __global const float *w)
{
    struct point x[8], y[8];
    x[0] = point_load(z, 0);
#pragma unroll
    for (uint j = 1; j < 8; j++)
        x[j] = times_scalar(point_load(z, j), w + 2 * (j - 1));
    sum_8(x, y);
#pragma unroll
    for (uint j = 0; j < 8; j++)
        x[j] = point_times(y[j], point_load_global(h, j));
    sum_8(x, y);
    point_store(z, 0, y[0]);
#pragma unroll
    for (uint j = 1; j < 8; j++)
        point_store(z, j, times_scalar_conjugate(y[8 - j], w + 2 * (j - 1)));
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The first level takes its points from the window, the last one gives its own back. */
#define WINDOW_STORE(j, p)                                                                         \
    do {                                                                                           \
        const struct point out = p;                                                                \
        target_frame(target, i + (j) * step, out.re);                                              \
        target_frame(target, i + (j) * step + q, out.im);                                          \
    } while (0)

#define WINDOW_VALUES(n, gathered)                                                                 \
    ((n) < source->load_from || (n) >= source->load_until                                          \
         ? (real)0.0f                                                                              \
         : source_values(source, n,                                                                \
                         source->span == 16 ? source_words(source, n) : as_uint16(gathered),      \
                         levels))
#define FIRST(R)                                                                                   \
    for (uint i = 0; i < step; i++) {                                                              \
        struct point x[R], y[R];                                                                   \
        _Pragma("nounroll") for (uint j = 0; j < R; j++)                                           \
        {                                                                                          \
            const uint n = i + j * step;                                                           \
            x[j].re = WINDOW_VALUES(n, z[2 * n]);                                                  \
            x[j].im = WINDOW_VALUES(n + q, z[2 * n + 1]);                                          \
        }                                                                                          \
        _Pragma("unroll") for (uint j = 1; j < R; j++)                                             \
            x[j] = times_scalar(x[j], w + 2 * (j - 1));                                            \
        sum_##R(x, y);                                                                             \
        _Pragma("unroll") for (uint j = 0; j < R; j++)                                             \
            NODE_STORE(j, y[j]);                                                                   \
    }

inline void first_level(SCRATCH real *z, const struct source *source, struct levels *levels,
                        __global const float *w, uint log_radix, uint q)
{
    const uint step = q >> log_radix;
    if (source->span < 16)
        source_gather(source, z, q);
    if (log_radix == 3)
        FIRST(8)
    else
        FIRST(4)
}

inline void last_level(SCRATCH real *z, const struct target *target, __global const float *w,
                       uint log_radix, uint q)
{
    const uint step = q >> log_radix;
    if (target->span < 16) {
        node_inverse(z, w, log_radix, step);
        target_scatter(target, z, q);
    } else if (log_radix == 3)
        for (uint i = 0; i < step; i++)
            INVERSE(8, w, NODE_LOAD, WINDOW_STORE);
    else
        for (uint i = 0; i < step; i++)
            INVERSE(4, w, NODE_LOAD, WINDOW_STORE);
}

/* Factors of the node that begins at leaf `leaf`, with log2 of the leaves under it `under`: a level
 * of m nodes has its own from entry m - 1 of the table on. */
inline __global const float *node_factors(__global const float *factors, uint leaves, uint leaf,
                                          uint under, uint log_radix)
{
    const uint nodes = leaves >> under, node = leaf >> under;
    return factors + 2 * ((nodes - 1) + node * ((1u << log_radix) - 1));
}

/* All levels between the first and the last. `radices` holds log2 of each level's radix in two
 * bits, first level lowest. */
inline void inner_levels(SCRATCH real *z, __global const real *h, __global const float *factors,
                         uint log_points, ulong radices)
{
    const uint leaves = 1u << (log_points - 3);
    uint inner = 0; /* the last level above the leaves */
    while ((radices >> (2 * (inner + 2))) != 0)
        inner++;
    for (uint node = 0; node < leaves; node++) {
        /* Levels whose node begins here, from the root down. */
        uint under = log_points - 3 - ((uint)radices & 3u);
        for (ulong rest = radices >> 2; under > 0; rest >>= 2) {
            const uint log_radix = (uint)rest & 3u;
            if ((node & ((1u << under) - 1u)) == 0)
                node_forward(z + ((size_t)node << 4),
                             node_factors(factors, leaves, node, under, log_radix), log_radix,
                             8u << (under - log_radix));
            under -= log_radix;
        }
        leaf(z + ((size_t)node << 4), h + ((size_t)node << 4),
             node_factors(factors, leaves, node, 0, 3));
        /* Levels whose node ends here, from the leaf up. */
        for (uint level = inner; level > 0; level--) {
            const uint log_radix = (uint)(radices >> (2 * level)) & 3u;
            under += log_radix;
            if (((node + 1) & ((1u << under) - 1u)) != 0)
                break;
            const uint first = node >> under << under;
            node_inverse(z + ((size_t)first << 4),
                         node_factors(factors, leaves, first, under, log_radix), log_radix,
                         8u << (under - log_radix));
        }
    }
}

__kernel void lanes(ARGUMENTS)
{
    GROUP;
    const uint block = k * (16u / (row->width * row->components));
    if (block >= row->blocks)
        return;
    SCRATCH real *z = POINTS;
    __global const float *scalars = (__global const float *)table;
    struct source source;
    struct levels levels;
    struct target target;
    source_open(&source, input, spectra, row, block);
    target_open(&target, &source, output, row, block);
    levels.sum = levels.sum_squares = levels.peak = (real)0.0f;
    levels.overload = levels.nonfinite = levels.present = (int16)0;
    levels.first = (uint16)0xffffffffu;
    levels.last = (uint16)0;
    first_level(z, &source, &levels, scalars, (uint)radices & 3u, points);
    levels_write(&levels, &source, output, row, block);
    inner_levels(z, (__global const real *)(spectra + row->spectrum), scalars, log_points, radices);
    last_level(z, &target, scalars, (uint)radices & 3u, points);
}
