/*
 * Filter spectra in the order in which the kernels read them: where each component of each filter
 * lies in SPECTRUM, and its values. For a variant's `measure` and `fill`.
 *
 * A component is the real or the imaginary taps of a filter. Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_SPECTRA_H
#define CONVOLVD_CONVOLVE_PLAN_SPECTRA_H

#include <stdint.h>

#include "convolve/plan/build.h"

struct fft_plan;

/* `measure`: places for the spectra of all filters in uniform partitions, one after the other from
 * plan->spectra_offset on. Returns how many floats that is. `fill`: writes them. */
uint64_t spectra_place(struct build *build);
void spectra_fill(struct build *build);

/* The same for components that are laid out in another way: component_floats returns what one
 * takes; `component` writes one, and its place becomes one in SPECTRUM. */
uint64_t spectra_place_components(struct build *build,
                                  uint64_t (*component_floats)(const struct plan *plan,
                                                               const struct taps *taps));
void spectra_fill_components(struct build *build,
                             void (*component)(const struct plan *plan, const double *h,
                                               uint32_t count, double *work, float *spectra),
                             double *work);

/* Partitions of `each` taps, one spectrum of `fft` floats after the other. work[fft]. */
void spectra_write(const struct fft_plan *fft_plan, const double *h, uint32_t count, uint64_t each,
                   uint32_t fft, double *work, float *spectra);

/* 2 when some edge of the output has imaginary taps that it takes, else 1. After spectra_place. */
uint32_t output_components(const struct build *build, uint32_t output);

#endif
