/* Launches of a batch, see launch.h. */
#include "convolve/launch.h"

#include <assert.h>
#include <string.h>

#include "convolve/item.h"
#include "convolve/lost.h"
#include "convolve/mirror.h"
#include "convolve/object.h"
#include "convolve/parts.h"
#include "convolve/plan/plan.h"
#include "convolve/table.h"

/* A step runs one stage: for the blocks before an item, spectra before planes, or for its own. */
enum {
    STEP_SPECTRA = 0,
    STEP_PLANES = STAGES_MAX,
    STEP_ITEM = 2 * STAGES_MAX,
    STEPS = 3 * STAGES_MAX
};

/* What an item asks of each step. */
struct work {
    struct plan *plan;
    const struct batch_item *item;
    uint32_t round;
    struct plan_rebuild rebuild; /* of the blocks before the item */
    bool launched[STEPS];
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Blocks of the epoch that a step computes for an item. */
static struct plan_blocks step_blocks(const struct work *work, uint32_t step)
{
    const struct batch_item *item = work->item;
    if (step >= STEP_ITEM)
        return (struct plan_blocks){item->epoch_block, item->epoch_block + item->blocks};
    struct plan_blocks blocks = step < STEP_PLANES ? work->rebuild.spectra : work->rebuild.planes;
    const uint64_t most = work->plan->stages[step % STAGES_MAX].keeps_blocks;
    if (most != 0 && item->epoch_block > most)
        blocks.from = greatest(blocks.from, item->epoch_block - most);
    return blocks;
}

/* The step's stage; NULL: it has nothing to do for this item. */
static const struct stage *step_stage(const struct work *work, uint32_t step)
{
    const uint32_t number = step % STAGES_MAX;
    if (number >= work->plan->stage_count)
        return NULL;
    const struct stage *stage = &work->plan->stages[number];
    if ((step < STEP_PLANES && stage->keeps != KEEPS_SPECTRA) ||
        (step >= STEP_PLANES && step < STEP_ITEM && stage->keeps != KEEPS_PLANES))
        return NULL;
    const struct plan_blocks blocks = step_blocks(work, step);
    return plan_blocks_count(&blocks) > 0 ? stage : NULL;
}

/* What an item says in its rows of a step. */
static struct row_item item_of(const struct engine *engine, const struct work *work, uint32_t step)
{
    const struct plan *plan = work->plan;
    const struct stage *stage = step_stage(work, step);
    const struct batch_item *item = work->item;
    const struct ring_memory *ring = (const struct ring_memory *)item->ring;
    const float *output = (const float *)(const void *)engine->device.output.host;
    const struct plan_blocks blocks = step_blocks(work, step);
    const uint64_t first = blocks.from, back = item->epoch_block - first;
    const uint64_t into_span = stage->span_blocks != 0 ? first % stage->span_blocks : 0;
    const uint32_t decimate = plan->info.decimate;
    return (struct row_item){
        .ring = ring->bytes_offset,
        .present = ring->present_offset,
        .block = first,
        .output_byte = (uint64_t)(item->samples - output) * sizeof(float),
        .report = (uint64_t)((const float *)(const void *)item->reports - output),
        .clips = item->saturated == NULL
                     ? 0
                     : (uint64_t)((const float *)(const void *)item->saturated - output),
        .packed = item->packed == NULL
                      ? 0
                      : (uint64_t)((const float *)(const void *)item->packed - output),
        .start = (uint32_t)(item->position - (back + into_span) * plan->hop),
        .mask = ring->ring.frames - 1,
        .blocks = plan_blocks_count(&blocks),
        .write_from = item->write_from,
        .write_until = item->write_until,
        .decimate = decimate,
        .kept = plan_kept_first(plan, item->epoch_block),
        .kept_log = (uint32_t)__builtin_ctz(decimate),
        .flags = (step < STEP_ITEM ? ROW_REBUILD : 0) | (item->absent ? ROW_ABSENT : 0),
    };
}

/* Which kernels of a stage compute blocks of an item. */
static struct launch_share share_of(const struct stage *stage, const struct row_item *item)
{
    if (stage->rare == NULL)
        return (struct launch_share){.whole = true};
    const struct row *row = &stage->rows[0]; /* all rows have the same window */
    const uint64_t first = (row->start + item->start) & item->mask;
    const uint64_t until =
        first + (uint64_t)(item->blocks - 1) * row->hop + row->new_from + row->hop;
    const bool all = (item->flags & ROW_ABSENT) != 0 || first % stage->whole_slots != 0;
    const bool some = until > (uint64_t)item->mask + 1 || item->write_from > 0 ||
                      item->write_until < item->blocks * row->hop;
    return (struct launch_share){.whole = !all && (!some || item->blocks > 1), .rare = all || some};
}

/* The stages of two plans can share a launch: nothing but their rows differs. */
static bool stages_alike(const struct plan *a, const struct stage *x, const struct plan *b,
                         const struct stage *y)
{
    return (a == b && x == y) ||
           (x->kernel != NULL && x->kernel == y->kernel && x->rare == y->rare &&
            launch_fft_plan(a, x) == launch_fft_plan(b, y) && a->layout.scratch == SCRATCH_LOCAL &&
            b->layout.scratch == SCRATCH_LOCAL && a->layout.planes == b->layout.planes &&
            x->items == y->items && x->group_blocks == y->group_blocks &&
            x->block_groups == y->block_groups && x->group_rows == y->group_rows &&
            x->sides == y->sides && x->shared_bytes == y->shared_bytes &&
            x->local_bytes == y->local_bytes && x->number_count == y->number_count &&
            memcmp(x->numbers, y->numbers, x->number_count * sizeof x->numbers[0]) == 0);
}

/* Compares the item with what its plan keeps on the device. */
static void follow(struct work *work)
{
    work->rebuild = item_rebuild(work->item, &work->plan->cache);
    item_follow(work->item, &work->rebuild, &work->plan->cache);
}

/* Adds the rows of every launch of the batch to the table, in the order they are to run. */
static uint32_t plan_launches(struct engine *engine, struct slot *slot, struct work *works,
                              uint32_t count, uint32_t rounds, struct launch *launches)
{
    uint32_t used = 0;
    slot->rows_used = slot->groups = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < count; i++)
            if (works[i].round == round)
                follow(&works[i]);
        for (uint32_t step = 0; step < STEPS; step++)
            for (uint32_t i = 0; i < count; i++) {
                const struct stage *stage = step_stage(&works[i], step);
                if (works[i].round != round || works[i].launched[step] || stage == NULL)
                    continue;
                struct launch *launch = &launches[used++];
                *launch = (struct launch){
                    .plan = works[i].plan, .stage = stage, .first = table_next(slot, stage)};
                for (uint32_t j = i; j < count; j++) {
                    struct work *work = &works[j];
                    const struct stage *other = step_stage(work, step);
                    if (work->round != round || work->launched[step] || other == NULL ||
                        !stages_alike(launch->plan, stage, work->plan, other))
                        continue;
                    work->launched[step] = true;
                    const struct row_item item = item_of(engine, work, step);
                    const struct launch_share share = share_of(other, &item);
                    launch->share.whole |= share.whole;
                    launch->share.rare |= share.rare;
                    table_add(engine, slot, work->plan, other, &item);
                    launch->rows += other->count;
                    launch->blocks = (uint32_t)greatest(launch->blocks, item.blocks);
                }
            }
    }
    return used;
}

