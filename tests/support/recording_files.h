/*
 * What the tests of recordings share: results whose every sample is known, and the comparison of
 * files and sidecars with them. The files lie in the scratch folder.
 */
#ifndef CONVOLVD_TESTS_RECORDING_FILES_H
#define CONVOLVD_TESTS_RECORDING_FILES_H

#include <jansson.h>
#include <stdint.h>

#include "io/sink.h"

enum { RECORDING_CHANNELS = 2, RECORDING_RATE = 1000000 };

/* Of a group: only errors are logged; of a test: the folder is empty for the next. */
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

/* Names of recordings (not sidecars), sorted; returns how many. */
int recording_names(char names[][256], int capacity);
/* The sidecar of a recording; fails the test when there is none. */
json_t *recording_sidecar(const char *name);
json_int_t sidecar_integer(const json_t *root, const char *key);
/* The file's samples times `scale` are those of the frames its sidecar names. Returns its frames.
 */
uint64_t expect_recorded(const char *name, uint64_t epoch, uint64_t first, double scale);

#endif
