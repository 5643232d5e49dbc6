/*
 * A batch becomes launches. Items are taken in rounds (a plan that keeps state appears once a
 * round); within a round the stages run in order, and each stage is one launch for all plans
 * that share kernel, N and scratch: their rows lie side by side in TABLE.
 *
 *     item A ┐ rebuild ─► forward ─► produce ─► gather      (stages, in-order queue)
 *     item B ┘
 *
 * Device thread only. Nothing is allocated.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <string.h>

#include "core/log.h"

/* Blocks that an item asks of each stage, relative to its first block. */
struct work {
    struct plan *plan;
    const struct batch_item *item;
    uint32_t round;
    uint32_t rebuild_forward, rebuild_planes; /* blocks before the item */
    bool launched[STAGE_COUNT];
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Compares the item with what the plan's state holds, says what is to be rebuilt, and notes what it
 * will hold. */
static void plan_follow(struct work *work)
{
    struct plan *plan = work->plan;
    const struct batch_item *item = work->item;
    const struct layout *layout = &plan->layout;
    work->rebuild_forward = work->rebuild_planes = 0;
    if (!plan->stateful)
        return;
    const uint64_t serial = ((const struct ring_memory *)item->ring)->serial;
    const uint64_t first = item->epoch_block, origin = item->position - first * plan->hop;
    const uint64_t spectra = least(first, layout->history_blocks),
                   tails = least(first, layout->tail_blocks);
    if (!plan->cache.valid || plan->cache.ring_serial != serial || plan->cache.origin != origin ||
        first > plan->cache.until || plan->cache.spectra_from > first - spectra ||
        plan->cache.planes_from > first - tails) {
        work->rebuild_planes = (uint32_t)tails;
        work->rebuild_forward = (uint32_t)least(first, spectra + layout->tail_blocks);
        plan->cache.valid = true;
        plan->cache.ring_serial = serial;
        plan->cache.origin = origin;
        plan->cache.spectra_from = first - work->rebuild_forward;
        plan->cache.planes_from = first - work->rebuild_planes;
    }
    plan->cache.until = first + item->blocks;
    if (plan->cache.until > plan->slots)
        plan->cache.spectra_from =
            greatest(plan->cache.spectra_from, plan->cache.until - plan->slots);
    if (plan->cache.until > plan->plane_slots)
        plan->cache.planes_from =
            greatest(plan->cache.planes_from, plan->cache.until - plan->plane_slots);
}

static uint32_t stage_blocks(const struct work *work, enum stage_id stage)
{
    switch (stage) {
    case STAGE_REBUILD_FORWARD:
        return work->rebuild_forward;
    case STAGE_REBUILD_PLANES:
        return work->rebuild_planes;
    default:
        return work->item->blocks;
    }
}

/* Groups along the launch's blocks. */
static uint32_t stage_groups(const struct work *work, enum stage_id stage)
{
    const uint32_t blocks = stage_blocks(work, stage), each = work->plan->layout.group_blocks;
    return stage == STAGE_PRODUCE ? (blocks + each - 1) / each : blocks;
}

/* The stage whose rows a rebuild repeats. */
static enum stage_id stage_template(enum stage_id stage)
{
    return stage == STAGE_REBUILD_FORWARD  ? STAGE_FORWARD
           : stage == STAGE_REBUILD_PLANES ? STAGE_PRODUCE
                                           : stage;
}

static enum kernel_id stage_kernel(const struct work *work, enum stage_id stage)
{
    return stage_blocks(work, stage) == 0 ? KERNEL_NONE
                                          : work->plan->kernels[stage_template(stage)];
}

/* The plan's rows for one item, filled with what the item knows. */
static uint32_t write_rows(const struct engine *engine, const struct slot *slot,
                           const struct work *work, enum stage_id stage, struct row *rows)
{
    const struct plan *plan = work->plan;
    const struct batch_item *item = work->item;
    const struct ring_memory *ring = (const struct ring_memory *)item->ring;
    const enum stage_id like = stage_template(stage);
    const bool rebuild = like != stage;
    const uint32_t blocks = stage_blocks(work, stage);
    const uint64_t back = rebuild ? blocks : 0, first = item->epoch_block - back;
    const uint32_t start = (uint32_t)(item->position - back * plan->hop);
    const uint64_t samples =
        (uint64_t)(item->samples - (const float *)(const void *)engine->output.host);
    const uint64_t reports = (uint64_t)((const float *)(const void *)item->reports -
                                        (const float *)(const void *)engine->output.host);
    const uint32_t count = plan->rows[like];
    (void)slot;
    memcpy(rows, plan->templates[like], count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = &rows[i];
        row->ring = ring->bytes_offset;
        row->present = ring->present_offset;
        row->mask = ring->ring.frames - 1;
        row->start += start;
        row->blocks = blocks;
        row->output += samples;
        row->report = rebuild || row->report == ROW_NONE ? ROW_NONE : row->report + reports;
        row->write_from = item->write_from;
        row->write_until = item->write_until;
        row->slot = (uint32_t)(first % plan->slots);
        row->plane_slot = (uint32_t)(first % plan->plane_slots);
        row->age = (uint32_t)least(first, UINT32_MAX);
        if (item->absent)
            row->flags |= ROW_ABSENT;
    }
    return count;
}

static int launch_rows(struct engine *engine, struct slot *slot, const struct plan *plan,
                       enum kernel_id id, uint32_t row_first, uint32_t rows, uint32_t blocks)
{
    const enum scratch scratch = plan->layout.scratch;
    const struct tree *tree = plan->tree->tree;
    cl_kernel kernel = engine->kernels[id][scratch];
    const uint64_t factors = plan->tree->offset / sizeof(float);
    const uint64_t scratch_floats =
        plan->scratch_offset == ROW_NONE ? 0 : plan->scratch_offset / sizeof(float);
    const size_t transform_bytes =
        scratch == SCRATCH_LOCAL ? (size_t)plan->layout.planes * tree->q * 2 * sizeof(float) : 64;
    uint32_t rows_step = rows, blocks_step = blocks;
    if (scratch == SCRATCH_GLOBAL) {
        rows_step = (uint32_t)least(rows, plan->scratch_groups);
        blocks_step = (uint32_t)least(blocks, plan->scratch_groups / rows_step);
    }
    for (uint32_t r = 0; r < rows; r += rows_step)
        for (uint32_t k = 0; k < blocks; k += blocks_step) {
            const uint32_t first = row_first + r;
            const struct {
                size_t bytes;
                const void *value;
            } arguments[] = {
                {sizeof(cl_mem), &engine->input.device},
                {sizeof(cl_mem), &engine->spectrum.device},
                {sizeof(cl_mem), &engine->output.device},
                {sizeof(cl_mem), &engine->state.device},
                {sizeof(cl_mem), &engine->table.device},
                {sizeof first, &first},
                {sizeof k, &k},
                {sizeof tree->log_points, &tree->log_points},
                {sizeof tree->radices, &tree->radices},
                {sizeof factors, &factors},
                {sizeof plan->layout.planes, &plan->layout.planes},
                {transform_bytes, NULL},
                {engine->items * sizeof(struct report_row), NULL},
                {sizeof scratch_floats, &scratch_floats},
            };
            cl_int code = CL_SUCCESS;
            for (cl_uint i = 0; code == CL_SUCCESS && i < sizeof arguments / sizeof arguments[0];
                 i++)
                code = clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value);
            const size_t global[2] = {(size_t)least(blocks_step, blocks - k) * engine->items,
                                      least(rows_step, rows - r)};
            const size_t local[2] = {engine->items, 1};
            if (slot->event != NULL)
                clReleaseEvent(slot->event);
            slot->event = NULL;
            if (code == CL_SUCCESS)
                code = clEnqueueNDRangeKernel(engine->queue, kernel, 2, NULL, global, local, 0,
                                              NULL, &slot->event);
            if (code != CL_SUCCESS) {
                log_error("the device refused a launch of %s: %s", plan->info.variant,
                          opencl_error_name(code));
                return ERROR_DEVICE;
            }
        }
    return 0;
}