/* ---- the batch --------------------------------------------------------------------------- */

/* Enqueues that bytes [from, until) of OUTPUT become zero. */
static cl_int clear_output(struct engine *engine, const struct plan *plan, uint64_t from,
                           uint64_t until)
{
    enum { ITEMS = 64, GROUPS_MOST = 512, ITEM_WORDS = 16 };
    const cl_ulong first = from / sizeof(cl_uint), count = (until - from) / sizeof(cl_uint);
    const struct kernel_argument arguments[] = {
        {sizeof(cl_mem), &engine->device.output.device},
        {sizeof first, &first},
        {sizeof count, &count},
    };
    const size_t local[2] = {ITEMS, 1};
    const size_t groups = (size_t)least(count / (ITEMS * ITEM_WORDS) + 1, GROUPS_MOST);
    const size_t global[2] = {groups * ITEMS, 1};
    return device_launch(&engine->device, plan->words_clear->kernel, arguments,
                         sizeof arguments / sizeof arguments[0], global, local, NULL);
}

/* The counts of clipped samples begin at zero, in the memory where the kernels add to them. On a
 * device with memory of its own in one go, over the reports between them, which the kernels write
 * later: a launch of its own for each of 64 items took longer than their work on an H100. */
static cl_int clear_clips(struct engine *engine, const struct batch *batch, bool on_host)
{
    uint64_t from = UINT64_MAX, until = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        if (item->saturated == NULL || item->plan->stages[0].reads_groups)
            continue;
        const uint64_t offset =
            (uint64_t)((const uint8_t *)item->saturated - engine->device.output.host);
        const uint64_t bytes =
            (uint64_t)item->blocks * item->plan->info.outputs * sizeof *item->saturated;
        if (!engine->device.mirrored || item->plan->info.on_host)
            memset(engine->device.output.host + offset, 0, bytes);
        from = offset < from ? offset : from;
        until = offset + bytes > until ? offset + bytes : until;
    }
    if (!engine->device.mirrored || on_host || until == 0)
        return CL_SUCCESS;
    return clear_output(engine, batch->items[0].plan, from, until);
}

/* The queue of the batch's kernels. Plans that keep something on the device stay on the first, in
 * order; batches of other plans take turns while several run. Where host and device share their
 * memory, a batch in parts has the second to itself: its plans are in no other batch, and a part
 * that leaves threads of the device idle leaves them to those that overtake it. */
