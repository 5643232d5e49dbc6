/* What a plan keeps on the device: see cache.h. */
#include "convolve/plan/cache.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_stateful(const struct plan_keeps *keeps)
{
    return keeps->slots > 0;
}

/* What a block depends on, as first blocks of the epoch. */
struct reach {
    uint64_t line;    /* spectra that the block itself reads */
    uint64_t spectra; /* and those that its planes are computed from */
    uint64_t planes;
};

static struct reach reach_of(const struct plan_keeps *keeps, uint64_t first)
{
    const uint64_t history = least(first, keeps->history), tails = least(first, keeps->tail);
    return (struct reach){first - history, first - least(first, history + tails), first - tails};
}

static bool is_of(const struct plan_cache *cache, const struct plan_place *place)
{
    return cache->valid && cache->ring_serial == place->ring_serial &&
           cache->origin == place->origin;
}

struct plan_rebuild plan_cache_missing(const struct plan_keeps *keeps,
                                       const struct plan_cache *cache,
                                       const struct plan_place *place)
{
    const uint64_t first = place->first;
    const struct reach reach = reach_of(keeps, first);
    struct plan_rebuild missing = {{first, first}, {first, first}};
    const bool same = is_stateful(keeps) && is_of(cache, place);
    if (!is_stateful(keeps) ||
        (same && first <= cache->until && cache->spectra_from <= reach.line &&
         cache->planes_from <= reach.planes))
        return missing;
    const bool follows = same && first > cache->until && cache->until > reach.spectra &&
                         cache->spectra_from <= reach.spectra;
    missing.spectra.from = follows ? cache->until : reach.spectra;
    missing.planes.from = reach.planes;
    if (follows && cache->planes_from <= reach.planes)
        missing.planes.from = greatest(cache->until, reach.planes);
    return missing;
}

struct plan_rebuild plan_rebuild_part(const struct plan_rebuild *missing, uint32_t blocks)
{
    struct plan_rebuild part = *missing;
    part.spectra.until = least(part.spectra.until, part.spectra.from + blocks);
    part.planes.until = part.spectra.until;
    return part;
}

/* Later blocks take the slots of the earliest. */
static void forget_overwritten(const struct plan_keeps *keeps, struct plan_cache *cache)
{
    if (cache->until > keeps->slots)
        cache->spectra_from = greatest(cache->spectra_from, cache->until - keeps->slots);
    if (cache->until > keeps->planes)
        cache->planes_from = greatest(cache->planes_from, cache->until - keeps->planes);
}

void plan_cache_rebuilt(const struct plan_keeps *keeps, struct plan_cache *cache,
                        const struct plan_place *place, const struct plan_rebuild *rebuilt)
{
    const uint64_t until = rebuilt->spectra.until;
    if (!is_stateful(keeps) || plan_blocks_count(&rebuilt->spectra) == 0)
        return;
    const bool follows = is_of(cache, place) && cache->until == rebuilt->spectra.from;
    if (!follows) {
        cache->spectra_from = rebuilt->spectra.from;
        cache->planes_from = cache->until = rebuilt->spectra.from;
    }
    if (rebuilt->planes.from != cache->until || cache->planes_from > rebuilt->planes.from)
        cache->planes_from = rebuilt->planes.from;
    cache->ring_serial = place->ring_serial;
    cache->origin = place->origin;
    cache->until = until;
    cache->valid = true;
    forget_overwritten(keeps, cache);
}

void plan_cache_computed(const struct plan_keeps *keeps, struct plan_cache *cache,
                         const struct plan_place *place, uint32_t blocks)
{
    if (!is_stateful(keeps))
        return;
    if (!is_of(cache, place) || place->first == 0) /* it depends on nothing before it */
        *cache = (struct plan_cache){place->ring_serial, place->origin, place->first,
                                     place->first,       place->first,  true};
    cache->until = place->first + blocks;
    forget_overwritten(keeps, cache);
}
