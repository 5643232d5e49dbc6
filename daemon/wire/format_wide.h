/*
 * Formats, many samples at once: what sample_encode_block does for the formats that results are
 * sent in at the highest rates (16-bit integers and big-endian floats), bit for bit. Any thread.
 */
#ifndef CONVOLVD_WIRE_FORMAT_WIDE_H
#define CONVOLVD_WIRE_FORMAT_WIDE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/format.h"

/* Encodes the first samples, as sample_encode_block would, and adds to *saturated. Returns how
 * many: the caller encodes the rest; 0 for other formats and machines. */
size_t format_wide_encode(const struct sample_format *format, const float *values, size_t count,
                          double factor, uint8_t *wire, uint64_t *saturated);

#endif
