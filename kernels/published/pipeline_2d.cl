/*
 * The OpenCL Programming Book (Fixstars), 6.1: a two-dimensional FFT, a mask in the frequency
 * domain and the inverse, of an image; and the same pipeline over time x channel of a sensor
 * array, where it is the frequency-wavenumber (f-k) filter. Row transforms, transposition, row
 * transforms again, mask, and back:
 *
 *   spin_factors, then per direction: reverse, log2 n x butterflies, (normalise); transpose; mask
 *
 * Every kernel has one work-item a point (butterflies: a pair) and is launched on its own: the
 * book examines how the local work size affects their times. `width` is the length of a row, a
 * power of two; rows are global id 1. W holds exp(-2 pi i u / width), u < width / 2.
 *
 * Its limits: the book's images are square, whole in device memory, and its mask is sharp: an
 * infinitely long filter wrapped round the record. A stream needs blocks and tapers, which is
 * what the daemon's own filters have.
 *
 * Differs from the book in: twiddles are computed with cospi and sinpi, since its double constants
 * need an extension; the printed `int 1` and `w[1]` of the butterfly are the letter l; the constant
 * component lies in the four corners of the spectrum, not on its edges; rows and columns may differ
 * in number. Conjugating by flipping sign bits and the component-wise product by swizzles keep
 * their meaning, not their notation.
 */

float2 product(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* Global size width / 2. */
__kernel void spin_factors(__global float2 *w, uint width)
{
    const uint i = get_global_id(0);
    const float angle = 2.0f * i / width;
    w[i] = (float2)(cospi(angle), -sinpi(angle));
}

/* Global size width x rows. */
__kernel void reverse(__global float2 *to, __global const float2 *from, uint bits, uint width)
{
    const uint x = get_global_id(0);
    const size_t row = get_global_id(1) * width;
    uint j = x;
    j = (j & 0x55555555) << 1 | (j & 0xAAAAAAAA) >> 1;
    j = (j & 0x33333333) << 2 | (j & 0xCCCCCCCC) >> 2;
    j = (j & 0x0F0F0F0F) << 4 | (j & 0xF0F0F0F0) >> 4;
    j = (j & 0x00FF00FF) << 8 | (j & 0xFF00FF00) >> 8;
    j = (j << 16 | j >> 16) >> (32 - bits);
    to[row + j] = from[row + x];
}

/* Global size width / 2 x rows; stage = 1 ... log2 width. */
__kernel void butterfly(__global float2 *points, __global const float2 *w, uint width, uint stage,
                        uint inverse)
{
    const uint i = get_global_id(0);
    const uint s = 1u << (stage - 1);
    const uint k = i & (s - 1);
    const size_t a = get_global_id(1) * width + ((i >> (stage - 1)) << stage) + k;
    float2 twiddle = w[k * (width >> stage)];
    if (inverse)
        twiddle.y = -twiddle.y;
    const float2 first = points[a], product_b = product(points[a + s], twiddle);
    points[a] = first + product_b;
    points[a + s] = first - product_b;
}

/* Global size width x rows. */
__kernel void normalise(__global float2 *points, uint width)
{
    points[get_global_id(1) * width + get_global_id(0)] /= (float)width;
}

/* Global size width x rows: to[x][y] = from[y][x]. */
__kernel void transpose(__global float2 *to, __global const float2 *from, uint width, uint rows)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    to[(size_t)x * rows + y] = from[(size_t)y * width + x];
}

/* The distance of bin i of n from the constant component, -n/2 ... n/2 - 1. */
int frequency(uint i, uint n)
{
    return (int)((i + n / 2) & (n - 1)) - (int)(n / 2);
}

/* The book's edge filter: nothing within `radius` bins of the constant component remains. */
__kernel void high_pass(__global float2 *points, uint width, uint rows, int radius)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    const int fx = frequency(x, width), fy = frequency(y, rows);
    if (fx * fx + fy * fy < radius * radius)
        points[(size_t)y * width + x] = (float2)(0, 0);
}

/* f-k fan over the transposed spectrum (row = temporal frequency, width = channels): what moves
 * along the array by slowest ... fastest channels a frame remains, in either direction. */
__kernel void fan(__global float2 *points, uint width, uint rows, float slowest, float fastest)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    const float wavenumber = fabs((float)frequency(x, width)) / width; /* cycles a channel */
    const float temporal = fabs((float)frequency(y, rows)) / rows;     /* cycles a frame */
    if (temporal < slowest * wavenumber || temporal > fastest * wavenumber)
        points[(size_t)y * width + x] = (float2)(0, 0);
}
