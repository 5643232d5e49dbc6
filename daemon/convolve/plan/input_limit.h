/*
 * The limit of input samples: the largest magnitude that a plan computes with. It guarantees that
 * everything a plan makes of samples within the limit fits a float: sums of products, results and
 * their envelopes, and the sums of squares of its reports. Kernels treat samples beyond the limit
 * as they treat NaN: zero, counted, and in the report of their block.
 *
 *     limit = 2^50 / max(1, greatest gain),  gain of an output = sum over its edges of
 *                                            |edge gain| · sum |taps|
 *
 * so that inputs and results are at most 2^50: with FFT_MAX frames the spectra are below 2^72, the
 * sums over a transform below 2^93, and the squares of HOP_MAX frames below 2^119.
 *
 * The limit depends on the edges alone: it is the same for every variant, block size and device,
 * and another filter or gain has another limit. In codes a sample is at most 2^50, too, because
 * some kernels take the squares of codes.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_INPUT_LIMIT_H
#define CONVOLVD_CONVOLVE_PLAN_INPUT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/spec.h"

/* 2^50; no plan's limit is greater. */
#define INPUT_LIMIT_MOST 0x1p50

/* The limit of a list of edges, in physical values. Goes through all taps: not on LOOP. */
double input_limit(const struct edge *edges, uint32_t edge_count, const struct taps *const *taps,
                   uint32_t taps_count);

/*
 * How kernels turn a channel's codes into physical values:
 *
 *     value = (code - offset) * scale          (offset in codes, as a sum of two floats)
 *
 * and up to which magnitude they take them.
 */
struct input_scale {
    float scale, offset_hi, offset_lo;
    float limit;    /* of |value| */
    float overflow; /* |code - offset| * overflow is infinite beyond the limit, and perhaps for a
                       millionth below it */
};

struct input_scale input_scale_of(const struct sample_format *format,
                                  const struct channel_scale *scale, double limit);

/* Whether a full-scale code is beyond the limit. Variants that test only samples at full scale
 * cannot compute such a channel. */
bool input_scale_binds(const struct sample_format *format, const struct channel_scale *scale,
                       double limit);

/* The sample at `wire` is a number within the limit: the kernels' decision, to the bit for
 * floats and, next to the limit, within a float's rounding for integers. ANY. */
bool input_sample_fits(const struct input_scale *scale, const struct sample_format *format,
                       const uint8_t *wire);

#endif
