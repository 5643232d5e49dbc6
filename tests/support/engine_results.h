/*
 * Results that a device encodes in a sink's format, compared with the encoder of wire/format.c: the
 * device must produce the same bytes from the same plan's floats, and count the same clipped
 * samples. Test thread.
 */
#ifndef CONVOLVD_TESTS_ENGINE_RESULTS_H
#define CONVOLVD_TESTS_ENGINE_RESULTS_H

#include "tests/support/engine_group.h"

struct given {
    const char *name;
    uint8_t bits; /* 0: all */
    bool left;
    double factor; /* most values fit the format, some clip */
};

enum { RESULT_FORMATS = 20, RESULT_FORMATS_ON_DEVICES = 8 };

extern const struct given result_formats[RESULT_FORMATS];

struct result_format result_format_of(const struct given *given);

/* Compares the plan's floats with its results in the first `count` formats, in items of random
 * length that may begin or end inside a block. The caller does not prepare `like` and keeps its
 * taps. */
void compare_results(const char *label, const struct test_plan *like,
                     const struct test_signal *signal, int count);

/* The same for one edge per channel; the taps are complex unless the form is OUTPUT_REAL. */
void compare_diagonal(const char *label, const char *variant, const struct test_signal *signal,
                      uint32_t hop, uint32_t taps, enum output_form form, uint32_t decimate,
                      int count);

#endif
