/*
 * The table of variants: ways to compute a batch on a device. variants/variants.c lists them in the
 * order of preference; each is a `const struct variant variant_NAME` in a file of its own.
 *
 * A worker calls a variant's functions in this order, holding planner.workers:
 *
 *   objection   why it cannot do this plan, or, unless the user asked for it by name, should not
 *               (a sentence's part, "it is made for CPUs"); NULL: it can
 *   layout      geometry: 0, ERROR_UNSUPPORTED or ERROR_LIMIT
 *   measure     how much of SPECTRUM and STATE the plan needs
 *   fill        writes the spectra (SPECTRUM is uploaded afterwards) and adds the stages
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_VARIANT_H
#define CONVOLVD_CONVOLVE_PLAN_VARIANT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct build;
struct device;
struct layout;
struct plan_spec;

struct variant {
    const char *name;
    double pace; /* operations in the time in which partitions do one */
    bool overlap_add;
    bool partitions;
    bool formats;          /* encodes its results (encode.clh); else its plans give floats */
    bool components_apart; /* an envelope's real part waits in row.real_parts for the other */
    bool vectors;          /* the width of its vectors is a choice (spec.vector) */
    bool decimates;        /* writes only the frames that a plan keeps (row.decimate) */
    bool on_host;          /* needs no OpenCL */
    bool any_scale; /* finds samples beyond the limit below full scale, too (input_limit.h) */
    const char *(*objection)(const struct device *device, const struct plan_spec *spec,
                             bool by_name); /* NULL: there is none */
    int (*layout)(const struct device *device, const struct plan_spec *spec,
                  const struct variant *variant, bool by_name, struct layout *layout,
                  struct problem *problem); /* NULL: layout_standard */
    void (*measure)(struct build *build);
    int (*fill)(struct build *build, struct problem *problem);
};

/* In the table's order; NULL past the end. Any thread. */
const struct variant *variant_at(int index);

#endif
