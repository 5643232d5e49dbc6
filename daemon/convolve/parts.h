/*
 * Launches of a batch, whole or in parts.
 *
 * A batch that takes longer than other streams can wait (batch.part_ns) goes to the device in
 * parts: each is some rows of one launch or, of a row that alone takes longer than a part, some of
 * its work-groups. The device thread launches the next part when the one before is complete, and
 * batches that have come meanwhile before it. Work-groups of a launch do not know of each other,
 * and a launch begins when all parts of the one before are complete: however a batch is cut, its
 * results are the same to the bit.
 *
 * What one work-group computes is not cut: one row of most variants.
 *
 * Device thread only. Nothing is allocated.
 */
#ifndef CONVOLVD_CONVOLVE_PARTS_H
#define CONVOLVD_CONVOLVE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/launches.h"

struct engine;
struct slot;

/* The stage's FFT plan, or its plan's; NULL: none. */
struct device_fft_plan *launch_fft_plan(const struct plan *plan, const struct stage *stage);

/* Enqueues a launch on device->queue; slot->event is its end, NULL where it has none. 0 or
 * ERROR_DEVICE, logged. */
int launch_whole(struct engine *engine, struct slot *slot, const struct launch *launch);

/* The launches of a batch, in the order in which they are to run, which are at most
 * PARTED_ITEMS · ITEM_LAUNCHES. No part takes longer than `share`
 * of the batch, should one of the launches take all of its time. */
void parts_take(struct parts *parts, const struct launch *launches, uint32_t count, double share);
bool parts_left(const struct parts *parts);
/* Enqueues the next part, as launch_whole; there must be one. */
int parts_launch(struct engine *engine, struct slot *slot, struct parts *parts);

#endif
