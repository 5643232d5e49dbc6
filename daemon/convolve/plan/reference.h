/*
 * What a plan has to compute: the part of its specification that tells its results, kept for checks
 * that compute blocks again (convolve/check/recheck.h). Shared by holders; it may outlive the plan.
 *
 * Immutable but for `peaks`, which belong to the one thread that checks.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_REFERENCE_H
#define CONVOLVD_CONVOLVE_PLAN_REFERENCE_H

#include <stdatomic.h>

#include "convolve/plan/spec.h"

struct plan_reference {
    _Atomic uint32_t holders;
    struct plan_info info; /* of the plan */
    struct sample_format format;
    struct channel_scale *scales; /* [info.inputs] */
    const struct taps **taps;     /* [taps_count], held */
    uint32_t taps_count;
    struct edge *edges; /* [edge_count] */
    uint32_t edge_count;
    enum output_form *outputs; /* [info.outputs] */
    double *peaks;             /* [taps_count]: max |H|; 0: not computed yet */
    double input_limit;        /* of the edges, see input_limit.h */
};

/* 0 or ERROR_MEMORY; one holder. WORKER. */
int plan_reference_make(const struct plan_spec *spec, const struct plan_info *info,
                        struct plan_reference **out, struct problem *problem);

/* ANY; release frees it with the last holder, so not on LOOP. NULL is fine. */
void plan_reference_hold(struct plan_reference *reference);
void plan_reference_release(struct plan_reference *reference);

#endif
