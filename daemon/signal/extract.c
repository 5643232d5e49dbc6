/* Extracts: see extract.h. */
#include "signal/extract.h"

#include <math.h>
#include <string.h>

enum { SHORTS = 8, FLOATS = 4, CHUNK = 256 };

/* Vectors of one SSE or NEON register; the compiler makes what the machine has of them. */
typedef int16_t shorts __attribute__((vector_size(2 * SHORTS)));
typedef uint16_t unsigned_shorts __attribute__((vector_size(2 * SHORTS)));
typedef float floats __attribute__((vector_size(4 * FLOATS)));
typedef int32_t masks __attribute__((vector_size(4 * FLOATS)));

static const float per_s16 = 1.0f / 32768.0f;

static bool is_s16(const struct sample_format *format)
{
    return format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->bits == 16;
}

static bool is_native_float(const struct sample_format *format)
{
    return format->kind == SAMPLE_FLOAT &&
           format->big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static bool is_swapped(const struct sample_format *format)
{
    return format->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static int16_t load_s16(const uint8_t *bytes, bool swapped)
{
    uint16_t word;
    memcpy(&word, bytes, sizeof word);
    if (swapped)
        word = __builtin_bswap16(word);
    return (int16_t)word;
}

static float load_float(const uint8_t *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof value);
    return isfinite(value) ? value : 0;
}

/* ---- minimum and maximum ------------------------------------------------------------------- */

/* Eight channels, from the sample at `at` on. */
static inline __attribute__((always_inline)) void minmax_shorts(const uint8_t *at, size_t stride,
                                                                size_t frames, bool swapped,
                                                                float *low, float *high)
{
    shorts least, greatest;
    for (size_t n = 0; n < frames; n++, at += stride) {
        unsigned_shorts word;
        memcpy(&word, at, sizeof word);
        if (swapped)
            word = (word << 8) | (word >> 8);
        const shorts value = (shorts)word;
        if (n == 0)
            least = greatest = value;
        const shorts less = value<least, more = value> greatest;
        least = (value & less) | (least & ~less);
        greatest = (value & more) | (greatest & ~more);
    }
    for (int i = 0; i < SHORTS; i++) {
        low[i] = fminf(low[i], (float)least[i] * per_s16);
        high[i] = fmaxf(high[i], (float)greatest[i] * per_s16);
    }
}

static void minmax_s16(const struct extract *from, size_t frames, float *low, float *high)
{
    const bool swapped = is_swapped(&from->format);
    uint32_t c = 0;
    for (; c + SHORTS <= from->channels; c += SHORTS) {
        if (swapped)
            minmax_shorts(from->bytes + 2 * c, from->stride, frames, true, low + c, high + c);
        else
            minmax_shorts(from->bytes + 2 * c, from->stride, frames, false, low + c, high + c);
    }
    for (; c < from->channels; c++) {
        const uint8_t *at = from->bytes + 2 * c;
        int least = INT16_MAX, greatest = INT16_MIN;
        for (size_t n = 0; n < frames; n++, at += from->stride) {
            const int value = load_s16(at, swapped);
            least = value < least ? value : least;
            greatest = value > greatest ? value : greatest;
        }
        low[c] = fminf(low[c], (float)least * per_s16);
        high[c] = fmaxf(high[c], (float)greatest * per_s16);
    }
}

/* A comparison with what is no number is false, so that it changes nothing. */
static void minmax_native(const struct extract *from, size_t frames, float *low, float *high)
{
    uint32_t c = 0;
    for (; c + FLOATS <= from->channels; c += FLOATS) {
        const uint8_t *at = from->bytes + 4 * c;
        union {
            floats f;
            masks m;
        } value, least, greatest;
        memcpy(&least, low + c, sizeof least);
        memcpy(&greatest, high + c, sizeof greatest);
        for (size_t n = 0; n < frames; n++, at += from->stride) {
            memcpy(&value, at, sizeof value);
            const masks less = value.f<least.f, more = value.f> greatest.f;
            least.m = (value.m & less) | (least.m & ~less);
            greatest.m = (value.m & more) | (greatest.m & ~more);
        }
        memcpy(low + c, &least, sizeof least);
        memcpy(high + c, &greatest, sizeof greatest);
    }
    for (; c < from->channels; c++) {
        const uint8_t *at = from->bytes + 4 * c;
        for (size_t n = 0; n < frames; n++, at += from->stride) {
            const float value = load_float(at);
            low[c] = fminf(low[c], value);
            high[c] = fmaxf(high[c], value);
        }
    }
}

static void minmax_any(const struct extract *from, size_t frames, float *low, float *high)
{
    for (size_t n = 0; n < frames; n++) {
        const uint8_t *at = from->bytes + n * from->stride;
        for (uint32_t first = 0; first < from->channels; first += CHUNK) {
            double values[CHUNK];
            const uint32_t left = from->channels - first, count = left < CHUNK ? left : CHUNK;
            sample_decode_block(&from->format, at + (size_t)first * from->format.bytes, 1, count,
                                values);
            for (uint32_t i = 0; i < count; i++) {
                const float value = isfinite(values[i]) ? (float)values[i] : 0;
                low[first + i] = fminf(low[first + i], value);
                high[first + i] = fmaxf(high[first + i], value);
            }
        }
    }
}

void extract_minmax(const struct extract *from, size_t frames, float *low, float *high)
{
    if (frames == 0)
        return;
    if (is_s16(&from->format))
        minmax_s16(from, frames, low, high);
    else if (is_native_float(&from->format))
        minmax_native(from, frames, low, high);
    else
        minmax_any(from, frames, low, high);
}

/* ---- channels ------------------------------------------------------------------------------ */

void extract_channels(const struct extract *from, size_t frames, const uint16_t *list,
                      uint32_t count, float *out)
{
    const bool s16 = is_s16(&from->format), native = is_native_float(&from->format);
    const bool swapped = is_swapped(&from->format);
    for (size_t n = 0; n < frames; n++) {
        const uint8_t *frame = from->bytes + n * from->stride;
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *at = frame + (size_t)list[i] * from->format.bytes;
            if (s16) {
                *out++ = (float)load_s16(at, swapped) * per_s16;
            } else if (native) {
                *out++ = load_float(at);
            } else {
                const double value = sample_decode(&from->format, at);
                *out++ = isfinite(value) ? (float)value : 0;
            }
        }
    }
}
