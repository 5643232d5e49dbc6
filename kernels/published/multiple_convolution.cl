/*
 * Burtsev 2025, "Acceleration of fast convolution operation for multiple complex vectors":
 * five ways to compute Z[m][j] = IFFT(FFT(X[m][j]) . FFT(Y[m][j])) for M x J pairs of complex
 * vectors of N = 2^P points, radix 2, for comparison. The daemon's own kernels are one folder up.
 *
 *   A  one work-item a vector; FFT X, FFT Y, multiply, IFFT are launches of their own, and each
 *      transfers its matrices to the device and back: 4 launches, 9 transfers
 *   B  the same launches, intermediate matrices stay on the device: 3 transfers
 *   C  one launch: a work-item transforms both vectors in one loop, multiplies, inverts
 *   D  one work-item a butterfly: bit reversal, log2 N butterfly launches (and a scaling for
 *      the inverse) for each of the three transforms, one multiplication; 9 transfers
 *   E  the launches of D, 3 transfers
 *
 * A, B and C hold a vector in private memory while N <= MAX_NP, C both vectors while 2N <= MAX_NP;
 * longer ones stay in global memory. OpenCL does not tell MAX_NP: the host finds it by trial.
 * Options: -D NP=N -D MAX_NP=points. W holds exp(-2 pi i u / N) for u = 0 ... N; the inverse reads
 * it backwards, from W[N - u].
 *
 * Differs from the paper's listings where those are wrong:
 *   - they multiply with `*` a type that OpenCL C knows as float2, where `*` works component by
 *     component; products are written out here;
 *   - FFTMainLoopP works on a vector Y it does not have (its argument is XP);
 *   - the in-place reversal of C exchanges when q > 1, which must be q > i;
 *   - for 2N > MAX_NP the listing scatters Y into itself, which overwrites points not yet read;
 *     here they are exchanged in pairs;
 *   - clMFFTD launches the kernel of variant A where it means the butterflies.
 */

/* Address spaces of the first vector, and of the second one of variant C, during the transform. */
#if NP <= MAX_NP
#define FIRST_SPACE __private
#else
#define FIRST_SPACE __global
#endif
#if 2 * NP <= MAX_NP
#define SECOND_SPACE __private
#else
#define SECOND_SPACE __global
#endif

