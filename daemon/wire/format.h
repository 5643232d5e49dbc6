/*
 * Sample formats: how one sample lies on a wire, in a ring or in a file, and how its code
 * becomes a physical value. The kernels decode the same formats (kernels/sample.clh); the
 * functions here serve sources, sinks, tools and the reference.
 *
 * A code is normalised to [-1, 1): signed c / 2^(bits-1); unsigned (offset binary)
 * (c - 2^(bits-1)) / 2^(bits-1); float as it is. The physical value is
 *     normalised * full_scale / 10^(gain_db / 20) - offset            [unit]
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_WIRE_FORMAT_H
#define CONVOLVD_WIRE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sample_kind {
    SAMPLE_SIGNED,
    SAMPLE_UNSIGNED, /* offset binary */
    SAMPLE_FLOAT,    /* IEEE 754 binary32 */
};

struct sample_format {
    uint8_t kind;  /* enum sample_kind */
    uint8_t bytes; /* 1…4: the word on the wire */
    uint8_t bits;  /* 2…8·bytes: significant bits; 32 for float */
    bool big_endian;
    bool left; /* bits < 8·bytes: significant bits at the top (justify = left), the rest ignored */
};

/* A format by name: u8, s16le, s16be, u16le, …, s24le, s24be, s32le, s32be, f32le, f32be; also
 * the RTP names L16 (s16be) and L24 (s24be). `bits` and `justify` are set afterwards by the
 * caller. Returns 0 or ERROR_ARGUMENT. */
int sample_format_parse(const char *name, struct sample_format *format);

/* "s16be", with "/12" or "/12left" appended when bits < 8·bytes. Returns `text`. */
const char *sample_format_name(const struct sample_format *format, char text[24]);

/* True when the fields are in their ranges and fit together. */
bool sample_format_valid(const struct sample_format *format);

/* Channel calibration. */
struct channel_scale {
    double
        full_scale; /* value of the normalised code 1.0 at the preamplifier's output, > 0 [unit] */
    double offset;  /* subtracted after scaling [unit] */
    double gain_db; /* preamplifier gain, divided out [dB] */
    char unit[16];  /* "V", "mV", "Pa", … UTF-8 */
};

/* value = normalised * scale - offset: the factor `scale` above, in the unit. */
double channel_scale_factor(const struct channel_scale *scale);

/* One sample at `wire` as a normalised value (exact in double for every format). */
double sample_decode(const struct sample_format *format, const uint8_t *wire);

/* Decodes `frames` frames of `channels` interleaved samples into normalised doubles, interleaved.
 */
void sample_decode_block(const struct sample_format *format, const uint8_t *wire, size_t frames,
                         unsigned channels, double *values);

/* Encodes one normalised value: rounds to nearest even, saturates at the format's ends; NaN becomes
 * 0. Returns true when it saturated (or was NaN). Floats are stored as they are. */
bool sample_encode(const struct sample_format *format, double value, uint8_t *wire);

/* Encodes `count` float samples, each multiplied by `factor` (normalised units per input unit).
 * Returns how many saturated. Fast paths for the formats sinks use. */
uint64_t sample_encode_block(const struct sample_format *format, const float *values, size_t count,
                             double factor, uint8_t *wire);

/* ---- results ----------------------------------------------------------------------------- */

/* How results leave a device. All zero: float32 of this machine, as they are. */
struct result_format {
    struct sample_format format;
    double factor; /* sample_encode_block's; 0: 1 */
};

/* float32 of this machine, times 1. */
bool result_format_native(const struct result_format *results);
/* The same bytes for the same values. */
bool result_format_equal(const struct result_format *a, const struct result_format *b);

#endif
