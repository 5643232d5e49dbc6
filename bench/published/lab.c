/*
 * Device, queues and times of the published systems, see lab.h.
 */
#include "bench/published/lab.h"

#include <math.h>
#include <string.h>

#include "device/program.h"

static void fail(struct lab *lab, cl_int code, const char *what)
{
    if (lab->error == 0)
        lab->error = opencl_problem(&lab->problem, code, what);
}

static int open_context(struct lab *lab)
{
    cl_int code;
    lab->context = clCreateContext(NULL, 1, &lab->found.device, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return lab->error = opencl_problem(&lab->problem, code, "the device gave no context");
    lab->queue = clCreateCommandQueue(lab->context, lab->found.device, 0, &code);
    if (code == CL_SUCCESS)
        lab->profiled =
            clCreateCommandQueue(lab->context, lab->found.device, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS)
        fail(lab, code, "the device gave no queue");
    return lab->error;
}

static void close_context(struct lab *lab)
{
    if (lab->queue != NULL)
        clReleaseCommandQueue(lab->queue);
    if (lab->profiled != NULL)
        clReleaseCommandQueue(lab->profiled);
    if (lab->context != NULL)
        clReleaseContext(lab->context);
    lab->queue = lab->profiled = NULL;
    lab->context = NULL;
}

int lab_open(struct lab *lab, const char *device, int cpu_threads, const char *cache_dir)
{
    memset(lab, 0, sizeof *lab);
    lab->cache_dir = cache_dir;
    lab->error = device_select(device, cpu_threads, &lab->found, &lab->problem);
    if (lab->error != 0)
        return lab->error;
    clGetDeviceInfo(lab->found.device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof lab->group_max,
                    &lab->group_max, NULL);
    return open_context(lab);
}

void lab_close(struct lab *lab)
{
    close_context(lab);
}

int lab_recover(struct lab *lab)
{
    close_context(lab);
    lab->error = 0;
    return open_context(lab);
}

int lab_status(const struct lab *lab)
{
    return lab->error;
}

cl_program lab_program(struct lab *lab, const char *file, const char *options)
{
    cl_program program = NULL;
    if (lab->error != 0)
        return NULL;
    const struct program_request request = {
        .context = lab->context,
        .device = lab->found.device,
        .info = &lab->found.info,
        .cache_dir = lab->cache_dir,
        .file = file,
        .options = options,
    };
    lab->error = program_build(&request, &program, NULL, &lab->problem);
    return program;
}

cl_kernel lab_kernel(struct lab *lab, cl_program program, const char *name)
{
    if (lab->error != 0)
        return NULL;
    cl_int code;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    if (code != CL_SUCCESS)
        fail(lab, code, name);
    return kernel;
}

cl_mem lab_buffer(struct lab *lab, size_t bytes)
{
    if (lab->error != 0)
        return NULL;
    cl_int code;
    cl_mem buffer = clCreateBuffer(lab->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS)
        fail(lab, code, "device memory");
    return buffer;
}

void lab_release_buffers(cl_mem *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
}

void lab_release_kernels(cl_kernel *kernels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kernels[i] != NULL)
            clReleaseKernel(kernels[i]);
}

/* Waits for `event` and returns how long it ran. */
static int64_t event_ns(struct lab *lab, cl_event event, const char *what)
{
    cl_ulong from = 0, until = 0;
    cl_int code = clWaitForEvents(1, &event);
    if (code == CL_SUCCESS)
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL);
    if (code == CL_SUCCESS)
        code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof until, &until, NULL);
    if (code != CL_SUCCESS)
        fail(lab, code, what);
    clReleaseEvent(event);
    return (int64_t)(until - from);
}

void lab_write(struct lab *lab, cl_mem to, const void *from, size_t bytes)
{
    if (lab->error != 0)
        return;
    cl_event event;
    const cl_int code =
        clEnqueueWriteBuffer(lab->profiling ? lab->profiled : lab->queue, to, CL_TRUE, 0, bytes,
                             from, 0, NULL, lab->profiling ? &event : NULL);
    if (code != CL_SUCCESS)
        fail(lab, code, "copying to the device");
    else if (lab->profiling)
        lab->transfer_ns += event_ns(lab, event, "copying to the device");
}

void lab_read(struct lab *lab, void *to, cl_mem from, size_t bytes)
{
    if (lab->error != 0)
        return;
    cl_event event;
    const cl_int code =
        clEnqueueReadBuffer(lab->profiling ? lab->profiled : lab->queue, from, CL_TRUE, 0, bytes,
                            to, 0, NULL, lab->profiling ? &event : NULL);
    if (code != CL_SUCCESS)
        fail(lab, code, "copying from the device");
    else if (lab->profiling)
        lab->transfer_ns += event_ns(lab, event, "copying from the device");
}

void lab_set(struct lab *lab, cl_kernel kernel, const struct lab_argument *arguments, size_t count)
{
    for (size_t i = 0; lab->error == 0 && i < count; i++) {
        const cl_int code =
            clSetKernelArg(kernel, (cl_uint)i, arguments[i].bytes, arguments[i].value);
        if (code != CL_SUCCESS)
            fail(lab, code, "a kernel's argument");
    }
}

void lab_launch(struct lab *lab, cl_kernel kernel, cl_uint dimensions, const size_t *global,
                const size_t *local)
{
    if (lab->error != 0)
        return;
    cl_event event;
    cl_command_queue queue = lab->profiling ? lab->profiled : lab->queue;
    cl_int code = clEnqueueNDRangeKernel(queue, kernel, dimensions, NULL, global, local, 0, NULL,
                                         lab->profiling ? &event : NULL);
    if (code != CL_SUCCESS)
        fail(lab, code, "a launch");
    else if (lab->profiling)
        lab->kernel_ns += event_ns(lab, event, "a launch");
    else if ((code = clFinish(queue)) != CL_SUCCESS)
        fail(lab, code, "a launch");
}

uint32_t log2_of(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

void fill_factors(float *w, uint32_t n, uint32_t count)
{
    for (uint32_t u = 0; u < count; u++) {
        const double turn = 2 * M_PI * u / n;
        w[2 * (size_t)u] = (float)cos(turn);
        w[2 * (size_t)u + 1] = (float)-sin(turn);
    }
}
