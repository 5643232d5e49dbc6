/*
 * Launches timed by their events, see launch_times.h.
 *
 * The engine's queues have no profiling, which would cost every batch time. A launch that is to be
 * timed goes to a queue of its own that has it, when all commands before it are complete, and is
 * complete before the next command is enqueued.
 */
#include "bench/launch_times.h"

#include <stdbool.h>
#include <stddef.h>

#include "device/opencl.h"

/* The main thread sets `timing`; the device thread, which launches, sees it with the next batch. */
static struct {
    bool timing, failed;
    double ns;
    cl_command_queue profiled; /* NULL: not made yet */
} times;

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint wait_count, const cl_event *waits,
                                     cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint wait_count, const cl_event *waits,
                                     cl_event *event);

static cl_int open_profiled(cl_command_queue queue)
{
    cl_context context;
    cl_device_id device;
    cl_int code =
        clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        times.profiled = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
    return code;
}

static cl_int add_time(cl_event event)
{
    cl_ulong from = 0, until = 0;
    cl_int code =
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL);
    if (code == CL_SUCCESS)
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof until, &until, NULL);
    if (code == CL_SUCCESS)
        times.ns += (double)(until - from);
    return code;
}

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint wait_count, const cl_event *waits,
                                     cl_event *event)
{
    if (!times.timing)
        return __real_clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local,
                                             wait_count, waits, event);
    cl_event done = NULL;
    cl_int code = times.profiled == NULL ? open_profiled(queue) : CL_SUCCESS;
    if (code == CL_SUCCESS)
        code = clFinish(queue);
    if (code == CL_SUCCESS)
        code = __real_clEnqueueNDRangeKernel(times.profiled, kernel, dimensions, offset, global,
                                             local, wait_count, waits, &done);
    if (code == CL_SUCCESS)
        code = clFinish(times.profiled);
    if (code == CL_SUCCESS && add_time(done) != CL_SUCCESS)
        times.failed = true;
    if (event != NULL)
        *event = done;
    else if (done != NULL)
        clReleaseEvent(done);
    return code;
}

void launch_times_begin(void)
{
    times.ns = 0;
    times.failed = false;
    times.timing = true;
}

double launch_times_end(void)
{
    times.timing = false;
    if (times.profiled != NULL)
        clReleaseCommandQueue(times.profiled);
    times.profiled = NULL;
    return times.failed ? -1 : times.ns;
}
