/*
 * The variant "lanes": many channels on a CPU, one in each lane of a vector (kernels/lanes.cl).
 * A row is a group of up to 16 neighbouring channels; their spectra lie lane by lane in one
 * piece of SPECTRUM:
 *
 *     group: scale[16] offset_hi[16] offset_lo[16] (unused[16]) · [Q][re: 16][im: 16]
 *
 * Worker threads under engine->workers.
 */
#include "convolve/internal.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, CONSTANTS_FLOATS = 4 * WIDTH };

static uint32_t group_count(const struct plan_spec *spec)
{
    return (spec->inputs + WIDTH - 1) / WIDTH;
}

static uint64_t group_floats(uint32_t fft)
{
    return CONSTANTS_FLOATS + (uint64_t)WIDTH * fft;
}

uint64_t lanes_spectra_floats(const struct plan_spec *spec, uint32_t fft)
{
    return group_count(spec) * group_floats(fft);
}

const char *lanes_objection(const struct engine *engine, const struct plan_spec *spec, bool by_name)
{
    if (engine->lanes != WIDTH)
        return "it is made for CPUs";
    if (!by_name && spec->inputs < LANES_CHANNELS_MIN)
        return "too few channels to fill its lanes";
    if (spec->edge_count != spec->inputs || spec->outputs_count != spec->inputs)
        return "an input has no edge";
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input != spec->edges[e].output)
            return "channels change places";
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        if (spec->outputs[o] != OUTPUT_REAL)
            return "an output is complex or an envelope";
    return NULL;
}

/* The edge of each channel. */
static void find_edges(const struct plan_spec *spec, const struct edge *edges[CHANNELS_MAX])
{
    for (uint32_t e = 0; e < spec->edge_count; e++)
        edges[spec->edges[e].input] = &spec->edges[e];
}

static void fill_lane(float *group, uint32_t lane, const float *spectrum, float gain, uint32_t fft)
{
    for (uint32_t v = 0; v < fft; v++) /* re and im in turn */
        group[CONSTANTS_FLOATS + (uint64_t)v * WIDTH + lane] = spectrum[v] * gain;
}

int lanes_rows(struct plan *plan, const struct plan_spec *spec, double *work)
{
    const uint32_t fft = plan->layout.fft, groups = group_count(spec);
    float *spectra = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    const struct edge *edges[CHANNELS_MAX];
    float *spectrum = malloc(fft * sizeof *spectrum);
    struct row *rows = plan_stage_rows(plan, STAGE_PRODUCE, KERNEL_LANES, groups);
    if (spectrum == NULL || rows == NULL) {
        free(spectrum);
        return ERROR_MEMORY;
    }
    find_edges(spec, edges);
    const struct taps *last = NULL;
    for (uint32_t c = 0; c < spec->inputs; c++) {
        float *group = spectra + c / WIDTH * group_floats(fft);
        const uint32_t lane = c % WIDTH;
        const struct row like = plan_input_row(plan, spec, c);
        const struct taps *taps = spec->taps[edges[c]->taps];
        if (taps != last) /* channels often share a filter */
            tree_spectrum(plan->tree->tree, taps->re, taps->count, work, spectrum);
        last = taps;
        group[lane] = like.scale;
        group[WIDTH + lane] = like.offset_hi;
        group[2 * WIDTH + lane] = like.offset_lo;
        fill_lane(group, lane, spectrum, edges[c]->gain, fft);
        if (lane > 0)
            continue;
        struct row *row = &rows[c / WIDTH];
        *row = like;
        row->width = spec->inputs - c < WIDTH ? spec->inputs - c : WIDTH;
        row->output = c;
        row->stride = spec->inputs;
        row->form = FORM_REAL;
        row->spectrum_im = plan->spectra_offset / sizeof(float) + c / WIDTH * group_floats(fft);
        row->spectrum = row->spectrum_im + CONSTANTS_FLOATS;
    }
    plan->rows[STAGE_PRODUCE] = groups;
    free(spectrum);
    return 0;
}
