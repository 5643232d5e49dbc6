/*
 * The variant "staged": transforms too long for one work-group of a GPU, in three launches with a
 * scratch in device memory (kernels/staged.cl). It cuts the blocks of an item into slices that are
 * large enough to fill the device and small enough to leave memory for other plans.
 *
 * Worker threads, one at a time; staged_run on the device thread.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/results.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "convolve/variants/fused.h"
#include "core/log.h"

enum {
    ITEMS_MOST = 512,
    SIDE_MOST = 8,
    SLICE_BYTES = 256 << 20,
    SLICE_PART = 4,
    REPORT_BYTES = sizeof(struct report_row)
};

/* Q = rows · columns. */
struct stages {
    struct registers column, row; /* transforms of `rows` points, of `columns` points */
    uint32_t kept;                /* the inverse computes one column in so many */
    uint32_t side;                /* channels side by side in a group of columns */
    uint32_t entries;             /* of a slice; an entry is one block of one output */
};

static const char *staged_objection(const struct device *device, const struct plan_spec *spec,
                                    bool by_name)
{
    (void)by_name;
    return device->traits.lanes != 1 ? "it is made for GPUs" : layout_single_edges(spec);
}

/* Splits `points` into rows and columns; false: it cannot. Chooses few rows, so that many columns
 * stand side by side. */
static bool stages_find(const struct device *device, uint32_t points, uint32_t decimate,
                        uint32_t inputs, struct stages *stages)
{
    const uint32_t rows = points <= 1u << 15 ? 64 : 256;
    const struct registers *column = registers_find(rows), *row = registers_find(points / rows);
    if (points < 64 * 64 || column == NULL || row == NULL)
        return false;
    stages->column = *column;
    stages->row = *row;
    registers_fit(&stages->column, rows == 64 ? 32 : 16, fused_local_bytes(device), ITEMS_MOST);
    registers_fit(&stages->row, 1, fused_local_bytes(device), ITEMS_MOST);
    /* A group should read whole memory sectors: with few channels it takes several columns. */
    stages->side = inputs & -inputs; /* the largest power of two that divides it */
    stages->side = stages->side < SIDE_MOST ? stages->side : SIDE_MOST;
    stages->side = stages->side < stages->column.width ? stages->side : stages->column.width;
    const uint32_t groups = stages->row.points / (stages->column.width / stages->side);
    stages->kept = registers_kept(&stages->row, decimate);
    stages->kept = stages->kept < groups ? stages->kept : groups;
    return stages->column.blocks == 1 && registers_items(&stages->column) >= 64;
}

static int staged_layout(const struct device *device, const struct plan_spec *spec,
                         const struct variant *variant, bool by_name, struct layout *layout,
                         struct problem *problem)
{
    int error = layout_standard(device, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;
    struct stages stages;
    layout->scratch = SCRATCH_LOCAL;
    layout->fft_lanes = 0;
    if (!stages_find(device, layout->fft / 2, 1, spec->inputs, &stages))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: N = %u is not cut into stages; use the variant \"fused\" or "
                           "\"general\"",
                           variant->name, layout->fft);
    return 0;
}

static void stages_of(const struct build *build, struct stages *stages)
{
    const struct plan *plan = build->plan;
    const uint32_t points = plan->layout.fft / 2;
    const bool found =
        stages_find(build->device, points, plan->info.decimate, build->spec->inputs, stages);
    assert(found); /* staged_layout has checked it */
    (void)found;
    const uint64_t entry_bytes = 2 * sizeof(float) * (uint64_t)points * fused_components(build);
    const uint64_t most = (uint64_t)build->spec->inputs * plan->blocks_max;
    const uint64_t slice_bytes = build->device->state.bytes / SLICE_PART < SLICE_BYTES
                                     ? build->device->state.bytes / SLICE_PART
                                     : SLICE_BYTES;
    const uint64_t fit = slice_bytes / entry_bytes / stages->side * stages->side;
    const uint64_t entries = fit > stages->side ? fit : stages->side;
    stages->entries = (uint32_t)(entries < most ? entries : most);
}

static void staged_measure(struct build *build)
{
    build->spectra_floats = spectra_place(build);
    struct stages stages;
    stages_of(build, &stages);
    build->state_floats =
        stages.entries * ((uint64_t)build->plan->layout.fft * fused_components(build) +
                          stages.row.points * (uint64_t)REPORT_FLOATS);
}

/* Row K of the scratch holds bins K + rows · b, b being the bins of its own transform. */
static uint32_t bin_at(const void *order, uint32_t place)
{
    const struct stages *stages = order;
    const uint32_t columns = stages->row.points;
    return place / columns + stages->column.points * registers_bin(&stages->row, place % columns);
}

enum { FORWARD, ROWS, BACK };

