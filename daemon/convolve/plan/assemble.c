/* Making plans, see assemble.h. */
#include "convolve/plan/assemble.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/fft_cache.h"
#include "convolve/plan/input_limit.h"
#include "convolve/plan/planner.h"
#include "convolve/plan/reference.h"
#include "convolve/plan/results.h"
#include "convolve/plan/variant.h"
#include "device/spill.h"

/* ---- memory and stages ------------------------------------------------------------------- */

/* How many groups of one launch have scratch memory of their own. */
static uint32_t scratch_groups(const struct build *build, uint64_t group_bytes)
{
    const struct device *device = build->device;
    const struct plan_spec *spec = build->spec;
    if (build->plan->layout.scratch == SCRATCH_SLOTS)
        return device->traits.threads;
    const uint32_t rows = spec->inputs > spec->outputs_count ? spec->inputs : spec->outputs_count;
    const uint64_t most = (uint64_t)rows * spec->blocks_max;
    /* 64 groups fill a device, and other plans need memory, too */
    const uint64_t room = device->state.bytes / 4 / group_bytes;
    uint32_t groups = 4 * device->found.info.compute_units;
    if (groups > 64)
        groups = 64;
    if (groups > room)
        groups = room > 0 ? (uint32_t)room : 1;
    return groups > most ? (uint32_t)most : groups;
}

static int take_scratch(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct layout *layout = &plan->layout;
    const uint64_t group_bytes = (uint64_t)layout->planes * layout->fft * sizeof(float);
    const uint64_t words_bytes = layout->scratch == SCRATCH_SLOTS ? SLOT_WORDS_BYTES : 0;
    plan->scratch_groups = scratch_groups(build, group_bytes);
    int error = arena_take(&build->device->state, build->device->upload,
                           words_bytes + plan->scratch_groups * group_bytes, &plan->scratch_offset,
                           problem);
    if (error < 0)
        plan->scratch_offset = ROW_NONE;
    return error;
}

/* Scratch for windows that groups share, for each queue: as many as are wanted, or as there is room
 * for, at least those of one block. */
static int take_windows(struct build *build, struct problem *problem)
{
    enum { STATE_PART = 4 };
    struct plan *plan = build->plan;
    const uint64_t heads_bytes = (uint64_t)SPLIT_WINDOWS * SPLIT_HEAD_WORDS * sizeof(uint32_t);
    const uint64_t window_bytes = (uint64_t)plan->layout.fft * sizeof(float);
    const uint64_t room = build->device->state.bytes / STATE_PART / DEVICE_QUEUES / window_bytes;
    const uint32_t least = build->spec->inputs;
    uint32_t windows = build->windows < room ? build->windows : (uint32_t)room;
    int error;
    do {
        windows = windows > least ? windows : least;
        plan->scratch_queue_bytes = heads_bytes + windows * window_bytes;
        plan->scratch_groups = windows * build->window_groups;
        error =
            arena_take(&build->device->state, build->device->upload,
                       DEVICE_QUEUES * plan->scratch_queue_bytes, &plan->scratch_offset, problem);
        if (error < 0)
            plan->scratch_offset = ROW_NONE;
    } while (error == ERROR_FULL && windows > least && (windows /= 2) > 0);
    return error;
}

static int take_memory(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct device *device = build->device;
    const struct layout *layout = &plan->layout;
    int error = arena_take(&device->spectrum, device->upload, build->spectra_floats * sizeof(float),
                           &plan->spectra_offset, problem);
    if (error < 0) {
        plan->spectra_offset = ROW_NONE;
        return error;
    }
    plan->stateful = build->state_floats > 0;
    if (plan->stateful) {
        error = arena_take(&device->state, device->upload, build->state_floats * sizeof(float),
                           &plan->state_offset, problem);
        if (error < 0) {
            plan->state_offset = ROW_NONE;
            return error;
        }
    }
    if (error == 0 && layout->scratch != SCRATCH_LOCAL)
        error = take_scratch(build, problem);
    if (error == 0 && build->windows > 0)
        error = take_windows(build, problem);
    return error;
}

/* Oclgrind 21.10 does not interpret what inlining leaves behind
 * (llvm.experimental.noalias.scope.decl). */
static bool is_simulator(const struct device *device)
{
    return strcmp(device->found.info.platform, "Oclgrind") == 0;
}

