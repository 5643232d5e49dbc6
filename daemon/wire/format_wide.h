/*
 * Wide encoders: the formats in which results are sent at the highest rates (16-bit integers and
 * big-endian floats), several samples at once. The bytes are those that sample_encode_block writes
 * sample by sample.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_WIRE_FORMAT_WIDE_H
#define CONVOLVD_WIRE_FORMAT_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FORMAT_WIDE_GROUP = 8 }; /* samples that format_wide_s16 encodes together */

/* Each encodes samples from the first one on, multiplied by `factor`, and returns how many it
 * encoded. It leaves an incomplete group at the end to the caller; format_wide_s16 also stops
 * before the first group that holds a sample out of range or NaN, so that the caller saturates and
 * counts it. 0 on machines without the instructions. */
size_t format_wide_f32be(const float *values, size_t count, double factor, uint8_t *wire);
size_t format_wide_s16(const float *values, size_t count, double factor, bool big_endian,
                       uint8_t *wire);

#endif