float2 product(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

uint log2_of(uint n)
{
    return 31 - clz(n);
}

uint bit_reversed(uint i, uint bits)
{
    i = (i & 0x55555555) << 1 | (i & 0xAAAAAAAA) >> 1;
    i = (i & 0x33333333) << 2 | (i & 0xCCCCCCCC) >> 2;
    i = (i & 0x0F0F0F0F) << 4 | (i & 0xF0F0F0F0) >> 4;
    i = (i & 0x00FF00FF) << 8 | (i & 0xFF00FF00) >> 8;
    return (i << 16 | i >> 16) >> (32 - bits);
}

#define BUTTERFLY(a, b, w)                                                                         \
    {                                                                                              \
        const float2 product_b = product(b, w);                                                    \
        b = a - product_b;                                                                         \
        a = a + product_b;                                                                         \
    }

/* The first point of this work-item's vector in a matrix of M x J vectors of n points. */
size_t vector_of_item(uint vectors_per_row, uint n)
{
    return (get_global_id(0) * vectors_per_row + get_global_id(1)) * n;
}

/* ---- A, B, C: a work-item has a whole vector --------------------------------------------- */

/* All stages over points in bit-reversed order. Stage t pairs points s = 2^(t-1) apart; the pairs
 * that share a twiddle are computed together, as in the sequential program. */
void all_stages(FIRST_SPACE float2 *x, uint n, __global const float2 *w, uint forward)
{
    for (uint s = 1, d = n / 2; s < n; s *= 2, d /= 2)
        for (uint k = 0; k < s; k++) {
            const float2 twiddle = forward ? w[k * d] : w[n - k * d];
            for (uint a = k; a < n; a += 2 * s)
                BUTTERFLY(x[a], x[a + s], twiddle);
        }
}

/* A, B: y = FFT(x), or IFFT(x) / n. Global size M x J. */
__kernel void transform_vectors(uint j_count, uint n, uint forward, __global const float2 *x,
                                __global float2 *y, __global const float2 *w)
{
    const size_t from = vector_of_item(j_count, n);
    const uint bits = log2_of(n);
    x += from;
    y += from;
#if NP <= MAX_NP
    float2 points[NP];
#else
    __global float2 *points = y;
#endif
    for (uint i = 0; i < n; i++)
        points[bit_reversed(i, bits)] = x[i];
    all_stages(points, n, w, forward);
    const float scale = forward ? 1.0f : 1.0f / n;
    for (uint i = 0; i < n; i++)
        y[i] = points[i] * scale;
}

/* A, B: g = y . z. Global size M x J; g may be y or z. */
__kernel void multiply_vectors(uint j_count, uint n, __global const float2 *y,
                               __global const float2 *z, __global float2 *g)
{
    const size_t from = vector_of_item(j_count, n);
    for (uint i = 0; i < n; i++)
        g[from + i] = product(y[from + i], z[from + i]);
}

/* C: everything. Global size M x J. y is overwritten when it does not fit private memory. */
__kernel void convolve_vectors(uint j_count, uint n, __global const float2 *x, __global float2 *y,
                               __global float2 *z, __global const float2 *w)
{
    const size_t from = vector_of_item(j_count, n);
    const uint bits = log2_of(n);
    x += from;
    y += from;
    z += from;
#if NP <= MAX_NP
    float2 first[NP];
#else
    __global float2 *first = z;
#endif
#if 2 * NP <= MAX_NP
    float2 second[NP];
#else
    __global float2 *second = y;
#endif

    for (uint i = 0; i < n; i++) {
        const uint reversed = bit_reversed(i, bits);
        first[reversed] = x[i];
#if 2 * NP <= MAX_NP
        second[reversed] = y[i];
#else
        if (reversed > i) {
            const float2 saved = second[reversed];
            second[reversed] = second[i];
            second[i] = saved;
        }
#endif
    }
    for (uint s = 1, d = n / 2; s < n; s *= 2, d /= 2)
        for (uint k = 0; k < s; k++) {
            const float2 twiddle = w[k * d];
            for (uint a = k; a < n; a += 2 * s) {
                BUTTERFLY(first[a], first[a + s], twiddle);
                BUTTERFLY(second[a], second[a + s], twiddle);
            }
        }

    for (uint i = 0; i < n; i++)
        first[i] = product(first[i], second[i]);
    for (uint i = 0; i < n; i++) {
        const uint reversed = bit_reversed(i, bits);
        if (reversed > i) {
            const float2 saved = first[reversed];
            first[reversed] = first[i];
            first[i] = saved;
        }
    }
    all_stages(first, n, w, 0);
    for (uint i = 0; i < n; i++)
        z[i] = first[i] * (1.0f / n);
}

/* ---- D, E: a work-item has a point or a butterfly ---------------------------------------- */

/* Global size N x M x J in all of these, butterflies N/2 x M x J. */
size_t vector_of_point(uint n)
{
    return (get_global_id(1) * get_global_size(2) + get_global_id(2)) * n;
}

__kernel void reverse_points(uint n, __global const float2 *x, __global float2 *y)
{
    const size_t from = vector_of_point(n);
    const uint i = get_global_id(0);
    y[from + bit_reversed(i, log2_of(n))] = x[from + i];
}

__kernel void butterflies(uint stage, uint n, uint forward, __global float2 *y,
                          __global const float2 *w)
{
    const size_t from = vector_of_point(n);
    const uint i = get_global_id(0);
    const uint s = 1u << (stage - 1);
    const uint k = i & (s - 1);
    const uint a = k + ((i >> (stage - 1)) << stage);
    const uint u = k * (n >> stage);
    BUTTERFLY(y[from + a], y[from + a + s], (forward ? w[u] : w[n - u]));
}

__kernel void scale_points(uint n, __global float2 *y)
{
    y[vector_of_point(n) + get_global_id(0)] *= 1.0f / n;
}

__kernel void multiply_points(uint n, __global const float2 *y, __global const float2 *z,
                              __global float2 *g)
{
    const size_t at = vector_of_point(n) + get_global_id(0);
    g[at] = product(y[at], z[at]);
}
