/* The rows of a batch, see table.h. */
#include "convolve/table.h"

#include <assert.h>
#include <string.h>

#include "convolve/object.h"
#include "convolve/plan/plan.h"

enum { FILL_ITEMS = 32 };

static struct row_group *groups_of(const struct engine *engine, const struct slot *slot)
{
    return (struct row_group *)(void *)engine->device.table.host + slot->groups_offset;
}

uint32_t table_next(const struct slot *slot, const struct stage *stage)
{
    return (uint32_t)(stage->reads_groups ? slot->groups_offset + slot->groups
                                          : slot->rows_offset + slot->rows_used);
}

static void write_on_host(struct engine *engine, const struct stage *stage,
                          const struct row_item *item, uint32_t first)
{
    struct row *rows = (struct row *)(void *)engine->device.table.host + first;
    memcpy(rows, stage->rows, stage->count * sizeof *rows);
    for (uint32_t i = 0; i < stage->count; i++)
        row_fill(&rows[i], item);
}

void table_add(struct engine *engine, struct slot *slot, const struct plan *plan,
               const struct stage *stage, const struct row_item *item)
{
    struct row_group group = {.item = *item, .templates = stage->templates};
    if (!stage->reads_groups) {
        group.first = table_next(slot, stage);
        group.count = stage->count;
        slot->rows_used += stage->count;
        assert(slot->rows_used <= ROWS_PER_BATCH);
        if (plan->rows_fill == NULL || stage->kernel == NULL)
            write_on_host(engine, stage, item, group.first);
        if (plan->rows_fill == NULL)
            return;
    }
    assert(slot->groups < ROWS_PER_BATCH);
    groups_of(engine, slot)[slot->groups++] = group;
}

cl_int table_fill(struct engine *engine, const struct slot *slot)
{
    if (slot->groups == 0)
        return CL_SUCCESS;
    const struct row_group *groups = groups_of(engine, slot);
    const struct plan *plan = slot->batch.items[0].plan; /* all have the same kernels */
    const bool many = slot->groups > ROW_GROUPS;
    bool read = false;
    uint32_t most = 0;
    for (uint32_t i = 0; i < slot->groups; i++) {
        read = read || groups[i].count == 0;
        most = groups[i].count > most ? groups[i].count : most;
    }
    traffic_add(&engine->traffic.table, slot->groups * sizeof *groups);
    const cl_ulong offset = slot->groups_offset * sizeof *groups;
    if (many || read) {
        const cl_int code =
            clEnqueueWriteBuffer(engine->device.queue, engine->device.table.device, CL_FALSE,
                                 offset, slot->groups * sizeof *groups, groups, 0, NULL, NULL);
        if (code != CL_SUCCESS || most == 0)
            return code;
    }
    struct row_groups some = {.groups = {{.count = 0}}};
    if (!many)
        memcpy(some.groups, groups, slot->groups * sizeof *groups);
    const struct kernel_argument arguments[] = {
        {sizeof(cl_mem), &engine->device.spectrum.device},
        {sizeof(cl_mem), &engine->device.table.device},
        {many ? sizeof offset : sizeof some, many ? (const void *)&offset : (const void *)&some},
    };
    const size_t local[2] = {FILL_ITEMS, 1};
    const size_t global[2] = {(most + FILL_ITEMS - 1) / FILL_ITEMS * FILL_ITEMS, slot->groups};
    return device_launch(&engine->device, (many ? plan->rows_fill_many : plan->rows_fill)->kernel,
                         arguments, sizeof arguments / sizeof arguments[0], global, local, NULL);
}
