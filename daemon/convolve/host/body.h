/*
 * The host convolver for one vector width WIDTH: the FFT of kernels/fft.clh, products with filter
 * spectra summed over partitions, and the inverse, W channels at once, one in each lane.
 *
 * No include guard: base.c, avx2.c and avx512.c include this file once for every width, and NAME()
 * gives each copy names of its own. HOST_REGISTERS is the number of vector registers.
 *
 * No operation crosses lanes and twiddles are scalars, so that a channel's result is the same to
 * the bit whatever its neighbours hold. The FFT recurses depth first, so that the points of a
 * sub-transform stay in the nearest cache from its first pass to the end of its inverse.
 * host/lanes.h gives the memory layout. Plain C with vector types; -ffp-contract=fast lets the
 * compiler turn a·b + c into one fused operation.
 */
#include <string.h>

#include "convolve/host/lanes.h"

#ifndef HOST_UNROLL
#ifdef __clang__
#define HOST_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HOST_UNROLL _Pragma("GCC unroll 16")
#endif
#define HOST_JOIN(name, width) name##_##width
#define HOST_NAME(name, width) HOST_JOIN(name, width)
#define HOST_INLINE            static inline __attribute__((always_inline))
#endif

#define NAME(name) HOST_NAME(name, WIDTH)
#define real       NAME(real)
#define bits       NAME(bits)
#define unaligned  NAME(unaligned)
#define point      NAME(point)
#define words      NAME(words)
#define statistics NAME(statistics)
#define counts     NAME(counts)

typedef float real __attribute__((vector_size(4 * WIDTH), may_alias));
typedef int32_t bits __attribute__((vector_size(4 * WIDTH), may_alias));
typedef float unaligned __attribute__((vector_size(4 * WIDTH), may_alias, aligned(4)));

struct point {
    real re, im;
};

/* ---- points ------------------------------------------------------------------------------ */

HOST_INLINE struct point NAME(load)(const float *z, size_t at)
{
    const real *from = (const real *)(const void *)z + 2 * at;
    return (struct point){from[0], from[1]};
}

HOST_INLINE void NAME(store)(float *z, size_t at, struct point p)
{
    real *to = (real *)(void *)z + 2 * at;
    to[0] = p.re;
    to[1] = p.im;
}

HOST_INLINE struct point NAME(add)(struct point a, struct point b)
{
    return (struct point){a.re + b.re, a.im + b.im};
}

HOST_INLINE struct point NAME(subtract)(struct point a, struct point b)
{
    return (struct point){a.re - b.re, a.im - b.im};
}

HOST_INLINE struct point NAME(times_i)(struct point a)
{
    return (struct point){-a.im, a.re};
}

HOST_INLINE struct point NAME(times)(struct point a, const float *w)
{
    return (struct point){a.re * w[0] - a.im * w[1], a.im * w[0] + a.re * w[1]};
}

HOST_INLINE struct point NAME(times_conjugate)(struct point a, const float *w)
{
    return (struct point){a.re * w[0] + a.im * w[1], a.im * w[0] - a.re * w[1]};
}

/* DFT of R points: y_k = sum_j x_j exp(2 pi i j k / R). */
HOST_INLINE void NAME(sum_4)(const struct point x[4], struct point y[4])
{
    const struct point a = NAME(add)(x[0], x[2]), c = NAME(subtract)(x[0], x[2]);
    const struct point d = NAME(add)(x[1], x[3]);
    const struct point e = NAME(times_i)(NAME(subtract)(x[1], x[3]));
    y[0] = NAME(add)(a, d);
    y[1] = NAME(add)(c, e);
    y[2] = NAME(subtract)(a, d);
    y[3] = NAME(subtract)(c, e);
}

HOST_INLINE void NAME(sum_8)(const struct point x[8], struct point y[8])
{
    const float h = 0.70710678118654752f;
    const struct point even[4] = {NAME(add)(x[0], x[4]), NAME(add)(x[1], x[5]),
                                  NAME(add)(x[2], x[6]), NAME(add)(x[3], x[7])};
    const struct point b1 = NAME(subtract)(x[1], x[5]), b2 = NAME(subtract)(x[2], x[6]);
    const struct point b3 = NAME(subtract)(x[3], x[7]);
    const struct point odd[4] = {NAME(subtract)(x[0], x[4]),
                                 {(b1.re - b1.im) * h, (b1.re + b1.im) * h},
                                 NAME(times_i)(b2),
                                 {-(b3.re + b3.im) * h, (b3.re - b3.im) * h}};
    struct point e[4], o[4];
    NAME(sum_4)(even, e);
    NAME(sum_4)(odd, o);
    HOST_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        y[2 * k] = e[k];
        y[2 * k + 1] = o[k];
    }
}

