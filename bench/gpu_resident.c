/* Batches without the engine's copies, see gpu_resident.h. */
#include "bench/gpu_resident.h"

#include "convolve/mirror.h"
#include "convolve/reports.h"

bool gpu_resident;

cl_int __real_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any);
cl_int __wrap_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any);
cl_int __wrap_mirror_copy_fresh(struct engine *engine, cl_command_queue queue,
                                const struct batch *batch, bool *any)
{
    return gpu_resident ? CL_SUCCESS : __real_mirror_copy_fresh(engine, queue, batch, any);
}

cl_int __real_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot);
cl_int __wrap_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot);
cl_int __wrap_mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot)
{
    return gpu_resident ? CL_SUCCESS : __real_mirror_copy_results(engine, queue, slot);
}

cl_int __real_mirror_fetch_full(struct engine *engine, struct slot *slot);
cl_int __wrap_mirror_fetch_full(struct engine *engine, struct slot *slot);
cl_int __wrap_mirror_fetch_full(struct engine *engine, struct slot *slot)
{
    return gpu_resident ? CL_SUCCESS : __real_mirror_fetch_full(engine, slot);
}

void __real_reports_unpack(const struct slot *slot);
void __wrap_reports_unpack(const struct slot *slot);
void __wrap_reports_unpack(const struct slot *slot)
{
    if (!gpu_resident)
        __real_reports_unpack(slot);
}
