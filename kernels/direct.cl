/*
 * The variant "direct": convolution in the time domain, y[n] = sum_k h[k] x[n - k], for filters so
 * short that a transform would cost more.
 *
 * Group (k, r) computes block k of row r in tiles of TILE frames. The items convert a tile and the
 * taps - 1 frames before it into local memory, wait for each other, and then sum runs of RUN
 * neighbouring frames:
 *
 *     local memory:  x[0 … taps - 2] frames before the tile | x[taps - 1 …] the tile
 *     an item:       2 RUN - 1 values of x and RUN taps in registers, RUN x RUN products
 *
 * On a GPU (LANES = 1) a row is one output. With vectors (LANES = 16) a row is a group of
 * neighbouring channels with an output each, one a lane. Fewer than 16 channels leave lanes free:
 * the block is then cut into 16 / channels sections, and lane s channels + c computes channel c of
 * section s.
 *
 *     GPU      own.direct.re, im: h[taps] of the real and imaginary taps
 *     vectors  scale[16] offset_hi[16] offset_lo[16] (unused[16]) | own.direct.re: h[taps][16]
 *
 * Sums have two levels of PART taps, which keeps the error of long filters near that of short ones,
 * and the same order for every frame, so that decimation does not change a bit. The host pads the
 * taps with zeros to a multiple of 8 and folds gains in. Options: TILE; WORD (bytes), SWAP, FLOATS,
 * INVERT (offset binary) of the sample format.
 */
#include "arguments.clh"

#define PART 32u /* taps in the inner level of a sum */

#if LANES == 16
#define RUN       4u /* leaves registers for window and taps */
#define PADDED(i) (i)
typedef real tap_lanes;
#else
#define RUN       8u
/* Items start RUN values apart; padding makes that an odd distance, free of bank conflicts. */
#define PADDED(i) ((i) + ((i) >> 3))
typedef float tap_lanes;
#endif

/* ---- sums -------------------------------------------------------------------------------- */

/* Frames i … i + RUN - 1 of the tile, at once. */
inline void sum_run(__local const real *x, __global const tap_lanes *h, uint taps, uint i,
                    real sum[RUN])
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
        for (uint tap = from; tap < until; tap += RUN) {
            const uint first = i + taps - RUN - tap; /* what tap + RUN - 1 takes for frame i */
            real window[2 * RUN - 1];
#pragma unroll
            for (uint w = 0; w < 2 * RUN - 1; w++)
                window[w] = x[PADDED(first + w)];
#pragma unroll
            for (uint t = 0; t < RUN; t++) {
                const tap_lanes coefficient = h[tap + t];
#pragma unroll
                for (uint r = 0; r < RUN; r++)
                    part[r] = window[RUN - 1 - t + r] * coefficient + part[r];
            }
        }
#pragma unroll
        for (uint r = 0; r < RUN; r++)
            sum[r] += part[r];
    }
}

/* Frame i alone, summed in the same order. */
inline real sum_one(__local const real *x, __global const tap_lanes *h, uint taps, uint i)
{
    real sum = (real)0.0f;
    for (uint from = 0; from < taps; from += PART) {
        real part = (real)0.0f;
        const uint until = min(from + PART, taps);
        for (uint tap = from; tap < until; tap++)
            part = x[PADDED(i + taps - 1 - tap)] * h[tap] + part;
        sum += part;
    }
    return sum;
}

/* ---- rows of one channel, on GPUs -------------------------------------------------------- */

#if LANES == 1
struct row_access {
    struct statistics stats;
    uint section;
    struct destination destination;
};

inline void access_open(struct row_access *access, __global const uchar *input,
                        __global const float *spectra, __global float *output,
                        __global float *state, __global const struct row *row, uint k)
{
    stats_reset(&access->stats);
    access->section = row->hop;
    destination_open(&access->destination, output, state, row, k);
}

inline real access_load(struct row_access *access, __global const uchar *input,
                        __global const struct row *row, uint k, uint n, bool measured)
{
    return sample_load(input, row, k, n, 1, measured, &access->stats);
}

inline void access_write(struct row_access *access, uint component, uint n, real value)
{
    lanes_write(&access->destination, component, n, 0, value);
}

