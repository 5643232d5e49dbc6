/*
 * The variant "local": overlap-save in one launch for filters that fit one block
 * (kernels/local.cl). A row computes one output; an input without an edge has a row for its report.
 *
 * Worker threads, one at a time.
 */
#include "convolve/variants/local.h"

#include <stdlib.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"

const char *local_objection(const struct device *device, const struct plan_spec *spec, bool by_name)
{
    (void)device;
    (void)by_name;
    return layout_single_edges(spec);
}

/* Both components of a complex output share the forward transform where local memory holds two
 * planes. */
int local_layout(const struct device *device, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem)
{
    int error = layout_standard(device, spec, variant, by_name, layout, problem);
    const uint64_t transform_bytes = (uint64_t)layout->fft * sizeof(float);
    if (error == 0 && layout_any_complex(spec) &&
        (layout->scratch == SCRATCH_GLOBAL ||
         2 * transform_bytes <= device->traits.local_budget_bytes))
        layout->planes = 2;
    return error;
}

void local_measure(struct build *build)
{
    build->spectra_floats = spectra_place(build);
}

int local_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    spectra_fill(build);
    struct stage *stage;
    int error = plan_stage(build, "local.cl", "local_memory", NULL, spec->inputs, &stage, problem);
    if (error < 0)
        return error;
    bool *heard = calloc(spec->inputs, sizeof *heard);
    if (heard == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        struct row *row = &stage->rows[stage->count++];
        *row = row_of_input(plan, spec, edge->input);
        row_to_output(build, edge->output, row);
        row->own.filter = (struct row_filter){.re = build->filters[edge->taps].re,
                                              .im = build->filters[edge->taps].im};
        row->gain = edge->gain;
        heard[edge->input] = true;
    }
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            stage->rows[stage->count++] = row_of_input(plan, spec, i);
    free(heard);
    return 0;
}

const struct variant variant_local = {
    .name = "local",
    .pace = 1.4,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .any_scale = true,
    .objection = local_objection,
    .layout = local_layout,
    .measure = local_measure,
    .fill = local_fill,
};
