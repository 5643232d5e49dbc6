/*
 * Plans: a specification and a layout become spectra, tables, state memory and the
 * templates of the rows that each item fills in. Costs are learnt here too.
 *
 * Worker threads under engine->workers; plan_cost_learn on the device thread.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/hooks.h"
#include "core/log.h"

enum { LINE_FLOATS = 16 }; /* spectra begin at whole vectors */

const struct plan_info *plan_info(const struct plan *plan)
{
    return &plan->info;
}

/* ---- costs ---------------------------------------------------------------------------------- */

int64_t plan_cost_ns(const struct plan *plan, uint32_t blocks)
{
    return atomic_load_explicit(&plan->cost_base_ns, memory_order_relaxed) +
           atomic_load_explicit(&plan->cost_block_ps, memory_order_relaxed) * blocks / 1000;
}

void plan_cost_learn(const struct batch *batch, int64_t device_ns)
{
    int64_t expected_ns = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        expected_ns += plan_cost_ns(batch->items[i].plan, batch->items[i].blocks);
    if (expected_ns <= 0 || device_ns <= 0)
        return;
    /* Every plan of the batch takes its share of the surprise; one batch counts an eighth. */
    double ratio = (double)device_ns / (double)expected_ns;
    ratio = fmin(fmax(ratio, 0.25), 4.0);
    const double factor = 1 + (ratio - 1) / 8;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct plan *plan = batch->items[i].plan;
        const double base = (double)atomic_load_explicit(&plan->cost_base_ns, memory_order_relaxed);
        const double block =
            (double)atomic_load_explicit(&plan->cost_block_ps, memory_order_relaxed);
        atomic_store_explicit(&plan->cost_base_ns, (int64_t)fmax(base * factor, 1000),
                              memory_order_relaxed);
        atomic_store_explicit(&plan->cost_block_ps, (int64_t)fmax(block * factor, 1000),
                              memory_order_relaxed);
    }
}

/* ---- spectra -------------------------------------------------------------------------------- */

struct build {
    struct plan *plan;
    const struct plan_spec *spec;
    struct filter_spectra *filters; /* [taps_count] */
    bool *wants_im;                 /* [taps_count]: some output takes more than the real part */
    double *work;
};

