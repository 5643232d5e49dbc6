/*
 * What the variant "overlap-add" takes from "local": the same plan with its results left as planes.
 *
 * Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_LOCAL_H
#define CONVOLVD_CONVOLVE_VARIANTS_LOCAL_H

#include "convolve/plan/build.h"

/* As plan/variant.h describes them. */
const char *local_objection(const struct device *device, const struct plan_spec *spec,
                            bool by_name);
int local_layout(const struct device *device, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem);
void local_measure(struct build *build);
int local_fill(struct build *build, struct problem *problem);

#endif
