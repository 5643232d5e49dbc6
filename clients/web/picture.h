/*
 * Pictures as they go to the browser: a head of 72 bytes, the invalid ranges, the values; all
 * little endian. The layout is in docs/web.md.
 *
 * Pure functions.
 */
#ifndef CONVOLV_WEB_PICTURE_H
#define CONVOLV_WEB_PICTURE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PICTURE_HEAD_BYTES = 72,
    PICTURE_RANGE_BYTES = 16,
    PICTURE_RANGES_MAX = 256, /* past the last that fits, one covers the rest */
};

enum picture_kind { PICTURE_MINMAX = 1, PICTURE_FRAMES = 2, PICTURE_SPECTRUM = 3 };
enum picture_flags {
    PICTURE_TRIGGERED = 1,
    PICTURE_CLIPPED = 2,
    PICTURE_RECORD = 4,  /* a record begins */
    PICTURE_COMPLETE = 8 /* all averages that were asked for */
};

struct picture {
    enum picture_kind kind;
    uint16_t want;
    uint32_t channels, points;
    uint64_t epoch, first_frame;
    double frames_per_point; /* SPECTRUM: Hz from one bin to the next */
    double rate_hz;
    int64_t capture_ns;
    uint32_t flags;
    int32_t trigger; /* point; -1: none */
    uint32_t averages;
};

/* Values of a picture. */
size_t picture_values(const struct picture *picture);

/* Runs of equal causes[points], at most PICTURE_RANGES_MAX. NULL: none. */
uint32_t picture_count_ranges(const uint16_t *causes, uint32_t points);

/* Bytes of the picture with these ranges. */
size_t picture_bytes(const struct picture *picture, uint32_t ranges);

/* Writes head and ranges to out[picture_bytes]; returns where the values go, as floats of this
 * machine (little endian): at a multiple of 4 from `out`. */
float *picture_write(const struct picture *picture, const uint16_t *causes, uint8_t *out);

#endif
