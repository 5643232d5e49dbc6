/* Plain copies of a GPU: see gpu_copies.h. */
#include "bench/gpu_copies.h"

#include <string.h>

#include "core/clock.h"

int copier_open(struct copier *copier, const char *name, uint64_t bytes, struct problem *problem)
{
    struct device_found found;
    const int error = device_select(name, 0, &found, problem);
    if (error < 0)
        return error;
    cl_int code;
    copier->bytes = bytes;
    copier->device = found.device;
    copier->context = clCreateContext(NULL, 1, &found.device, NULL, NULL, &code);
    if (copier->context == NULL)
        return opencl_problem(problem, code, "no context for copies");
    copier->queue = clCreateCommandQueue(copier->context, found.device, 0, &code);
    copier->from = clCreateBuffer(copier->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    copier->to = clCreateBuffer(copier->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    const cl_uint pattern = 0x3f800000u;
    if (copier->queue == NULL || copier->from == NULL || copier->to == NULL)
        return opencl_problem(problem, code, "no memory for copies");
    code = clEnqueueFillBuffer(copier->queue, copier->from, &pattern, sizeof pattern, 0, bytes, 0,
                               NULL, NULL);
    if (code == CL_SUCCESS)
        code = clFinish(copier->queue);
    return code == CL_SUCCESS ? 0 : opencl_problem(problem, code, "copies");
}

void copier_close(struct copier *copier)
{
    clReleaseMemObject(copier->from);
    clReleaseMemObject(copier->to);
    clReleaseCommandQueue(copier->queue);
    clReleaseContext(copier->context);
}

double copier_run(struct copier *copier, int64_t for_ns)
{
    const int64_t from_ns = clock_monotonic_ns();
    int64_t until_ns = from_ns;
    double bytes = 0;
    while (until_ns - from_ns < for_ns) {
        for (int i = 0; i < 8; i++)
            clEnqueueCopyBuffer(copier->queue, copier->from, copier->to, 0, 0, copier->bytes, 0,
                                NULL, NULL);
        clFinish(copier->queue);
        bytes += 8.0 * 2 * (double)copier->bytes;
        until_ns = clock_monotonic_ns();
    }
    return bytes / (double)(until_ns - from_ns) * 1e9;
}

bool duplex_open(struct duplex *duplex, cl_context context, cl_device_id device, uint64_t bytes)
{
    cl_int code;
    duplex->bytes = bytes;
    for (int i = 0; i < 2; i++) {
        duplex->queues[i] = clCreateCommandQueue(context, device, 0, &code);
        duplex->device[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        duplex->pinned[i] =
            clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
        if (duplex->queues[i] == NULL || duplex->device[i] == NULL || duplex->pinned[i] == NULL)
            return false;
        duplex->host[i] =
            clEnqueueMapBuffer(duplex->queues[i], duplex->pinned[i], CL_TRUE,
                               CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &code);
        if (duplex->host[i] == NULL)
            return false;
        memset(duplex->host[i], 0, bytes);
    }
    return true;
}

void duplex_close(struct duplex *duplex)
{
    for (int i = 0; i < 2; i++) {
        clEnqueueUnmapMemObject(duplex->queues[i], duplex->pinned[i], duplex->host[i], 0, NULL,
                                NULL);
        clFinish(duplex->queues[i]);
        clReleaseMemObject(duplex->pinned[i]);
        clReleaseMemObject(duplex->device[i]);
        clReleaseCommandQueue(duplex->queues[i]);
    }
}

struct copied duplex_run(const struct duplex *duplex, int64_t for_ns)
{
    const int64_t from_ns = clock_monotonic_ns();
    cl_event done[DUPLEX_COPIES][2] = {0};
    uint32_t copies = 0;
    while (copies < DUPLEX_COPIES || clock_monotonic_ns() - from_ns < for_ns) {
        cl_event *pair = done[copies % DUPLEX_COPIES];
        if (copies >= DUPLEX_COPIES)
            clWaitForEvents(2, pair);
        for (int i = 0; i < 2; i++)
            if (pair[i] != NULL)
                clReleaseEvent(pair[i]);
        clEnqueueWriteBuffer(duplex->queues[0], duplex->device[0], CL_FALSE, 0, duplex->bytes,
                             duplex->host[0], 0, NULL, &pair[0]);
        clEnqueueReadBuffer(duplex->queues[1], duplex->device[1], CL_FALSE, 0, duplex->bytes,
                            duplex->host[1], 0, NULL, &pair[1]);
        clFlush(duplex->queues[0]);
        clFlush(duplex->queues[1]);
        copies++;
    }
    clFinish(duplex->queues[0]);
    clFinish(duplex->queues[1]);
    const int64_t until_ns = clock_monotonic_ns();
    for (int k = 0; k < DUPLEX_COPIES; k++)
        for (int i = 0; i < 2; i++)
            clReleaseEvent(done[k][i]);
    return (struct copied){2.0 * copies * (double)duplex->bytes,
                           (double)(until_ns - from_ns) * 1e-9};
}
