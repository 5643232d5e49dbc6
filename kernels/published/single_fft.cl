/*
 * Burtsev 2022, "Optimization of fast Fourier transform in OpenCL environment": eight ways to
 * compute one forward FFT of N = 2^P complex points, radix 2, decimation in time. All begin
 * with the same bit-reversed copy (part 1) and differ in how they launch the P stages of
 * butterflies (part 2). For comparison. MW is the largest work-group, PW = log2(MW) + 1.
 *
 *   A     a launch a stage, a work-item a butterfly
 *   B     all stages in one launch of one work-group; N/2 <= MW
 *   C     PB = PW stages in one launch of many groups, each on 2 MW consecutive points; the
 *         rest as A
 *   B^L, C^L  B and C with the group's points in local memory between their first and last stage
 *   D     C^L, and the rest in a second grouped launch over chains of points 2^PB apart;
 *         P <= 2 PW
 *   E     D with the first 4 stages in a launch of their own, 16 points in a work-item's private
 *         memory
 *   F     4 stages like E, then a universal grouped kernel twice, PB and PC stages, on chains of
 *         any stride and any length; the rest as A
 *
 * W holds exp(-2 pi i u / N), u < N/2. Stage t pairs points s = 2^(t-1) apart; the pair that begins
 * at point a has the twiddle W[(a mod s) * N / 2^t].
 *
 * Differs from the listings where those are wrong: B and C exchange points through global memory
 * with a barrier for local memory only (here with a global fence); t, Z, WR and fG are used
 * undeclared; the private stage of E writes its first results back to global memory and continues
 * with an array that it never filled, and forgets to advance its strides; the universal kernel
 * confuses columns and indices when a group holds more than one column (none of its launches does;
 * correct here).
 */

