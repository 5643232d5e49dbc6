/* Layout of plans: see layout.h. */
#include "convolve/plan/layout.h"

#include <math.h>
#include <string.h>

#include "convolve/plan/input_limit.h"
#include "convolve/plan/spec.h"
#include "convolve/plan/variant.h"
#include "core/power.h"
#include "device/device.h"

/* The shortest supported transform of at least `least` points; 0: there is none. */
static uint32_t fft_from(uint64_t least)
{
    const uint64_t fft = power_of_two_from(FFT_MIN, least);
    return fft > FFT_MAX ? 0 : (uint32_t)fft;
}

/* Blocks a partition spans at this N: floor((N - L + 1) / L). */
static uint32_t partition_blocks(uint32_t fft, uint32_t hop)
{
    return fft + 1 < 2 * hop ? 0 : (fft - hop + 1) / hop;
}

/* Flops per block for one input and one output: two transforms of Q points and the products. */
double layout_block_cost(uint32_t fft, uint32_t partitions)
{
    const double q = fft / 2.0;
    return 2 * 4.5 * q * log2(q) + 8.0 * q * partitions;
}

uint32_t layout_partition_count(uint32_t fft, uint32_t hop, uint32_t taps)
{
    if ((uint64_t)hop + taps - 1 <= fft)
        return 1;
    const uint64_t span = (uint64_t)partition_blocks(fft, hop) * hop;
    return span == 0 ? 0 : (uint32_t)((taps + span - 1) / span);
}

/* Bytes of the delay lines when every input keeps what the filter needs. */
static double delay_line_bytes(const struct plan_spec *spec, uint32_t fft, uint32_t partitions)
{
    const double step = partitions > 1 ? partition_blocks(fft, spec->hop) : 1;
    return ((partitions - 1) * step + spec->blocks_max) * fft * sizeof(float) * spec->inputs;
}

/* The N with the fewest operations: of the shortest one that is possible, and the longer ones whose
 * delay lines fit a quarter of STATE. 0: none is possible. */
uint32_t layout_partitioned_fft(const struct device *device, const struct plan_spec *spec,
                                uint32_t taps)
{
    uint32_t best = 0;
    double best_cost = 0;
    for (uint32_t fft = FFT_MIN; fft <= FFT_MAX; fft *= 2) {
        const uint32_t partitions = layout_partition_count(fft, spec->hop, taps);
        if (partitions == 0 || (best != 0 && delay_line_bytes(spec, fft, partitions) >
                                                 (double)device->state.bytes / 4))
            continue;
        const double cost = layout_block_cost(fft, partitions);
        if (best == 0 || cost < best_cost) {
            best = fft;
            best_cost = cost;
        }
        if (partitions == 1)
            break;
    }
    return best;
}

const char *layout_output_edges(const struct plan_spec *spec)
{
    bool outputs[CHANNELS_MAX] = {false};
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        if (outputs[spec->edges[e].output])
            return "an output has several edges";
        outputs[spec->edges[e].output] = true;
    }
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        if (!outputs[o])
            return "an output has no edge";
    return NULL;
}

const char *layout_single_edges(const struct plan_spec *spec)
{
    bool inputs[CHANNELS_MAX] = {false};
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        if (inputs[spec->edges[e].input])
            return "an input has several edges";
        inputs[spec->edges[e].input] = true;
    }
    return layout_output_edges(spec);
}

bool layout_any_complex(const struct plan_spec *spec)
{
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->taps[spec->edges[e].taps]->im != NULL &&
            spec->outputs[spec->edges[e].output] != OUTPUT_REAL)
            return true;
    return false;
}

