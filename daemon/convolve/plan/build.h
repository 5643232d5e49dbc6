/*
 * A plan while it is built: what a variant's `measure` and `fill` work on. Worker threads, one at a
 * time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_BUILD_H
#define CONVOLVD_CONVOLVE_PLAN_BUILD_H

#include "convolve/plan/plan.h"
#include "device/device.h"

/* Spectra of one set of taps. Offsets in floats of SPECTRUM, ROW_NONE: none. */
struct filter_spectra {
    uint64_t re, im;
    uint32_t partitions;
};

struct build {
    struct device *device;
    struct plan *plan;
    const struct plan_spec *spec;
    struct filter_spectra *filters; /* [taps_count], set by spectra_place */
    double *work;                   /* [N] */
    /* set by variant.measure: what fill() will find at plan->spectra_offset and state_offset */
    uint64_t spectra_floats, state_floats;
    /* windows of a launch that should have scratch, where `window_groups` groups share one; 0: none
     * is shared */
    uint32_t windows, window_groups;
    uint64_t real_parts; /* floats of STATE before them, ROW_NONE: none */
};

#endif
