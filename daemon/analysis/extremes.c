/*
 * Smallest and largest sample of each channel: see extremes.h.
 *
 * A pass holds TILE neighbouring columns in registers while it walks down the rows. Fewer channels
 * than that are read as rows of several frames, which are folded at the end. The last tile overlaps
 * the one before it: a sample may be looked at twice.
 *
 * The variants for AVX2 and AVX-512 are written out: of the plain loop, compiled for AVX2, gcc 12
 * makes a third more instructions, which take twice the time (64 frames of 64 channels).
 */
#include "analysis/extremes.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Floats: smallest and largest each fill half of AVX2's registers, or half of those that AVX-512
 * has in common with it. */
enum { TILE = 32, WIDE = 64 };

typedef void find_function(const float *samples, size_t rows, size_t columns, float *smallest,
                           float *largest);

static void tile_base(const float *samples, size_t rows, size_t stride, float *smallest,
                      float *largest)
{
    float low[TILE], high[TILE];
    memcpy(low, samples, sizeof low);
    memcpy(high, samples, sizeof high);
    for (size_t row = 1; row < rows; row++) {
        const float *x = samples + row * stride;
        for (int i = 0; i < TILE; i++) {
            low[i] = x[i] < low[i] ? x[i] : low[i];
            high[i] = x[i] > high[i] ? x[i] : high[i];
        }
    }
    memcpy(smallest, low, sizeof low);
    memcpy(largest, high, sizeof high);
}

/* Rows of at least TILE floats. */
static void find_base(const float *samples, size_t rows, size_t columns, float *smallest,
                      float *largest)
{
    for (size_t column = 0; column < columns; column += TILE) {
        const size_t from = column + TILE <= columns ? column : columns - TILE;
        tile_base(samples + from, rows, columns, smallest + from, largest + from);
    }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
find_avx2(const float *samples, size_t rows, size_t columns, float *smallest, float *largest)
{
    for (size_t column = 0; column < columns; column += TILE) {
        const size_t from = column + TILE <= columns ? column : columns - TILE;
        const float *at = samples + from;
        __m256 low[4], high[4];
        for (int i = 0; i < 4; i++)
            low[i] = high[i] = _mm256_loadu_ps(at + 8 * i);
        for (size_t row = 1; row < rows; row++) {
            at += columns;
            for (int i = 0; i < 4; i++) {
                const __m256 x = _mm256_loadu_ps(at + 8 * i);
                low[i] = _mm256_min_ps(x, low[i]);
                high[i] = _mm256_max_ps(x, high[i]);
            }
        }
        for (int i = 0; i < 4; i++) {
            _mm256_storeu_ps(smallest + from + 8 * i, low[i]);
            _mm256_storeu_ps(largest + from + 8 * i, high[i]);
        }
    }
}

/* A whole row of 64 channels in one pass, so that memory is read from front to back. */
__attribute__((target("avx512f"))) static void
find_avx512(const float *samples, size_t rows, size_t columns, float *smallest, float *largest)
{
    for (size_t column = 0; column < columns; column += WIDE) {
        const size_t from = column + WIDE <= columns ? column : columns - WIDE;
        const float *at = samples + from;
        __m512 low[4], high[4];
        for (int i = 0; i < 4; i++)
            low[i] = high[i] = _mm512_loadu_ps(at + 16 * i);
        for (size_t row = 1; row < rows; row++) {
            at += columns;
            for (int i = 0; i < 4; i++) {
                const __m512 x = _mm512_loadu_ps(at + 16 * i);
                low[i] = _mm512_min_ps(x, low[i]);
                high[i] = _mm512_max_ps(x, high[i]);
            }
        }
        for (int i = 0; i < 4; i++) {
            _mm512_storeu_ps(smallest + from + 16 * i, low[i]);
            _mm512_storeu_ps(largest + from + 16 * i, high[i]);
        }
    }
}
#endif

/* Fewer channels than TILE. */
static void find_narrow(find_function *find, const float *samples, size_t frames, size_t channels,
                        float *smallest, float *largest)
{
    float low[2 * TILE], high[2 * TILE];
    size_t together = 1; /* frames a row, a power of two */
    while (together * channels < TILE)
        together *= 2;
    const size_t rows = frames / together;
    size_t frame = rows * together;
    if (rows > 0) {
        find(samples, rows, together * channels, low, high);
        for (size_t half = together / 2 * channels; half >= channels; half /= 2) {
            for (size_t i = 0; i < half; i++) {
                low[i] = low[i + half] < low[i] ? low[i + half] : low[i];
                high[i] = high[i + half] > high[i] ? high[i + half] : high[i];
            }
        }
    } else {
        memcpy(low, samples, channels * sizeof *samples);
        memcpy(high, samples, channels * sizeof *samples);
        frame = 1;
    }
    for (; frame < frames; frame++) {
        for (size_t channel = 0; channel < channels; channel++) {
            const float x = samples[frame * channels + channel];
            low[channel] = x < low[channel] ? x : low[channel];
            high[channel] = x > high[channel] ? x : high[channel];
        }
    }
    memcpy(smallest, low, channels * sizeof *low);
    memcpy(largest, high, channels * sizeof *high);
}

void extremes_find(const float *samples, size_t frames, size_t channels, float *smallest,
                   float *largest)
{
    find_function *find = find_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        find = find_avx2;
    if (channels >= WIDE && __builtin_cpu_supports("avx512f"))
        find = find_avx512;
#endif
    if (channels >= TILE)
        find(samples, frames, channels, smallest, largest);
    else
        find_narrow(find, samples, frames, channels, smallest, largest);
}
