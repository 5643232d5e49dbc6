/*
 * direct: the definition itself, y[n] = sum_k h[k] x[n - k], for filters so short that a transform
 * would cost more.
 *
 * Group (k, r): block k of row r. A tile of TILE frames, and the frames before it that the taps
 * reach, are converted into local memory once; work-items take runs of RUN frames:
 *
 *     local:   x[0 … taps - 2] frames before the tile | x[taps - 1 …] the tile
 *     run:     RUN sums; RUN taps take 2 RUN - 1 values of x into registers and RUN x RUN products
 *
 * On a GPU a row is an output. With vectors a row is row.own.direct.channels neighbouring channels
 * with an output each; fewer than LANES of them lie side by side with themselves: the block is cut
 * into stretches, and lane s channels + c is channel c of stretch s, frame i of each stretch at a
 * time.
 *
 *     GPU      own.re: h[taps]                 own.im: the same of the imaginary part
 *     vectors  scale[16] offset_hi[16] offset_lo[16] (unused[16]) | own.re: h[taps][16]
 *
 * Sums go in two levels, so that long filters keep the error of short ones, and in the same order
 * for every frame: what is decimated is the same to the bit. Taps (own.taps) are padded with zeros
 * to whole eights, gains folded in. The sample format is built in: WORD bytes, SWAP, FLOATS, INVERT
 * (offset binary).
 */
#include "arguments.clh"

#define PART 32u /* taps summed before their sum is added to the whole */

#if LANES == 16
#define RUN      4u /* as many as leave registers for what they are made of */
#define PLACE(i) (i)
typedef real factor_lanes;
#else
#define RUN      8u
/* Items begin RUN values apart: an odd distance in memory, so that they meet no bank twice. */
#define PLACE(i) ((i) + ((i) >> 3))
typedef float factor_lanes;
#endif

/* ---- sums -------------------------------------------------------------------------------- */

/* Frames i … i + RUN - 1 of the tile. */
inline void sum_run(__local const real *x, __global const factor_lanes *h, uint taps, uint i,
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
                window[w] = x[PLACE(first + w)];
#pragma unroll
            for (uint t = 0; t < RUN; t++) {
                const factor_lanes factor = h[tap + t];
#pragma unroll
                for (uint r = 0; r < RUN; r++)
                    part[r] = window[RUN - 1 - t + r] * factor + part[r];
            }
        }
#pragma unroll
        for (uint r = 0; r < RUN; r++)
            sum[r] += part[r];
    }
}

/* Frame i alone, in the same order. */
inline real sum_one(__local const real *x, __global const factor_lanes *h, uint taps, uint i)
{
    real sum = (real)0.0f;
    for (uint from = 0; from < taps; from += PART) {
        real part = (real)0.0f;
        const uint until = min(from + PART, taps);
        for (uint tap = from; tap < until; tap++)
            part = x[PLACE(i + taps - 1 - tap)] * h[tap] + part;
        sum += part;
    }
    return sum;
}

/* ---- a row in scalars -------------------------------------------------------------------- */

#if LANES == 1
struct row_access {
    struct seen seen;
    uint stretch;
    struct destination destination;
};

inline void access_open(struct row_access *access, __global const uchar *input,
                        __global const float *spectra, __global float *output,
                        __global float *state, __global const struct row *row, uint k)
{
    seen_reset(&access->seen);
    access->stretch = row->hop;
    destination_open(&access->destination, output, state, row, k);
}

inline real access_load(struct row_access *access, __global const uchar *input,
                        __global const struct row *row, uint k, uint n, bool measured)
{
    return sample_load(input, row, k, n, 1, measured, &access->seen);
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
    seen_write(&access->seen, output, row, k, shared);
}

/* ---- a row in vectors -------------------------------------------------------------------- */

#else
struct row_access {
    struct seen seen;
    uint stretch;
    struct destination destination;
    __global const uchar *ring;
    __global const uint *present; /* 0: every frame is */
    uint start, mask, frame_bytes, channels, values;
    uint frame[16],
        byte[16]; /* of each lane: frames after the first stretch's, place in the frame */
    word_lanes frames, used; /* used: all bits of the lanes in use */
    real scale, offset_hi, offset_lo;
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
    const uint channels = row->own.direct.channels, stretches = 16u / channels;
    seen_reset(&access->seen);
    access->stretch = (row->hop + stretches - 1) / stretches;
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
        const uint s = min(l / channels, stretches - 1u);
        access->frame[l] = s * access->stretch;
        access->byte[l] = row->channel_byte + l % channels * WORD;
        used[l] = l < stretches * channels ? 0xffffffffu : 0u;
    }
    access->frames = vload16(0, access->frame);
    access->used = vload16(0, used);
    __global const float *constants = spectra + row->own.direct.re - 64;
    access->scale = vload16(0, constants);
    access->offset_hi = vload16(1, constants);
    access->offset_lo = vload16(2, constants);
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

