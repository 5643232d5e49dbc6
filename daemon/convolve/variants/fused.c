/*
 * The variant "fused": overlap-save in one launch on a GPU. A work-group holds a block in its
 * registers from the conversion of the samples to the result.
 *
 * There are two ways. kernels/fused_wide.cl computes the plans that wide.h has a shape for, with a
 * second program for the blocks that it leaves out (stage.rare); kernels/fused.cl computes all
 * others, and those that decimate. Windows too long for a work-group are shared by two of them,
 * through a scratch in device memory (kernels/fused_split.cl).
 *
 * A row computes one output; an input without an edge has a row for its report. Neighbouring
 * channels share a work-group, and rows that compute nothing fill up the last one. A program is
 * built for one transform, one sample format and one shape of the frames (fused.cl only on GPUs).
 *
 * Samples enter the transform as codes. The scale that makes them physical values is part of the
 * filter spectra when all channels have the same, else of the rows' gains.
 *
 * Worker threads, one at a time.
 */
#include "convolve/variants/fused.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/fft_plan.h"
#include "convolve/plan/results.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "convolve/variants/wide.h"
#include "device/traits.h"

enum { ITEMS_MOST = 512, WIDTH_MOST = 8, GENERAL_POINTS_MOST = 8192 };

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

/* How a plan's transforms are cut, and by which program. */
struct cut {
    struct registers shape;
    const struct wide *wide; /* NULL: fused.cl computes it */
};

/* Q points for this specification; false: there is no such transform. */
static bool cut_find(const struct device *device, const struct plan_spec *spec, uint32_t points,
                     struct cut *cut)
{
    const uint64_t local_bytes = fused_local_bytes(device);
    const struct wide *wide = wide_find(spec, points);
    *cut = (struct cut){0};
    if (wide != NULL && spec->decimate <= 1 &&
        wide_fit(wide, spec, local_bytes, ITEMS_MOST, &cut->shape)) {
        cut->wide = wide;
        return true;
    }
    if (points > GENERAL_POINTS_MOST)
        return false;
    const struct registers *found = wide != NULL ? &wide->shape : registers_find(points);
    if (found == NULL)
        return false;
    cut->shape = *found;
    cut->shape.pair = cut->shape.run = cut->shape.pieces = 1;
    /* As many channels side by side as there are, up to a memory sector. */
    uint32_t width = 1;
    while (width < spec->inputs && width < WIDTH_MOST)
        width *= 2;
    registers_fit(&cut->shape, width, local_bytes, ITEMS_MOST);
    if (registers_local_bytes(&cut->shape) + registers_report_bytes(&cut->shape) > local_bytes)
        cut->shape.pieces = 2;
    return registers_local_bytes(&cut->shape) + registers_report_bytes(&cut->shape) <= local_bytes;
}

/* How many groups share a window. */
static uint32_t cut_split(const struct cut *cut)
{
    return cut->wide != NULL ? cut->wide->split : 1;
}

/* Whether it is a good choice where nobody asks for it. Groups that share a window need a fence of
 * the device's scope, which OpenCL C 1.2 does not have; NVIDIA's kernels use that of PTX. */
static bool suits_by_rule(const struct device *device, const struct plan_spec *spec,
                          const struct wide *wide)
{
    return spec->inputs <= wide->rule_channels &&
           (wide->split == 1 || device_is_nvidia(&device->found.info));
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
    struct cut cut;
    if (!cut_find(device, spec, layout->fft / 2, &cut))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: N = %u does not fit a work-group; use the variant \"staged\"",
                           variant->name, layout->fft);
    if (cut_split(&cut) > 1 && cut.shape.points > device->traits.split_points_most)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: %s %s cannot compile N = %u; use the variant \"staged\"",
                           variant->name, device->found.info.platform, device->found.info.driver,
                           layout->fft);
    /* A group of so many points holds few channels and reads parts of sectors, while "staged" reads
     * whole ones. On an H100 with 16 channels "staged" is 1.5 times as fast, and 0.85 times as fast
     * with half as many points. */
    if (!by_name && cut.shape.points > 4096 && spec->inputs >= WIDTH_MOST)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: staged is faster for N = %u and %u channels", variant->name,
                           layout->fft, spec->inputs);
    if (!by_name && cut.wide != NULL && !suits_by_rule(device, spec, cut.wide))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: with N = %u and %u channels it was not measured as faster on "
                           "this device; use the variant \"staged\"",
                           variant->name, layout->fft, spec->inputs);
    return 0;
}

/* Reports of 32 bytes are 3 to 7 % of what blocks of 120 frames move, and 2 to 4 % of 248. In a
 * packed one a single item adds the sums of all those of a transform. */
