/*
 * The variant "fused": overlap-save in one launch on a GPU. A work-group holds a block in its
 * registers from the conversion of the samples to the result (kernels/fused.cl).
 *
 * A row computes one output; an input without an edge has a row for its report. Neighbouring
 * channels share a work-group, and rows that compute nothing fill up the last one. The program is
 * built for one transform, one sample format and, on a GPU, one shape of the frames.
 *
 * Worker threads, one at a time.
 */
#include "convolve/variants/fused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/fft_plan.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"

enum { ITEMS_MOST = 512, WIDTH_MOST = 8 };

static const char *fused_objection(const struct device *device, const struct plan_spec *spec,
                                   bool by_name)
{
    (void)by_name;
    return device->traits.lanes != 1 ? "it is made for GPUs" : layout_single_edges(spec);
}

/* local_budget_bytes leaves out the reports, which other kernels keep beside their scratch. Here
 * registers_report_bytes counts them, so they are added back. */
uint64_t fused_local_bytes(const struct device *device)
{
    return device->traits.local_budget_bytes + device->traits.items * sizeof(struct report_row);
}

/* Puts as many channels side by side as there are, up to a memory sector. */
static struct registers shape_of(const struct device *device, const struct plan_spec *spec,
                                 uint32_t fft)
{
    struct registers shape = *registers_find(fft / 2);
    uint32_t width = 1;
    while (width < spec->inputs && width < WIDTH_MOST)
        width *= 2;
    registers_fit(&shape, width, fused_local_bytes(device), ITEMS_MOST);
    return shape;
}

static int fused_layout(const struct device *device, const struct plan_spec *spec,
                        const struct variant *variant, bool by_name, struct layout *layout,
                        struct problem *problem)
{
    int error = layout_standard(device, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;
    layout->scratch = SCRATCH_LOCAL;
    layout->fft_lanes = 0;
    if (registers_find(layout->fft / 2) == NULL)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: N = %u does not fit a work-group; use the variant \"staged\"",
                           variant->name, layout->fft);
    const struct registers shape = shape_of(device, spec, layout->fft);
    if (registers_local_bytes(&shape) + registers_report_bytes(&shape) > fused_local_bytes(device))
        return problem_set(problem, ERROR_UNSUPPORTED, "%s: N = %u does not fit local memory",
                           variant->name, layout->fft);
    /* A group of so many points holds few channels and reads parts of sectors, while "staged" reads
     * whole ones. On an H100 with 16 channels "staged" is 1.5 times as fast, and 0.85 times as fast
     * with half as many points. */
    if (!by_name && shape.points > 4096 && spec->inputs >= WIDTH_MOST)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: staged is faster for N = %u and %u channels", variant->name,
                           layout->fft, spec->inputs);
    return 0;
}

static void fused_measure(struct build *build)
{
    build->spectra_floats = spectra_place(build);
}

