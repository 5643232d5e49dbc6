/*
 * The variant "direct": short filters in the time domain (kernels/direct.cl), where a transform
 * would take longer than the products.
 *
 * On a GPU a row computes one output. With vectors it computes up to 16 neighbouring outputs of
 * neighbouring inputs, a lane each. An input without an edge has a row for its report. The taps lie
 * in SPECTRUM as floats, multiplied by their gains and padded with zeros to a multiple of 8; W are
 * the device's lanes:
 *
 *     row:  with vectors, scale[16] offset_hi[16] offset_lo[16] limit[16]
 *           re[taps][W], and im[taps][W] where the outputs take it
 *
 * Worker threads, one at a time.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"

enum {
    TAPS_MOST = 4096, /* when asked for by name */
    /* By rule, for plans that "lanes" declines: up to so many taps "local" was slower with PoCL,
     * for 1 and for 16 channels. */
    TAPS_BY_RULE = 32,
    EIGHT = 8,          /* a multiple of direct.cl's RUN */
    RUN = 8,            /* direct.cl's at most */
    TILE_VECTORS = 256, /* frames of a tile: what stays in a core's nearest cache … */
    TILE_ITEMS = 2048,  /* … or keeps a work-group busy */
};

static const char *direct_objection(const struct device *device, const struct plan_spec *spec,
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
    if (!by_name && device->traits.lanes == 1)
        return "transforms are as fast as memory on GPUs";
    return layout_output_edges(spec);
}

static uint32_t padded_taps(const struct plan *plan)
{
    return (plan->layout.taps_longest + EIGHT - 1) / EIGHT * EIGHT;
}

static uint32_t tile_frames(const struct device *device)
{
    return device->traits.lanes == 1 ? TILE_ITEMS : TILE_VECTORS;
}

static int direct_layout(const struct device *device, const struct plan_spec *spec,
                         const struct variant *variant, bool by_name, struct layout *layout,
                         struct problem *problem)
{
    /* There is no transform: N is the window, and partitions would save nothing. */
    (void)by_name;
    int error = layout_standard(device, spec, variant, true, layout, problem);
    layout->fft_lanes = 0;
    layout->scratch = SCRATCH_LOCAL;
    return error;
}

/* ---- rows --------------------------------------------------------------------------------------
 */

enum { CONSTANTS_FLOATS = 64 };

/* What a row computes: outputs output … output + channels - 1 of inputs input … */
struct span {
    uint32_t input, output, channels, components;
    bool reports; /* no earlier row gives the reports of these inputs */
    bool silent;  /* read for its reports only */
};

/* Finds the edge of every output and lists the rows: at most one per output, and one per input
 * without an edge. Returns how many rows there are. */