static int choose_fft(const struct device *device, const struct plan_spec *spec,
                      const struct variant *variant, bool by_name, struct layout *layout,
                      struct problem *problem)
{
    const uint32_t taps = layout->taps_longest;
    const uint32_t whole = fft_from((uint64_t)spec->hop + taps - 1);
    if (spec->fft != 0) {
        layout->fft = spec->fft;
    } else if (variant->partitions) {
        layout->fft = layout_partitioned_fft(device, spec, taps);
    } else {
        const uint32_t cheaper = layout_partitioned_fft(device, spec, taps);
        layout->fft = whole;
        if (whole != 0 && !by_name && cheaper != 0 && cheaper < whole &&
            variant->pace *
                    layout_block_cost(cheaper, layout_partition_count(cheaper, spec->hop, taps)) <
                layout_block_cost(whole, 1))
            return problem_set(problem, ERROR_UNSUPPORTED, "%s: partitions cost less than N = %u",
                               variant->name, whole);
    }
    if (layout->fft == 0)
        return problem_set(
            problem, ERROR_LIMIT,
            "%s: blocks of %u frames with %u taps need a transform longer than %d points; "
            "use shorter blocks",
            variant->name, spec->hop, taps, FFT_MAX);
    layout->partitions = layout_partition_count(layout->fft, spec->hop, taps);
    if (layout->partitions == 0)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: fft = %u is too short for blocks of %u frames; use at least %u",
                           variant->name, layout->fft, spec->hop,
                           fft_from(2 * (uint64_t)spec->hop));
    if (layout->partitions > 1 && !variant->partitions)
        return problem_set(
            problem, ERROR_UNSUPPORTED,
            "%s: %u taps and blocks of %u frames do not fit N = %u; use fft = %u or the "
            "variant \"general\"",
            variant->name, taps, spec->hop, layout->fft, whole);
    return 0;
}

int layout_standard(const struct device *device, const struct plan_spec *spec,
                    const struct variant *variant, bool by_name, struct layout *layout,
                    struct problem *problem)
{
    memset(layout, 0, sizeof *layout);
    layout->variant = variant;
    layout->taps_longest = 1;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->taps[spec->edges[e].taps]->count > layout->taps_longest)
            layout->taps_longest = spec->taps[spec->edges[e].taps]->count;
    int error = choose_fft(device, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;

    const uint64_t transform_bytes = (uint64_t)layout->fft * sizeof(float);
    layout->scratch =
        transform_bytes <= device->traits.local_budget_bytes ? SCRATCH_LOCAL : SCRATCH_GLOBAL;
    layout->planes = 1;
    layout->items =
        spec->items != 0 && device->traits.items > 1 ? spec->items : device->traits.items;
    layout->fft_lanes = device->traits.lanes;
    if (layout->partitions > 1) {
        layout->partition_blocks = partition_blocks(layout->fft, spec->hop);
        layout->partition_taps = layout->partition_blocks * spec->hop;
    } else {
        layout->partition_blocks = 1;
        layout->partition_taps = layout->taps_longest;
    }
    layout->history_blocks = (layout->partitions - 1) * layout->partition_blocks;
    if (variant->overlap_add)
        layout->tail_blocks = (spec->hop + layout->partition_taps - 2) / spec->hop;
    return 0;
}

/* Whether some channel has codes up to full scale that are beyond the plan's limit. */
static bool some_input_binds(const struct plan_spec *spec)
{
    const double limit = input_limit(spec->edges, spec->edge_count, spec->taps, spec->taps_count);
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (input_scale_binds(&spec->format, &spec->scales[i], limit))
            return true;
    return false;
}

int layout_make(const struct device *device, const struct plan_spec *spec,
                const struct variant *variant, bool by_name, struct layout *layout,
                struct problem *problem)
{
    const char *objection = spec->decimate > 1 && !variant->decimates ? "it does not decimate"
                            : variant->objection != NULL ? variant->objection(device, spec, by_name)
                                                         : NULL;
    if (objection == NULL && device_is_host(&device->found.info) && !variant->on_host)
        objection = "it needs an OpenCL device";
    if (objection == NULL && !variant->any_scale && some_input_binds(spec))
        objection = "full scale or gain is so large that it cannot tell which samples fit a float";
    if (objection != NULL)
        return problem_set(problem, ERROR_UNSUPPORTED, "%s: %s; use the variant \"general\"",
                           variant->name, objection);
    return (variant->layout != NULL ? variant->layout : layout_standard)(device, spec, variant,
                                                                         by_name, layout, problem);
}