enum { PACKING_ITEMS = 16 };

static enum plan_packing packing_of(const struct plan_spec *spec, const struct cut *cut)
{
    const bool many = cut->shape.points / cut->shape.each > PACKING_ITEMS;
    if (cut->wide == NULL || many || spec->hop > PACKED_FRAMES)
        return PACKS_NOTHING;
    return spec->format.kind == SAMPLE_FLOAT ? PACKS_FLOAT : PACKS_INT16;
}

/* The filters' spectra, then the table of twiddles. */
static void fused_measure(struct build *build)
{
    struct cut cut;
    build->spectra_floats = spectra_place(build);
    if (!cut_find(build->device, build->spec, build->plan->layout.fft / 2, &cut))
        return;
    build->spectra_floats += wide_table_floats(&cut.shape);
    build->plan->packing = packing_of(build->spec, &cut);
    if (cut_split(&cut) > 1) {
        const uint64_t most = (uint64_t)build->spec->inputs * build->plan->blocks_max;
        build->windows = most < SPLIT_WINDOWS ? (uint32_t)most : SPLIT_WINDOWS;
        build->window_groups = cut_split(&cut);
    }
}

/* ---- spectra ----------------------------------------------------------------------------- */

/* Scales beyond these stay with the gains: spectra keep their digits. */
static const double fold_least = 1e-12, fold_most = 1e12;

double fused_fold(const struct plan *plan, const struct plan_spec *spec)
{
    const double scale = fabs((double)row_of_input(plan, spec, 0).scale);
    for (uint32_t i = 1; i < spec->inputs; i++)
        if (row_of_input(plan, spec, i).scale != row_of_input(plan, spec, 0).scale)
            return 1;
    return scale >= fold_least && scale <= fold_most ? (double)row_of_input(plan, spec, 0).scale
                                                     : 1;
}

int fused_spectra(struct build *build, fused_bin *bin, const void *order, double fold,
                  struct problem *problem)
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
            for (uint32_t i = 0; i < fft; i++)
                bins[i] = (float)((double)bins[i] * fold);
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

/* ---- rows -------------------------------------------------------------------------------- */

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
    const bool folded = fused_fold(plan, spec) != 1;
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
        row->gain = heard[i]->gain * (folded ? 1 : row->scale);
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
                  bool constants, char *options, size_t bytes)
{
    bool offset = false, one_form = true, scaled = false, gains = false;
    const struct row *first = NULL; /* the first row that writes results */
    for (uint32_t i = 0; i < build->spec->inputs; i++) {
        offset |= rows[i].offset_hi != 0 || rows[i].offset_lo != 0;
        scaled |= rows[i].scale != 1;
        gains |= rows[i].gain != 1;
        if (rows[i].components == 0)
            continue;
        first = first != NULL ? first : &rows[i];
        one_form &= rows[i].form == first->form;
    }
    int length = registers_options(shape, options, bytes);
    length += window_options(&build->spec->format, rows, offset, options + length,
                             bytes - (size_t)length);
    length += snprintf(options + length, bytes - (size_t)length,
                       " -D COMPONENTS=%u -D SCALED=%d -D GAINS=%d", fused_components(build),
                       scaled, gains);
    if (build->plan->info.decimate > 1)
        length += snprintf(options + length, bytes - (size_t)length, " -D DECIMATE=%uu",
                           build->plan->info.decimate);
    if (first != NULL && one_form)
        length += snprintf(options + length, bytes - (size_t)length, " -D FORM=%uu", first->form);
    if ((build->device->found.info.gpu || constants) && first != NULL)
        length += snprintf(options + length, bytes - (size_t)length,
                           " -D FRAME_BYTES=%uu -D STRIDE=%uu -D HOP=%uu -D LOAD_FROM=%uu",
                           rows[0].frame_bytes, first->stride, first->hop, first->load_from);
    return length;
}

static uint32_t bin_at(const void *order, uint32_t place)
{
    const struct cut *cut = order;
    return wide_bin(&cut->shape, cut_split(cut), place);
}

/* ---- stages ------------------------------------------------------------------------------ */

/* The scale of results of 16 bits that is a power of two: as part of the spectra it makes codes of
 * what were floats, to the bit. 0: encode.clh scales. */
static double code_scale(const struct plan *plan, const struct cut *cut)
{
    const struct result_format *results = &plan->info.results;
    const struct sample_format *format = &results->format;
    const bool codes = cut->wide != NULL && !result_format_native(results) &&
                       format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->bits == 16;
    return codes && results_exact(results) ? results_scale(results) : 0;
}