static uint32_t list_spans(const struct build *build, const struct edge *edges[CHANNELS_MAX],
                           struct span spans[2 * CHANNELS_MAX])
{
    const struct plan_spec *spec = build->spec;
    const uint32_t width = build->device->traits.lanes;
    bool heard[CHANNELS_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        edges[spec->edges[e].output] = &spec->edges[e];
    for (uint32_t o = 0; o < spec->outputs_count; o++) {
        assert(edges[o] != NULL); /* plans without one were refused */
        const struct span next = {.input = edges[o]->input,
                                  .output = o,
                                  .channels = 1,
                                  .components = output_components(build, o),
                                  .reports = !heard[edges[o]->input]};
        struct span *last = count > 0 ? &spans[count - 1] : NULL;
        heard[next.input] = true;
        if (last != NULL && last->channels < width && last->components == next.components &&
            last->reports == next.reports && last->input + last->channels == next.input &&
            spec->outputs[last->output] == spec->outputs[o])
            last->channels++;
        else
            spans[count++] = next;
    }
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            spans[count++] =
                (struct span){.input = i, .channels = 1, .reports = true, .silent = true};
    return count;
}

static uint64_t span_floats(const struct build *build, const struct span *span)
{
    const uint32_t lanes = build->device->traits.lanes;
    return (lanes > 1 ? CONSTANTS_FLOATS : 0) +
           (uint64_t)span->components * padded_taps(build->plan) * lanes;
}

static void direct_measure(struct build *build)
{
    const struct edge *edges[CHANNELS_MAX] = {NULL};
    struct span spans[2 * CHANNELS_MAX];
    spectra_place(build); /* finds which filters have an imaginary part */
    const uint32_t count = list_spans(build, edges, spans);
    build->spectra_floats = 0;
    for (uint32_t r = 0; r < count; r++)
        build->spectra_floats += span_floats(build, &spans[r]);
}

/* Fills the constants and taps of one lane, which computes channel lane % channels of its span. */
static void fill_lane(const struct build *build, const struct span *span, const struct edge *edge,
                      uint32_t lane, float *memory)
{
    const uint32_t lanes = build->device->traits.lanes, padded = padded_taps(build->plan);
    const struct row like =
        row_of_input(build->plan, build->spec, span->input + lane % span->channels);
    if (lanes > 1) {
        memory[lane] = like.scale;
        memory[lanes + lane] = like.offset_hi;
        memory[2 * lanes + lane] = like.offset_lo;
        memory[3 * lanes + lane] = like.limit;
        memory += CONSTANTS_FLOATS;
    }
    for (uint32_t i = 0; i < span->components; i++) {
        const struct taps *taps = build->spec->taps[edge->taps];
        const double *h = i == 0 ? taps->re : taps->im;
        for (uint32_t tap = 0; h != NULL && tap < taps->count; tap++)
            memory[((uint64_t)i * padded + tap) * lanes + lane] =
                (float)(h[tap] * (double)edge->gain);
    }
}

/* The build options of the kernel: every row has the stream's sample format. */
static void format_options(const struct row *row, uint32_t tile, char *options, size_t bytes)
{
    snprintf(options, bytes, "-D TILE=%u -D WORD=%u -D SWAP=%d -D FLOATS=%d -D INVERT=%d", tile,
             row->word, (row->flags & ROW_SWAP) != 0, (row->flags & ROW_FLOAT) != 0,
             (row->flags & ROW_UNSIGNED) != 0);
}

static int direct_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct device *device = build->device;
    const uint32_t padded = padded_taps(plan), tile = tile_frames(device);
    const struct edge *edges[CHANNELS_MAX] = {NULL};
    struct span spans[2 * CHANNELS_MAX];
    const uint32_t count = list_spans(build, edges, spans);
    const struct row first = row_of_input(plan, spec, 0);
    char options[120];
    format_options(&first, tile, options, sizeof options);
    struct stage *stage;
    int error = plan_stage(build, "direct.cl", "direct", options, count, &stage, problem);
    if (error < 0)
        return error;
    /* With several work-items, the kernel leaves every ninth value of local memory unused, against
     * bank conflicts. */
    const uint64_t values = tile + padded + RUN;
    stage->local_bytes = (values + (device->traits.items > 1 ? values / 8 + 1 : 0)) *
                         device->traits.lanes * sizeof(float);
    stage->count = count;
    uint64_t place = plan->spectra_offset / sizeof(float);
    memset(device->spectrum.host + plan->spectra_offset, 0, build->spectra_floats * sizeof(float));
    for (uint32_t r = 0; r < count; r++) {
        const struct span *span = &spans[r];
        float *memory = (float *)(void *)device->spectrum.host + place;
        struct row *row = &stage->rows[r];
        *row = row_of_input(plan, spec, span->input);
        if (!span->silent)
            row_to_output(build, span->output, row);
        const uint64_t taps = place + (device->traits.lanes > 1 ? CONSTANTS_FLOATS : 0);
        row->own.direct = (struct row_direct){.re = taps,
                                              .im = taps + (uint64_t)padded * device->traits.lanes,
                                              .taps = span->silent ? 1 : padded,
                                              .channels = span->channels};
        if (!span->reports)
            row->report = ROW_NONE;
        for (uint32_t lane = 0; lane < device->traits.lanes; lane++)
            fill_lane(build, span, edges[span->output + lane % span->channels], lane, memory);
        place += span_floats(build, span);
    }
    return 0;
}

const struct variant variant_direct = {
    .name = "direct",
    .pace = 1.0,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .objection = direct_objection,
    .layout = direct_layout,
    .measure = direct_measure,
    .fill = direct_fill,
};