static uint64_t floats_to_line(uint64_t floats)
{
    return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

/* Where each component of each filter goes, from `floats` on; returns the float after the last. */
static uint64_t place_spectra(struct build *build)
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

/* Relative offsets become places in SPECTRUM. */
static void fill_spectra(const struct build *build)
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

/* ---- rows -------------------------------------------------------------------------------------
 */

/* What every row of an input shares: how its samples are read, and where in the window they lie. */
struct row plan_input_row(const struct plan *plan, const struct plan_spec *spec, uint32_t input)
{
    const struct sample_format *format = &spec->format;
    const struct layout *layout = &plan->layout;
    const struct channel_scale *scale = &spec->scales[input];
    struct row row = {
        .report = (uint64_t)input * REPORT_FLOATS,
        .report_stride = spec->inputs * REPORT_FLOATS,
        .spectrum = ROW_NONE,
        .spectrum_im = ROW_NONE,
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

static uint32_t row_form(enum output_form form)
{
    static const uint32_t forms[] = {[OUTPUT_REAL] = FORM_REAL,
                                     [OUTPUT_COMPLEX] = FORM_COMPLEX,
                                     [OUTPUT_ENVELOPE] = FORM_ENVELOPE};
    return forms[form];
}

static uint32_t output_components(const struct build *build, uint32_t output)
{
    for (uint32_t e = 0; e < build->spec->edge_count; e++)
        if (build->spec->edges[e].output == output && build->spec->outputs[output] != OUTPUT_REAL &&
            build->filters[build->spec->edges[e].taps].im != ROW_NONE)
            return 2;
    return 1;
}

/* What every row of an output shares: where its frames go. */
static void output_row(const struct build *build, uint32_t output, struct row *row)
{
    const struct plan_spec *spec = build->spec;
    row->output = 0;
    for (uint32_t o = 0; o < output; o++)
        row->output += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    row->stride = build->plan->info.output_floats;
    row->form = row_form(spec->outputs[output]);
    row->components = output_components(build, output);
}

struct row *plan_stage_rows(struct plan *plan, enum stage_id stage, enum kernel_id kernel,
                            uint32_t capacity)
{
    plan->kernels[stage] = kernel;
    plan->templates[stage] = calloc(capacity, sizeof(struct row));
    return plan->templates[stage];
}

/* One launch: a row an output, and a row for each input that no output hears, for its report. */
static int fused_rows(const struct build *build)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const bool overlap_add = plan->layout.variant->overlap_add;
    struct row *rows = plan_stage_rows(plan, STAGE_PRODUCE, KERNEL_FUSED, spec->inputs);
    bool *heard = calloc(spec->inputs, sizeof *heard);
    if (rows == NULL || heard == NULL) {
        free(heard);
        return ERROR_MEMORY;
    }
    uint32_t count = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        struct row *row = &rows[count++];
        *row = plan_input_row(plan, spec, edge->input);
        output_row(build, edge->output, row);
        row->spectrum = build->filters[edge->taps].re;
        row->spectrum_im = build->filters[edge->taps].im;
        row->gain = edge->gain;
        heard[edge->input] = true;
        if (overlap_add)
            row->form = FORM_PLANE;
    }
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            rows[count++] = plan_input_row(plan, spec, i);
    plan->rows[STAGE_PRODUCE] = count;
    free(heard);
    return 0;
}

/* Two launches: a row an input, then a row an output with its edges in SPECTRUM. */
static int general_rows(const struct build *build, uint64_t edges_offset)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const bool overlap_add = plan->layout.variant->overlap_add;
    struct row *inputs = plan_stage_rows(plan, STAGE_FORWARD, KERNEL_FORWARD, spec->inputs);
    struct row *outputs = plan_stage_rows(plan, STAGE_PRODUCE, KERNEL_PRODUCT, spec->outputs_count);
    if (inputs == NULL || outputs == NULL)
        return ERROR_MEMORY;
    const uint64_t line_floats = (uint64_t)plan->slots * plan->layout.fft;
    const uint64_t state = plan->state_offset / sizeof(float);
    for (uint32_t i = 0; i < spec->inputs; i++)
        inputs[i] = plan_input_row(plan, spec, i);
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        struct row *row = &inputs[spec->edges[e].input];
        row->form = FORM_REAL;
        row->delay_line = state + spec->edges[e].input * line_floats;
    }
    plan->rows[STAGE_FORWARD] = spec->inputs;

    struct edge_row *edges =
        (struct edge_row *)(void *)(plan->engine->spectrum.host + edges_offset);
    uint32_t used = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++) {
        struct row *row = &outputs[o];
        *row = plan_input_row(plan, spec, 0);
        output_row(build, o, row);
        row->report = ROW_NONE;
        row->spectrum = (edges_offset + used * sizeof *edges) / sizeof(float);
        for (uint32_t e = 0; e < spec->edge_count; e++) {
            const struct edge *edge = &spec->edges[e];
            if (edge->output != o)
                continue;
            edges[used++] = (struct edge_row){
                .spectrum = build->filters[edge->taps].re,
                .spectrum_im = row->components == 2 ? build->filters[edge->taps].im : ROW_NONE,
                .delay_line = state + edge->input * line_floats,
                .partitions = build->filters[edge->taps].partitions,
                .gain = edge->gain,
            };
            row->edge_count++;
        }
        if (overlap_add)
            row->form = FORM_PLANE;
    }
    plan->rows[STAGE_PRODUCE] = spec->outputs_count;
    return 0;
}

