/*
 * What the variants build their tables from: filter spectra in the order of the plan's
 * tree, and the rows' parts that say how an input is read and where an output goes.
 *
 * Worker threads under engine->workers.
 */
#include "convolve/internal.h"

#include <math.h>

enum { LINE_FLOATS = 16 }; /* spectra begin at whole vectors */

static uint64_t floats_to_line(uint64_t floats)
{
    return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

/* Places are relative to plan->spectra_offset until spectra_fill. */
uint64_t spectra_place(struct build *build)
{
    const struct plan_spec *spec = build->spec;
    const struct layout *layout = &build->plan->layout;
    uint64_t floats = 0;
    for (uint32_t t = 0; t < spec->taps_count; t++)
        build->filters[t] = (struct filter_spectra){ROW_NONE, ROW_NONE, 0};
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        struct filter_spectra *filter = &build->filters[edge->taps];
        filter->partitions = (taps->count + layout->partition_taps - 1) / layout->partition_taps;
        const uint64_t bytes = (uint64_t)filter->partitions * layout->fft;
        if (filter->re == ROW_NONE) {
            filter->re = floats;
            floats += floats_to_line(bytes);
        }
        if (filter->im == ROW_NONE && taps->im != NULL &&
            spec->outputs[edge->output] != OUTPUT_REAL) {
            filter->im = floats;
            floats += floats_to_line(bytes);
        }
    }
    return floats;
}

static void write_spectra(const struct build *build, uint64_t base, const double *h, uint32_t count,
                          uint32_t partitions)
{
    const struct plan *plan = build->plan;
    float *spectra = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset) + base;
    const uint32_t span = plan->layout.partition_taps;
    for (uint32_t p = 0; p < partitions; p++) {
        const uint32_t from = p * span, left = count - from;
        tree_spectrum(plan->tree->tree, h + from, left < span ? left : span, build->work,
                      spectra + (uint64_t)p * plan->layout.fft);
    }
}

/* Relative places become places in SPECTRUM. */
void spectra_fill(struct build *build)
{
    const struct plan_spec *spec = build->spec;
    const uint64_t base = build->plan->spectra_offset / sizeof(float);
    for (uint32_t t = 0; t < spec->taps_count; t++) {
        struct filter_spectra *filter = &build->filters[t];
        if (filter->re != ROW_NONE) {
            write_spectra(build, filter->re, spec->taps[t]->re, spec->taps[t]->count,
                          filter->partitions);
            filter->re += base;
        }
        if (filter->im != ROW_NONE) {
            write_spectra(build, filter->im, spec->taps[t]->im, spec->taps[t]->count,
                          filter->partitions);
            filter->im += base;
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What every row of an input shares: how its samples are read, and where in the window they lie. */
struct row row_of_input(const struct plan *plan, const struct plan_spec *spec, uint32_t input)
{
    const struct sample_format *format = &spec->format;
    const struct layout *layout = &plan->layout;
    const struct channel_scale *scale = &spec->scales[input];
    struct row row = {
        .report = (uint64_t)input * REPORT_FLOATS,
        .report_stride = spec->inputs * REPORT_FLOATS,
        .spectrum = ROW_NONE,
        .spectrum_im = ROW_NONE,
        .clips = ROW_NONE,
        .real_parts = ROW_NONE,
        .frame_bytes = spec->inputs * format->bytes,
        .channel_byte = input * format->bytes,
        .word = format->bytes,
        .hop = spec->hop,
        .form = FORM_NONE,
        .gain = 1,
        .slots = plan->slots,
        .plane_slots = plan->plane_slots,
        .partition_blocks = layout->partition_blocks,
        .components = 1,
    };
    if (layout->variant->overlap_add) {
        row.load_until = spec->hop;
        row.plane_reach = spec->hop + layout->partition_taps - 1;
    } else {
        row.start = spec->hop - layout->fft; /* modulo 2^32, as ring positions are */
        row.new_from = layout->fft - spec->hop;
        row.load_from = row.new_from - (layout->partition_taps - 1);
        row.load_until = layout->fft;
    }
    const bool big_endian_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    const bool aligned = format->bytes == 2 || format->bytes == 4;
    if (aligned)
        row.flags |= ROW_ALIGNED; /* rings begin at pages, and a frame is whole words */
    if (format->big_endian != (aligned && big_endian_host) && format->bytes > 1)
        row.flags |= ROW_SWAP;
    double code_scale = channel_scale_factor(scale);
    if (format->kind == SAMPLE_FLOAT) {
        row.flags |= ROW_FLOAT;
    } else {
        if (format->kind == SAMPLE_UNSIGNED)
            row.flags |= ROW_UNSIGNED;
        row.shift_left = format->left ? 32u - 8u * format->bytes : 32u - format->bits;
        row.shift_right = 32u - format->bits;
        code_scale = ldexp(code_scale, 1 - (int)format->bits);
    }
    const double offset = scale->offset / code_scale;
    row.scale = (float)code_scale;
    row.offset_hi = (float)offset;
    row.offset_lo = (float)(offset - (double)row.offset_hi);
    return row;
}

uint32_t row_form(enum output_form form)
{
    static const uint32_t forms[] = {[OUTPUT_REAL] = FORM_REAL,
                                     [OUTPUT_COMPLEX] = FORM_COMPLEX,
                                     [OUTPUT_ENVELOPE] = FORM_ENVELOPE};
    return forms[form];
}

uint32_t output_components(const struct build *build, uint32_t output)
{
    for (uint32_t e = 0; e < build->spec->edge_count; e++)
        if (build->spec->edges[e].output == output && build->spec->outputs[output] != OUTPUT_REAL &&
            build->filters[build->spec->edges[e].taps].im != ROW_NONE)
            return 2;
    return 1;
}

/* What every row of an output shares: where its frames go. */
void row_to_output(const struct build *build, uint32_t output, struct row *row)
{
    const struct plan_spec *spec = build->spec;
    row->output = 0;
    for (uint32_t o = 0; o < output; o++)
        row->output += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    row->stride = build->plan->info.output_floats;
    row->form = row_form(spec->outputs[output]);
    row->components = output_components(build, output);
    results_of_row(build, output, row);
}
