/*
 * The variant "general": any edges and filters of any length, in two launches
 * (kernels/general.cl). The first transforms each input into its delay line in STATE, the second
 * sums the products of each output and inverts the sum once. The tables of edges lie behind the
 * spectra in SPECTRUM.
 *
 * Worker threads, one at a time.
 */
#include "convolve/variants/general.h"

#include "convolve/plan/assemble.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"

void general_measure(struct build *build)
{
    const struct plan_spec *spec = build->spec;
    const struct plan *plan = build->plan;
    build->spectra_floats =
        spectra_place(build) + spec->edge_count * (sizeof(struct edge_row) / sizeof(float));
    build->state_floats = (uint64_t)spec->inputs * plan->slots * plan->layout.fft;
}

/* Makes one row of the second stage; its edges begin at edges[*used]. */
static void product_row(const struct build *build, uint32_t output, uint64_t line_floats,
                        struct edge_row *edges, uint32_t *used, struct row *row)
{
    const struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint64_t state = plan->state_offset / sizeof(float);
    const float *spectrum = (const float *)(const void *)build->device->spectrum.host;
    *row = row_of_input(plan, spec, 0);
    row_to_output(build, output, row);
    row->report = ROW_NONE;
    struct row_general *own = &row->own.general;
    *own = (struct row_general){
        .edges = (uint64_t)((const float *)(const void *)(edges + *used) - spectrum),
        .slots = plan->slots,
        .partition_blocks = plan->layout.partition_blocks,
    };
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct filter_spectra *filter = &build->filters[edge->taps];
        if (edge->output != output)
            continue;
        edges[(*used)++] = (struct edge_row){
            .spectrum = filter->re,
            .spectrum_im = row->components == 2 ? filter->im : ROW_NONE,
            .delay_line = state + edge->input * line_floats,
            .partitions = filter->partitions,
            .gain = edge->gain,
        };
        own->edge_count++;
    }
}

int general_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint64_t line_floats = (uint64_t)plan->slots * plan->layout.fft;
    const uint64_t state = plan->state_offset / sizeof(float);
    spectra_fill(build);

    struct stage *forward;
    int error =
        plan_stage(build, "general.cl", "general_forward", NULL, spec->inputs, &forward, problem);
    if (error < 0)
        return error;
    forward->keeps = KEEPS_SPECTRA;
    for (uint32_t i = 0; i < spec->inputs; i++)
        forward->rows[forward->count++] = row_of_input(plan, spec, i);
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        struct row *row = &forward->rows[spec->edges[e].input];
        row->form = FORM_REAL;
        row->own.general.line = state + spec->edges[e].input * line_floats;
        row->own.general.slots = plan->slots;
    }

    struct stage *product;
    error = plan_stage(build, "general.cl", "general_product", NULL, spec->outputs_count, &product,
                       problem);
    if (error < 0)
        return error;
    const uint64_t edges_floats = spec->edge_count * (sizeof(struct edge_row) / sizeof(float));
    struct edge_row *edges =
        (struct edge_row *)(void *)(build->device->spectrum.host + plan->spectra_offset +
                                    (build->spectra_floats - edges_floats) * sizeof(float));
    uint32_t used = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        product_row(build, o, line_floats, edges, &used, &product->rows[product->count++]);
    return 0;
}

const struct variant variant_general = {
    .name = "general",
    .partitions = true,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .any_scale = true,
    .measure = general_measure,
    .fill = general_fill,
};