/* Rows of plans that stand in one launch: same kernel, transform and scratch. */
static bool together(const struct plan *a, const struct plan *b)
{
    return a == b || (a->tree == b->tree && a->layout.scratch == SCRATCH_LOCAL &&
                      b->layout.scratch == SCRATCH_LOCAL && a->layout.planes == b->layout.planes);
}

struct launch {
    const struct plan *plan;
    enum kernel_id id;
    uint32_t row_first, rows, blocks;
};

/* Writes the rows of every launch of the batch, in the order they are to run. */
static uint32_t plan_launches(struct engine *engine, struct slot *slot, struct work *works,
                              uint32_t count, uint32_t rounds, struct launch *launches)
{
    struct row *table = (struct row *)(void *)engine->table.host;
    uint32_t used = 0;
    slot->rows_used = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < count; i++)
            if (works[i].round == round)
                plan_follow(&works[i]);
        for (enum stage_id stage = 0; stage < STAGE_COUNT; stage++)
            for (uint32_t i = 0; i < count; i++) {
                enum kernel_id id = stage_kernel(&works[i], stage);
                if (works[i].round != round || works[i].launched[stage] || id == KERNEL_NONE)
                    continue;
                struct launch *launch = &launches[used++];
                *launch = (struct launch){works[i].plan, id,
                                          (uint32_t)slot->rows_offset + slot->rows_used, 0, 0};
                for (uint32_t j = i; j < count; j++) {
                    struct work *work = &works[j];
                    if (work->round != round || work->launched[stage] ||
                        stage_kernel(work, stage) != id || !together(launch->plan, work->plan))
                        continue;
                    work->launched[stage] = true;
                    assert(slot->rows_used + work->plan->rows[stage_template(stage)] <=
                           ROWS_PER_BATCH);
                    uint32_t rows = write_rows(engine, slot, work, stage,
                                               table + slot->rows_offset + slot->rows_used);
                    slot->rows_used += rows;
                    launch->rows += rows;
                    launch->blocks = (uint32_t)greatest(launch->blocks, stage_groups(work, stage));
                }
            }
    }
    return used;
}