int fused_spectra(struct build *build, fused_bin *bin, const void *order, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint32_t fft = plan->layout.fft;
    const uint64_t base = plan->spectra_offset / sizeof(float);
    float *memory = (float *)(void *)(build->device->spectrum.host) + base;
    float *bins = malloc(2 * (size_t)fft * sizeof *bins);
    struct fft_plan *fft_plan = NULL;
    if (bins == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    int error = fft_plan_create(fft, 1, 8, &fft_plan, problem);
    for (uint32_t t = 0; error == 0 && t < spec->taps_count; t++) {
        const struct taps *taps = spec->taps[t];
        uint64_t *const places[] = {&build->filters[t].re, &build->filters[t].im};
        const double *const parts[] = {taps->re, taps->im};
        for (int part = 0; part < 2; part++) {
            if (*places[part] == ROW_NONE)
                continue;
            natural_spectrum(fft_plan, parts[part], taps->count, build->work, bins + fft, bins);
            for (uint32_t i = 0; i < fft / 2; i++)
                memcpy(memory + *places[part] + 2 * (uint64_t)i, bins + 2 * (uint64_t)bin(order, i),
                       2 * sizeof *bins);
            *places[part] += base;
        }
    }
    fft_plan_free(fft_plan);
    free(bins);
    return error;
}

/* A row that computes and writes nothing. */
static struct row idle_row(const struct row *like)
{
    struct row row = *like;
    row.components = 0;
    row.form = FORM_NONE;
    return row;
}

int fused_rows(const struct build *build, struct row *rows)
{
    const struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct edge **heard = calloc(spec->inputs, sizeof *heard);
    if (heard == NULL)
        return ERROR_MEMORY;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        heard[spec->edges[e].input] = &spec->edges[e];
    /* In the order of the inputs, so that neighbouring rows read neighbouring samples. */
    for (uint32_t i = 0; i < spec->inputs; i++) {
        struct row *row = &rows[i];
        *row = row_of_input(plan, spec, i);
        row->own.filter =
            (struct row_filter){.re = plan->spectra_offset / sizeof(float), .im = ROW_NONE};
        if (heard[i] == NULL) {
            *row = idle_row(row);
            continue;
        }
        row_to_output(build, heard[i]->output, row);
        row->own.filter.re = build->filters[heard[i]->taps].re;
        if (row->components == 2)
            row->own.filter.im = build->filters[heard[i]->taps].im;
        row->gain = heard[i]->gain;
    }
    free(heard);
    return 0;
}

uint32_t fused_components(const struct build *build)
{
    uint32_t most = 1;
    for (uint32_t o = 0; o < build->spec->outputs_count; o++)
        if (output_components(build, o) == 2)
            most = 2;
    return most;
}

int fused_options(const struct build *build, const struct registers *shape, const struct row *rows,
                  char *options, size_t bytes)
{
    bool offset = false, one_form = true, plain = true;
    const struct row *first = NULL; /* the first row that writes results */
    for (uint32_t i = 0; i < build->spec->inputs; i++) {
        offset |= rows[i].offset_hi != 0 || rows[i].offset_lo != 0;
        plain &= rows[i].scale == 1 && rows[i].gain == 1;
        if (rows[i].components == 0)
            continue;
        first = first != NULL ? first : &rows[i];
        one_form &= rows[i].form == first->form;
    }
    int length = registers_options(shape, options, bytes);
    length += window_options(&build->spec->format, rows, offset, options + length,
                             bytes - (size_t)length);
    length += snprintf(options + length, bytes - (size_t)length, " -D COMPONENTS=%u -D PLAIN=%d",
                       fused_components(build), plain && !offset);
    if (build->plan->info.decimate > 1)
        length += snprintf(options + length, bytes - (size_t)length, " -D DECIMATE=%uu",
                           build->plan->info.decimate);
    if (first != NULL && one_form)
        length += snprintf(options + length, bytes - (size_t)length, " -D FORM=%uu", first->form);
    if (build->device->found.info.gpu && first != NULL)
        length += snprintf(options + length, bytes - (size_t)length,
                           " -D FRAME_BYTES=%uu -D STRIDE=%uu -D HOP=%uu -D LOAD_FROM=%uu",
                           rows[0].frame_bytes, first->stride, first->hop, first->load_from);
    return length;
}

/* The order in which the last pass holds the bins. */
static uint32_t bin_at(const void *shape, uint32_t place)
{
    return registers_bin(shape, place);
}

static int fused_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct registers shape = shape_of(build->device, spec, plan->layout.fft);
    const uint32_t capacity = (spec->inputs + shape.width - 1) / shape.width * shape.width;
    struct row *rows = calloc(capacity, sizeof *rows);
    int error = fused_spectra(build, bin_at, &shape, problem);
    if (error == 0 && (rows == NULL || fused_rows(build, rows) < 0))
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    struct stage *stage = NULL;
    if (error == 0) {
        for (uint32_t i = spec->inputs; i < capacity; i++) {
            rows[i] = idle_row(&rows[0]);
            rows[i].load_until = 0;
            rows[i].report = ROW_NONE;
        }
        char options[KERNEL_OPTIONS];
        const int length = fused_options(build, &shape, rows, options, sizeof options);
        snprintf(options + length, sizeof options - (size_t)length, " -D KEPT=%uu",
                 registers_kept(&shape, plan->info.decimate));
        error = plan_stage(build, "fused.cl", "fused", options, capacity, &stage, problem);
    }
    if (error == 0) {
        memcpy(stage->rows, rows, capacity * sizeof *rows);
        stage->count = capacity;
        stage->items = registers_items(&shape);
        stage->group_rows = shape.width;
        stage->group_blocks = shape.blocks;
        stage->local_bytes = registers_local_bytes(&shape);
        stage->shared_bytes = registers_report_bytes(&shape);
    }
    free(rows);
    return error;
}

const struct variant variant_fused = {
    .name = "fused",
    .pace = 6,
    .formats = true,
    .decimates = true,
    .objection = fused_objection,
    .layout = fused_layout,
    .measure = fused_measure,
    .fill = fused_fill,
};
