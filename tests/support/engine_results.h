/*
 * Results in the formats of sinks, held against the encoder: what leaves the device is, to the bit,
 * what wire/format.c makes of the same plan's floats, and what it clips is counted exactly.
 */
#ifndef CONVOLVD_TESTS_ENGINE_RESULTS_H
#define CONVOLVD_TESTS_ENGINE_RESULTS_H

#include "tests/support/engine_group.h"

struct given {
    const char *name;
    uint8_t bits; /* 0: all */
    bool left;
    double factor; /* small enough for most values, so large that some are clipped */
};

enum { RESULT_FORMATS = 20, RESULT_FORMATS_ON_DEVICES = 8 };

extern const struct given result_formats[RESULT_FORMATS];

struct result_format wish_of(const struct given *given);

/* The plan's floats against its results in the first `count` formats, in items of any length that
 * begin and end inside blocks too. `like` is not prepared, and keeps its taps. */
void compare_results(const char *label, const struct test_plan *like,
                     const struct test_signal *signal, int count);

/* The same with an edge a channel; complex taps unless the form is OUTPUT_REAL. */
void compare_diagonal(const char *label, const char *variant, const struct test_signal *signal,
                      uint32_t hop, uint32_t taps, enum output_form form, uint32_t decimate,
                      int count);

#endif