inline void access_close(const struct row_access *access, __global float *output, uint k)
{
    destination_close(&access->destination, output, k);
}

inline void access_report(struct row_access *access, __global float *output,
                          __global const struct row *row, uint k, __local struct report_row *shared)
{
    stats_write(&access->stats, output, row, k, shared);
}

/* ---- rows of neighbouring channels, one a lane ------------------------------------------- */

#else
struct row_access {
    struct statistics stats;
    uint section;
    struct destination destination;
    __global const uchar *ring;
    __global const uint *present; /* presence bits, 0: all frames are present */
    uint start, mask, frame_bytes, channels, values;
    uint frame[16], byte[16]; /* of each lane: first frame of its section, byte of its channel */
    word_lanes frames, used;  /* used: all bits set in lanes in use */
    real scale, offset_hi, offset_lo, limit;
#ifdef RESULT_WORD
    __global float *real_parts; /* of channel 0, as destination.real_parts */
    uint channel_parts;         /* from one channel's to the next's */
    uint clipped[16];           /* of each channel */
#endif
};

inline void access_open(struct row_access *access, __global const uchar *input,
                        __global const float *spectra, __global float *output,
                        __global float *state, __global const struct row *row, uint k)
{
    const uint channels = row->own.direct.channels, sections = 16u / channels;
    stats_reset(&access->stats);
    access->section = (row->hop + sections - 1) / sections;
    destination_open(&access->destination, output, state, row, k);
    access->ring = input + row->ring;
    access->present =
        (row->flags & ROW_ABSENT) != 0 ? (__global const uint *)(input + row->present) : 0;
    access->start = row->start + k * row->hop;
    access->mask = row->mask;
    access->frame_bytes = row->frame_bytes;
    access->channels = channels;
    access->values = row->form == FORM_COMPLEX ? 2u : 1u;
    uint used[16];
    for (uint l = 0; l < 16; l++) {
        const uint s = min(l / channels, sections - 1u);
        access->frame[l] = s * access->section;
        access->byte[l] = row->channel_byte + l % channels * WORD;
        used[l] = l < sections * channels ? 0xffffffffu : 0u;
    }
    access->frames = vload16(0, access->frame);
    access->used = vload16(0, used);
    __global const float *constants = spectra + row->own.direct.re - 64;
    access->scale = vload16(0, constants);
    access->offset_hi = vload16(1, constants);
    access->offset_lo = vload16(2, constants);
    access->limit = vload16(3, constants);
#ifdef RESULT_WORD
    access->real_parts = access->destination.real_parts;
    access->channel_parts = row->real_parts_stride;
    for (uint c = 0; c < 16; c++)
        access->clipped[c] = 0;
#endif
}

inline uint16 access_words(const struct row_access *access, uint n)
{
    uint words[16];
    uint16 w;
#if WORD == 2 || WORD == 4
    if (access->channels == 16) {
        __global const uchar *at =
            access->ring + access->byte[0] +
            (size_t)((access->start + n) & access->mask) * access->frame_bytes;
#if WORD == 2
        w = convert_uint16(vload16(0, (__global const ushort *)at));
#else
        w = vload16(0, (__global const uint *)at);
#endif
    } else
#endif
    {
#pragma unroll
        for (uint l = 0; l < 16; l++) {
            __global const uchar *at =
                access->ring + access->byte[l] +
                (size_t)((access->start + n + access->frame[l]) & access->mask) *
                    access->frame_bytes;
#if WORD == 1
            words[l] = at[0];
#elif WORD == 2
            words[l] = *(__global const ushort *)at;
#elif WORD == 3
            words[l] = (uint)at[0] | (uint)at[1] << 8 | (uint)at[2] << 16;
#else
            words[l] = *(__global const uint *)at;
#endif
        }
        w = vload16(0, words);
    }
#if SWAP && WORD == 2
    w = (w >> 8) | (w << 8 & 0xff00u);
#elif SWAP && WORD == 3
    w = (w >> 16) | (w & 0xff00u) | (w << 16 & 0xff0000u);
#elif SWAP
    w = (w >> 24) | (w >> 8 & 0xff00u) | (w << 8 & 0xff0000u) | (w << 24);
#endif
    return w;
}

