/*
 * Shapes: what wisdom knows a specification by. Streams of one shape cost the same, so what was
 * measured for one serves the others. Pure, any thread.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_SHAPE_H
#define CONVOLVD_CONVOLVE_PLAN_SHAPE_H

#include "convolve/plan/spec.h"
#include "convolve/plan/wisdom.h"

/* The shape in words. */
void plan_shape(const struct plan_spec *spec, char shape[WISDOM_SHAPE]);

#endif
