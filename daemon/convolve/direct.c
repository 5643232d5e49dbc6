/*
 * The variant "direct": filters of a few taps in the time domain (kernels/direct.cl). A row an
 * output, and a row for each input that no output hears, for its report. Taps lie in SPECTRUM as
 * floats, gains folded in, padded with zeros to whole eights:
 *
 *     plan's piece of SPECTRUM: for each edge, re[taps] and, where its output takes it, im[taps]
 *
 * Worker threads under engine->workers.
 */
#include "convolve/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TAPS_MOST = 4096,   /* by name */
    TAPS_BY_RULE = 24,  /* up to where it was faster than "lanes" and "local" with PoCL */
    EIGHT = 8,          /* direct.cl: taps that are taken at once … */
    RUN = 8,            /* … and frames */
    TILE_VECTORS = 256, /* frames of a tile: what stays in a core's nearest cache … */
    TILE_ITEMS = 2048,  /* … or keeps a work-group busy */
};

const char *direct_objection(const struct engine *engine, const struct plan_spec *spec,
                             bool by_name)
{
    uint32_t taps = 1;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->taps[spec->edges[e].taps]->count > taps)
            taps = spec->taps[spec->edges[e].taps]->count;
    if (taps > TAPS_MOST)
        return "it is made for filters of at most 4096 taps";
    if (!by_name && taps > TAPS_BY_RULE)
        return "a transform takes less time than so many taps";
    if (!by_name && engine->lanes == 1)
        return "transforms are as fast as memory on GPUs";
    return layout_output_edges(spec);
}

static uint32_t padded_taps(const struct plan *plan)
{
    return (plan->layout.taps_longest + EIGHT - 1) / EIGHT * EIGHT;
}

static uint32_t tile_frames(const struct engine *engine)
{
    return engine->lanes == 1 ? TILE_ITEMS : TILE_VECTORS;
}

int direct_layout(const struct engine *engine, const struct plan_spec *spec,
                  const struct variant *variant, bool by_name, struct layout *layout,
                  struct problem *problem)
{
    /* No transform: N is the window, and partitions cannot be cheaper. */
    (void)by_name;
    int error = layout_standard(engine, spec, variant, true, layout, problem);
    layout->tree_lanes = 0;
    layout->scratch = SCRATCH_LOCAL;
    return error;
}

void direct_measure(struct build *build)
{
    spectra_place(build); /* says which filters have an imaginary part */
    build->spectra_floats = 2 * (uint64_t)build->spec->edge_count * padded_taps(build->plan);
}

/* A component's taps, the gain folded in. */
static void write_taps(float *place, const double *taps, uint32_t count, uint32_t padded,
                       double gain)
{
    for (uint32_t tap = 0; tap < padded; tap++)
        place[tap] = tap < count ? (float)(taps[tap] * gain) : 0;
}

int direct_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct engine *engine = build->engine;
    const uint32_t padded = padded_taps(plan), tile = tile_frames(engine);
    char options[40];
    snprintf(options, sizeof options, "-D TILE=%u", tile);
    struct stage *stage;
    int error = plan_stage(build, "direct.cl", "direct", options,
                           spec->outputs_count + spec->inputs, &stage, problem);
    if (error < 0)
        return error;
    /* A value in nine of local memory is left out, where there are several work-items. */
    const uint64_t values = tile + padded + RUN;
    stage->local_bytes =
        (values + (engine->items > 1 ? values / 8 + 1 : 0)) * engine->lanes * sizeof(float);
    bool *heard = calloc(spec->inputs, sizeof *heard);
    if (heard == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    float *memory = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    const uint64_t base = plan->spectra_offset / sizeof(float);
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        const uint64_t place = 2 * (uint64_t)e * padded;
        struct row *row = &stage->rows[stage->count++];
        *row = row_of_input(plan, spec, edge->input);
        row_to_output(build, edge->output, row);
        row->width = padded;
        row->spectrum = base + place;
        row->spectrum_im = base + place + padded;
        write_taps(memory + place, taps->re, taps->count, padded, (double)edge->gain);
        if (row->components == 2)
            write_taps(memory + place + padded, taps->im, taps->count, padded, (double)edge->gain);
        if (heard[edge->input])
            row->report = ROW_NONE;
        heard[edge->input] = true;
    }
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            stage->rows[stage->count++] = row_of_input(plan, spec, i);
    free(heard);
    return 0;
}
