/* Extracts: see extract.h. */
#include "signal/extract.h"

#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef __x86_64__
#include <smmintrin.h>
#endif

enum {
    VECTOR = 16, /* bytes: one SSE or NEON register */
    SHORTS = VECTOR / 2,
    FLOATS = VECTOR / 4,
    LINE = 4, /* vectors side by side: a cache line of every frame in one pass */
    CHUNK = 256,
    AHEAD = 16,       /* frames that are prefetched */
    WIDE_BYTES = 128, /* of a frame */
    PIECE_BYTES = 8192,
    FRAMES_LEAST = 16, /* of a piece: a pass costs some time beside its frames */
};

typedef int16_t shorts __attribute__((vector_size(VECTOR)));
typedef uint16_t unsigned_shorts __attribute__((vector_size(VECTOR)));
typedef float floats __attribute__((vector_size(VECTOR)));
typedef uint32_t words __attribute__((vector_size(VECTOR)));

static const float per_s16 = 1.0f / 32768.0f;

/* How samples are compared. */
enum path { PATH_S16, PATH_S16_SWAPPED, PATH_FLOAT, PATH_FLOAT_SWAPPED, PATH_INTEGER, PATH_ANY };

static bool is_swapped(const struct sample_format *format)
{
    return format->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static enum path path_of(const struct sample_format *format)
{
    if (format->kind == SAMPLE_FLOAT)
        return is_swapped(format) ? PATH_FLOAT_SWAPPED : PATH_FLOAT;
    if (format->bits != 8u * format->bytes)
        return PATH_ANY;
    if (format->kind == SAMPLE_SIGNED && format->bytes == 2)
        return is_swapped(format) ? PATH_S16_SWAPPED : PATH_S16;
    return PATH_INTEGER;
}

static int16_t load_s16(const uint8_t *bytes, bool swapped)
{
    uint16_t word;
    memcpy(&word, bytes, sizeof word);
    if (swapped)
        word = __builtin_bswap16(word);
    return (int16_t)word;
}

static float load_float(const uint8_t *bytes, bool swapped)
{
    uint32_t word;
    float value;
    memcpy(&word, bytes, sizeof word);
    if (swapped)
        word = __builtin_bswap32(word);
    memcpy(&value, &word, sizeof value);
    return isfinite(value) ? value : 0;
}

/* ---- vectors ------------------------------------------------------------------------------- */

/* GCC and clang find the instructions for integers by themselves, but not those for floats: what is
 * no number changes neither the least nor the greatest, so the order of the operands matters. */
static inline shorts least_shorts(shorts value, shorts least)
{
    const shorts less = value < least;
    return (value & less) | (least & ~less);
}

static inline shorts greatest_shorts(shorts value, shorts greatest)
{
    const shorts more = value > greatest;
    return (value & more) | (greatest & ~more);
}

static inline floats least_floats(floats value, floats least)
{
#ifdef __SSE2__
    return (floats)_mm_min_ps((__m128)value, (__m128)least);
#else
    const words less = (words)(value < least);
    return (floats)(((words)value & less) | ((words)least & ~less));
#endif
}

static inline floats greatest_floats(floats value, floats greatest)
{
#ifdef __SSE2__
    return (floats)_mm_max_ps((__m128)value, (__m128)greatest);
#else
    const words more = (words)(value > greatest);
    return (floats)(((words)value & more) | ((words)greatest & ~more));
#endif
}

static inline shorts vector_of_shorts(const uint8_t *at, bool swapped)
{
    unsigned_shorts word;
    memcpy(&word, at, sizeof word);
    if (swapped)
        word = (word << 8) | (word >> 8);
    return (shorts)word;
}

static inline floats vector_of_floats(const uint8_t *at, bool swapped)
{
    words word;
    memcpy(&word, at, sizeof word);
    if (swapped)
        word = (word << 24) | ((word & 0xff00) << 8) | ((word >> 8) & 0xff00) | (word >> 24);
    return (floats)word;
}

/* ---- minimum and maximum ------------------------------------------------------------------- */

#define ALWAYS_INLINE static inline __attribute__((always_inline)) void

/* `vectors` of eight channels side by side; at least one frame. */
ALWAYS_INLINE minmax_shorts(const uint8_t *at, size_t stride, size_t frames, bool swapped,
                            const int vectors, float *low, float *high)
{
    shorts least[LINE], greatest[LINE];
    for (int v = 0; v < vectors; v++)
        least[v] = greatest[v] = vector_of_shorts(at + VECTOR * v, swapped);
    for (size_t n = 1; n < frames; n++) {
        at += stride;
        for (int v = 0; v < vectors; v++) {
            const shorts value = vector_of_shorts(at + VECTOR * v, swapped);
            least[v] = least_shorts(value, least[v]);
            greatest[v] = greatest_shorts(value, greatest[v]);
        }
    }
    for (int v = 0; v < vectors; v++) {
        for (int i = 0; i < SHORTS; i++, low++, high++) {
            *low = fminf(*low, (float)least[v][i] * per_s16);
            *high = fmaxf(*high, (float)greatest[v][i] * per_s16);
        }
    }
}

ALWAYS_INLINE minmax_floats(const uint8_t *at, size_t stride, size_t frames, bool swapped,
                            const int vectors, float *low, float *high)
{
    floats least[LINE], greatest[LINE];
    for (int v = 0; v < vectors; v++) {
        memcpy(&least[v], low + FLOATS * v, sizeof least[v]);
        memcpy(&greatest[v], high + FLOATS * v, sizeof greatest[v]);
    }
    for (size_t n = 0; n < frames; n++, at += stride) {
        for (int v = 0; v < vectors; v++) {
            const floats value = vector_of_floats(at + VECTOR * v, swapped);
            least[v] = least_floats(value, least[v]);
            greatest[v] = greatest_floats(value, greatest[v]);
        }
    }
    for (int v = 0; v < vectors; v++) {
        memcpy(low + FLOATS * v, &least[v], sizeof least[v]);
        memcpy(high + FLOATS * v, &greatest[v], sizeof greatest[v]);
    }
}

ALWAYS_INLINE minmax_s16(const struct extract *from, size_t frames, bool swapped, float *low,
                         float *high)
{
    uint32_t c = 0;
    for (; c + LINE * SHORTS <= from->channels; c += LINE * SHORTS)
        minmax_shorts(from->bytes + 2 * c, from->stride, frames, swapped, LINE, low + c, high + c);
    for (; c + SHORTS <= from->channels; c += SHORTS)
        minmax_shorts(from->bytes + 2 * c, from->stride, frames, swapped, 1, low + c, high + c);
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

ALWAYS_INLINE minmax_float(const struct extract *from, size_t frames, bool swapped, float *low,
                           float *high)
{
    uint32_t c = 0;
    for (; c + LINE * FLOATS <= from->channels; c += LINE * FLOATS)
        minmax_floats(from->bytes + 4 * c, from->stride, frames, swapped, LINE, low + c, high + c);
    for (; c + FLOATS <= from->channels; c += FLOATS)
        minmax_floats(from->bytes + 4 * c, from->stride, frames, swapped, 1, low + c, high + c);
    for (; c < from->channels; c++) {
        const uint8_t *at = from->bytes + 4 * c;
        for (size_t n = 0; n < frames; n++, at += from->stride) {
            const float value = load_float(at, swapped);
            low[c] = fminf(low[c], value);
            high[c] = fmaxf(high[c], value);
        }
    }
}

/* Codes that fill their word, as the upper bits of a signed one. */
ALWAYS_INLINE minmax_words(const struct extract *from, size_t frames, const int bytes,
                           const bool big_endian, float *low, float *high)
{
    const uint32_t sign = from->format.kind == SAMPLE_UNSIGNED ? 0x80000000u : 0;
    for (uint32_t c = 0; c < from->channels; c++) {
        const uint8_t *at = from->bytes + (size_t)bytes * c;
        int32_t least = INT32_MAX, greatest = INT32_MIN;
        for (size_t n = 0; n < frames; n++, at += from->stride) {
            uint32_t word = 0;
            for (int i = 0; i < bytes; i++)
                word |= (uint32_t)at[i] << (big_endian ? 24 - 8 * i : 8 * (4 - bytes + i));
            const int32_t value = (int32_t)(word ^ sign);
            least = value < least ? value : least;
            greatest = value > greatest ? value : greatest;
        }
        low[c] = fminf(low[c], (float)least * 0x1p-31f);
        high[c] = fmaxf(high[c], (float)greatest * 0x1p-31f);
    }
}

#ifdef __x86_64__
#define SSE41 __attribute__((target("sse4.1")))

/* Four codes of 3 or 4 bytes, from byte `skip` of a register on, as the upper bits of four words.
 */
SSE41 static __m128i spread_of(unsigned bytes, bool big_endian, unsigned skip)
{
    uint8_t from[VECTOR];
    for (unsigned i = 0; i < VECTOR; i++) {
        const unsigned code = i / 4, rank = i % 4; /* of the word, least first */
        const unsigned byte = rank + bytes - 4;    /* of the code, least first; wraps: none */
        const unsigned at = big_endian ? bytes - 1 - byte : byte;
        from[i] = byte < bytes ? (uint8_t)(skip + code * bytes + at) : 0x80;
    }
    __m128i spread;
    memcpy(&spread, from, sizeof spread);
    return spread;
}

/* `vectors` of four channels side by side, each at its place of the frame; at least one frame. */
SSE41 __attribute__((always_inline)) static inline void
minmax_spread(const struct extract *from, size_t frames, const size_t *places,
              const __m128i *spreads, const int vectors, float *low, float *high)
{
    const __m128i sign =
        _mm_set1_epi32(from->format.kind == SAMPLE_UNSIGNED ? (int32_t)0x80000000u : 0);
    const uint8_t *at = from->bytes;
    __m128i least[LINE], greatest[LINE];
    for (int v = 0; v < vectors; v++) {
        least[v] = _mm_set1_epi32(INT32_MAX);
        greatest[v] = _mm_set1_epi32(INT32_MIN);
    }
    for (size_t n = 0; n < frames; n++, at += from->stride) {
        for (int v = 0; v < vectors; v++) {
            const __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(at + places[v]));
            const __m128i value = _mm_xor_si128(_mm_shuffle_epi8(raw, spreads[v]), sign);
            least[v] = _mm_min_epi32(value, least[v]);
            greatest[v] = _mm_max_epi32(value, greatest[v]);
        }
    }
    for (int v = 0; v < vectors; v++) {
        int32_t leasts[FLOATS], greatests[FLOATS];
        memcpy(leasts, &least[v], sizeof leasts);
        memcpy(greatests, &greatest[v], sizeof greatests);
        for (int i = 0; i < FLOATS; i++, low++, high++) {
            *low = fminf(*low, (float)leasts[i] * 0x1p-31f);
            *high = fmaxf(*high, (float)greatests[i] * 0x1p-31f);
        }
    }
}

/* As many of the channels as fill registers; returns how many. No byte behind a frame is read: the
 * last register of a frame begins earlier and skips what it has before its channels. */
SSE41 static uint32_t minmax_registers(const struct extract *from, size_t frames, float *low,
                                       float *high)
{
    const unsigned bytes = from->format.bytes;
    const size_t frame_bytes = (size_t)bytes * from->channels;
    const uint32_t channels = frame_bytes >= VECTOR ? from->channels / FLOATS * FLOATS : 0;
    for (uint32_t c = 0; c < channels;) {
        const int vectors = channels - c >= LINE * FLOATS ? LINE : 1;
        size_t places[LINE];
        __m128i spreads[LINE];
        for (int v = 0; v < vectors; v++) {
            const size_t place = (size_t)bytes * (c + (uint32_t)(FLOATS * v));
            places[v] = place + VECTOR <= frame_bytes ? place : frame_bytes - VECTOR;
            spreads[v] = spread_of(bytes, from->format.big_endian, (unsigned)(place - places[v]));
        }
        if (vectors == LINE)
            minmax_spread(from, frames, places, spreads, LINE, low + c, high + c);
        else
            minmax_spread(from, frames, places, spreads, 1, low + c, high + c);
        c += (uint32_t)(FLOATS * vectors);
    }
    return channels;
}
#endif

/* The channels that registers hold, where the processor has the instructions for it. */
static uint32_t minmax_wide(const struct extract *from, size_t frames, float *low, float *high)
{
#ifdef __x86_64__
    if (from->format.bytes >= 3 && __builtin_cpu_supports("sse4.1"))
        return minmax_registers(from, frames, low, high);
#endif
    (void)from, (void)frames, (void)low, (void)high;
    return 0;
}

static void minmax_integer(const struct extract *all, size_t frames, float *low, float *high)
{
    const uint32_t done = minmax_wide(all, frames, low, high);
    struct extract rest = *all;
    const struct extract *from = &rest;
    const bool big_endian = from->format.big_endian;
    rest.bytes += (size_t)done * from->format.bytes;
    rest.channels -= done;
    low += done;
    high += done;
    switch (from->format.bytes) {
    case 1:
        minmax_words(from, frames, 1, false, low, high);
        break;
    case 2:
        big_endian ? minmax_words(from, frames, 2, true, low, high)
                   : minmax_words(from, frames, 2, false, low, high);
        break;
    case 3:
        big_endian ? minmax_words(from, frames, 3, true, low, high)
                   : minmax_words(from, frames, 3, false, low, high);
        break;
    default:
        big_endian ? minmax_words(from, frames, 4, true, low, high)
                   : minmax_words(from, frames, 4, false, low, high);
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
                low[first + i] = fminf(low[first + i], (float)values[i]);
                high[first + i] = fmaxf(high[first + i], (float)values[i]);
            }
        }
    }
}

