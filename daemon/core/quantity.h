/*
 * Quantities: reads numbers with units as people write them ("95 kHz", "200 us", "16 MiB", "-3 dB",
 * "10 mV", "5 %") exactly. A quantity is an integer times a power of ten times the unit's integer
 * factor, so that "0.1 ms" is 100000 ns and "95.1 kHz" is the double nearest to 95100, without any
 * rounding in between.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_CORE_QUANTITY_H
#define CONVOLVD_CORE_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/*  name, what it is called, an example to write */
#define DIMENSION_TABLE(X)                                                                         \
    X(NUMBER, "a plain number", "12")                                                              \
    X(FREQUENCY, "a frequency", "95 kHz")                                                          \
    X(TIME, "a time", "200 us")                                                                    \
    X(MEMORY, "an amount of memory", "16 MiB")                                                     \
    X(DECIBEL, "a level in dB", "-3 dB")                                                           \
    X(RATIO, "a percentage", "5 %")                                                                \
    X(FRAMES, "a number of frames", "1024 frames")                                                 \
    X(ANGLE, "an angle", "90 deg")                                                                 \
    X(LENGTH, "a length", "5 mm")                                                                  \
    X(VELOCITY, "a velocity", "3000 m/s")                                                          \
    X(AMPLITUDE, "an amplitude", "10 mV")

enum dimension {
#define X(name, words, example) DIMENSION_##name,
    DIMENSION_TABLE(X)
#undef X
        DIMENSIONS,
};

const char *dimension_words(enum dimension dimension);
const char *dimension_example(enum dimension dimension);

enum { QUANTITY_UNIT_BYTES = 16 };

/* value = (negative ? -1 : 1) · digits · factor · 10^exponent in the base unit of the dimension:
 * Hz, s, bytes, dB, 1 (5 % is 0.05), frames, degrees, m, m/s; an amplitude's base unit is the one
 * written.
 */
struct quantity {
    enum dimension dimension;
    bool negative;
    uint64_t digits;
    uint64_t factor;
    int exponent;
    char unit[QUANTITY_UNIT_BYTES]; /* as written, "" for a plain number */
};

/*
 * Reads `text`, which must be one number and at most one unit. A unit that is not in the table
 * counts as an amplitude's (V, Pa, m/s²) when it consists of letters, digits, and "/^²³·µ°_%". The
 * message uses `expect` to suggest a correction ("Mhz is not a unit; write 5 MHz"). The dimension
 * found may differ from `expect`: the caller compares. Returns 0 or ERROR_FORMAT.
 */
int quantity_parse(const char *text, enum dimension expect, struct quantity *quantity,
                   struct problem *problem);

/* The double nearest to the value in the base unit. Never NaN or infinite. */
double quantity_value(const struct quantity *quantity);

/* The value times 10^scale as an integer, exactly: scale 9 turns seconds into ns. ERROR_FORMAT when
 * it is no integer, ERROR_LIMIT beyond 64 bits. */
int quantity_integer(const struct quantity *quantity, int scale, int64_t *value);

/* The factor that turns a value in unit `from` into one in unit `to`, both of one base with SI
 * prefixes p, n, u, µ, m, k, M, G ("mV" → "V": 0.001), as a power of ten. False when they are not.
 */
bool quantity_unit_exponent(const char *from, const char *to, int *exponent);

/* Prints a value of the base unit for people, with four significant digits: "95 kHz", "200 us",
 * "16 MiB". Returns `text`. */
const char *quantity_print(enum dimension dimension, double value, char *text, size_t bytes);

struct quantity_pair {
    char first[48], second[48];
};

/* Prints two values that one sentence contrasts, each as quantity_print does. Values that differ
 * get as many more digits as tell them apart; in one unit both have the same number of decimals:
 * "1.222 kHz" and "1.220 kHz". */
void quantity_print_pair(enum dimension dimension, double first, double second,
                         struct quantity_pair *pair);

/* A duration for people with three significant digits: "350 ns", "12.5 us", "3.21 ms", "4.2 s".
 * Returns `text`. */
const char *duration_text(int64_t duration_ns, char text[24]);

#endif
