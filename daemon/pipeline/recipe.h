/*
 * A recipe: what the plan of a running stream was made from (taps, edges, scales, formats), so that
 * the same plan can be made again on another device after the configuration or the files it came
 * from have changed. Immutable; counted references; any thread.
 */
#ifndef CONVOLVD_PIPELINE_RECIPE_H
#define CONVOLVD_PIPELINE_RECIPE_H

#include "convolve/engine.h"
#include "core/error.h"
#include "pipeline/stream_filters.h"

struct recipe;

/* Takes the filters over (they are empty afterwards) and copies what else `spec`, made with them,
 * points to; `made`: the plan that came of it, whose block size stays. NULL: out of memory. */
struct recipe *recipe_make(struct stream_filters *filters, const struct plan_spec *spec,
                           const struct plan *made);
struct recipe *recipe_hold(struct recipe *recipe);
/* SHA-256 of all that decides the results, to within the error bound: taps, edges, gains, forms,
 * calibration, input format, decimation. Lives as long as the recipe. */
const char *recipe_digest(const struct recipe *recipe);
void recipe_drop(struct recipe *recipe); /* NULL is fine */

/* WORKER. The plan on that device: with the variant that was asked for, or else any. */
int recipe_plan(const struct recipe *recipe, struct engine *engine, struct plan **out,
                struct problem *problem);

#endif
