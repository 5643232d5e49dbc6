/*
 * lanes: overlap-save for many channels on a CPU. One work-item convolves one block of up to
 * 16 channels, a channel in each lane of a float16: interleaved frames are in lane order as
 * they arrive and as they leave, and no operation ever crosses lanes, so that a channel's result is
 * the same whatever its neighbours hold.
 *
 * The transform is that of tree.clh without root lanes (a node's factors are scalars), walked
 * depth first to stay in the nearest cache:
 *
 *     frames ─► first level ─► ( level ─► … leaf: forward, x spectrum, inverse … ─► level ) ─► last level ─► frames
 *
 * A node is transformed when the walk reaches its first leaf and inverted after its last.
 * Every level has radix 4 or 8, the leaf 8.
 *
 * Group (k, r): block k of row r; row.width channels from row.channel_byte on. In SPECTRUM:
 * row.spectrum   [Q][re: 16][im: 16], gains folded in
 * row.spectrum_im scale[16], offset_hi[16], offset_lo[16]
 */
#include "arguments.clh"

#if LANES != 16 || ITEMS != 1
#error "lanes.cl is for devices whose work-items are threads with vectors"
#endif

/* ---- frames in -------------------------------------------------------------------------------- */

/* What a work-item reads again and again, out of reach of stores that might alias it. */
struct source {
    __global const uchar *channel;  /* of slot 0 */
    __global const uint *present;   /* NULL: every frame is */
    uint start, mask, frame_bytes, word, width;
    uint load_from, new_from;       /* window indices; reading ends at load_until */
    uint load_until;
    uint shift_left, shift_right;
    bool swap, floats;
    uint invert;                    /* the sign bit of offset binary */
    int greatest;                   /* code at full scale */
    real scale, offset_hi, offset_lo;
};

/* `width` words one after the other. Narrow rows leave the other lanes 0 and touch no byte beyond. */
inline uint16 source_words(const struct source *source, __global const uchar *at)
{
    if (source->width == 16) {
        switch (source->word) {
        case 1:
            return convert_uint16(vload16(0, at));
        case 2: {
            const ushort16 w = vload16(0, (__global const ushort *)at);
            return convert_uint16(source->swap ? (w >> (ushort16)8) | (w << (ushort16)8) : w);
        }
        case 4: {
            const uint16 w = vload16(0, (__global const uint *)at);
            return source->swap ? rotate(w & 0x00ff00ffu, (uint16)24) | (rotate(w, (uint16)8) & 0x00ff00ffu)
                                : w;
        }
        }
    }
    uint words[16];
    for (uint c = 0; c < 16; c++)
        words[c] = 0;
    for (uint c = 0; c < source->width; c++, at += source->word) {
        uint w = 0;
        for (uint b = 0; b < source->word; b++)
            w |= (uint)at[b] << 8 * (source->swap ? source->word - 1 - b : b);
        words[c] = w;
    }
    return vload16(0, words);
}

/* The new frames of one block as all lanes have seen them. */
struct levels {
    real sum, sum_squares, peak;
    int16 overload, nonfinite;
    uint16 first, last;
    uint present;
};

/* Frame n of the window. New frames are added to `levels`. */
inline real source_frame(const struct source *source, uint n, struct levels *levels)
{
    if (n < source->load_from || n >= source->load_until)
        return (real)0.0f;
    const uint slot = (source->start + n) & source->mask;
    if (source->present != 0 && (source->present[slot >> 5] >> (slot & 31u) & 1u) == 0)
        return (real)0.0f;
    const uint16 word = source_words(source, source->channel + (size_t)slot * source->frame_bytes);
    real value;
    int16 limit, bad = (int16)0;
    if (source->floats) {
        const real code = as_float16(word);
        value = (code - source->offset_hi - source->offset_lo) * source->scale;
        limit = fabs(code) >= (real)1.0f;
        bad = (as_int16(value) & 0x7f800000) == 0x7f800000;
        value = as_float16(as_int16(value) & ~bad);
        limit &= ~bad;
    } else {
        const int16 code = as_int16((word << source->shift_left) ^ source->invert) >> (int16)source->shift_right;
        if (source->shift_right >= 8) /* exact in a float; else in two */
            value = ((convert_float16(code) - source->offset_hi) - source->offset_lo) * source->scale;
        else
            value = ((convert_float16(code >> 8) * 256.0f - source->offset_hi) +
                     (convert_float16(code & 255) - source->offset_lo)) *
                    source->scale;
        limit = (code == (int16)source->greatest) | (code == (int16)(-source->greatest - 1));
    }
    if (n >= source->new_from) {
        levels->sum += value;
        levels->sum_squares += value * value;
        levels->peak = fmax(levels->peak, fabs(value));
        levels->overload -= limit;
        levels->present++;
        if (source->floats && any(bad)) {
            levels->nonfinite -= bad;
            levels->first = select(levels->first, min(levels->first, (uint16)(n - source->new_from)), as_uint16(bad));
            levels->last = select(levels->last, (uint16)(n - source->new_from), as_uint16(bad));
        }
    }
    return value;
}

