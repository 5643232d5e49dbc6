/* Launches of a batch, whole or in parts: see parts.h. */
#include "convolve/parts.h"

#include <assert.h>
#include <string.h>

#include "convolve/lost.h"
#include "convolve/mirror.h"
#include "convolve/object.h"
#include "convolve/plan/fft_cache.h"
#include "convolve/plan/fft_plan.h"

enum { LAUNCH_ARGUMENTS = 14 }; /* of every kernel; a stage's numbers follow */

/* Rows of a launch, and groups of work-items of each of them. */
struct piece {
    uint32_t row, rows, group, groups;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct device_fft_plan *launch_fft_plan(const struct plan *plan, const struct stage *stage)
{
    return stage->fft_plan != NULL ? stage->fft_plan : plan->fft_plan;
}

/* The batch is complete behind what is enqueued next, no longer behind the kernel before. Without
 * an event, end_launch (launch.c) makes one. */
static void forget_event(struct slot *slot)
{
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
}

/* Enqueues as many groups as any launch has, which all find that their row has no block. One entry
 * of the driver serves every launch of the kernel from then on, also those of other engines. */
static cl_int widen(struct engine *engine, struct slot *slot, struct kernel *kernel,
                    const struct kernel_argument *arguments, cl_uint count)
{
    enum { ROW_FIRST = 5, MOST = LAUNCH_ARGUMENTS + STAGE_NUMBERS };
    static_assert((int)BLOCKS_MAX <= (int)ROWS_PER_BATCH, "no launch has more rows or blocks");
    const cl_uint idle = (cl_uint)(slot->rows_offset + ROWS_PER_BATCH);
    const size_t global[2] = {ROWS_PER_BATCH, 1}, local[2] = {1, 1};
    struct kernel_argument same[MOST];
    memcpy(same, arguments, count * sizeof *arguments);
    same[ROW_FIRST] = (struct kernel_argument){sizeof idle, &idle};
    const cl_int code =
        device_launch(&engine->device, kernel->kernel, same, count, global, local, NULL);
    kernel->widened = code == CL_SUCCESS;
    return code;
}

static int launch_kernel(struct engine *engine, struct slot *slot, const struct launch *launch,
                         struct kernel *kernel, const struct piece *piece)
{
    const struct plan *plan = launch->plan;
    const struct stage *stage = launch->stage;
    const struct device_fft_plan *device_fft_plan = launch_fft_plan(plan, stage);
    const struct fft_plan *fft_plan = device_fft_plan != NULL ? device_fft_plan->plan : NULL;
    const cl_uint log_points = fft_plan != NULL ? fft_plan->log_points : 0;
    const cl_ulong radices = fft_plan != NULL ? fft_plan->radices : 0;
    const cl_ulong twiddles = fft_plan != NULL ? device_fft_plan->offset / sizeof(float) : 0;
    const cl_ulong scratch =
        plan->scratch_offset == ROW_NONE
            ? 0
            : (plan->scratch_offset + slot->queue * plan->scratch_queue_bytes) / sizeof(float);
    const size_t shared_bytes = stage->shared_bytes != 0 ? (size_t)stage->shared_bytes
                                                         : stage->items * sizeof(struct report_row);
    const cl_uint first =
        launch->first + (stage->reads_groups ? piece->row / stage->count : piece->row);
    const size_t global[2] = {(size_t)piece->groups * stage->items * stage->sides,
                              piece->rows / stage->group_rows / stage->sides};
    const size_t local[2] = {stage->items, 1};
    struct kernel_argument arguments[LAUNCH_ARGUMENTS + STAGE_NUMBERS] = {
        {sizeof(cl_mem), &engine->device.input.device},
        {sizeof(cl_mem), &engine->device.spectrum.device},
        {sizeof(cl_mem), &engine->device.output.device},
        {sizeof(cl_mem), &engine->device.state.device},
        {sizeof(cl_mem), &engine->device.table.device},
        {sizeof first, &first},
        {sizeof piece->group, &piece->group},
        {sizeof log_points, &log_points},
        {sizeof radices, &radices},
        {sizeof twiddles, &twiddles},
        {sizeof plan->layout.planes, &plan->layout.planes},
        {(size_t)stage->local_bytes, NULL},
        {shared_bytes, NULL},
        {sizeof scratch, &scratch},
    };
    for (cl_uint i = 0; i < stage->number_count; i++)
        arguments[LAUNCH_ARGUMENTS + i] =
            (struct kernel_argument){sizeof(cl_ulong), &stage->numbers[i]};
    const cl_uint count = LAUNCH_ARGUMENTS + stage->number_count;
    forget_event(slot);
    cl_int code = CL_SUCCESS;
    if (engine->device.traits.widest_first && !engine->device.mirrored && stage->items == 1 &&
        !kernel->widened)
        code = widen(engine, slot, kernel, arguments, count);
    if (code == CL_SUCCESS)
        code = device_launch(&engine->device, kernel->kernel, arguments, count, global, local,
                             &slot->event);
    if (code == CL_SUCCESS)
        return 0;
    engine_note_fault(engine, "the device refused a launch of %s: %s", plan->info.variant,
                      opencl_error_name(code));
    return ERROR_DEVICE;
}

/* In a batch with kernels, too, what the host has computed goes to the device first: its results
 * come from there. */
static int send_computed(struct engine *engine, struct slot *slot, const struct plan *plan)
{
    forget_event(slot);
    const cl_int code = mirror_copy_computed(engine, slot, plan);
    if (code == CL_SUCCESS)
        return 0;
    engine_note_fault(engine, "the device refused a copy: %s", opencl_error_name(code));
    return ERROR_DEVICE;
}

static int launch_piece(struct engine *engine, struct slot *slot, const struct launch *launch,
                        const struct piece *piece)
{
    const struct stage *stage = launch->stage;
    if (stage->kernel != NULL) {
        int error = 0;
        if (launch->share.whole)
            error = launch_kernel(engine, slot, launch, stage->kernel, piece);
        if (error == 0 && launch->share.rare)
            error = launch_kernel(engine, slot, launch, stage->rare, piece);
        return error;
    }
    const struct row *table = (const struct row *)(const void *)engine->device.table.host;
    if (engine->device.mirrored && !launch->plan->info.on_host)
        forget_event(slot);
    const int error =
        stage->run(&engine->device, launch->plan, table + launch->first + piece->row, piece->rows);
    if (error < 0 || !launch->plan->info.on_host || !engine->device.mirrored || slot->on_host)
        return error;
    return send_computed(engine, slot, launch->plan);
}

/* All of a launch. A function of the stage's own takes all groups of its rows. */
static struct piece piece_whole(const struct launch *launch)
{
    const struct stage *stage = launch->stage;
    const uint32_t groups =
        (launch->blocks + stage->group_blocks - 1) / stage->group_blocks * stage->block_groups;
    return (struct piece){.rows = launch->rows, .groups = stage->kernel != NULL ? groups : 1};
}

/* The most that one call of the device computes: what the plan has scratch memory for. */
static struct piece piece_most(const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    const struct stage *stage = launch->stage;
    struct piece most = piece_whole(launch);
    if (stage->kernel == NULL ||
        (plan->layout.scratch != SCRATCH_GLOBAL && plan->scratch_queue_bytes == 0))
        return most;
    const uint32_t rows = stage->reads_groups ? stage->count : stage->group_rows;
    const uint32_t groups = rows / stage->group_rows * stage->groups_together; /* for `rows` */
    most.rows = least(most.rows, plan->scratch_groups / groups * rows);
    most.groups = least(most.groups, plan->scratch_groups / (most.rows / rows * groups) *
                                         stage->groups_together);
    return most;
}

/* The most that a part computes: whole rows, or some groups of the fewest rows that go together. */
static struct piece piece_part(const struct launch *launch, double share)
{
    const struct stage *stage = launch->stage;
    const bool apart = !stage->reads_groups && stage->sides == 1;
    const uint32_t unit = apart ? stage->group_rows : launch->rows;
    const uint32_t count = launch->rows / unit;
    const double units = count * share;
    struct piece most = piece_most(launch);
    const uint32_t rows = units >= 1 ? (uint32_t)units * unit : unit;
    const uint32_t groups =
        units >= 1 ? most.groups : (uint32_t)(units * piece_whole(launch).groups);
    const uint32_t together = stage->groups_together, sets = (groups + together - 1) / together;
    most.rows = least(most.rows, rows);
    most.groups = least(most.groups, sets > 0 ? sets * together : together);
    return most;
}

/* Of a launch from here on, at most so much, without a step over the end of a row. */
static struct piece piece_from(const struct launch *launch, const struct piece *most, uint32_t row,
                               uint32_t group)
{
    const struct piece whole = piece_whole(launch);
    return (struct piece){row, least(most->rows, whole.rows - row), group,
                          least(most->groups, whole.groups - group)};
}

/* Where the next piece begins; false: that was the last one. */
static bool step(const struct launch *launch, const struct piece *piece, uint32_t *row,
                 uint32_t *group)
{
    const struct piece whole = piece_whole(launch);
    *group = piece->group + piece->groups;
    if (*group < whole.groups)
        return true;
    *group = 0;
    *row = piece->row + piece->rows;
    return *row < whole.rows;
}

int launch_whole(struct engine *engine, struct slot *slot, const struct launch *launch)
{
    const struct piece most = piece_most(launch);
    uint32_t row = 0, group = 0;
    struct piece piece;
    do {
        piece = piece_from(launch, &most, row, group);
        const int error = launch_piece(engine, slot, launch, &piece);
        if (error < 0)
            return error;
    } while (step(launch, &piece, &row, &group));
    return 0;
}

/* ---- in parts ---------------------------------------------------------------------------- */

void parts_take(struct parts *parts, const struct launch *launches, uint32_t count, double share)
{
    assert(count <= sizeof parts->launches / sizeof parts->launches[0]);
    parts->count = count;
    parts->at = parts->row = parts->group = 0;
    parts->share = share;
    memcpy(parts->launches, launches, count * sizeof *launches);
}

bool parts_left(const struct parts *parts)
{
    return parts->at < parts->count;
}

int parts_launch(struct engine *engine, struct slot *slot, struct parts *parts)
{
    assert(parts_left(parts));
    const struct launch *launch = &parts->launches[parts->at];
    const struct piece most = piece_part(launch, parts->share);
    const struct piece piece = piece_from(launch, &most, parts->row, parts->group);
    if (!step(launch, &piece, &parts->row, &parts->group)) {
        parts->at++;
        parts->row = parts->group = 0;
    }
    return launch_piece(engine, slot, launch, &piece);
}