/* ---- a device with memory of its own ------------------------------------------------------- */

static cl_int copy_in(struct engine *engine, struct arena *arena, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return CL_SUCCESS;
    return clEnqueueWriteBuffer(engine->queue, arena->device, CL_FALSE, offset, bytes,
                                arena->host + offset, 0, NULL, NULL);
}

/* Ring slots [from, until) without a wrap: bytes and presence words. */
static cl_int copy_slots(struct engine *engine, const struct ring_memory *ring, uint64_t from,
                         uint64_t until)
{
    const uint64_t frame_bytes = ring->ring.frame_bytes;
    cl_int code = copy_in(engine, &engine->input, ring->bytes_offset + from * frame_bytes,
                          (until - from) * frame_bytes);
    if (code == CL_SUCCESS && until > from)
        code = copy_in(engine, &engine->input, ring->present_offset + from / 32 * sizeof(uint32_t),
                       ((until - 1) / 32 - from / 32 + 1) * sizeof(uint32_t));
    return code;
}

static cl_int copy_fresh(struct engine *engine, const struct batch_item *item)
{
    const struct ring_memory *ring = (const struct ring_memory *)item->ring;
    const uint64_t frames = ring->ring.frames;
    if (item->fresh_until <= item->fresh_from)
        return CL_SUCCESS;
    if (item->fresh_until - item->fresh_from >= frames)
        return copy_slots(engine, ring, 0, frames);
    const uint64_t from = item->fresh_from & (frames - 1), until = item->fresh_until & (frames - 1);
    if (from < until)
        return copy_slots(engine, ring, from, until);
    cl_int code = copy_slots(engine, ring, from, frames);
    return code == CL_SUCCESS ? copy_slots(engine, ring, 0, until) : code;
}

static cl_int copy_out(struct engine *engine, struct slot *slot, uint64_t floats_offset,
                       uint64_t floats)
{
    if (floats == 0)
        return CL_SUCCESS;
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
    const uint64_t offset = floats_offset * sizeof(float);
    return clEnqueueReadBuffer(engine->queue, engine->output.device, CL_FALSE, offset,
                               floats * sizeof(float), engine->output.host + offset, 0, NULL,
                               &slot->event);
}

int batch_launch(struct engine *engine, struct slot *slot)
{
    struct batch *batch = &slot->batch;
    struct work works[BATCH_ITEMS_MAX];
    struct launch launches[STAGE_COUNT * BATCH_ITEMS_MAX];
    uint32_t rounds = batch->count > 0 ? 1 : 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        works[i] = (struct work){.plan = batch->items[i].plan, .item = &batch->items[i]};
        if (works[i].plan->stateful)
            for (uint32_t j = 0; j < i; j++)
                if (works[j].plan == works[i].plan)
                    works[i].round = works[j].round + 1;
        if (works[i].round + 1 > rounds)
            rounds = works[i].round + 1;
    }
    uint32_t count = plan_launches(engine, slot, works, batch->count, rounds, launches);

    cl_int code = CL_SUCCESS;
    if (engine->twin) {
        for (uint32_t i = 0; code == CL_SUCCESS && i < batch->count; i++)
            code = copy_fresh(engine, &batch->items[i]);
        if (code == CL_SUCCESS)
            code = copy_in(engine, &engine->table, slot->rows_offset * sizeof(struct row),
                           slot->rows_used * sizeof(struct row));
    }
    int error = 0;
    for (uint32_t i = 0; error == 0 && code == CL_SUCCESS && i < count; i++)
        error = launch_rows(engine, slot, launches[i].plan, launches[i].id, launches[i].row_first,
                            launches[i].rows, launches[i].blocks);
    if (error == 0 && code == CL_SUCCESS && engine->twin && count > 0) {
        code = copy_out(engine, slot, slot->reports_offset, slot->reports_used * REPORT_FLOATS);
        if (code == CL_SUCCESS)
            code = copy_out(engine, slot, slot->samples_offset, slot->samples_used);
    }
    if (code != CL_SUCCESS) {
        log_error("the device refused a copy: %s", opencl_error_name(code));
        error = ERROR_DEVICE;
    }
    if (error < 0)
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].plan->cache.valid = false;
    return error;
}
