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

uint32_t lanes_group_blocks(const struct plan_spec *spec)
{
    return spec->inputs < group_channels(spec) ? group_channels(spec) / spec->inputs : 1;
}

uint64_t lanes_spectra_floats(const struct plan_spec *spec, uint32_t fft)
{
    return group_count(spec) * group_floats(fft);
}

const char *lanes_objection(const struct engine *engine, const struct plan_spec *spec, bool by_name)
{
    if (engine->lanes != WIDTH)
        return "it is made for CPUs";
    if (!by_name && spec->inputs * components(spec) < LANES_USED_MIN)
        return "one block has too few channels for its lanes";
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

int lanes_rows(struct plan *plan, const struct plan_spec *spec, double *work)
{
    static const uint32_t forms[] = {[OUTPUT_REAL] = FORM_REAL,
                                     [OUTPUT_COMPLEX] = FORM_COMPLEX,
                                     [OUTPUT_ENVELOPE] = FORM_ENVELOPE};
    const uint32_t fft = plan->layout.fft, groups = group_count(spec);
    const uint32_t most = group_channels(spec), each = components(spec);
    const uint64_t base = plan->spectra_offset / sizeof(float);
    float *memory = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    const struct edge *edges[CHANNELS_MAX] = {NULL};
    float *spectra = malloc((size_t)each * fft * sizeof *spectra);
    struct row *rows = plan_stage_rows(plan, STAGE_PRODUCE, KERNEL_LANES, groups);
    if (spectra == NULL || rows == NULL) {
        free(spectra);
        return ERROR_MEMORY;
    }
    find_edges(spec, edges);
    const struct taps *last = NULL;
    for (uint32_t c = 0; c < spec->inputs; c++) {
        const uint32_t place = c % most, first = c - place;
        const uint32_t width = spec->inputs - first < most ? spec->inputs - first : most;
        const uint64_t group = first / most * group_floats(fft);
        const struct row like = plan_input_row(plan, spec, c);
        assert(edges[c] != NULL); /* plans without one were refused */
        const struct taps *taps = spec->taps[edges[c]->taps];
        assert(taps != NULL);
        if (taps != last) /* channels often share a filter */
            make_spectra(plan, taps, each, work, spectra);
        last = taps;
        for (uint32_t i = 0; i < each; i++)
            fill_lanes(memory + group, place * each + i, width * each, &like,
                       spectra + (size_t)i * fft, edges[c]->gain, fft);
        if (place > 0)
            continue;
        struct row *row = &rows[first / most];
        *row = like;
        row->width = width;
        row->components = each;
        row->form = forms[spec->outputs[0]];
        row->output = spec->outputs[0] == OUTPUT_COMPLEX ? 2 * c : c;
        row->stride = plan->info.output_floats;
        row->spectrum_im = base + group;
        row->spectrum = base + group + CONSTANTS_FLOATS;
    }
    plan->rows[STAGE_PRODUCE] = groups;
    free(spectra);
    return 0;
}
