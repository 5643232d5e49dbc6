/*
 * Sample formats: see format.h. Stateless functions, any thread.
 *
 * Decoding assembles a word from its bytes and then isolates its significant bits; both steps
 * depend on the fields of struct sample_format alone, so one path serves every format.
 * sample_encode_block instantiates the same body with constant fields for the formats that sinks
 * use, so its results cannot differ from sample_encode; the formats of the highest rates first go
 * through format_wide.h, which writes the same bytes.
 */
#include "wire/format.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "wire/format_wide.h"

static const struct {
    const char *name;
    struct sample_format format;
} names[] = {
    {"u8", {SAMPLE_UNSIGNED, 1, 8, false, false}},
    {"s8", {SAMPLE_SIGNED, 1, 8, false, false}},
    {"s16le", {SAMPLE_SIGNED, 2, 16, false, false}},
    {"s16be", {SAMPLE_SIGNED, 2, 16, true, false}},
    {"u16le", {SAMPLE_UNSIGNED, 2, 16, false, false}},
    {"u16be", {SAMPLE_UNSIGNED, 2, 16, true, false}},
    {"s24le", {SAMPLE_SIGNED, 3, 24, false, false}},
    {"s24be", {SAMPLE_SIGNED, 3, 24, true, false}},
    {"u24le", {SAMPLE_UNSIGNED, 3, 24, false, false}},
    {"u24be", {SAMPLE_UNSIGNED, 3, 24, true, false}},
    {"s32le", {SAMPLE_SIGNED, 4, 32, false, false}},
    {"s32be", {SAMPLE_SIGNED, 4, 32, true, false}},
    {"u32le", {SAMPLE_UNSIGNED, 4, 32, false, false}},
    {"u32be", {SAMPLE_UNSIGNED, 4, 32, true, false}},
    {"f32le", {SAMPLE_FLOAT, 4, 32, false, false}},
    {"f32be", {SAMPLE_FLOAT, 4, 32, true, false}},
    /* RFC 3551 and RFC 3190 payload names; last, so that sample_format_name prefers the others. */
    {"L16", {SAMPLE_SIGNED, 2, 16, true, false}},
    {"L24", {SAMPLE_SIGNED, 3, 24, true, false}},
};

int sample_format_parse(const char *name, struct sample_format *format)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(name, names[i].name) == 0) {
            *format = names[i].format;
            return 0;
        }
    }
    return ERROR_ARGUMENT;
}

const char *sample_format_name(const struct sample_format *format, char text[24])
{
    static const char *const kinds[] = {"s", "u", "f"};
    unsigned word_bits = 8u * format->bytes;
    const char *order = format->bytes == 1 ? "" : format->big_endian ? "be" : "le";
    int used = snprintf(text, 24, "%s%u%s",
                        format->kind <= SAMPLE_FLOAT ? kinds[format->kind] : "?", word_bits, order);
    if (format->bits < word_bits)
        snprintf(text + used, 24 - (size_t)used, "/%u%s", format->bits, format->left ? "left" : "");
    return text;
}

bool sample_format_valid(const struct sample_format *format)
{
    if (format->kind > SAMPLE_FLOAT || format->bytes < 1 || format->bytes > 4)
        return false;
    if (format->kind == SAMPLE_FLOAT)
        return format->bytes == 4 && format->bits == 32 && !format->left;
    return format->bits >= 2 && format->bits <= 8u * format->bytes;
}

double channel_scale_factor(const struct channel_scale *scale)
{
    return scale->full_scale / pow(10.0, scale->gain_db / 20.0);
}

/* ---- words ------------------------------------------------------------------------------- */

static inline uint32_t word_load(const uint8_t *wire, unsigned bytes, bool big_endian)
{
    uint32_t word = 0;
    for (unsigned i = 0; i < bytes; i++) {
        unsigned position = big_endian ? bytes - 1 - i : i;
        word |= (uint32_t)wire[i] << (8 * position);
    }
    return word;
}

static inline void word_store(uint32_t word, uint8_t *wire, unsigned bytes, bool big_endian)
{
    for (unsigned i = 0; i < bytes; i++) {
        unsigned position = big_endian ? bytes - 1 - i : i;
        wire[i] = (uint8_t)(word >> (8 * position));
    }
}

static inline double decode(struct sample_format format, const uint8_t *wire)
{
    uint32_t word = word_load(wire, format.bytes, format.big_endian);
    if (format.kind == SAMPLE_FLOAT) {
        float value;
        memcpy(&value, &word, sizeof value);
        return (double)value;
    }
    unsigned spare = 8u * format.bytes - format.bits;
    if (format.left)
        word >>= spare;
    int64_t half = INT64_C(1) << (format.bits - 1);
    int64_t code = (int64_t)word & (2 * half - 1);
    if (format.kind == SAMPLE_UNSIGNED)
        code -= half;
    else if (code >= half)
        code -= 2 * half;
    return (double)code / (double)half;
}

