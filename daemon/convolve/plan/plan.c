/* Plans: what others read of them, see plan.h and spec.h. */
#include "convolve/plan/plan.h"

#include <math.h>

#include "convolve/plan/planner.h"

const struct plan_info *plan_info(const struct plan *plan)
{
    return &plan->info;
}

/* ---- costs ------------------------------------------------------------------------------- */

int64_t plan_cost_ns(const struct plan *plan, uint32_t blocks)
{
    return atomic_load_explicit(&plan->cost_base_ns, memory_order_relaxed) +
           atomic_load_explicit(&plan->cost_block_ps, memory_order_relaxed) * blocks / 1000;
}

int64_t plan_rebuild_cost_ns(const struct plan *plan, const struct plan_rebuild *rebuild)
{
    const uint32_t spectra = plan_blocks_count(&rebuild->spectra),
                   planes = plan_blocks_count(&rebuild->planes);
    const uint32_t alone = spectra > planes ? spectra - planes : 0;
    if (spectra == 0)
        return 0;
    return plan_cost_ns(plan, planes) +
           atomic_load_explicit(&plan->cost_spectra_ps, memory_order_relaxed) * alone / 1000;
}

void plan_cost_scale(struct plan *plan, double factor)
{
    const double base = (double)atomic_load_explicit(&plan->cost_base_ns, memory_order_relaxed);
    const double block = (double)atomic_load_explicit(&plan->cost_block_ps, memory_order_relaxed);
    atomic_store_explicit(&plan->cost_base_ns, (int64_t)fmax(base * factor, 1000),
                          memory_order_relaxed);
    atomic_store_explicit(&plan->cost_block_ps, (int64_t)fmax(block * factor, 1000),
                          memory_order_relaxed);
}

void plan_spectra_cost_scale(struct plan *plan, double factor)
{
    const double block = (double)atomic_load_explicit(&plan->cost_spectra_ps, memory_order_relaxed);
    atomic_store_explicit(&plan->cost_spectra_ps, (int64_t)fmax(block * factor, 1000),
                          memory_order_relaxed);
}

/* ---- frames and memory ------------------------------------------------------------------- */

static struct decimation plan_decimation(const struct plan *plan)
{
    return (struct decimation){plan->info.decimate, plan->info.decimate_phase};
}

uint32_t plan_kept_first(const struct plan *plan, uint64_t epoch_block)
{
    const struct decimation kept = plan_decimation(plan);
    return decimation_first(&kept, epoch_block * plan->hop);
}

uint64_t plan_kept(const struct plan *plan, uint64_t epoch_block, uint32_t blocks)
{
    const struct decimation kept = plan_decimation(plan);
    return decimation_kept(&kept, epoch_block * plan->hop, (uint64_t)blocks * plan->hop);
}

struct plan_keeps plan_keeps(const struct plan *plan)
{
    if (!plan->stateful)
        return (struct plan_keeps){.slots = 0};
    return (struct plan_keeps){plan->layout.history_blocks, plan->layout.tail_blocks, plan->slots,
                               plan->plane_slots};
}

uint32_t plan_small_rows(uint32_t outputs, uint32_t inputs)
{
    return (outputs + 2 * inputs + REPORT_FLOATS - 1) / REPORT_FLOATS;
}

uint64_t plan_floats(const struct plan *plan, uint64_t frames)
{
    const uint64_t bytes = frames * plan->info.output_floats * plan->info.sample_bytes;
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

uint32_t plan_blocks_fit(const struct plan *plan)
{
    const struct planner *planner = plan->planner;
    const uint64_t samples = planner->batch_samples / plan_floats(plan, plan->hop);
    const uint64_t reports = planner->batch_reports / plan->report_rows;
    uint64_t blocks = samples < reports ? samples : reports;
    if (blocks > plan->blocks_max)
        blocks = plan->blocks_max;
    return blocks > 1 ? (uint32_t)blocks : 1;
}