/* Overlap-add's last launch; also tells the rows before it where the planes are. */
static int gather_rows(const struct build *build, uint64_t planes)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    struct row *rows = plan_stage_rows(plan, STAGE_GATHER, KERNEL_GATHER, spec->outputs_count);
    if (rows == NULL)
        return ERROR_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->rows[STAGE_PRODUCE]; i++) {
        struct row *producer = &plan->templates[STAGE_PRODUCE][i];
        if (producer->form != FORM_PLANE)
            continue;
        producer->planes = planes;
        planes += (uint64_t)producer->components * plan->plane_slots * plan->layout.fft;
        struct row *row = &rows[count++];
        *row = *producer;
        row->report = ROW_NONE;
        for (uint32_t o = 0, place = 0; o < spec->outputs_count; o++) {
            if (place == row->output)
                row->form = row_form(spec->outputs[o]);
            place += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
        }
    }
    plan->rows[STAGE_GATHER] = count;
    return 0;
}

/* ---- building ---------------------------------------------------------------------------------
 */

static int take_memory(struct build *build, uint64_t spectra_floats, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct engine *engine = plan->engine;
    const struct plan_spec *spec = build->spec;
    const struct layout *layout = &plan->layout;
    int error =
        arena_take(&engine->spectrum, engine->upload,
                   spectra_floats * sizeof(float) + spec->edge_count * sizeof(struct edge_row),
                   &plan->spectra_offset, problem);
    if (error < 0) {
        plan->spectra_offset = ROW_NONE;
        return error;
    }
    const bool lines = !layout->variant->one_launch;
    uint64_t components = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        components += output_components(build, o);
    uint64_t floats = 0;
    if (lines)
        floats += (uint64_t)spec->inputs * plan->slots * layout->fft;
    if (layout->variant->overlap_add)
        floats += components * plan->plane_slots * layout->fft;
    plan->stateful = floats > 0;
    if (plan->stateful) {
        error = arena_take(&engine->state, engine->upload, floats * sizeof(float),
                           &plan->state_offset, problem);
        if (error < 0) {
            plan->state_offset = ROW_NONE;
            return error;
        }
    }
    if (layout->scratch == SCRATCH_GLOBAL) {
        const uint32_t rows =
            spec->inputs > spec->outputs_count ? spec->inputs : spec->outputs_count;
        const uint64_t most = (uint64_t)rows * spec->blocks_max;
        plan->scratch_groups = 4 * engine->found.info.compute_units;
        if (plan->scratch_groups > 64)
            plan->scratch_groups = 64;
        if (plan->scratch_groups > most)
            plan->scratch_groups = (uint32_t)most;
        error = arena_take(&engine->state, engine->upload,
                           (uint64_t)plan->scratch_groups * layout->planes * layout->fft *
                               sizeof(float),
                           &plan->scratch_offset, problem);
        if (error < 0)
            plan->scratch_offset = ROW_NONE;
    }
    return error;
}

/* For the tests: spectra that the self-test has to refuse. */
static void spoil_spectra(const struct plan *plan)
{
    float *spectra = (float *)(void *)(plan->engine->spectrum.host + plan->spectra_offset);
    if (engine_hooks.wrong_variant != NULL &&
        strcmp(engine_hooks.wrong_variant, plan->info.variant) == 0)
        for (uint32_t i = 0; i < plan->layout.fft; i++)
            spectra[i] *= 1.01f;
}