inline void source_open(struct source *source, __global const uchar *input, __global const float *spectra,
                        __global const struct row *row, uint k)
{
    const uint flags = row->flags;
    source->channel = input + row->ring + row->channel_byte;
    source->present = (flags & ROW_ABSENT) != 0 ? (__global const uint *)(input + row->present) : 0;
    source->start = row->start + k * row->hop;
    source->mask = row->mask;
    source->frame_bytes = row->frame_bytes;
    source->word = row->word;
    source->width = row->width;
    source->load_from = row->load_from;
    source->load_until = row->load_until;
    source->new_from = row->new_from;
    source->shift_left = row->shift_left;
    source->shift_right = row->shift_right;
    source->swap = (flags & ROW_SWAP) != 0;
    source->floats = (flags & ROW_FLOAT) != 0;
    source->invert = (flags & ROW_UNSIGNED) != 0 ? 0x80000000u : 0u;
    source->greatest = (int)(0x7fffffffu >> row->shift_right);
    __global const float *constants = spectra + row->spectrum_im;
    source->scale = vload16(0, constants);
    source->offset_hi = vload16(1, constants);
    source->offset_lo = vload16(2, constants);
}

inline void levels_write(const struct levels *levels, __global float *output, __global const struct row *row, uint k)
{
    float sums[16], squares[16], peaks[16];
    int overloads[16], nonfinites[16];
    uint firsts[16], lasts[16];
    vstore16(levels->sum, 0, sums);
    vstore16(levels->sum_squares, 0, squares);
    vstore16(levels->peak, 0, peaks);
    vstore16(levels->overload, 0, overloads);
    vstore16(levels->nonfinite, 0, nonfinites);
    vstore16(levels->first, 0, firsts);
    vstore16(levels->last, 0, lasts);
    __global struct report_row *reports =
        (__global struct report_row *)(output + row->report + (ulong)k * row->report_stride);
    for (uint c = 0; c < row->width; c++) {
        reports[c].sum = sums[c];
        reports[c].sum_squares = squares[c];
        reports[c].peak = peaks[c];
        reports[c].overload = (uint)overloads[c];
        reports[c].nonfinite = (uint)nonfinites[c];
        reports[c].nonfinite_first = firsts[c];
        reports[c].nonfinite_last = lasts[c];
        reports[c].present = levels->present;
    }
}

/* ---- frames out ------------------------------------------------------------------------------- */

struct target {
    __global float *frames; /* the group's first channel in the block's frame 0 */
    uint stride, width;
    uint new_from, write_from, write_until; /* window indices */
};

inline void target_frame(const struct target *target, uint n, real value)
{
    if (n < target->write_from || n >= target->write_until)
        return;
    __global float *at = target->frames + (size_t)(n - target->new_from) * target->stride;
    if (target->width == 16) {
        vstore16(value, 0, at);
        return;
    }
    float lanes[16];
    vstore16(value, 0, lanes);
    for (uint c = 0; c < target->width; c++)
        at[c] = lanes[c];
}

inline void target_open(struct target *target, __global float *output, __global const struct row *row, uint k)
{
    const uint before = k * row->hop; /* frames of the item before this block */
    target->frames = output + row->output + (ulong)before * row->stride;
    target->stride = row->stride;
    target->width = row->width;
    target->new_from = row->new_from;
    target->write_from = row->new_from + (row->write_from > before ? row->write_from - before : 0u);
    const uint until = row->write_until > before ? row->write_until - before : 0u;
    target->write_until = row->new_from + min(until, row->hop);
}

/* ---- butterflies ------------------------------------------------------------------------------ */

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