/* Values at window index n of the first stretch and the same place of the others. */
inline real access_load(struct row_access *access, __global const uchar *input,
                        __global const struct row *row, uint k, uint n, bool measured)
{
    const word_lanes index = n + access->frames;
    flag_lanes here = (index >= (word_lanes)row->load_from) &
                      (index < (word_lanes)row->load_until) & as_int16(access->used);
    if (access->present != 0) {
        int bits[16];
        for (uint l = 0; l < 16; l++) {
            const uint slot = (access->start + n + access->frame[l]) & access->mask;
            bits[l] = -(int)(access->present[slot >> 5] >> (slot & 31u) & 1u);
        }
        here &= vload16(0, bits);
    }
    const uint16 word = access_words(access, n);
    flag_lanes limit, bad = (flag_lanes)0;
#if FLOATS
    const real code = as_float16(word);
    real value = ((code - access->offset_hi) - access->offset_lo) * access->scale;
    bad = here & ((as_int16(value) & 0x7f800000) == 0x7f800000);
    here &= ~bad;
    limit = here & (fabs(code) >= (real)1.0f);
#else
    const int16 code = as_int16((word << row->shift_left) ^ (INVERT ? 0x80000000u : 0u)) >>
                       (int16)row->shift_right;
    const int greatest = (int)(0x7fffffffu >> row->shift_right);
    limit = here & ((code == (int16)greatest) | (code == (int16)(-greatest - 1)));
#if WORD <= 3 /* exact in a float; else in two */
    real value = ((convert_float16(code) - access->offset_hi) - access->offset_lo) * access->scale;
#else
    real value = ((convert_float16(code >> 8) * 256.0f - access->offset_hi) +
                  (convert_float16(code & 255) - access->offset_lo)) *
                 access->scale;
#endif
#endif
    value = as_float16(as_int16(value) & here);
    if (measured) {
        struct seen *seen = &access->seen;
        seen->sum += value;
        seen->sum_squares += value * value;
        seen->peak = fmax(seen->peak, fabs(value));
        seen->overload -= limit;
        seen->present -= here | bad;
        if (FLOATS && any(bad)) {
            const word_lanes frame = index - row->new_from;
            seen->nonfinite -= bad;
            seen->first = select(seen->first, min(seen->first, frame), as_uint16(bad));
            seen->last = select(seen->last, max(seen->last, frame), as_uint16(bad));
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
            __global uchar *place = to->frames + (ulong)n * to->stride;
#if RESULT_WORD == 2
            vstore16(convert_ushort16(vload16(0, words)), 0, (__global ushort *)place);
#else
            for (uint l = 0; l < 16; l++)
                result_store(place + l * RESULT_UNITS, words[l]);
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
        __global result_unit *place =
            to->frames + frame * to->stride + channel * access->values * RESULT_UNITS;
#ifdef RESULT_WORD
        to->real_parts = access->real_parts + (ulong)channel * access->channel_parts;
        to->clipped = 0;
#endif
        if (to->alone)
            frame_write_alone(to, place, lanes[l]);
        else
            frame_write(to, place, index, component, lanes[l]);
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
    vstore16(access->seen.sum, 0, sums);
    vstore16(access->seen.sum_squares, 0, squares);
    vstore16(access->seen.peak, 0, peaks);
    vstore16(access->seen.overload, 0, overloads);
    vstore16(access->seen.nonfinite, 0, nonfinites);
    vstore16(access->seen.present, 0, presents);
    vstore16(access->seen.first, 0, firsts);
    vstore16(access->seen.last, 0, lasts);
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
    /* Frames that are kept stand at the same places of every stretch. */
    const bool sparse = decimate > 1 && (LANES == 1 || access.stretch % decimate == 0);
    for (uint tile = 0; tile < access.stretch; tile += TILE) {
        const uint frames = min((uint)TILE, access.stretch - tile);
        const uint n = row->new_from + tile, whole = (frames + RUN - 1) / RUN * RUN;
        for (uint i = ITEM; i < before + whole; i += ITEMS)
            x[PLACE(i)] = access_load(&access, input, row, k, n - before + i,
                                      measured && i >= before && i - before < frames);
        SYNC();
        for (uint component = 0; row->form != FORM_NONE && component < row->components;
             component++) {
            __global const factor_lanes *h =
                (__global const factor_lanes *)(spectra + (component == 0 ? row->own.direct.re
                                                                          : row->own.direct.im));
            if (sparse) {
                /* n and the first kept frame's index are modulo 2^32: it may lie before the tile
                 * or after it. */
                const uint past = n - access.destination.first;
                const uint skip = past < 1u << 31 ? (decimate - past % decimate) % decimate
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