/* Values at window index n of the first section and at the same frame of the others. */
inline real access_load(struct row_access *access, __global const uchar *input,
                        __global const struct row *row, uint k, uint n, bool measured)
{
    const word_lanes index = n + access->frames;
    flag_lanes valid = (index >= (word_lanes)row->load_from) &
                       (index < (word_lanes)row->load_until) & as_int16(access->used);
    if (access->present != 0) {
        int bits[16];
        for (uint l = 0; l < 16; l++) {
            const uint slot = (access->start + n + access->frame[l]) & access->mask;
            bits[l] = -(int)(access->present[slot >> 5] >> (slot & 31u) & 1u);
        }
        valid &= vload16(0, bits);
    }
    const uint16 word = access_words(access, n);
    flag_lanes limit, bad = (flag_lanes)0;
#if FLOATS
    const real code = as_float16(word);
    real value = ((code - access->offset_hi) - access->offset_lo) * access->scale;
    bad = valid & ((as_int16(value) & 0x7fffffff) > as_int16(access->limit));
    valid &= ~bad;
    limit = valid & (fabs(code) >= (real)1.0f);
#else
    const int16 code = as_int16((word << row->shift_left) ^ (INVERT ? 0x80000000u : 0u)) >>
                       (int16)row->shift_right;
    const int greatest = (int)(0x7fffffffu >> row->shift_right);
    limit = valid & ((code == (int16)greatest) | (code == (int16)(-greatest - 1)));
#if WORD <= 3 /* the code is exact in one float, else in two */
    real value = ((convert_float16(code) - access->offset_hi) - access->offset_lo) * access->scale;
#else
    real value = ((convert_float16(code >> 8) * 256.0f - access->offset_hi) +
                  (convert_float16(code & 255) - access->offset_lo)) *
                 access->scale;
#endif
#endif
    value = as_float16(as_int16(value) & valid);
    if (measured) {
        struct statistics *stats = &access->stats;
        stats->sum += value;
        stats->sum_squares += value * value;
        stats->peak = fmax(stats->peak, fabs(value));
        stats->overload -= limit;
        stats->present -= valid | bad;
        if (FLOATS && any(bad)) {
            const word_lanes frame = index - row->new_from;
            stats->nonfinite -= bad;
            stats->first = select(stats->first, min(stats->first, frame), as_uint16(bad));
            stats->last = select(stats->last, max(stats->last, frame), as_uint16(bad));
        }
    }
    return value;
}

inline void access_write(struct row_access *access, uint component, uint n, real value)
{
    struct destination *to = &access->destination;
#ifndef RESULT_WORD
    if (access->channels == 16 && to->decimate == 1 && to->form == FORM_REAL) {
        if (n >= to->from && n < to->until)
            vstore16(value, 0, to->frames + (ulong)n * to->stride);
        return;
    }
#else
    uint words[16];
    if (access->channels == 16 && to->decimate == 1 && to->form == FORM_REAL) {
        if (n < to->from || n >= to->until)
            return;
        if (result_words(to->row, value, words)) {
            __global uchar *at = to->frames + (ulong)n * to->stride;
#if RESULT_WORD == 2
            vstore16(convert_ushort16(vload16(0, words)), 0, (__global ushort *)at);
#else
            for (uint l = 0; l < 16; l++)
                result_store(at + l * RESULT_UNITS, words[l]);
#endif
            return;
        }
    }
#endif
    float lanes[16];
    vstore16(value, 0, lanes);
    for (uint l = 0; l < 16u / access->channels * access->channels; l++) {
        const uint index = n + access->frame[l], channel = l % access->channels;
        if (index < to->from || index >= to->until)
            continue;
        ulong frame = index;
        if (to->decimate > 1) {
            const uint after = index - to->first;
            if (after >= 1u << 31 || after % to->decimate != 0)
                continue;
            frame = after / to->decimate;
        }
        __global result_unit *at =
            to->frames + frame * to->stride + channel * access->values * RESULT_UNITS;
#ifdef RESULT_WORD
        to->real_parts = access->real_parts + (ulong)channel * access->channel_parts;
        to->clipped = 0;
#endif
        if (to->real_only)
            frame_write_real(to, at, lanes[l]);
        else
            frame_write(to, at, index, component, lanes[l]);
#ifdef RESULT_WORD
        access->clipped[channel] += to->clipped;
#endif
    }
}