/* One node of radix R: `step` butterflies over z[j·step + i]. LOAD(j) and STORE(j, p) at index i. */
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

/* ---- the walk --------------------------------------------------------------------------------- */

/* The first level takes its points from the window, the last one gives its own back. */
#define WINDOW_LOAD(j)                                                                             \
    ((struct point){source_frame(source, i + (j) * step, levels),                                  \
                    source_frame(source, i + (j) * step + q, levels)})
#define WINDOW_STORE(j, p)                                                                         \
    do {                                                                                           \
        const struct point out = p;                                                                \
        target_frame(target, i + (j) * step, out.re);                                              \
        target_frame(target, i + (j) * step + q, out.im);                                          \
    } while (0)

inline void first_level(SCRATCH real *z, const struct source *source, struct levels *levels,
                        __global const float *w, uint log_radix, uint q)
{
    const uint step = q >> log_radix;
    if (log_radix == 3)
        for (uint i = 0; i < step; i++)
            FORWARD(8, w, WINDOW_LOAD, NODE_STORE);
    else
        for (uint i = 0; i < step; i++)
            FORWARD(4, w, WINDOW_LOAD, NODE_STORE);
}

inline void last_level(SCRATCH const real *z, const struct target *target, __global const float *w,
                       uint log_radix, uint q)
{
    const uint step = q >> log_radix;
    if (log_radix == 3)
        for (uint i = 0; i < step; i++)
            INVERSE(8, w, NODE_LOAD, WINDOW_STORE);
    else
        for (uint i = 0; i < step; i++)
            INVERSE(4, w, NODE_LOAD, WINDOW_STORE);
}

/* All levels between the first and the last. `radices` holds log2 of each level's radix in two bits,
 * first level lowest; a level of m nodes has its factors from entry m - 1 of the table on. */
inline void inner_levels(SCRATCH real *z, __global const real *h, __global const float *factors,
                         uint log_points, ulong radices)
{
    const uint leaves = 1u << (log_points - 3);
    __global const float *leaf_factors = factors + 2 * (leaves - 1);
    for (uint node = 0; node < leaves; node++) {
        /* Levels whose node begins here, from the root down: log2 of the leaves under it is `under`. */
        uint under = log_points - 3 - ((uint)radices & 3u);
        for (ulong rest = radices >> 2; under > 0; rest >>= 2) {
            const uint log_radix = (uint)rest & 3u;
            if ((node & ((1u << under) - 1u)) == 0)
                node_forward(z + ((size_t)node << 4),
                             factors + 2 * (((leaves >> under) - 1) + (node >> under) * ((1u << log_radix) - 1)),
                             log_radix, 8u << (under - log_radix));
            under -= log_radix;
        }
        leaf(z + ((size_t)node << 4), h + ((size_t)node << 4), leaf_factors + 14 * node);
        /* Levels whose node ends here, from the leaf up. */
        uint level = 0;
        while ((radices >> (2 * (level + 2))) != 0)
            level++;
        under = 0;
        for (; level > 0; level--) {
            const uint log_radix = (uint)(radices >> (2 * level)) & 3u;
            under += log_radix;
            if (((node + 1) & ((1u << under) - 1u)) != 0)
                break;
            const uint at = node >> under << under;
            node_inverse(z + ((size_t)at << 4),
                         factors + 2 * (((leaves >> under) - 1) + (at >> under) * ((1u << log_radix) - 1)),
                         log_radix, 8u << (under - log_radix));
        }
    }
}

__kernel void lanes(ARGUMENTS)
{
    GROUP;
    SCRATCH real *z = POINTS;
    __global const float *factors_1 = (__global const float *)table;
    struct source source;
    struct levels levels;
    struct target target;
    source_open(&source, input, spectra, row, k);
    target_open(&target, output, row, k);
    levels.sum = levels.sum_squares = levels.peak = (real)0.0f;
    levels.overload = levels.nonfinite = (int16)0;
    levels.first = (uint16)0xffffffffu;
    levels.last = (uint16)0;
    levels.present = 0;
    first_level(z, &source, &levels, factors_1, (uint)radices & 3u, points);
    levels_write(&levels, output, row, k);
    inner_levels(z, (__global const real *)(spectra + row->spectrum), factors_1, log_points, radices);
    last_level(z, &target, factors_1, (uint)radices & 3u, points);
}
