/*
 * What an item of a batch makes a device compute beside its own blocks: those before it that its
 * plan has to have seen (plan/cache.h). LOOP asks it of what was submitted, the device thread of
 * what is there.
 */
#ifndef CONVOLVD_CONVOLVE_ITEM_H
#define CONVOLVD_CONVOLVE_ITEM_H

#include "convolve/batch.h"
#include "convolve/plan/cache.h"

/* Blocks before an item at this place that are not there, where `cache` tells what is. */
uint32_t item_missing(const struct batch_item *item, const struct plan_cache *cache);
/* What of them is computed again for the item. */
struct plan_rebuild item_rebuild(const struct batch_item *item, const struct plan_cache *cache);
/* Expected device time of the item with it [ns]. */
int64_t item_cost_ns(const struct batch_item *item, const struct plan_rebuild *rebuild);

/* The cache after the item, for which `rebuild` was computed again. */
void item_follow(const struct batch_item *item, const struct plan_rebuild *rebuild,
                 struct plan_cache *cache);

#endif
