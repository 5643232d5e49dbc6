/*
 * Wide encoders: see format_wide.h. Integers are scaled and rounded in double, as the scalar code
 * does it, or in float where the factor is a power of two, with which a float product is exact;
 * the instructions round to nearest even and pack.
 */
#include "wire/format_wide.h"

#include <math.h>
#include <string.h>

enum { FLOATS = 4 };

typedef float float4 __attribute__((vector_size(16)));
typedef double double4 __attribute__((vector_size(32)));
typedef uint32_t uint4 __attribute__((vector_size(16)));

size_t format_wide_f32be(const float *values, size_t count, double factor, uint8_t *wire)
{
    size_t i = 0;
    for (; i + FLOATS <= count; i += FLOATS) {
        float4 value;
        memcpy(&value, values + i, sizeof value);
        if (factor != 1.0)
            value =
                __builtin_convertvector(__builtin_convertvector(value, double4) * factor, float4);
        uint4 word = (uint4)value;
        word = word << 24 | (word & 0xFF00u) << 8 | (word >> 8 & 0xFF00u) | word >> 24;
        memcpy(wire + 4 * i, &word, sizeof word);
    }
    return i;
}

#ifdef __SSE2__
#include <emmintrin.h>

/* Scales and rounds two samples; clears the bits of *inside where one is out of range. */
static inline __m128i round_two(__m128 values, __m128d scale, __m128d *inside)
{
    const __m128d scaled = _mm_mul_pd(_mm_cvtps_pd(values), scale);
    const __m128d above = _mm_cmplt_pd(scaled, _mm_set1_pd(32767.5));
    const __m128d below = _mm_cmpge_pd(scaled, _mm_set1_pd(-32768.5));
    *inside = _mm_and_pd(*inside, _mm_and_pd(above, below));
    return _mm_cvtpd_epi32(scaled);
}

static void store_s16(__m128i codes, bool big_endian, uint8_t *wire)
{
    if (big_endian)
        codes = _mm_or_si128(_mm_slli_epi16(codes, 8), _mm_srli_epi16(codes, 8));
    _mm_storeu_si128((__m128i *)(void *)wire, codes);
}

/* format_wide_s16 for a scale that is a power of two. */
static size_t s16_exact(const float *values, size_t count, float factor, bool big_endian,
                        uint8_t *wire)
{
    const __m128 scale = _mm_set1_ps(factor);
    const __m128 most = _mm_set1_ps(32767.5f), least = _mm_set1_ps(-32768.5f);
    size_t i = 0;
    for (; i + FORMAT_WIDE_GROUP <= count; i += FORMAT_WIDE_GROUP) {
        const __m128 low = _mm_mul_ps(_mm_loadu_ps(values + i), scale);
        const __m128 high = _mm_mul_ps(_mm_loadu_ps(values + i + 4), scale);
        const __m128 above = _mm_and_ps(_mm_cmplt_ps(low, most), _mm_cmplt_ps(high, most));
        const __m128 below = _mm_and_ps(_mm_cmpge_ps(low, least), _mm_cmpge_ps(high, least));
        if (_mm_movemask_ps(_mm_and_ps(above, below)) != 15)
            break;
        store_s16(_mm_packs_epi32(_mm_cvtps_epi32(low), _mm_cvtps_epi32(high)), big_endian,
                  wire + 2 * i);
    }
    return i;
}

/* Whether a float times this is exact, but for products that are no normal floats: too small ones
 * round to 0 either way, and of those that are too large both are out of range. */
static bool power_of_two(double scale)
{
    int exponent;
    return frexp(scale, &exponent) == 0.5 && exponent > -100 && exponent < 100;
}

size_t format_wide_s16(const float *values, size_t count, double factor, bool big_endian,
                       uint8_t *wire)
{
    if (power_of_two(factor * 32768.0))
        return s16_exact(values, count, (float)(factor * 32768.0), big_endian, wire);
    const __m128d scale = _mm_set1_pd(factor * 32768.0);
    size_t i = 0;
    for (; i + FORMAT_WIDE_GROUP <= count; i += FORMAT_WIDE_GROUP) {
        const __m128 low = _mm_loadu_ps(values + i), high = _mm_loadu_ps(values + i + 4);
        __m128d inside = _mm_castsi128_pd(_mm_set1_epi32(-1));
        const __m128i a = round_two(low, scale, &inside);
        const __m128i b = round_two(_mm_movehl_ps(low, low), scale, &inside);
        const __m128i c = round_two(high, scale, &inside);
        const __m128i d = round_two(_mm_movehl_ps(high, high), scale, &inside);
        if (_mm_movemask_pd(inside) != 3)
            break;
        store_s16(_mm_packs_epi32(_mm_unpacklo_epi64(a, b), _mm_unpacklo_epi64(c, d)), big_endian,
                  wire + 2 * i);
    }
    return i;
}
#else
size_t format_wide_s16(const float *values, size_t count, double factor, bool big_endian,
                       uint8_t *wire)
{
    (void)values, (void)count, (void)factor, (void)big_endian, (void)wire;
    return 0;
}
#endif
