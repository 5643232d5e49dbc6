/*
 * Results in which every sample has a known value, and the comparison of recorded files and their
 * sidecars with them. The files are in the scratch folder (scratch.h). Test thread.
 */
#ifndef CONVOLVD_TESTS_RECORDING_FILES_H
#define CONVOLVD_TESTS_RECORDING_FILES_H

#include <jansson.h>
#include <stdint.h>

#include "io/recording/recording.h"
#include "io/sink.h"

enum { RECORDING_CHANNELS = 2, RECORDING_RATE = 1000000 };

/* A group's setup, which logs errors only, and a test's teardown, which empties the folder. */
int recording_set_up(void **state);
int recording_clean(void **state);

/* Capture time of frame 0. */
#define RECORDING_ORIGIN_NS INT64_C(1795000000123456789)

/* A value of 16 bits for every (epoch, frame, channel), full scale 2 V. */
float recording_value(uint64_t epoch, uint64_t frame, unsigned channel);
/* A result of frames [first, first + frames); its samples live until the next call. */
struct result recording_result(uint64_t epoch, uint64_t first, uint32_t frames);
/* A sink that writes such results as `format` into the scratch folder. */
struct sink_options recording_options(const char *name, const char *format);
/* The recording's own options behind them: one structure, made anew by recording_options. */
struct recording_options *recording_own(const struct sink_options *options);

/* Names of recordings (not sidecars), sorted; returns how many. */
int recording_names(char names[][256], int capacity);
/* The sidecar of a recording; fails the test when there is none. */
json_t *recording_sidecar(const char *name);
json_int_t sidecar_integer(const json_t *root, const char *key);
/* Expects the file's samples times `scale` to be those of the frames its sidecar names; returns how
 * many frames it holds. */
uint64_t expect_recorded(const char *name, uint64_t epoch, uint64_t first, double scale);

#endif