/* ---- passes above the last --------------------------------------------------------------- */

/* Butterflies of radix R over one sub-transform: points z[j step + i] become point i of
 * sub-transform j, and back. */
#define HOST_PASS(R)                                                                               \
    static void NAME(forward_##R)(float *z, const float *w, uint32_t step)                         \
    {                                                                                              \
        for (uint32_t i = 0; i < step; i++) {                                                      \
            struct point x[R], y[R];                                                               \
            x[0] = NAME(load)(z, i);                                                               \
            HOST_UNROLL for (uint32_t j = 1; j < R; j++) x[j] =                                    \
                NAME(times)(NAME(load)(z, i + (size_t)j * step), w + 2 * (j - 1));                 \
            NAME(sum_##R)(x, y);                                                                   \
            HOST_UNROLL for (uint32_t j = 0; j < R; j++)                                           \
                NAME(store)(z, i + (size_t)j * step, y[j]);                                        \
        }                                                                                          \
    }                                                                                              \
    /* Reading the same DFT backwards conjugates its roots. */                                     \
    static void NAME(inverse_##R)(float *z, const float *w, uint32_t step)                         \
    {                                                                                              \
        for (uint32_t i = 0; i < step; i++) {                                                      \
            struct point x[R], y[R];                                                               \
            HOST_UNROLL for (uint32_t j = 0; j < R; j++) x[j] =                                    \
                NAME(load)(z, i + (size_t)j * step);                                               \
            NAME(sum_##R)(x, y);                                                                   \
            NAME(store)(z, i, y[0]);                                                               \
            HOST_UNROLL for (uint32_t j = 1; j < R; j++) NAME(store)(                              \
                z, i + (size_t)j * step, NAME(times_conjugate)(y[R - j], w + 2 * (j - 1)));        \
        }                                                                                          \
    }

HOST_PASS(4)
HOST_PASS(8)
#undef HOST_PASS

/* ---- the leaf: the last pass, 8 points, between forward and inverse ----------------------- */

/* Points of a leaf that are summed at once: as many as leave registers free for a product. */
#define SUM_POINTS (HOST_REGISTERS >= 32 ? 8 : 4)

/* Adds `count` products of spectra to `sum`; x steps one slot back in the delay line for each, h
 * one partition on. */
HOST_INLINE void NAME(products)(struct point *sum, const float *x, const float *h, uint32_t count,
                                size_t x_step, size_t h_step, bool shared)
{
    struct point part[SUM_POINTS];
    HOST_UNROLL
    for (uint32_t v = 0; v < SUM_POINTS; v++)
        part[v] = sum[v];
    for (uint32_t p = 0; p < count; p++, x -= x_step, h += h_step) {
        HOST_UNROLL
        for (uint32_t v = 0; v < SUM_POINTS; v++) {
            const struct point a = NAME(load)(x, v);
            if (shared) {
                part[v].re += a.re * h[2 * v];
                part[v].im += a.im * h[2 * v];
                part[v].re -= a.im * h[2 * v + 1];
                part[v].im += a.re * h[2 * v + 1];
            } else {
                const struct point b = NAME(load)(h, v);
                part[v].re += a.re * b.re;
                part[v].im += a.im * b.re;
                part[v].re -= a.im * b.im;
                part[v].im += a.re * b.im;
            }
        }
    }
    HOST_UNROLL
    for (uint32_t v = 0; v < SUM_POINTS; v++)
        sum[v] = part[v];
}

/* Points [from, from + SUM_POINTS) of a leaf: a layer's sum over its first `partitions` partitions,
 * in groups of HOST_PARTITIONS to bound the rounding error. */
HOST_INLINE void NAME(sum_layer)(const struct host_walk *walk, const struct host_layer *layer,
                                 uint32_t leaf, uint32_t partitions, uint32_t from, bool shared,
                                 struct point *total)
{
    const size_t x_floats = 2 * HOST_LEAF * WIDTH, h_floats = 2 * HOST_LEAF * (shared ? 1 : WIDTH);
    const size_t x_step = host_chunk(walk->span, x_floats);
    const size_t h_step = host_chunk(walk->span, h_floats);
    const float *x =
        layer->line + host_leaf_at(leaf, walk->span, walk->slots, x_floats) + 2 * from * WIDTH;
    const float *h = layer->spectra + host_leaf_at(leaf, walk->span, layer->partitions, h_floats) +
                     2 * from * (shared ? 1 : WIDTH);
    uint32_t slot = walk->slot;
    for (uint32_t done = 0; done < partitions;) {
        uint32_t group = partitions - done;
        if (group > HOST_PARTITIONS)
            group = HOST_PARTITIONS;
        done += group;
        struct point sum[SUM_POINTS];
        memset(sum, 0, sizeof sum);
        while (group > 0) {
            const uint32_t run = group < slot + 1 ? group : slot + 1;
            NAME(products)(sum, x + slot * x_step, h, run, x_step, h_step, shared);
            h += run * h_step;
            group -= run;
            slot = slot >= run ? slot - run : walk->slots - 1;
        }
        HOST_UNROLL
        for (uint32_t v = 0; v < SUM_POINTS; v++)
            total[v] = NAME(add)(total[v], sum[v]);
    }
}

/* The layers' sum over their first `most` partitions, added to `ahead` (NULL: zeros). */
static void NAME(sum_leaf)(const struct host_walk *walk, uint32_t leaf, uint32_t most,
                           const float *ahead, struct point x[HOST_LEAF])
{
    for (uint32_t from = 0; from < HOST_LEAF; from += SUM_POINTS) {
        struct point total[SUM_POINTS];
        memset(total, 0, sizeof total);
        HOST_UNROLL
        for (uint32_t v = 0; ahead != NULL && v < SUM_POINTS; v++)
            total[v] = NAME(load)(ahead, from + v);
        for (uint32_t i = 0; i < walk->layer_count; i++) {
            const struct host_layer *layer = &walk->layers[i];
            const uint32_t partitions = layer->partitions < most ? layer->partitions : most;
            if (layer->shared)
                NAME(sum_layer)(walk, layer, leaf, partitions, from, true, total);
            else
                NAME(sum_layer)(walk, layer, leaf, partitions, from, false, total);
        }
        HOST_UNROLL
        for (uint32_t v = 0; v < SUM_POINTS; v++)
            x[from + v] = total[v];
    }
}

#include "convolve/host/ahead.h"

HOST_INLINE void NAME(leaf_forward)(const float *z, const float *w, struct point y[HOST_LEAF])
{
    struct point x[HOST_LEAF];
    x[0] = NAME(load)(z, 0);
    HOST_UNROLL
    for (uint32_t j = 1; j < HOST_LEAF; j++)
        x[j] = NAME(times)(NAME(load)(z, j), w + 2 * (j - 1));
    NAME(sum_8)(x, y);
}

HOST_INLINE void NAME(leaf_inverse)(float *z, const float *w, const struct point x[HOST_LEAF])
{
    struct point y[HOST_LEAF];
    NAME(sum_8)(x, y);
    NAME(store)(z, 0, y[0]);
    HOST_UNROLL
    for (uint32_t j = 1; j < HOST_LEAF; j++)
        NAME(store)(z, j, NAME(times_conjugate)(y[HOST_LEAF - j], w + 2 * (j - 1)));
}

/* One partition: forward, times the spectrum and inverse without leaving the registers. */
static void NAME(leaf_single)(const struct host_walk *walk, float *z, const float *w, uint32_t leaf)
{
    const float *h = walk->spectra + (size_t)leaf * 2 * HOST_LEAF * WIDTH;
    struct point x[HOST_LEAF], y[HOST_LEAF];
    NAME(leaf_forward)(z, w, y);
    HOST_UNROLL
    for (uint32_t v = 0; v < HOST_LEAF; v++) {
        const struct point b = NAME(load)(h, v);
        x[v] = (struct point){y[v].re * b.re - y[v].im * b.im, y[v].im * b.re + y[v].re * b.im};
    }
    NAME(leaf_inverse)(z, w, x);
}

/* Several partitions: the spectrum enters the delay line, then the sum over layers comes back. */
static void NAME(leaf)(const struct host_walk *walk, float *z, const float *w, uint32_t leaf)
{
    struct point x[HOST_LEAF];
    if (walk->line != NULL) {
        struct point y[HOST_LEAF];
        NAME(leaf_forward)(z, w, y);
        float *slot = walk->line +
                      host_leaf_at(leaf, walk->span, walk->slots, 2 * HOST_LEAF * WIDTH) +
                      walk->slot * host_chunk(walk->span, 2 * HOST_LEAF * WIDTH);
        HOST_UNROLL
        for (uint32_t v = 0; v < HOST_LEAF; v++)
            NAME(store)(slot, v, y[v]);
    }
    if (walk->layer_count > 0) {
        if (walk->ahead != NULL)
            NAME(sum_with_ahead)(walk, leaf, x);
        else
            NAME(sum_leaf)(walk, leaf, UINT32_MAX, NULL, x);
        NAME(leaf_inverse)(z, w, x);
    }
}

/* ---- the recursion ----------------------------------------------------------------------- */

/* Sub-transform `node` of the `nodes` that pass `pass` works on, whose points begin at z: forward
 * down to its leaves and back up before the next one starts. */
static void NAME(node)(const struct host_walk *walk, float *z, uint32_t pass, uint32_t nodes,
                       uint32_t node)
{
    const struct host_fft_plan *fft_plan = walk->fft_plan;
    const uint32_t log_radix = fft_plan->log_radices[pass], radix = 1u << log_radix;
    const float *w = fft_plan->twiddles + 2 * ((size_t)(nodes - 1) + (size_t)node * (radix - 1));
    if (pass + 1 == fft_plan->passes) {
        if (walk->spectra != NULL)
            NAME(leaf_single)(walk, z, w, node);
        else
            NAME(leaf)(walk, z, w, node);
        return;
    }
    const uint32_t step = fft_plan->q / nodes >> log_radix;
    if (walk->line != NULL || walk->spectra != NULL) {
        if (log_radix == 3)
            NAME(forward_8)(z, w, step);
        else
            NAME(forward_4)(z, w, step);
    }
    for (uint32_t k = 0; k < radix; k++)
        NAME(node)
    (walk, z + (size_t)k * step * 2 * WIDTH, pass + 1, nodes * radix, node * radix + k);
    if (walk->layer_count > 0 || walk->spectra != NULL) {
        if (log_radix == 3)
            NAME(inverse_8)(z, w, step);
        else
            NAME(inverse_4)(z, w, step);
    }
}

static void NAME(walk)(const struct host_walk *walk)
{
    NAME(node)(walk, walk->z, 0, 1, 0);
}

/* ---- frames ------------------------------------------------------------------------------ */

/* Frames of an input to lanes; values that are no number within the limit become 0 and are counted.
 */
static void NAME(load_feed)(const struct host_feed_load *load)
{
    bits nonfinite = {0}, limit = {0};
    int32_t limit_bits;
    memcpy(&limit_bits, &load->limit, sizeof limit_bits);
    limit += limit_bits;
    const bool full = load->contiguous && load->count == WIDTH;
    const bool few = load->contiguous && load->count <= 2;
    const float *frame = load->in + (load->contiguous ? load->inputs[0] : 0);
    real *lanes = (real *)(void *)load->lanes;
    for (uint32_t t = 0; t < load->frames; t++, frame += load->stride) {
        real value = {0};
        if (full) {
            value = *(const unaligned *)(const void *)frame;
        } else if (few) { /* avoids the store and reload below */
            value[0] = frame[0];
            if (load->count == 2)
                value[1] = frame[1];
        } else {
            float gathered[WIDTH] = {0};
            for (uint32_t l = 0; l < load->count; l++)
                gathered[l] = frame[load->contiguous ? l : load->inputs[l]];
            memcpy(&value, gathered, sizeof value);
        }
        const bits code = (bits)value;
        const bits finite = (code & 0x7fffffff) <= limit;
        nonfinite -= ~finite;
        lanes[t] = (real)(code & finite);
    }
    for (uint32_t l = 0; l < WIDTH; l++)
        load->nonfinite[l] += (uint32_t)nonfinite[l];
}

/* Window indices [from, until): index n is the real part of point n, n + Q its imaginary part. */
static void NAME(fill_window)(float *z, uint32_t q, uint32_t from, uint32_t until,
                              const float *frames)
{
    real *points = (real *)(void *)z;
    for (uint32_t n = from; n < until; n++) {
        real *to = n < q ? points + 2 * (size_t)n : points + 2 * (size_t)(n - q) + 1;
        real value = {0};
        if (frames != NULL)
            memcpy(&value, frames + (size_t)(n - from) * WIDTH, sizeof value);
        *to = value;
    }
}

#include "convolve/host/read.h"

#include "convolve/host/direct.h"

static const struct host_functions NAME(table) = {
    .width = WIDTH,
    .walk = NAME(walk),
    .load = NAME(load_feed),
    .window = NAME(fill_window),
    .read = NAME(read_block),
    .direct = NAME(convolve_directly),
};

#undef SUM_POINTS
#undef AHEAD_POINTS
#undef NAME
#undef real
#undef bits
#undef unaligned
#undef point
#undef words
#undef statistics
#undef counts
#undef WIDTH