static int fill_tables(struct build *build, uint64_t spectra_floats, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    struct engine *engine = plan->engine;
    const uint64_t edges_offset = plan->spectra_offset + spectra_floats * sizeof(float);
    int error;
    if (plan->layout.variant->lanes) {
        error = lanes_rows(plan, spec, build->work);
    } else {
        fill_spectra(build);
        error = plan->layout.variant->one_launch ? fused_rows(build)
                                                 : general_rows(build, edges_offset);
    }
    spoil_spectra(plan);
    if (error == 0 && plan->layout.variant->overlap_add) {
        uint64_t planes = plan->state_offset / sizeof(float);
        if (!plan->layout.variant->one_launch)
            planes += (uint64_t)spec->inputs * plan->slots * plan->layout.fft;
        error = gather_rows(build, planes);
    }
    if (error < 0)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    error = arena_upload(
        &engine->spectrum, engine->upload, plan->spectra_offset,
        spectra_floats * sizeof(float) + spec->edge_count * sizeof(struct edge_row), problem);
    for (enum stage_id stage = 0; stage < STAGE_COUNT; stage++) {
        plan->rows_most += plan->rows[stage] * (stage == STAGE_GATHER ? 1 : 2);
        if (error == 0 && plan->templates[stage] != NULL)
            error = device_kernel(engine, plan->kernels[stage], plan->layout.scratch, problem);
    }
    if (error == 0 && plan->rows_most > ROWS_PER_BATCH)
        error = problem_set(problem, ERROR_LIMIT, "too many channels and edges in one stream");
    return error;
}

static void plan_free(struct plan *plan)
{
    struct engine *engine = plan->engine;
    if (plan->spectra_offset != ROW_NONE)
        arena_give(&engine->spectrum, plan->spectra_offset);
    if (plan->state_offset != ROW_NONE)
        arena_give(&engine->state, plan->state_offset);
    if (plan->scratch_offset != ROW_NONE)
        arena_give(&engine->state, plan->scratch_offset);
    device_tree_put(plan->tree, engine);
    for (enum stage_id stage = 0; stage < STAGE_COUNT; stage++)
        free(plan->templates[stage]);
    free(plan);
}

int plan_build(struct engine *engine, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct build build = {
        .plan = plan,
        .spec = spec,
        .filters = calloc(spec->taps_count, sizeof *build.filters),
        .work = calloc((uint64_t)layout->fft, sizeof *build.work),
    };
    int error = 0;
    if (plan == NULL || build.filters == NULL || build.work == NULL) {
        free(plan);
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
        goto done;
    }
    plan->engine = engine;
    plan->layout = *layout;
    plan->hop = spec->hop;
    plan->blocks_max = spec->blocks_max;
    plan->spectra_offset = plan->state_offset = plan->scratch_offset = ROW_NONE;
    for (enum stage_id stage = 0; stage < STAGE_COUNT; stage++)
        plan->kernels[stage] = KERNEL_NONE;
    plan->slots = layout->history_blocks + layout->tail_blocks + spec->blocks_max;
    plan->plane_slots = layout->tail_blocks + spec->blocks_max;
    plan->info = (struct plan_info){
        .variant = layout->variant->name,
        .hop = spec->hop,
        .fft = layout->fft,
        .partitions = layout->partitions,
        .taps_longest = layout->taps_longest,
        .history_frames = (layout->history_blocks + layout->tail_blocks) * spec->hop,
        .inputs = spec->inputs,
        .outputs = spec->outputs_count,
    };
    if (!layout->variant->overlap_add)
        plan->info.history_frames += layout->partition_taps - 1;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        plan->info.output_floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    atomic_store(&plan->cost_base_ns, 20000);
    atomic_store(&plan->cost_block_ps, 1000);

    error = device_tree_get(engine, layout->fft, layout->variant->lanes ? 1 : engine->lanes,
                            &plan->tree, problem);
    const uint64_t spectra_floats =
        layout->variant->lanes ? lanes_spectra_floats(spec, layout->fft) : place_spectra(&build);
    if (error == 0)
        error = take_memory(&build, spectra_floats, problem);
    if (error == 0)
        error = fill_tables(&build, spectra_floats, problem);
    if (error < 0)
        plan_free(plan);
    else
        *out = plan;
done:
    free(build.filters);
    free(build.work);
    return error;
}

/* ---- preparing --------------------------------------------------------------------------------
 */