inline void access_close(const struct row_access *access, __global float *output, uint k)
{
#ifdef RESULT_WORD
    for (uint c = 0; c < access->channels; c++)
        result_clipped(output, access->destination.row, k, c, access->clipped[c]);
#endif
}

inline void access_report(struct row_access *access, __global float *output,
                          __global const struct row *row, uint k, __local struct report_row *shared)
{
    float sums[16], squares[16], peaks[16];
    int overloads[16], nonfinites[16], presents[16];
    uint firsts[16], lasts[16];
    vstore16(access->stats.sum, 0, sums);
    vstore16(access->stats.sum_squares, 0, squares);
    vstore16(access->stats.peak, 0, peaks);
    vstore16(access->stats.overload, 0, overloads);
    vstore16(access->stats.nonfinite, 0, nonfinites);
    vstore16(access->stats.present, 0, presents);
    vstore16(access->stats.first, 0, firsts);
    vstore16(access->stats.last, 0, lasts);
    const uint channels = access->channels;
    for (uint c = 0; c < channels; c++) {
        struct report_row total = {0.0f, 0.0f, 0.0f, 0, 0, 0xffffffffu, 0, 0};
        for (uint l = c; l < 16u / channels * channels; l += channels) {
            total.sum += sums[l];
            total.sum_squares += squares[l];
            total.peak = fmax(total.peak, peaks[l]);
            total.overload += (uint)overloads[l];
            total.nonfinite += (uint)nonfinites[l];
            total.nonfinite_first = min(total.nonfinite_first, firsts[l]);
            total.nonfinite_last = max(total.nonfinite_last, lasts[l]);
            total.present += (uint)presents[l];
        }
        *((__global struct report_row *)(output + row->report + (ulong)k * row->report_stride) +
          c) = total;
    }
}
#endif

/* ---- the kernel -------------------------------------------------------------------------- */

__kernel void direct(ARGUMENTS)
{
    __global const struct row *row = rows + row_first + get_group_id(1);
    const uint k = block_first + (uint)get_group_id(0);
    if (k >= row->blocks)
        return;
    __local real *x = (__local real *)local_points;
    const uint decimate = row->decimate, taps = row->own.direct.taps, before = taps - 1;
    const bool measured = row->report != ROW_NONE;
    struct row_access access;
    access_open(&access, input, spectra, output, state, row, k);
    /* Kept frames are the same in every section: compute only those. */
    const bool sparse = decimate > 1 && (LANES == 1 || access.section % decimate == 0);
    for (uint tile = 0; tile < access.section; tile += TILE) {
        const uint frames = min((uint)TILE, access.section - tile);
        const uint n = row->new_from + tile, whole = (frames + RUN - 1) / RUN * RUN;
        for (uint i = ITEM; i < before + whole; i += ITEMS)
            x[PADDED(i)] = access_load(&access, input, row, k, n - before + i,
                                       measured && i >= before && i - before < frames);
        SYNC();
        for (uint component = 0; row->form != FORM_NONE && component < row->components;
             component++) {
            __global const tap_lanes *h =
                (__global const tap_lanes *)(spectra + (component == 0 ? row->own.direct.re
                                                                       : row->own.direct.im));
            if (sparse) {
                /* Both indices are modulo 2^32: the first kept frame is before or after n. */
                const uint after = n - access.destination.first;
                const uint skip = after < 1u << 31 ? (decimate - after % decimate) % decimate
                                                   : access.destination.first - n;
                for (uint i = skip + ITEM * decimate; i < frames; i += ITEMS * decimate)
                    access_write(&access, component, n + i, sum_one(x, h, taps, i));
                continue;
            }
            for (uint i = ITEM * RUN; i < frames; i += ITEMS * RUN) {
                real sum[RUN];
                sum_run(x, h, taps, i, sum);
                for (uint r = 0; r < RUN && i + r < frames; r++)
                    access_write(&access, component, n + i + r, sum[r]);
            }
        }
        SYNC();
    }
    access_close(&access, output, k);
    if (measured)
        access_report(&access, output, row, k, shared);
}
