/* A device that looks like another one or refuses a launch, see engine_seams.h. */
#include <stdlib.h>

#include "device/device.h"
#include "tests/support/engine_seams.h"

int __real_device_open(struct device *device, const struct device_options *options,
                       struct problem *problem);
int __wrap_device_open(struct device *device, const struct device_options *options,
                       struct problem *problem);
int __wrap_device_open(struct device *device, const struct device_options *options,
                       struct problem *problem)
{
    if (engine_seams.refused_devices != 0 &&
        engine_seams.refused_devices >> strtoul(options->name, NULL, 10) & 1)
        return problem_set(problem, ERROR_DEVICE, "device %s is refused by the test",
                           options->name);
    return __real_device_open(device, options, problem);
}

struct device_traits __real_device_traits_of(const struct device_info *info);
struct device_traits __wrap_device_traits_of(const struct device_info *info);
struct device_traits __wrap_device_traits_of(const struct device_info *info)
{
    struct device_info seen = *info;
    seen.gpu |= engine_seams.gpu_shape;
    if (engine_seams.local_bytes != 0)
        seen.local_bytes = engine_seams.local_bytes;
    struct device_traits traits = __real_device_traits_of(&seen);
    const struct device_traits real = __real_device_traits_of(info);
    traits.depth = real.depth;
    traits.depth_short = real.depth_short;
    if (seen.gpu && engine_seams.items != 0) {
        const uint64_t reserved = device_reserved_bytes(engine_seams.items);
        traits.items = engine_seams.items;
        traits.local_budget_bytes = seen.local_bytes > reserved ? seen.local_bytes - reserved : 0;
    }
    return traits;
}

bool __real_arena_is_shared(struct arena *arena, cl_context context, cl_command_queue queue);
bool __wrap_arena_is_shared(struct arena *arena, cl_context context, cl_command_queue queue);
bool __wrap_arena_is_shared(struct arena *arena, cl_context context, cl_command_queue queue)
{
    return !engine_seams.mirrored && __real_arena_is_shared(arena, context, queue);
}

cl_int __real_device_launch(struct device *device, cl_kernel kernel,
                            const struct kernel_argument *arguments, cl_uint count,
                            const size_t global[2], const size_t local[2], cl_event *event);
cl_int __wrap_device_launch(struct device *device, cl_kernel kernel,
                            const struct kernel_argument *arguments, cl_uint count,
                            const size_t global[2], const size_t local[2], cl_event *event);
cl_int __wrap_device_launch(struct device *device, cl_kernel kernel,
                            const struct kernel_argument *arguments, cl_uint count,
                            const size_t global[2], const size_t local[2], cl_event *event)
{
    if (engine_seams.launching != NULL)
        engine_seams.launching(kernel);
    if (engine_seams.refused_launch > 0 && --engine_seams.refused_launch == 0)
        return CL_OUT_OF_RESOURCES;
    return __real_device_launch(device, kernel, arguments, count, global, local, event);
}