/* The options of every kernel; those of the variant come first and win. */
static void kernel_options(const struct build *build, const char *own, char options[KERNEL_OPTIONS])
{
    const struct device *device = build->device;
    const bool items = own != NULL && strstr(own, "-D ITEMS=") != NULL;
    const bool lanes = own != NULL && strstr(own, "-D LANES=") != NULL;
    int length = 0;
    options[0] = '\0';
    if (!lanes)
        length = snprintf(options, KERNEL_OPTIONS, "-D LANES=%u", device->traits.lanes);
    if (!items)
        length += snprintf(options + length, KERNEL_OPTIONS - (size_t)length, " -D ITEMS=%u",
                           build->plan->layout.items);
    length += results_options(build->plan, options + length, KERNEL_OPTIONS - (size_t)length);
    length += snprintf(options + length, KERNEL_OPTIONS - (size_t)length, "%s%s%s%s",
                       build->plan->layout.scratch != SCRATCH_LOCAL ? " -D GLOBAL_SCRATCH" : "",
                       is_simulator(device) ? " -cl-opt-disable" : "", own != NULL ? " " : "",
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
        .block_groups = 1,
        .groups_together = 1,
        .group_rows = 1,
        .sides = 1,
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
        return kernel_cache_get(&build->device->kernels, file, function, all, &stage->kernel,
                                problem);
    }
    return 0;
}

/* Puts the templates of all stages into SPECTRUM where kernels read them: those of rows.cl on a
 * device with memory of its own, or a stage's own. */
static int place_templates(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct device *device = build->device;
    uint64_t rows = 0;
    bool read = device->mirrored;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        rows += plan->stages[s].count;
        read = read || plan->stages[s].reads_groups;
    }
    if (!read)
        return 0;
    int error = arena_take(&device->spectrum, device->upload, rows * sizeof(struct row),
                           &plan->templates_offset, problem);
    if (error < 0) {
        plan->templates_offset = ROW_NONE;
        return error;
    }
    uint64_t offset = plan->templates_offset;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        struct stage *stage = &plan->stages[s];
        stage->templates = offset;
        memcpy(device->spectrum.host + offset, stage->rows, stage->count * sizeof(struct row));
        offset += stage->count * sizeof(struct row);
    }
    error = arena_upload(&device->spectrum, device->upload, plan->templates_offset,
                         rows * sizeof(struct row), problem);
    if (error < 0 || !device->mirrored)
        return error;
    const char *options = is_simulator(device) ? "-cl-opt-disable" : "";
    error = kernel_cache_get(&device->kernels, "rows.cl", "rows_fill", options, &plan->rows_fill,
                             problem);
    if (error == 0)
        error = kernel_cache_get(&device->kernels, "rows.cl", "rows_fill_many", options,
                                 &plan->rows_fill_many, problem);
    if (error == 0)
        error = kernel_cache_get(&device->kernels, "rows.cl", "words_clear", options,
                                 &plan->words_clear, problem);
    return error;
}

int plan_stage_rare(struct build *build, struct stage *stage, const char *file,
                    const char *function, const char *options, struct problem *problem)
{
    char all[KERNEL_OPTIONS];
    kernel_options(build, options, all);
    return kernel_cache_get(&build->device->kernels, file, function, all, &stage->rare, problem);
}

static int fill_tables(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    int error = plan->layout.variant->fill(build, problem);
    if (error < 0)
        return error;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct stage *stage = &plan->stages[s];
        assert(stage->count >= 1 && stage->count <= stage->capacity &&
               stage->count % stage->group_rows == 0);
        plan->rows_most += stage->count * (stage->keeps == KEEPS_NOTHING ? 1 : 2);
    }
    if (plan->rows_most > ROWS_PER_BATCH)
        return problem_set(problem, ERROR_LIMIT, "too many channels and edges in one stream");
    error = arena_upload(&build->device->spectrum, build->device->upload, plan->spectra_offset,
                         build->spectra_floats * sizeof(float), problem);
    return error < 0 ? error : place_templates(build, problem);
}

static void plan_free(struct plan *plan)
{
    struct device *device = plan->planner->device;
    if (plan->spectra_offset != ROW_NONE)
        arena_give(&device->spectrum, plan->spectra_offset);
    if (plan->templates_offset != ROW_NONE)
        arena_give(&device->spectrum, plan->templates_offset);
    if (plan->state_offset != ROW_NONE)
        arena_give(&device->state, plan->state_offset);
    if (plan->scratch_offset != ROW_NONE)
        arena_give(&device->state, plan->scratch_offset);
    fft_cache_put(plan->fft_plan, device);
    fft_cache_put(plan->tail_fft_plan, device);
    kernel_cache_put(plan->rows_fill);
    kernel_cache_put(plan->rows_fill_many);
    kernel_cache_put(plan->words_clear);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        kernel_cache_put(plan->stages[s].kernel);
        kernel_cache_put(plan->stages[s].rare);
        for (size_t i = 0; i < sizeof plan->stages[s].own / sizeof plan->stages[s].own[0]; i++)
            kernel_cache_put(plan->stages[s].own[i]);
        free(plan->stages[s].rows);
    }
    plan_reference_release(plan->reference);
    free(plan);
}