/* At least one frame. */
static void minmax(const struct extract *from, size_t frames, float *low, float *high)
{
    switch (path_of(&from->format)) {
    case PATH_S16:
        minmax_s16(from, frames, false, low, high);
        break;
    case PATH_S16_SWAPPED:
        minmax_s16(from, frames, true, low, high);
        break;
    case PATH_FLOAT:
        minmax_float(from, frames, false, low, high);
        break;
    case PATH_FLOAT_SWAPPED:
        minmax_float(from, frames, true, low, high);
        break;
    case PATH_INTEGER:
        minmax_integer(from, frames, low, high);
        break;
    case PATH_ANY:
        minmax_any(from, frames, low, high);
        break;
    }
}

/* A pass over some channels of wide frames skips what lies between, and later passes come back for
 * it: of a piece that fits the first cache, so that memory is read once, in order. Frames of two
 * cache lines are read no faster that way. */
void extract_minmax(const struct extract *from, size_t frames, float *low, float *high)
{
    const size_t fit = from->stride > WIDE_BYTES ? PIECE_BYTES / from->stride : frames;
    const size_t piece = fit > FRAMES_LEAST ? fit : FRAMES_LEAST;
    struct extract rest = *from;
    for (size_t left = frames, count; left > 0; left -= count) {
        count = left < piece ? left : piece;
        minmax(&rest, count, low, high);
        rest.bytes += count * rest.stride;
    }
}

