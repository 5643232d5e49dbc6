/*
 * Plots of filters as PNG or SVG. One thread.
 */
#ifndef CONVOLV_DESIGN_FILTER_PLOT_H
#define CONVOLV_DESIGN_FILTER_PLOT_H

#include <stdint.h>

#include "core/error.h"
#include "report/design.h"

/*
 * Draws the filter of `subject` to `path`, which ends in .png or .svg: magnitude [dB] over
 * frequency and the impulse response over time; for a velocity filter (type fk) the level of plane
 * waves at the middle channel over wavenumber and frequency, with the fan's edges as lines. Returns
 * 0, ERROR_ARGUMENT for another ending, ERROR_SYSTEM when the file cannot be written, ERROR_MEMORY,
 * or the error of the filter.
 */
int filter_plot(const struct design_subject *subject, const char *path, struct problem *problem);

#endif
