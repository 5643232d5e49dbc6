/*
 * The variant "lanes": on a CPU, a channel of a block in each lane of a vector (kernels/lanes.cl).
 * A row is a group of up to 16 neighbouring channels, or 8 with two components each; fewer of
 * them leave room for following blocks side by side. Spectra lie lane by lane in SPECTRUM:
 *
 *     group: scale[16] offset_hi[16] offset_lo[16] (unused[16]) · [Q][re: 16][im: 16]
 *
 * Worker threads under engine->workers.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, CONSTANTS_FLOATS = 4 * WIDTH };

/* Lanes of a channel: complex outputs and envelopes take a real and an imaginary one. */
static uint32_t components(const struct plan_spec *spec)
{
    return spec->outputs[0] == OUTPUT_REAL ? 1 : 2;
}

/* Channels of a full group. */
static uint32_t group_channels(const struct plan_spec *spec)
{
    return WIDTH / components(spec);
}

static uint32_t group_count(const struct plan_spec *spec)
{
    return (spec->inputs + group_channels(spec) - 1) / group_channels(spec);
}

static uint64_t group_floats(uint32_t fft)
{
    return CONSTANTS_FLOATS + (uint64_t)WIDTH * fft;
}

/* Blocks of few channels lie side by side. */
static uint32_t group_blocks(const struct plan_spec *spec)
{
    return spec->inputs < group_channels(spec) ? group_channels(spec) / spec->inputs : 1;
}

void lanes_measure(struct build *build)
{
    build->spectra_floats = group_count(build->spec) * group_floats(build->plan->layout.fft);
}

const char *lanes_objection(const struct engine *engine, const struct plan_spec *spec, bool by_name)
{
    if (engine->lanes != WIDTH)
        return "it is made for CPUs";
    if (!by_name && spec->inputs * components(spec) < LANES_USED_MIN)
        return "one block has too few channels for its lanes";
    if (layout_single_edges(spec) != NULL)
        return layout_single_edges(spec);
    if (spec->edge_count != spec->inputs || spec->outputs_count != spec->inputs)
        return "an input has no edge";
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input != spec->edges[e].output)
            return "channels change places";
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        if (spec->outputs[o] != spec->outputs[0])
            return "outputs have several forms";
    return NULL;
}

int lanes_layout(const struct engine *engine, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem)
{
    int error = layout_standard(engine, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;
    layout->planes = WIDTH;
    layout->tree_lanes = 1;
    if (layout->planes * (uint64_t)layout->fft * sizeof(float) > engine->local_budget_bytes)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: N = %u for %u channels at once does not fit local memory",
                           variant->name, layout->fft, layout->planes);
    return 0;
}

/* The edge of each channel. */
static void find_edges(const struct plan_spec *spec, const struct edge *edges[CHANNELS_MAX])
{
    for (uint32_t e = 0; e < spec->edge_count; e++)
        edges[spec->edges[e].input] = &spec->edges[e];
}

/* One component of one channel: constants and spectrum, once for each block side by side. */
static void fill_lanes(float *group, uint32_t lane, uint32_t span, const struct row *like,
                       const float *spectrum, float gain, uint32_t fft)
{
    for (; lane < WIDTH / span * span; lane += span) {
        group[lane] = like->scale;
        group[WIDTH + lane] = like->offset_hi;
        group[2 * WIDTH + lane] = like->offset_lo;
        for (uint32_t v = 0; v < fft; v++) /* re and im in turn */
            group[CONSTANTS_FLOATS + (uint64_t)v * WIDTH + lane] = spectrum[v] * gain;
    }
}

/* The spectra of a channel's components, [components][N]. Taps without imaginary part have none. */
static void make_spectra(const struct plan *plan, const struct taps *taps, uint32_t count,
                         double *work, float *spectra)
{
    const uint32_t fft = plan->layout.fft;
    tree_spectrum(plan->tree->tree, taps->re, taps->count, work, spectra);
    if (count == 2 && taps->im != NULL)
        tree_spectrum(plan->tree->tree, taps->im, taps->count, work, spectra + fft);
    else if (count == 2)
        memset(spectra + fft, 0, fft * sizeof *spectra);
}

int lanes_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint32_t fft = plan->layout.fft, groups = group_count(spec);
    const uint32_t most = group_channels(spec), each = components(spec);
    const uint64_t base = plan->spectra_offset / sizeof(float);
    float *memory = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    const struct edge *edges[CHANNELS_MAX] = {NULL};
    struct stage *stage;
    int error = plan_stage(build, "lanes.cl", "lanes", NULL, groups, &stage, problem);
    if (error < 0)
        return error;
    stage->group_blocks = group_blocks(spec);
    float *spectra = malloc((size_t)each * fft * sizeof *spectra);
    if (spectra == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    find_edges(spec, edges);
    const struct taps *last = NULL;
    for (uint32_t c = 0; c < spec->inputs; c++) {
        const uint32_t place = c % most, first = c - place;
        const uint32_t width = spec->inputs - first < most ? spec->inputs - first : most;
        const uint64_t group = first / most * group_floats(fft);
        const struct row like = row_of_input(plan, spec, c);
        assert(edges[c] != NULL); /* plans without one were refused */
        const struct taps *taps = spec->taps[edges[c]->taps];
        assert(taps != NULL);
        if (taps != last) /* channels often share a filter */
            make_spectra(plan, taps, each, build->work, spectra);
        last = taps;
        for (uint32_t i = 0; i < each; i++)
            fill_lanes(memory + group, place * each + i, width * each, &like,
                       spectra + (size_t)i * fft, edges[c]->gain, fft);
        if (place > 0)
            continue;
        struct row *row = &stage->rows[first / most];
        *row = like;
        row->width = width;
        row->components = each;
        row->form = row_form(spec->outputs[0]);
        row->output = spec->outputs[0] == OUTPUT_COMPLEX ? 2 * c : c;
        row->stride = plan->info.output_floats;
        row->spectrum_im = base + group;
        row->spectrum = base + group + CONSTANTS_FLOATS;
    }
    stage->count = groups;
    free(spectra);
    return 0;
}