static uint32_t queue_of(const struct engine *engine, const struct slot *slot, bool apart)
{
    if (!engine->device.mirrored)
        return slot == engine->parted;
    if (!apart || engine->running_count == 0)
        return 0;
    for (uint32_t i = 0; i < slot->batch.count; i++) {
        const struct plan *plan = slot->batch.items[i].plan;
        if (plan->stateful || (plan->scratch_offset != ROW_NONE && plan->scratch_queue_bytes == 0))
            return 0;
    }
    return 1 - engine->running[engine->running_count - 1]->queue;
}

/* Enqueues what comes before the batch's kernels: feeds, new frames and rows; rows that kernels
 * make have a queue of their own when the copies have, so that they are made beside the kernels of
 * the batch before. The second queue waits for copies into rings that feeds and small batches have
 * left on the first. */
static cl_int launch_inputs(struct engine *engine, const struct slot *slot, bool apart)
{
    struct device *device = &engine->device;
    const cl_command_queue compute = device->compute[slot->queue];
    bool any = false;
    cl_int code = feeds_launch(&engine->feeds, &engine->copies_ahead);
    if (code == CL_SUCCESS)
        code = mirror_copy_fresh(engine, apart ? device->in : compute, &slot->batch, &any);
    const bool rows_apart = apart && slot->rows_used > 0;
    device->queue = rows_apart ? device->rows : compute;
    if (code == CL_SUCCESS)
        code = table_fill(engine, slot);
    device->queue = compute;
    if (!apart)
        engine->copies_ahead |= any;
    if (code == CL_SUCCESS && apart && any)
        code = mirror_queue_follows(device->in, compute);
    if (code == CL_SUCCESS && rows_apart)
        code = mirror_queue_follows(device->rows, compute);
    if (code == CL_SUCCESS && slot->queue != 0 && engine->copies_ahead) {
        code = mirror_queue_follows(device->compute[0], compute);
        engine->copies_ahead = false;
    }
    return code;
}

/* All of the batch's plans run on the host: neither samples nor results cross the bus. */
static bool is_on_host(const struct batch *batch)
{
    bool all = batch->count > 0;
    for (uint32_t i = 0; i < batch->count; i++)
        all = all && batch->items[i].plan->info.on_host;
    return all;
}

static void skip_inputs(const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++)
        mirror_skip_item(&batch->items[i]);
}

/* Enqueues what comes after kernels, `any` of which were launched: behind the batch's `last` ones,
 * its results. */
static int end_launch(struct engine *engine, struct slot *slot, bool any, bool last, int error)
{
    const struct batch *batch = &slot->batch;
    if (error == 0 && engine->device.mirrored && any && !slot->on_host) {
        cl_int code = CL_SUCCESS;
        /* a function that enqueued on its own leaves no event */
        if (slot->event == NULL)
            code = clEnqueueMarkerWithWaitList(engine->device.queue, 0, NULL, &slot->event);
        if (code == CL_SUCCESS && last)
            code = mirror_copy_results(
                engine, slot->apart ? engine->device.out : engine->device.queue, slot);
        if (code != CL_SUCCESS) {
            engine_note_fault(engine, "the device refused a batch: %s", opencl_error_name(code));
            error = ERROR_DEVICE;
        }
    }
    if (error < 0)
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].plan->cache.valid = false;
    return error;
}

int batch_launch(struct engine *engine, struct slot *slot)
{
    struct batch *batch = &slot->batch;
    struct work works[BATCH_ITEMS_MAX];
    struct launch launches[ITEM_LAUNCHES * BATCH_ITEMS_MAX];
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
    const uint32_t count = plan_launches(engine, slot, works, batch->count, rounds, launches);

    slot->on_host = engine->device.mirrored && is_on_host(batch);
    const bool apart = engine->device.mirrored && !slot->on_host && mirror_apart(engine, slot);
    slot->apart = apart;
    slot->queue = queue_of(engine, slot, apart);
    engine->device.queue = engine->device.compute[slot->queue];
    cl_int code = CL_SUCCESS;
    if (slot->on_host)
        skip_inputs(batch);
    else if (engine->device.mirrored)
        code = launch_inputs(engine, slot, apart);
    if (code == CL_SUCCESS)
        code = clear_clips(engine, batch, slot->on_host);
    int error = 0;
    if (code != CL_SUCCESS) {
        engine_note_fault(engine, "the device refused a batch: %s", opencl_error_name(code));
        error = ERROR_DEVICE;
    } else if (slot == engine->parted) {
        parts_take(&engine->parts, launches, count,
                   (double)batch->part_ns / (double)greatest((uint64_t)batch->cost_ns, 1));
        return batch_launch_part(engine, slot);
    }
    for (uint32_t i = 0; error == 0 && i < count; i++)
        error = launch_whole(engine, slot, &launches[i]);
    return end_launch(engine, slot, count > 0, true, error);
}

int batch_launch_part(struct engine *engine, struct slot *slot)
{
    struct parts *parts = &engine->parts;
    const bool any = parts_left(parts);
    engine->device.queue = engine->device.compute[slot->queue];
    const int error = any ? parts_launch(engine, slot, parts) : 0;
    return end_launch(engine, slot, any, !parts_left(parts), error);
}
