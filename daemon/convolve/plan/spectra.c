/*
 * What the variants build their tables from: filter spectra in the order of the plan's
 * FFT plan, and the rows' parts that say how an input is read and where an output goes.
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

uint64_t spectra_place_components(struct build *build,
                                  uint64_t (*component_floats)(const struct plan *plan,
                                                               const struct taps *taps))
{
    const struct plan_spec *spec = build->spec;
    uint64_t floats = 0;
    for (uint32_t t = 0; t < spec->taps_count; t++)
        build->filters[t] = (struct filter_spectra){ROW_NONE, ROW_NONE, 0};
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        struct filter_spectra *filter = &build->filters[edge->taps];
        const uint64_t each = floats_to_line(component_floats(build->plan, taps));
        if (filter->re == ROW_NONE) {
            filter->re = floats;
            floats += each;
        }
        if (filter->im == ROW_NONE && taps->im != NULL &&
            spec->outputs[edge->output] != OUTPUT_REAL) {
            filter->im = floats;
            floats += each;
        }
    }
    return floats;
}

void spectra_fill_components(struct build *build,
                             void (*component)(const struct plan *plan, const double *h,
                                               uint32_t count, double *work, float *spectra),
                             double *work)
{
    const struct plan *plan = build->plan;
    const uint64_t base = plan->spectra_offset / sizeof(float);
    float *spectra = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    for (uint32_t t = 0; t < build->spec->taps_count; t++) {
        const struct taps *taps = build->spec->taps[t];
        uint64_t *places[] = {&build->filters[t].re, &build->filters[t].im};
        const double *parts[] = {taps->re, taps->im};
        for (int p = 0; p < 2; p++) {
            if (*places[p] == ROW_NONE)
                continue;
            component(plan, parts[p], taps->count, work, spectra + *places[p]);
            *places[p] += base;
        }
    }
}

static uint32_t partition_count(const struct plan *plan, const struct taps *taps)
{
    const uint32_t each = plan->layout.partition_taps;
    return (taps->count + each - 1) / each;
}

static uint64_t uniform_floats(const struct plan *plan, const struct taps *taps)
{
    return (uint64_t)partition_count(plan, taps) * plan->layout.fft;
}

void spectra_write(const struct fft_plan *fft_plan, const double *h, uint32_t count, uint64_t each,
                   uint32_t fft, double *work, float *spectra)
{
    for (uint64_t from = 0; from < count; from += each, spectra += fft) {
        const uint64_t left = count - from;
        fft_plan_spectrum(fft_plan, h + from, (uint32_t)(left < each ? left : each), work, spectra);
    }
}

static void uniform_component(const struct plan *plan, const double *h, uint32_t count,
                              double *work, float *spectra)
{
    spectra_write(plan->fft_plan->plan, h, count, plan->layout.partition_taps, plan->layout.fft,
                  work, spectra);
}

uint64_t spectra_place(struct build *build)
{
    const uint64_t floats = spectra_place_components(build, uniform_floats);
    for (uint32_t t = 0; t < build->spec->taps_count; t++)
        build->filters[t].partitions = partition_count(build->plan, build->spec->taps[t]);
    return floats;
}

void spectra_fill(struct build *build)
{
    spectra_fill_components(build, uniform_component, build->work);
}

/* ---- rows -------------------------------------------------------------------------------- */

/* What every row of an input shares: how its samples are read, and where in the window they lie. */
struct row row_of_input(const struct plan *plan, const struct plan_spec *spec, uint32_t input)
{
    const struct sample_format *format = &spec->format;
    const struct layout *layout = &plan->layout;
    const struct channel_scale *scale = &spec->scales[input];
    struct row row = {
        .report = (uint64_t)input * REPORT_FLOATS,
        .report_stride = spec->inputs * REPORT_FLOATS,
        .clips = ROW_NONE,
        .real_parts = ROW_NONE,
        .frame_bytes = spec->inputs * format->bytes,
        .channel_byte = input * format->bytes,
        .word = format->bytes,
        .hop = spec->hop,
        .form = FORM_NONE,
        .gain = 1,
        .components = 1,
    };
    if (layout->variant->overlap_add) {
        row.load_until = spec->hop;
        row.planes.slots = plan->plane_slots;
        row.planes.reach = spec->hop + layout->partition_taps - 1;
    } else {
        row.start = spec->hop - layout->fft; /* modulo 2^32, as ring positions are */
        row.new_from = layout->fft - spec->hop;
        row.load_from = row.new_from - (layout->partition_taps - 1);
        row.load_until = layout->fft;
    }
    const bool aligned = format->bytes == 2 || format->bytes == 4;
    if (aligned)
        row.flags |= ROW_ALIGNED; /* rings begin at pages, and a frame is whole words */
    if (word_swapped(format))
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
    uint64_t sample = 0;
    for (uint32_t o = 0; o < output; o++)
        sample += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    row->output_byte = sample * build->plan->info.sample_bytes;
    row->stride = build->plan->info.output_floats;
    row->form = row_form(spec->outputs[output]);
    row->components = output_components(build, output);
    results_of_row(build, output, row);
}
