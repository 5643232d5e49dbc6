/*
 * Copies between host memory and its mirror, on a device with memory of its own: new ring frames go
 * in before a batch's kernels, reports and samples come out after them.
 *
 * The copies of large batches, and of those behind others, have queues of their own, so that they
 * run beside the kernels of other batches and in both directions at once. A small batch that runs
 * alone takes less time through one queue, where nothing waits for another queue's event.
 *
 *     in       ring bytes, presence ─┐
 *     rows     rows of the table ────┤                          see table.h
 *     compute                        └► kernels ─┐              one of two, see launch.h
 *     out                                        └► reports, samples ─► slot->event
 *
 * A copy costs 5 to 10 us whatever its size, so there are few: reports and samples of a batch lie
 * side by side, and presence bits follow when a batch first reads them. Full reports of plans that
 * pack theirs (reports.h) lie apart, and are copied when a packed one says that they count.
 *
 * A failed copy leaves the mirror behind the host's memory. After any failed batch every ring is
 * copied again as far back as a batch reads it, before that batch's kernels: fresh frames, fed
 * frames (feed.h) and presence alike. The host's memory always holds all of them.
 *
 * Device thread only. Nothing is allocated.
 */
#ifndef CONVOLVD_CONVOLVE_MIRROR_H
#define CONVOLVD_CONVOLVE_MIRROR_H

#include "convolve/object.h"

/* Whether this batch's copies go through queues of their own. */
bool mirror_apart(const struct engine *engine, const struct slot *slot);

/* Enqueues what the batch's items have that is new; *any becomes true if they have something. */
cl_int mirror_copy_fresh(struct engine *engine, cl_command_queue queue, const struct batch *batch,
                         bool *any);

/* Enqueues the copy of reports and samples to the host, after slot->event, and becomes it. */
cl_int mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot);

/* Copies a complete batch's full reports to the host, if a packed one says that they count and they
 * have not come with the results; BLOCKS for as long as that takes. From then on they come with the
 * results, for a while. */
cl_int mirror_fetch_full(struct engine *engine, struct slot *slot);

/* In place of both, for an item whose plan is on the host: the mirror lacks what the item has that
 * is new. A plan on the device that reads the ring later copies it first. */
void mirror_skip_item(const struct batch_item *item);

/* Enqueues the copy of what the slot's items of a plan on the host have computed to the device, for
 * a batch whose results come from there. */
cl_int mirror_copy_computed(struct engine *engine, const struct slot *slot,
                            const struct plan *plan);

/* What is enqueued on `after` from now on waits for all that is on `before`. */
cl_int mirror_queue_follows(cl_command_queue before, cl_command_queue after);

#endif
