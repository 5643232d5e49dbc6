/*
 * The rows of a batch in TABLE: each is its plan's template and what an item of the batch says.
 *
 * Where host and device share their memory the host writes them. On a device with memory of its own
 * the kernels of kernels/rows.cl make them there, in one launch: the templates lie in SPECTRUM
 * since the plan was prepared, and the groups, a few words an item, come as an argument of the
 * launch or, when there are many, in TABLE. To copy the rows themselves, 19 KiB for 64 channels,
 * took longer than the work of many a batch.
 *
 * A stage that reads groups (stage.reads_groups) has no rows: its items' groups lie in TABLE. A
 * kernel that makes rows waits until work-groups of the batch before leave room for it, and the
 * batch's own kernel waits for those rows; a copy of the groups takes place beside all of that.
 *
 * Device thread only. Nothing is allocated.
 */
#ifndef CONVOLVD_CONVOLVE_TABLE_H
#define CONVOLVD_CONVOLVE_TABLE_H

#include "device/opencl.h"
#include "kernels/row.h"

struct engine;
struct plan;
struct slot;
struct stage;

/* The row of TABLE, or with stage.reads_groups the group, that the slot's next item gets. */
uint32_t table_next(const struct slot *slot, const struct stage *stage);

/* Adds the rows of a stage for one item: at once in the host's memory, where a stage's own function
 * finds them, too, or in the slot's groups. */
void table_add(struct engine *engine, struct slot *slot, const struct plan *plan,
               const struct stage *stage, const struct row_item *item);

/* Enqueues on device->queue, of a device with memory of its own, the copy of the slot's groups, if
 * they are many or a stage reads them, and the launch that makes rows of them, if there are any. */
cl_int table_fill(struct engine *engine, const struct slot *slot);

#endif