static int build_kernels(struct build *build, const struct stages *stages, const struct row *rows,
                         struct stage *stage, struct problem *problem)
{
    static const char *const functions[] = {"staged_forward", "staged_rows", "staged_inverse"};
    char columns_options[KERNEL_OPTIONS], rows_options[KERNEL_OPTIONS];
    int length =
        fused_options(build, &stages->column, rows, false, columns_options, KERNEL_OPTIONS);
    length +=
        results_options(build->plan, columns_options + length, KERNEL_OPTIONS - (size_t)length);
    snprintf(columns_options + length, KERNEL_OPTIONS - (size_t)length,
             " -D STAGED_COLUMNS -D STEP=%uu -D KEPT_COLUMNS=%uu -D SIDE=%uu", stages->row.points,
             stages->kept, stages->side);
    length = registers_options(&stages->row, rows_options, KERNEL_OPTIONS);
    snprintf(rows_options + length, KERNEL_OPTIONS - (size_t)length,
             " -D ROWS=%uu -D COMPONENTS=%u -D KEPT=%uu", stages->column.points,
             fused_components(build), stages->kept);
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++)
        error =
            kernel_cache_get(&build->device->kernels, "staged.cl", functions[i],
                             i == ROWS ? rows_options : columns_options, &stage->own[i], problem);
    return error;
}

static stage_function staged_run;

static int staged_fill(struct build *build, struct problem *problem)
{
    struct stages stages;
    stages_of(build, &stages);
    const uint32_t count = build->spec->inputs;
    struct stage *stage;
    int error = plan_stage(build, NULL, NULL, NULL, count, &stage, problem);
    if (error == 0)
        error =
            fused_spectra(build, bin_at, &stages, fused_fold(build->plan, build->spec), problem);
    if (error == 0 && fused_rows(build, stage->rows) < 0)
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    if (error == 0)
        error = build_kernels(build, &stages, stage->rows, stage, problem);
    stage->count = count;
    stage->run = staged_run;
    stage->numbers[0] = stages.entries;
    return error;
}

/* ---- running ----------------------------------------------------------------------------- */

struct slice {
    uint32_t row_first, rows, block_first, entries;
};

/* Launches (groups, entries / side) work-groups. */
static cl_int launch(struct device *device, const struct plan *plan, cl_kernel kernel,
                     const struct registers *shape, uint32_t groups, uint32_t side,
                     const struct slice *slice)
{
    const cl_uint zero = 0;
    const cl_ulong scratch = plan->state_offset / sizeof(float);
    const struct kernel_argument arguments[] = {
        {sizeof(cl_mem), &device->input.device},
        {sizeof(cl_mem), &device->spectrum.device},
        {sizeof(cl_mem), &device->output.device},
        {sizeof(cl_mem), &device->state.device},
        {sizeof(cl_mem), &device->table.device},
        {sizeof slice->row_first, &slice->row_first},
        {sizeof slice->rows, &slice->rows},
        {sizeof slice->block_first, &slice->block_first},
        {sizeof slice->entries, &slice->entries},
        {sizeof zero, &zero},
        {sizeof scratch, &scratch},
        {(size_t)registers_local_bytes(shape), NULL},
        {(size_t)registers_report_bytes(shape), NULL},
    };
    const size_t items = registers_items(shape);
    const size_t global[2] = {groups * items, slice->entries / side}, local[2] = {items, 1};
    return device_launch(device, kernel, arguments, sizeof arguments / sizeof arguments[0], global,
                         local, NULL);
}

static cl_int run_slice(struct device *device, const struct plan *plan, const struct stages *stages,
                        const struct slice *slice)
{
    struct kernel *const *kernels = plan->stages[0].own;
    const uint32_t column_groups = stages->row.points / (stages->column.width / stages->side);
    cl_int code = launch(device, plan, kernels[FORWARD]->kernel, &stages->column, column_groups,
                         stages->side, slice);
    if (code == CL_SUCCESS)
        code = launch(device, plan, kernels[ROWS]->kernel, &stages->row,
                      stages->column.points / stages->row.blocks, 1, slice);
    if (code == CL_SUCCESS)
        code = launch(device, plan, kernels[BACK]->kernel, &stages->column,
                      column_groups / stages->kept, stages->side, slice);
    return code;
}

static int staged_run(struct device *device, const struct plan *plan, const struct row *rows,
                      uint32_t count)
{
    struct stages stages;
    const bool found =
        stages_find(device, plan->layout.fft / 2, plan->info.decimate, plan->info.inputs, &stages);
    assert(found);
    (void)found;
    const uint32_t most = (uint32_t)plan->stages[0].numbers[0];
    const uint32_t first = (uint32_t)(rows - (const struct row *)(const void *)device->table.host);
    const uint32_t rows_step = count < most ? count : most, blocks_step = most / rows_step;
    assert(count % stages.side == 0 && rows_step % stages.side == 0);
    cl_int code = CL_SUCCESS;
    for (uint32_t k = 0; k < rows->blocks && code == CL_SUCCESS; k += blocks_step)
        for (uint32_t r = 0; r < count && code == CL_SUCCESS; r += rows_step) {
            const uint32_t blocks = rows->blocks - k < blocks_step ? rows->blocks - k : blocks_step;
            const uint32_t each = count - r < rows_step ? count - r : rows_step;
            const struct slice slice = {first + r, each, k, blocks * each};
            code = run_slice(device, plan, &stages, &slice);
        }
    if (code == CL_SUCCESS && !device->mirrored)
        code = clFinish(device->queue);
    if (code == CL_SUCCESS)
        return 0;
    log_error("the device refused a launch of staged: %s", opencl_error_name(code));
    return ERROR_DEVICE;
}

const struct variant variant_staged = {
    .name = "staged",
    .pace = 4,
    .formats = true,
    .decimates = true,
    .objection = staged_objection,
    .layout = staged_layout,
    .measure = staged_measure,
    .fill = staged_fill,
};
