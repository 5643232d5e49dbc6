/*
 * What the variant "overlap-add-general" takes from "general": the same plan with its results left
 * as planes.
 *
 * Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_GENERAL_H
#define CONVOLVD_CONVOLVE_VARIANTS_GENERAL_H

#include "convolve/plan/build.h"

/* As plan/variant.h describes them. */
void general_measure(struct build *build);
int general_fill(struct build *build, struct problem *problem);

#endif
