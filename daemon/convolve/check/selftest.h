/*
 * The self-test: before its first use a plan convolves a fixed noise block in its own sample
 * format, read from a ring as a stream's would be, and the result is compared with the definition
 * in double. What it measures on the way is the plan's first cost. plan_time times a plan at
 * length, for tuning.
 *
 * Worker threads; the device thread runs the batches.
 */
#ifndef CONVOLVD_CONVOLVE_CHECK_SELFTEST_H
#define CONVOLVD_CONVOLVE_CHECK_SELFTEST_H

#include "convolve/engine.h"
#include "convolve/plan/spec.h"

/* 0, ERROR_ACCURACY, or what the engine answers. Sets the plan's error and cost. The caller holds
 * planner.workers. */
int plan_self_test(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                   struct problem *problem);

/* The times from submission to completion of `runs` items of `blocks` blocks of noise [ns], as many
 * blocks as one batch holds. */
int plan_time(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
              uint32_t blocks, uint32_t runs, int64_t *ns, struct problem *problem);

#endif