static int wide_stage(struct build *build, const struct cut *cut, const struct row *rows,
                      bool codes, uint32_t capacity, struct stage **stage, struct problem *problem)
{
    const struct registers *shape = &cut->shape;
    const bool nvidia = device_is_nvidia(&build->device->found.info);
    char options[KERNEL_OPTIONS];
    int length = fused_options(build, shape, rows, true, options, sizeof options);
    length += wide_options(cut->wide, shape, build->spec->inputs, nvidia, options + length,
                           sizeof options - (size_t)length);
    length += snprintf(options + length, sizeof options - (size_t)length,
                       " -D CODES=%d -D PACKED=%d -D LEAVE=%d", codes,
                       build->plan->packing == PACKS_NOTHING ? 0
                       : cut->wide->packs_late               ? PACKED_LATE
                                                             : PACKED_EARLY,
                       build->device->found.info.gpu);
    const bool shared = cut->wide->split > 1;
    const char *file = shared ? "fused_split.cl" : "fused_wide.cl";
    const char *function = shared ? "fused_split" : "fused_wide";
    char *end = options + length;
    const size_t left = sizeof options - (size_t)length;
    snprintf(end, left, " -D RARE=0");
    int error = plan_stage(build, file, function, options, capacity, stage, problem);
    if (error < 0)
        return error;
    snprintf(end, left, " -D RARE=1");
    (*stage)->reads_groups = true;
    (*stage)->whole_slots = shape->run;
    (*stage)->sides = capacity / (shape->width * shape->pair);
    (*stage)->shared_bytes = wide_report_bytes(shape);
    return plan_stage_rare(build, *stage, file, function, options, problem);
}

static int general_stage(struct build *build, const struct cut *cut, const struct row *rows,
                         uint32_t capacity, struct stage **stage, struct problem *problem)
{
    char options[KERNEL_OPTIONS];
    const int length = fused_options(build, &cut->shape, rows, false, options, sizeof options);
    snprintf(options + length, sizeof options - (size_t)length, " -D KEPT=%uu",
             registers_kept(&cut->shape, build->plan->info.decimate));
    int error = plan_stage(build, "fused.cl", "fused", options, capacity, stage, problem);
    if (error == 0)
        (*stage)->shared_bytes = registers_report_bytes(&cut->shape);
    return error;
}

/* Writes the table of twiddles behind the spectra; its place in SPECTRUM. */
static uint64_t fill_table(const struct build *build, const struct registers *shape)
{
    const struct plan *plan = build->plan;
    const uint64_t place =
        plan->spectra_offset / sizeof(float) + build->spectra_floats - wide_table_floats(shape);
    if (shape->tables)
        wide_table(shape, (float *)(void *)build->device->spectrum.host + place);
    return place;
}

static int fused_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    struct cut cut;
    const bool found = cut_find(build->device, spec, plan->layout.fft / 2, &cut);
    assert(found); /* fused_layout has checked it */
    (void)found;
    const uint32_t split = cut_split(&cut);
    const uint32_t group_rows = cut.shape.width * cut.shape.pair;
    const uint32_t capacity = (spec->inputs + group_rows - 1) / group_rows * group_rows;
    const double codes = code_scale(plan, &cut);
    struct row *rows = calloc(capacity, sizeof *rows);
    if (rows == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    int error = fused_spectra(build, bin_at, &cut,
                              fused_fold(plan, spec) * (codes != 0 ? codes : 1), problem);
    if (error == 0 && fused_rows(build, rows) < 0)
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    struct stage *stage = NULL;
    if (error == 0) {
        const uint64_t table = fill_table(build, &cut.shape);
        for (uint32_t i = 0; i < capacity; i++) {
            if (i >= spec->inputs) {
                rows[i] = idle_row(&rows[0]);
                rows[i].load_until = 0;
                rows[i].report = ROW_NONE;
            }
            rows[i].own.filter.table = table;
            if (codes != 0)
                rows[i].result_scale = 1;
        }
        error = cut.wide != NULL
                    ? wide_stage(build, &cut, rows, codes != 0, capacity, &stage, problem)
                    : general_stage(build, &cut, rows, capacity, &stage, problem);
    }
    if (error == 0) {
        memcpy(stage->rows, rows, capacity * sizeof *rows);
        stage->count = capacity;
        stage->items = registers_items(&cut.shape);
        stage->group_rows = group_rows;
        stage->group_blocks = cut.shape.blocks;
        stage->block_groups = stage->groups_together = split;
        stage->local_bytes = registers_local_bytes(&cut.shape);
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
