/*
 * The rows of a batch in TABLE: each is its plan's template and what an item of the batch says.
 *
 * Where host and device share their memory the host writes them. On a device with memory of its own
 * the kernels of kernels/rows.cl make them there, in one launch: the templates lie in SPECTRUM
 * since the plan was prepared, and the groups, a few words an item, come as an argument of the
 * launch or, when there are many, in TABLE. To copy the rows themselves, 19 KiB for 64 channels,
 * took longer than the work of many a batch.
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

/* The rows of a stage for one item, from row `first` of TABLE on: at once in the host's memory,
 * where a stage's own function finds them, too, or in the slot's groups. */
void table_add(struct engine *engine, struct slot *slot, const struct plan *plan,
               const struct stage *stage, const struct row_item *item, uint32_t first);

/* Enqueues what makes the rows of the slot's groups, on device->queue: one launch, and before it
 * the copy of the groups, if they are many. Nothing where the host has written the rows. */
cl_int table_fill(struct engine *engine, const struct slot *slot);

#endif
