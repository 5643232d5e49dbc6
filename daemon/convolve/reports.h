/*
 * Reports of a batch: where they lie, and packed ones made whole.
 *
 * A plan of short blocks packs its reports, 8 bytes in place of 32 (kernels/row.h). The kernels
 * write a report of 32 bytes beside a packed one only where that says so, and where samples of the
 * result clip their count, for which is room behind the reports. Once the batch is complete the
 * device thread makes a report of each of the others, and their counts zero.
 *
 *     full_offset ─► full reports and counts of plans that pack ─►   (room)
 *                    ◄─ packed reports; reports and counts of others ◄─ samples_offset ─► samples
 *
 * A device with memory of its own sends what lies before the samples and these in one copy, and
 * full reports in another, when there are some (mirror.h).
 */
#ifndef CONVOLVD_CONVOLVE_REPORTS_H
#define CONVOLVD_CONVOLVE_REPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/object.h"

/* Room for the reports of an item, in reports of 32 bytes. */
struct reports_room {
    uint64_t copied; /* before the samples */
    uint64_t full;   /* from full_offset on */
};

/* Together at most blocks · plan->report_rows and one. */
struct reports_room reports_room(const struct plan *plan, uint32_t blocks);

/* LOOP, and whoever fills the worker's slot: sets where the reports and counts of its next item
 * lie.
 */
void reports_place(struct engine *engine, struct slot *slot, struct batch_item *item);

/* Whether some of an item's packed reports say that the full one counts. */
bool reports_any_full(const struct batch_item *item);

/* Device thread: makes the reports of a complete batch, whose full ones are on the host. */
void reports_unpack(const struct slot *slot);

#endif
