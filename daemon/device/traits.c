/* Traits of devices, see traits.h. No state. */
#include "device/traits.h"

#include <stdlib.h>
#include <string.h>

enum {
    GPU_ITEMS = 128,
    CPU_LANES = 16,
    COMPILER_BYTES = 1024,
    POCL_KNOWN_GOOD = 3,
    POCL_SPLIT_POINTS = 1024,
};

static bool is_pocl(const struct device_info *info)
{
    return strcmp(info->platform, "Portable Computing Language") == 0;
}

uint64_t device_reserved_bytes(uint32_t items)
{
    return (uint64_t)items * DEVICE_REPORT_BYTES + COMPILER_BYTES;
}

struct device_traits device_traits_of(const struct device_info *info)
{
    const uint32_t floats = info->vector_floats, items = info->gpu ? GPU_ITEMS : 1;
    const uint64_t reserved = device_reserved_bytes(items);
    /* Oclgrind looks for races of groups, which take turns with the memory of a thread. */
    const bool simulated = strcmp(info->platform, "Oclgrind") == 0;
    return (struct device_traits){
        .lanes = info->gpu ? 1 : CPU_LANES,
        .items = items,
        .vector = floats >= 16  ? 16
                  : floats >= 8 ? 8
                                : 4,
        .local_budget_bytes = info->local_bytes > reserved ? info->local_bytes - reserved : 0,
        .threads = info->gpu || simulated ? 0 : info->compute_units,
        .depth = info->gpu ? DEVICE_DEPTH_GPU : DEVICE_DEPTH_CPU,
        .depth_short = info->gpu ? DEVICE_DEPTH_GPU_SHORT : DEVICE_DEPTH_CPU,
        .builds_apart = info->gpu,
        .polled = info->gpu,
        .widest_first = !info->gpu && is_pocl(info),
        .split_points_most = is_pocl(info) && strtol(info->driver, NULL, 10) > POCL_KNOWN_GOOD
                                 ? POCL_SPLIT_POINTS
                                 : UINT32_MAX,
    };
}

bool device_is_nvidia(const struct device_info *info)
{
    return strcmp(info->platform, "NVIDIA CUDA") == 0;
}
