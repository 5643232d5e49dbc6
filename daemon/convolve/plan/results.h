/*
 * Results in the formats of sinks: which plans encode them, and what the last pass needs to write
 * the wire's bytes (kernels/encode.clh). The bytes are to the bit what sample_encode_block makes of
 * the same plan's floats.
 *
 * A format is only asked for. A variant that cannot encode, and a device without double where one
 * is needed, give floats: no stream gets another variant for its format.
 *
 * Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_RESULTS_H
#define CONVOLVD_CONVOLVE_PLAN_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolve/plan/build.h"

struct variant;

/* The format that a plan of this variant gives when asked for this one. */
struct result_format results_granted(const struct device *device, const struct variant *variant,
                                     const struct result_format *asked);

/* Adds room for the real parts of envelopes behind the variant's own part of STATE, for variants
 * with components_apart. */
void results_measure(struct build *build);

/* Completes a row of this output. */
void results_of_row(const struct build *build, uint32_t output, struct row *row);

/* Codes of one unit; of floats, the factor. Exact: a float times it is the code to the bit. */
double results_scale(const struct result_format *results);
bool results_exact(const struct result_format *results);

/* The kernels' options (encode.clh), "" for native floats. Returns their length. */
int results_options(const struct plan *plan, char *options, size_t bytes);

/* For the self-test and later checks: the value that a sample stands for, `want` being what it
 * should be. A code counts as `want` as far as rounding and saturation explain it; floats count as
 * they are. */
double results_value(const struct result_format *results, const uint8_t *sample, double want);

#endif