/* Of its kernels but those for rare blocks; SPILL_UNKNOWN when nothing is known of any. */
static int32_t spilled_bytes_of(const struct plan *plan)
{
    int32_t most = SPILL_UNKNOWN;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct stage *stage = &plan->stages[s];
        const struct kernel *kernels[1 + STAGE_KERNELS] = {stage->kernel};
        memcpy(kernels + 1, stage->own, sizeof stage->own);
        for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
            if (kernels[i] != NULL && kernels[i]->spilled_bytes > most)
                most = kernels[i]->spilled_bytes;
    }
    return most;
}

/* ---- the list of plans ------------------------------------------------------------------- */

static void plan_register(struct plan *plan)
{
    struct plan **plans = plan->planner->plans;
    int i = 0;
    while (plans[i] != NULL)
        i++;
    plans[i] = plan;
    atomic_fetch_add(&plan->planner->held, 1);
}

bool plans_full(const struct planner *planner)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (planner->plans[i] == NULL)
            return false;
    return true;
}

/* ---- building and closing ---------------------------------------------------------------- */

int plan_build(struct planner *planner, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct build build = {
        .device = planner->device,
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
    plan->planner = planner;
    plan->layout = *layout;
    plan->input_limit = input_limit(spec->edges, spec->edge_count, spec->taps, spec->taps_count);
    plan->hop = spec->hop;
    plan->blocks_max = spec->blocks_max;
    plan->spectra_offset = plan->state_offset = plan->scratch_offset = plan->templates_offset =
        ROW_NONE;
    plan->slots = layout->history_blocks + layout->tail_blocks + spec->blocks_max;
    plan->plane_slots = layout->tail_blocks + spec->blocks_max;
    plan->info = (struct plan_info){
        .variant = layout->variant->name,
        .hop = spec->hop,
        .fft = layout->fft,
        .partitions = layout->partitions + layout->tail.partitions,
        .vector = layout->vector,
        .items = layout->items,
        .rows = layout->rows,
        .taps_longest = layout->taps_longest,
        .input_limit = plan->input_limit,
        .history_frames = (layout->history_blocks + layout->tail_blocks) * spec->hop,
        .decimate = spec->decimate > 1 ? spec->decimate : 1,
        .decimate_phase = spec->decimate_phase,
        .inputs = spec->inputs,
        .outputs = spec->outputs_count,
        .results = results_granted(planner->device, layout->variant, &spec->results),
    };
    if (!layout->variant->overlap_add)
        plan->info.history_frames += layout->partition_taps - 1;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        plan->info.output_floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    const bool native = result_format_native(&plan->info.results);
    plan->info.sample_bytes = native ? sizeof(float) : plan->info.results.format.bytes;
    atomic_store(&plan->cost_base_ns, 20000);
    atomic_store(&plan->cost_block_ps, 1000);
    atomic_store(&plan->cost_spectra_ps, 1000);

    if (layout->fft_lanes > 0)
        error = fft_cache_get(&planner->fft_plans, planner->device, layout->fft, layout->fft_lanes,
                              &plan->fft_plan, problem);
    if (error == 0 && layout->tail.span > 0)
        error = fft_cache_get(&planner->fft_plans, planner->device, layout->tail.fft,
                              layout->fft_lanes, &plan->tail_fft_plan, problem);
    if (error == 0) {
        layout->variant->measure(&build);
        plan->report_rows =
            spec->inputs + plan_small_rows(native ? 0 : spec->outputs_count,
                                           plan->packing != PACKS_NOTHING ? spec->inputs : 0);
        results_measure(&build);
        error = take_memory(&build, problem);
    }
    if (error == 0)
        error = fill_tables(&build, problem);
    plan->info.spilled_bytes = spilled_bytes_of(plan);
    if (error < 0)
        plan_free(plan);
    else
        plan_register(*out = plan);
done:
    free(build.filters);
    free(build.work);
    return error;
}

void plan_discard(struct plan *plan)
{
    struct plan **plans = plan->planner->plans;
    for (int i = 0; i < PLANS_MAX; i++)
        if (plans[i] == plan)
            plans[i] = NULL;
    plan_leave(plan);
    plan_free(plan);
}

void plan_leave(struct plan *plan)
{
    atomic_fetch_sub(&plan->planner->held, 1);
}

void plans_free_left(struct planner *planner)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (planner->plans[i] != NULL)
            plan_free(planner->plans[i]);
    free(planner->plans);
    planner->plans = NULL;
}

void plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    if (atomic_load(&plan->planner->abandoned)) {
        plan_leave(plan); /* a worker that hangs in the driver may hold the mutex */
        return;
    }
    pthread_mutex_t *workers = &plan->planner->workers;
    pthread_mutex_lock(workers);
    plan_discard(plan);
    pthread_mutex_unlock(workers);
}
