/* Items of a batch: see item.h. */
#include "convolve/item.h"

#include "convolve/plan/plan.h"
#include "convolve/rings.h"

static struct plan_place place_of(const struct batch_item *item)
{
    return (struct plan_place){
        .ring_serial = ((const struct ring_memory *)item->ring)->serial,
        .origin = item->position - item->epoch_block * item->plan->hop,
        .first = item->epoch_block,
    };
}

uint32_t item_missing(const struct batch_item *item, const struct plan_cache *cache)
{
    const struct plan_keeps keeps = plan_keeps(item->plan);
    const struct plan_place place = place_of(item);
    const struct plan_rebuild missing = plan_cache_missing(&keeps, cache, &place);
    return plan_blocks_count(&missing.spectra);
}

struct plan_rebuild item_rebuild(const struct batch_item *item, const struct plan_cache *cache)
{
    const struct plan_keeps keeps = plan_keeps(item->plan);
    const struct plan_place place = place_of(item);
    const struct plan_rebuild missing = plan_cache_missing(&keeps, cache, &place);
    return item->blocks > 0 ? missing : plan_rebuild_part(&missing, item->rebuild);
}

int64_t item_cost_ns(const struct batch_item *item, const struct plan_rebuild *rebuild)
{
    return plan_rebuild_cost_ns(item->plan, rebuild) +
           (item->blocks > 0 ? plan_cost_ns(item->plan, item->blocks) : 0);
}

void item_follow(const struct batch_item *item, const struct plan_rebuild *rebuild,
                 struct plan_cache *cache)
{
    const struct plan_keeps keeps = plan_keeps(item->plan);
    const struct plan_place place = place_of(item);
    plan_cache_rebuilt(&keeps, cache, &place, rebuild);
    if (item->blocks > 0)
        plan_cache_computed(&keeps, cache, &place, item->blocks);
}
