/*
 * Preparing plans: the one way from a specification to a plan that may be used. plan_prepare makes
 * the plan whole: spectra in double, programs, device memory, a warm-up launch of every kernel and
 * local size, and the self-test.
 *
 * It takes the variant that the specification names, else the one that wisdom remembers for the
 * shape, else the first of the table that can. The log names a variant that misses the error
 * bound, and the next one is tried.
 */
#ifndef CONVOLVD_CONVOLVE_CHECK_PREPARE_H
#define CONVOLVD_CONVOLVE_CHECK_PREPARE_H

#include "convolve/engine.h"
#include "convolve/plan/spec.h"

/* 0, ERROR_ARGUMENT, ERROR_UNSUPPORTED (nothing can compute it), ERROR_ACCURACY, ERROR_LIMIT, or
 * what the device answers. WORKER; safe while LOOP submits other plans. plan_close closes it. */
int plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                 struct problem *problem);

#endif