float2 product(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* (from_a, from_b) -> (to_a, to_b), which may be the same points. */
#define BUTTERFLY(from_a, from_b, w, to_a, to_b)                                                   \
    {                                                                                              \
        const float2 point_a = from_a, product_b = product(from_b, w);                             \
        to_a = point_a + product_b;                                                                \
        to_b = point_a - product_b;                                                                \
    }

/* The first point of butterfly i of a stage; the second lies 2^(stage-1) further. */
uint first_point(uint i, uint stage)
{
    return ((i >> (stage - 1)) << stage) + (i & ((1u << (stage - 1)) - 1));
}

uint twiddle_index(uint n, uint first, uint stage)
{
    return (first & ((1u << (stage - 1)) - 1)) * (n >> stage);
}

/* Part 1, all variants: global size N; `reversed` is a table of N numbers. */
__kernel void bit_reverse(__global float2 *x, __global const float2 *y,
                          __global const uint *reversed)
{
    const uint i = get_global_id(0);
    x[reversed[i]] = y[i];
}

/* A: one stage. Global size N/2. */
__kernel void one_stage(uint n, __global float2 *x, __global const float2 *w, uint stage)
{
    const uint s = 1u << (stage - 1);
    const uint a = first_point(get_global_id(0), stage);
    BUTTERFLY(x[a], x[a + s], w[twiddle_index(n, a, stage)], x[a], x[a + s]);
}

/* B (one group) and C: stages 1 ... last on the group's 2 * local size consecutive points. */
__kernel void grouped_stages(uint n, __global float2 *x, __global const float2 *w, uint last)
{
    const uint i = get_local_id(0);
    x += get_group_id(0) * 2 * get_local_size(0);
    for (uint stage = 1; stage <= last; stage++) {
        const uint s = 1u << (stage - 1);
        const uint a = first_point(i, stage);
        BUTTERFLY(x[a], x[a + s], w[twiddle_index(n, a, stage)], x[a], x[a + s]);
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

/* B^L, C^L, D and, with first > 1, E: the same in local memory (2 * local size points). */
__kernel void grouped_stages_local(uint n, __global float2 *x, __global const float2 *w, uint first,
                                   uint last, __local float2 *points)
{
    const uint i = get_local_id(0);
    x += get_group_id(0) * 2 * get_local_size(0);
    uint a = first_point(i, first), s = 1u << (first - 1);
    if (first == last) {
        BUTTERFLY(x[a], x[a + s], w[twiddle_index(n, a, first)], x[a], x[a + s]);
        return;
    }
    BUTTERFLY(x[a], x[a + s], w[twiddle_index(n, a, first)], points[a], points[a + s]);
    for (uint stage = first + 1; stage < last; stage++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        a = first_point(i, stage);
        s = 1u << (stage - 1);
        BUTTERFLY(points[a], points[a + s], w[twiddle_index(n, a, stage)], points[a],
                  points[a + s]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    a = first_point(i, last);
    s = 1u << (last - 1);
    BUTTERFLY(points[a], points[a + s], w[twiddle_index(n, a, last)], x[a], x[a + s]);
}

/*
 * D, E (second grouped launch) and F: stages first ... last on chains. Seen as a matrix with
 * rows of 2^(first-1) points, the vector's chains are its columns, 2R points long
 * (R = N / 2^first). A group takes whole columns when they are short (D's rule), or 2 * local size
 * points of one column (F), a part of it. In a part the indices 0, 1, 2 ... are those of a
 * transform of its own: its stage 1 is stage `first`.
 */
__kernel void chained_stages_local(uint n, __global float2 *x, __global const float2 *w, uint first,
                                   uint last, __local float2 *points)
{
    const uint i = get_local_id(0), size = get_local_size(0), g = get_group_id(0);
    const uint stride = 1u << (first - 1);
    const uint pairs = n >> first;                /* of one column */
    const uint pairs_of_group = min(size, pairs); /* of one column by one group */
    const uint columns = size / pairs_of_group;   /* side by side in a group */
    const uint parts = pairs / pairs_of_group;    /* of one column */
    const uint column = (g / parts) * columns + i % columns;
    const uint own = i / columns; /* butterfly of the part */
    const uint base = column + (g % parts) * 2 * pairs_of_group * stride;
    __local float2 *part = points + i % columns;

#define GLOBAL_POINT(index)   x[base + (index)*stride]
#define LOCAL_POINT(index)    part[(index)*columns]
#define TWIDDLE(index, stage) w[twiddle_index(n, base + (index)*stride, stage)]
    uint a = first_point(own, 1), s = 1;
    if (first == last) {
        BUTTERFLY(GLOBAL_POINT(a), GLOBAL_POINT(a + s), TWIDDLE(a, first), GLOBAL_POINT(a),
                  GLOBAL_POINT(a + s));
        return;
    }
    BUTTERFLY(GLOBAL_POINT(a), GLOBAL_POINT(a + s), TWIDDLE(a, first), LOCAL_POINT(a),
              LOCAL_POINT(a + s));
    for (uint stage = first + 1; stage < last; stage++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        a = first_point(own, stage - first + 1);
        s *= 2;
        BUTTERFLY(LOCAL_POINT(a), LOCAL_POINT(a + s), TWIDDLE(a, stage), LOCAL_POINT(a),
                  LOCAL_POINT(a + s));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    a = first_point(own, last - first + 1);
    s *= 2;
    BUTTERFLY(LOCAL_POINT(a), LOCAL_POINT(a + s), TWIDDLE(a, last), GLOBAL_POINT(a),
              GLOBAL_POINT(a + s));
}

/* E, F: stages 1 ... 4, 16 consecutive points in private memory. Global size N/16. */
__kernel void private_stages(uint n, __global float2 *x, __global const float2 *w)
{
    float2 points[16];
    x += get_global_id(0) * 16;
    for (uint i = 0; i < 16; i++)
        points[i] = x[i];
    for (uint stage = 1; stage <= 4; stage++) {
        const uint s = 1u << (stage - 1);
        for (uint i = 0; i < 8; i++) {
            const uint a = first_point(i, stage);
            BUTTERFLY(points[a], points[a + s], w[twiddle_index(n, a, stage)], points[a],
                      points[a + s]);
        }
    }
    for (uint i = 0; i < 16; i++)
        x[i] = points[i];
}
