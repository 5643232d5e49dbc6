/*
 * Plans: a specification and a layout become memory, and by the variant's own functions
 * spectra, stages and the templates of the rows that each item fills in. Costs are learnt here too.
 *
 * Worker threads under engine->workers; plan_cost_learn on the device thread.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/hooks.h"
#include "core/log.h"

const struct plan_info *plan_info(const struct plan *plan)
{
    return &plan->info;
}

/* ---- costs ------------------------------------------------------------------------------- */

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

/* ---- building ---------------------------------------------------------------------------------
 */

static int take_memory(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct engine *engine = plan->engine;
    const struct plan_spec *spec = build->spec;
    const struct layout *layout = &plan->layout;
    int error = arena_take(&engine->spectrum, engine->upload, build->spectra_floats * sizeof(float),
                           &plan->spectra_offset, problem);
    if (error < 0) {
        plan->spectra_offset = ROW_NONE;
        return error;
    }
    plan->stateful = build->state_floats > 0;
    if (plan->stateful) {
        error = arena_take(&engine->state, engine->upload, build->state_floats * sizeof(float),
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
        /* 64 groups fill a device, and other plans need memory, too */
        const uint64_t room =
            engine->state.bytes / 4 / ((uint64_t)layout->planes * layout->fft * sizeof(float));
        plan->scratch_groups = 4 * engine->found.info.compute_units;
        if (plan->scratch_groups > 64)
            plan->scratch_groups = 64;
        if (plan->scratch_groups > room)
            plan->scratch_groups = room > 0 ? (uint32_t)room : 1;
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

/* The options of every kernel; those of the variant come first and win. */
static void kernel_options(const struct build *build, const char *own, char options[KERNEL_OPTIONS])
{
    const struct engine *engine = build->engine;
    /* Oclgrind 21.10 does not interpret what inlining leaves behind
     * (llvm.experimental.noalias.scope.decl). */
    const bool simulator = strcmp(engine->found.info.platform, "Oclgrind") == 0;
    const bool items = own != NULL && strstr(own, "-D ITEMS=") != NULL;
    const bool lanes = own != NULL && strstr(own, "-D LANES=") != NULL;
    int length = 0;
    options[0] = '\0';
    if (!lanes)
        length = snprintf(options, KERNEL_OPTIONS, "-D LANES=%u", engine->lanes);
    if (!items)
        length += snprintf(options + length, KERNEL_OPTIONS - (size_t)length, " -D ITEMS=%u",
                           build->plan->layout.items);
    length += results_options(build->plan, options + length, KERNEL_OPTIONS - (size_t)length);
    length += snprintf(options + length, KERNEL_OPTIONS - (size_t)length, "%s%s%s%s",
                       build->plan->layout.scratch == SCRATCH_GLOBAL ? " -D GLOBAL_SCRATCH" : "",
                       simulator ? " -cl-opt-disable" : "", own != NULL ? " " : "",
                       own != NULL ? own : "");
    assert(length < KERNEL_OPTIONS);
    (void)length;
}

int plan_stage(struct build *build, const char *file, const char *function, const char *options,
               uint32_t capacity, struct stage **out, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct layout *layout = &plan->layout;
    assert(plan->stage_count < STAGES_MAX);
    struct stage *stage = &plan->stages[plan->stage_count++];
    *stage = (struct stage){
        .items = layout->items,
        .group_blocks = 1,
        .group_rows = 1,
        .local_bytes = 64,
        .rows = calloc(capacity, sizeof(struct row)),
        .capacity = capacity,
    };
    if (layout->scratch == SCRATCH_LOCAL)
        stage->local_bytes = (uint64_t)layout->planes * layout->fft * sizeof(float);
    *out = stage;
    if (stage->rows == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    if (file != NULL) {
        char all[KERNEL_OPTIONS];
        kernel_options(build, options, all);
        return device_kernel_get(build->engine, file, function, all, &stage->kernel, problem);
    }
    return 0;
}

static int fill_tables(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    int error = plan->layout.variant->fill(build, problem);
    if (error < 0)
        return error;
    spoil_spectra(plan);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct stage *stage = &plan->stages[s];
        assert(stage->count >= 1 && stage->count <= stage->capacity &&
               stage->count % stage->group_rows == 0);
        plan->rows_most += stage->count * (stage->keeps == KEEPS_NOTHING ? 1 : 2);
    }
    if (plan->rows_most > ROWS_PER_BATCH)
        return problem_set(problem, ERROR_LIMIT, "too many channels and edges in one stream");
    return arena_upload(&build->engine->spectrum, build->engine->upload, plan->spectra_offset,
                        build->spectra_floats * sizeof(float), problem);
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
    device_fft_plan_put(plan->fft_plan, engine);
    device_fft_plan_put(plan->tail_fft_plan, engine);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        device_kernel_put(plan->stages[s].kernel);
        for (size_t i = 0; i < sizeof plan->stages[s].own / sizeof plan->stages[s].own[0]; i++)
            device_kernel_put(plan->stages[s].own[i]);
        free(plan->stages[s].rows);
    }
    free(plan);
}

int plan_build(struct engine *engine, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct build build = {
        .engine = engine,
        .plan = plan,
        .spec = spec,
        .filters = calloc(spec->taps_count, sizeof *build.filters),
        .work = calloc((uint64_t)layout->fft, sizeof *build.work),
        .real_parts = ROW_NONE,
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
    plan->slots = layout->history_blocks + layout->tail_blocks + spec->blocks_max;
    plan->plane_slots = layout->tail_blocks + spec->blocks_max;
    plan->info = (struct plan_info){
        .variant = layout->variant->name,
        .hop = spec->hop,
        .fft = layout->fft,
        .partitions = layout->partitions + layout->tail.partitions,
        .vector = layout->vector,
        .taps_longest = layout->taps_longest,
        .history_frames = (layout->history_blocks + layout->tail_blocks) * spec->hop,
        .decimate = spec->decimate > 1 ? spec->decimate : 1,
        .decimate_phase = spec->decimate_phase,
        .inputs = spec->inputs,
        .outputs = spec->outputs_count,
        .results = results_granted(engine, layout->variant, &spec->results),
    };
    if (!layout->variant->overlap_add)
        plan->info.history_frames += layout->partition_taps - 1;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        plan->info.output_floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    const bool native = result_format_native(&plan->info.results);
    plan->info.sample_bytes = native ? sizeof(float) : plan->info.results.format.bytes;
    plan->report_rows = spec->inputs + (native ? 0 : clip_rows(spec->outputs_count));
    atomic_store(&plan->cost_base_ns, 20000);
    atomic_store(&plan->cost_block_ps, 1000);

    if (layout->fft_lanes > 0)
        error =
            device_fft_plan_get(engine, layout->fft, layout->fft_lanes, &plan->fft_plan, problem);
    if (error == 0 && layout->tail.span > 0)
        error = device_fft_plan_get(engine, layout->tail.fft, layout->fft_lanes,
                                    &plan->tail_fft_plan, problem);
    if (error == 0) {
        layout->variant->measure(&build);
        results_measure(&build);
        error = take_memory(&build, problem);
    }
    if (error == 0)
        error = fill_tables(&build, problem);
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
        spec->hop >= 1 && spec->hop <= HOP_MAX && spec->blocks_max >= 1 &&
        spec->blocks_max <= BLOCKS_MAX && sample_format_valid(&spec->format) &&
        (result_format_native(&spec->results) || sample_format_valid(&spec->results.format)) &&
        isfinite(spec->results.factor) && spec->decimate <= DECIMATE_MAX &&
        (spec->vector == 0 || spec->vector == 4 || spec->vector == 8 || spec->vector == 16) &&
        spec->decimate_phase < (spec->decimate > 1 ? spec->decimate : 1) &&
        (spec->fft == 0 ||
         (spec->fft >= FFT_MIN && spec->fft <= FFT_MAX && (spec->fft & (spec->fft - 1)) == 0));
    if (!good)
        return problem_set(
            problem, ERROR_ARGUMENT,
            "a plan takes 1 to %d channels, blocks of 1 to %d frames, 1 to %d blocks at once, "
            "valid sample formats, an fft that is a power of two from %d to %d, a decimation of "
            "1 to %d with a phase below it, and vectors of 16, 8 or 4 lanes",
            CHANNELS_MAX, HOP_MAX, BLOCKS_MAX, FFT_MIN, FFT_MAX, DECIMATE_MAX);
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input >= spec->inputs || spec->edges[e].output >= spec->outputs_count ||
            spec->edges[e].taps >= spec->taps_count)
            return problem_set(problem, ERROR_ARGUMENT,
                               "edge %u names a channel or filter that is not there", e);
    uint64_t floats = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    floats *= decimation_kept_most(spec->decimate > 1 ? spec->decimate : 1, spec->hop);
    if (floats > engine->slot_samples ||
        spec->inputs + clip_rows(spec->outputs_count) > engine->slot_reports)
        return problem_set(
            problem, ERROR_LIMIT,
            "a block of %u frames gives %llu values, more than the %llu a batch can hold: use "
            "shorter blocks or raise `batch memory`",
            spec->hop, (unsigned long long)floats, (unsigned long long)engine->slot_samples);
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

/* One variant, whole: 0, ERROR_UNSUPPORTED or ERROR_ACCURACY when another may do, or a real error.
 */
static int prepare_variant(struct engine *engine, const struct plan_spec *spec,
                           const struct variant *variant, struct plan **out,
                           struct problem *problem)
{
    struct layout layout;
    struct plan *plan = NULL;
    int error = layout_make(engine, spec, variant, spec->variant != NULL, &layout, problem);
    if (error == ERROR_UNSUPPORTED || error == ERROR_LIMIT)
        return ERROR_UNSUPPORTED;
    if (error == 0)
        error = plan_build(engine, spec, &layout, &plan, problem);
    if (error != 0)
        return error;
    plan_register(plan);
    error = plan_self_test(plan, spec, problem);
    if (error < 0) {
        plan_forget(plan);
        plan_free(plan);
        return error;
    }
    *out = plan;
    return 0;
}

/* The first variant of the table that can, or the one that is named. */
static int prepare_by_table(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                            struct problem *problem)
{
    const struct variant *variant;
    int error = problem_set(problem, ERROR_UNSUPPORTED,
                            "no variant is named \"%s\"; convolvd --list-variants prints the names",
                            spec->variant != NULL ? spec->variant : "");
    for (int i = 0; (variant = variant_at(i)) != NULL; i++) {
        if (spec->variant != NULL && strcmp(spec->variant, variant->name) != 0)
            continue;
        error = prepare_variant(engine, spec, variant, out, problem);
        if (error != ERROR_UNSUPPORTED && error != ERROR_ACCURACY)
            break;
        if (error == ERROR_ACCURACY)
            log_warning("%s", problem != NULL ? problem->text : error_sentence(error));
    }
    return error;
}

/* What was measured for this shape. ERROR_UNSUPPORTED: nothing was, or it cannot be had any more.
 */
static int prepare_by_wisdom(struct engine *engine, const struct plan_spec *spec, struct plan **out)
{
    if (spec->variant != NULL || spec->fft != 0)
        return ERROR_UNSUPPORTED;
    char shape[WISDOM_SHAPE];
    plan_shape(spec, shape);
    const struct wisdom_entry *entry = wisdom_find(engine->wisdom, shape);
    if (entry == NULL)
        return ERROR_UNSUPPORTED;
    const struct candidate *chosen = &entry->candidates[entry->chosen];
    struct plan_spec wise = *spec;
    wise.variant = chosen->variant;
    wise.fft = chosen->fft;
    wise.items = chosen->items;
    wise.vector = chosen->vector;
    if (spec->hop_free)
        wise.hop = chosen->hop;
    struct problem problem;
    int error = spec_check(engine, &wise, &problem);
    if (error == 0)
        error = prepare_by_table(engine, &wise, out, &problem);
    if (error < 0)
        log_warning("the plan that was measured best on %s cannot be used (%s): it is chosen by "
                    "rule; convolvd --tune measures again",
                    entry->date, problem.text);
    return error == 0 ? 0 : ERROR_UNSUPPORTED;
}

int plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                 struct problem *problem)
{
    *out = NULL;
    int error = spec_check(engine, spec, problem);
    if (error < 0)
        return error;
    pthread_mutex_lock(&engine->workers);
    enum plan_choice choice = PLAN_BY_WISDOM;
    if (plans_full(engine)) {
        error = problem_set(problem, ERROR_LIMIT, "more than %d plans on one device", PLANS_MAX);
    } else if (prepare_by_wisdom(engine, spec, out) < 0) {
        choice = spec->variant != NULL || spec->fft != 0 ? PLAN_BY_NAME : PLAN_BY_RULE;
        error = prepare_by_table(engine, spec, out, problem);
    }
    if (error == 0) {
        (*out)->info.choice = choice;
        engine_make_resident(engine, *out);
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
