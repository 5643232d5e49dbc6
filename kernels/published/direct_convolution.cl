/*
 * Yevchuk, Rovinskyi and Striletskyi, "Using graphics processors for real-time digital signal
 * processing" (non-destructive testing): convolution by its definition, y[i] = sum over k of
 * h[k] x[i - k], i = 0 ... N + M - 2, for comparison. Each work-item computes one output sample; x
 * has N = n samples, h has M = m taps. Three forms:
 *
 *   global    taps in global memory
 *   constant  taps in constant memory; all items of a group read the same address at a time
 *   stride    a fixed number of items; each item advances by their number (grid-stride loop)
 *
 * The paper's code is CUDA. Limits: 64 KiB of constant memory, so 16384 taps; no delay below the
 * length of the record (the paper itself recommends sectioned convolution for long signals).
 *
 * Differs from the listing in one point: it sums k < m with m = min(i, M), which loses the term
 * k = i, h[i] x[0], of every sample i < M; here the last term is k = min(i, M - 1).
 */

#define SAMPLE(i)                                                                                  \
    {                                                                                              \
        const uint from = i < n ? 0 : i - n + 1;                                                   \
        const uint until = min(i, m - 1);                                                          \
        float sum = 0;                                                                             \
        for (uint k = from; k <= until; k++)                                                       \
            sum += h[k] * x[i - k];                                                                \
        y[i] = sum;                                                                                \
    }

__kernel void direct_global(__global const float *x, __global const float *h, __global float *y,
                            uint n, uint m)
{
    const uint i = get_global_id(0);
    if (i < n + m - 1)
        SAMPLE(i);
}

__kernel void direct_constant(__global const float *x, __constant float *h, __global float *y,
                              uint n, uint m)
{
    const uint i = get_global_id(0);
    if (i < n + m - 1)
        SAMPLE(i);
}

__kernel void direct_stride(__global const float *x, __constant float *h, __global float *y, uint n,
                            uint m)
{
    for (uint i = get_global_id(0); i < n + m - 1; i += get_global_size(0))
        SAMPLE(i);
}