/* ---- channels ------------------------------------------------------------------------------ */

/* `count` channels of every frame. A frame of many channels lies far from the next one, and results
 * in memory that another core has written: what comes a few frames later is prefetched. */
ALWAYS_INLINE channels_by(const enum path path, const struct extract *from, size_t frames,
                          const uint16_t *list, uint32_t count, float *out)
{
    for (size_t n = 0; n < frames; n++) {
        const uint8_t *frame = from->bytes + n * from->stride;
        const bool is_followed = frames - n > AHEAD;
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *at = frame + (size_t)list[i] * from->format.bytes;
            if (is_followed)
                __builtin_prefetch(at + AHEAD * from->stride);
            if (path == PATH_S16 || path == PATH_S16_SWAPPED)
                *out++ = (float)load_s16(at, path == PATH_S16_SWAPPED) * per_s16;
            else if (path == PATH_FLOAT || path == PATH_FLOAT_SWAPPED)
                *out++ = load_float(at, path == PATH_FLOAT_SWAPPED);
            else
                *out++ = (float)sample_decode(&from->format, at);
        }
    }
}

void extract_channels(const struct extract *from, size_t frames, const uint16_t *list,
                      uint32_t count, float *out)
{
    switch (path_of(&from->format)) {
    case PATH_S16:
        channels_by(PATH_S16, from, frames, list, count, out);
        break;
    case PATH_S16_SWAPPED:
        channels_by(PATH_S16_SWAPPED, from, frames, list, count, out);
        break;
    case PATH_FLOAT:
        channels_by(PATH_FLOAT, from, frames, list, count, out);
        break;
    case PATH_FLOAT_SWAPPED:
        channels_by(PATH_FLOAT_SWAPPED, from, frames, list, count, out);
        break;
    case PATH_INTEGER:
    case PATH_ANY:
        channels_by(PATH_ANY, from, frames, list, count, out);
        break;
    }
}
