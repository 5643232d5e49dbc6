/*
 * Takes nearly all memory of the first GPU, as another process beside the daemon would: plain
 * buffers, each written once so that the driver really allocates it, until the device refuses one
 * of a MiB. Then it frees what was asked for, says how much it holds, and holds it until its
 * standard input ends.
 *
 *   device_hog FREE_MIB      "holds N MiB of DEVICE", then nothing more; exit status 77: no GPU
 *
 * Devices that share the host's memory are never touched.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <CL/cl.h>

enum { PLATFORMS = 16, BUFFERS = 4096, LARGEST_MIB = 1024 };

static cl_mem held[BUFFERS];
static size_t held_mib[BUFFERS];
static int count;

static cl_device_id first_gpu(void)
{
    cl_platform_id platforms[PLATFORMS];
    cl_device_id device = NULL;
    cl_uint found = 0;
    clGetPlatformIDs(PLATFORMS, platforms, &found);
    for (cl_uint i = 0; i < found && i < PLATFORMS && device == NULL; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL) != CL_SUCCESS)
            device = NULL;
    cl_bool shared = CL_FALSE;
    if (device != NULL)
        clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shared, &shared, NULL);
    return shared ? NULL : device;
}

/* A buffer of so many MiB that is really there. */
static cl_mem take(cl_context context, cl_command_queue queue, size_t mib)
{
    const cl_uint zero = 0;
    cl_int code;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, mib << 20, NULL, &code);
    if (buffer == NULL)
        return NULL;
    code = clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, mib << 20, 0, NULL, NULL);
    if (code == CL_SUCCESS && clFinish(queue) == CL_SUCCESS)
        return buffer;
    clReleaseMemObject(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    const size_t free_mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    cl_device_id device = first_gpu();
    if (device == NULL) {
        puts("no GPU with memory of its own");
        return 77;
    }
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue =
        context != NULL ? clCreateCommandQueue(context, device, 0, &code) : NULL;
    if (queue == NULL) {
        printf("the GPU refuses a queue: %d\n", code);
        return 1;
    }
    size_t sum_mib = 0;
    for (size_t mib = LARGEST_MIB; mib > 0 && count < BUFFERS; mib /= 2)
        while (count < BUFFERS && (held[count] = take(context, queue, mib)) != NULL) {
            held_mib[count++] = mib;
            sum_mib += mib;
        }
    for (size_t freed = 0; freed < free_mib && count > 0; freed += held_mib[count]) {
        clReleaseMemObject(held[--count]); /* the smallest are the last */
        sum_mib -= held_mib[count];
    }
    clFinish(queue);
    char name[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    printf("holds %zu MiB of %s\n", sum_mib, name);
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    return 0; /* the driver frees what the process held */
}