static inline bool encode(struct sample_format format, double value, uint8_t *wire)
{
    if (format.kind == SAMPLE_FLOAT) {
        float single = (float)value;
        uint32_t word;
        memcpy(&word, &single, sizeof word);
        word_store(word, wire, 4, format.big_endian);
        return false;
    }
    int64_t half = INT64_C(1) << (format.bits - 1);
    double scaled = value * (double)half;
    /* Ties go to even: half - 0.5 rounds up, out of range; -half - 0.5 to -half, in range. */
    bool saturated = !(scaled < (double)half - 0.5 && scaled >= -(double)half - 0.5);
    if (saturated)
        scaled = scaled > 0.0 ? (double)(half - 1) : scaled < 0.0 ? -(double)half : 0.0;
    int64_t code = lrint(scaled);
    if (format.kind == SAMPLE_UNSIGNED)
        code += half;
    uint32_t word = (uint32_t)code;
    if (format.left)
        word <<= 8u * format.bytes - format.bits;
    word_store(word, wire, format.bytes, format.big_endian);
    return saturated;
}

double sample_decode(const struct sample_format *format, const uint8_t *wire)
{
    assert(sample_format_valid(format));
    return decode(*format, wire);
}

void sample_decode_block(const struct sample_format *format, const uint8_t *wire, size_t frames,
                         unsigned channels, double *values)
{
    assert(sample_format_valid(format));
    const struct sample_format copy = *format;
    size_t count = frames * channels;
    for (size_t i = 0; i < count; i++)
        values[i] = decode(copy, wire + i * copy.bytes);
}

bool sample_encode(const struct sample_format *format, double value, uint8_t *wire)
{
    assert(sample_format_valid(format));
    return encode(*format, value, wire);
}

/* In double, so that the factor is exact to far below the last bit of 32-bit codes. */
static inline __attribute__((always_inline)) uint64_t encode_all(struct sample_format format,
                                                                 const float *values, size_t count,
                                                                 double factor, uint8_t *wire)
{
    uint64_t saturated = 0;
    for (size_t i = 0; i < count; i++)
        saturated += encode(format, (double)values[i] * factor, wire + i * format.bytes);
    return saturated;
}

static uint64_t encode_rest(const struct sample_format *format, const float *values, size_t count,
                            double factor, uint8_t *wire)
{
    static const struct sample_format s16le = {SAMPLE_SIGNED, 2, 16, false, false};
    static const struct sample_format s16be = {SAMPLE_SIGNED, 2, 16, true, false};
    static const struct sample_format s24le = {SAMPLE_SIGNED, 3, 24, false, false};
    static const struct sample_format s24be = {SAMPLE_SIGNED, 3, 24, true, false};
    static const struct sample_format s32le = {SAMPLE_SIGNED, 4, 32, false, false};
    static const struct sample_format s32be = {SAMPLE_SIGNED, 4, 32, true, false};
    static const struct sample_format f32be = {SAMPLE_FLOAT, 4, 32, true, false};

    if (format->kind == SAMPLE_FLOAT && !format->big_endian) {
        if (factor == 1.0) {
            memcpy(wire, values, count * sizeof *values);
        } else {
            for (size_t i = 0; i < count; i++) {
                float product = (float)((double)values[i] * factor);
                memcpy(wire + 4 * i, &product, sizeof product);
            }
        }
        return 0;
    }
    if (format->kind == SAMPLE_FLOAT)
        return encode_all(f32be, values, count, factor, wire);
    if (format->kind == SAMPLE_SIGNED && format->bits == 8u * format->bytes) {
        switch (format->bytes) {
        case 2:
            return format->big_endian ? encode_all(s16be, values, count, factor, wire)
                                      : encode_all(s16le, values, count, factor, wire);
        case 3:
            return format->big_endian ? encode_all(s24be, values, count, factor, wire)
                                      : encode_all(s24le, values, count, factor, wire);
        case 4:
            return format->big_endian ? encode_all(s32be, values, count, factor, wire)
                                      : encode_all(s32le, values, count, factor, wire);
        default:
            break;
        }
    }
    return encode_all(*format, values, count, factor, wire);
}

uint64_t sample_encode_block(const struct sample_format *format, const float *values, size_t count,
                             double factor, uint8_t *wire)
{
    assert(sample_format_valid(format));
    const bool s16 = format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->bits == 16;
    size_t done = 0;
    uint64_t saturated = 0;
    if (format->kind == SAMPLE_FLOAT && format->big_endian)
        done = format_wide_f32be(values, count, factor, wire);
    while (s16 && done < count) {
        done += format_wide_s16(values + done, count - done, factor, format->big_endian,
                                wire + 2 * done);
        const size_t left = count - done;
        const size_t group = left < FORMAT_WIDE_GROUP ? left : FORMAT_WIDE_GROUP;
        saturated += encode_rest(format, values + done, group, factor, wire + 2 * done);
        done += group;
    }
    return saturated +
           encode_rest(format, values + done, count - done, factor, wire + done * format->bytes);
}

/* ---- results ----------------------------------------------------------------------------- */

static double result_factor(const struct result_format *results)
{
    return results->factor != 0 ? results->factor : 1;
}

bool result_format_native(const struct result_format *results)
{
    const struct sample_format *format = &results->format;
    const bool big_endian_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return format->bytes == 0 ||
           (format->kind == SAMPLE_FLOAT && format->big_endian == big_endian_host &&
            result_factor(results) == 1);
}

bool result_format_equal(const struct result_format *a, const struct result_format *b)
{
    if (result_format_native(a) || result_format_native(b))
        return result_format_native(a) && result_format_native(b);
    return a->format.kind == b->format.kind && a->format.bytes == b->format.bytes &&
           a->format.bits == b->format.bits && a->format.big_endian == b->format.big_endian &&
           a->format.left == b->format.left && result_factor(a) == result_factor(b);
}