static int spec_check(const struct engine *engine, const struct plan_spec *spec,
                      struct problem *problem)
{
    const bool good =
        spec->inputs >= 1 && spec->inputs <= CHANNELS_MAX && spec->outputs_count >= 1 &&
        spec->outputs_count <= CHANNELS_MAX && spec->taps_count >= 1 && spec->edge_count >= 1 &&
        spec->hop >= 1 && spec->hop <= FFT_MAX / 2 && spec->blocks_max >= 1 &&
        spec->blocks_max <= BLOCKS_MAX && sample_format_valid(&spec->format) &&
        (spec->fft == 0 ||
         (spec->fft >= FFT_MIN && spec->fft <= FFT_MAX && (spec->fft & (spec->fft - 1)) == 0));
    if (!good)
        return problem_set(
            problem, ERROR_ARGUMENT,
            "a plan takes 1 to %d channels, blocks of 1 to %d frames, 1 to %d blocks at once, "
            "a valid sample format, and an fft that is a power of two from %d to %d",
            CHANNELS_MAX, FFT_MAX / 2, BLOCKS_MAX, FFT_MIN, FFT_MAX);
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input >= spec->inputs || spec->edges[e].output >= spec->outputs_count ||
            spec->edges[e].taps >= spec->taps_count)
            return problem_set(problem, ERROR_ARGUMENT,
                               "edge %u names a channel or filter that is not there", e);
    uint64_t floats = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    if (floats * spec->hop > engine->slot_samples || spec->inputs > engine->slot_reports)
        return problem_set(
            problem, ERROR_LIMIT,
            "a block of %u frames gives %llu values, more than the %llu a batch can hold: use "
            "shorter blocks or raise `batch memory`",
            spec->hop, (unsigned long long)(floats * spec->hop),
            (unsigned long long)engine->slot_samples);
    return 0;
}

static void plan_register(struct plan *plan)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (plan->engine->plans[i] == NULL) {
            plan->engine->plans[i] = plan;
            return;
        }
}

static int plans_full(const struct engine *engine)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (engine->plans[i] == NULL)
            return 0;
    return 1;
}

static void plan_forget(struct plan *plan)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (plan->engine->plans[i] == plan)
            plan->engine->plans[i] = NULL;
}

int plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                 struct problem *problem)
{
    *out = NULL;
    int error = spec_check(engine, spec, problem);
    if (error < 0)
        return error;
    pthread_mutex_lock(&engine->workers);
    const struct variant *variant;
    error = problem_set(problem, ERROR_UNSUPPORTED,
                        "no variant is named \"%s\"; convolvd --list-variants prints the names",
                        spec->variant != NULL ? spec->variant : "");
    if (plans_full(engine))
        error = problem_set(problem, ERROR_LIMIT, "more than %d plans on one device", PLANS_MAX);
    for (int i = 0; error != ERROR_LIMIT && (variant = variant_at(i)) != NULL; i++) {
        if (spec->variant != NULL && strcmp(spec->variant, variant->name) != 0)
            continue;
        struct layout layout;
        struct plan *plan = NULL;
        error = layout_make(engine, spec, variant, spec->variant != NULL, &layout, problem);
        if (error == ERROR_UNSUPPORTED || error == ERROR_LIMIT) {
            error = ERROR_UNSUPPORTED;
            continue;
        }
        if (error == 0)
            error = plan_build(engine, spec, &layout, &plan, problem);
        if (error != 0)
            break;
        plan_register(plan);
        error = plan_self_test(plan, spec, problem);
        if (error == 0) {
            *out = plan;
            break;
        }
        plan_forget(plan);
        plan_free(plan);
        if (error != ERROR_ACCURACY)
            break;
        log_warning("%s", problem != NULL ? problem->text : error_sentence(error));
    }
    pthread_mutex_unlock(&engine->workers);
    return error;
}

void plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    struct engine *engine = plan->engine;
    pthread_mutex_lock(&engine->workers);
    plan_forget(plan);
    plan_free(plan);
    pthread_mutex_unlock(&engine->workers);
}
