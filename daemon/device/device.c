/* A device's OpenCL objects and memory, see device.h. */
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/log.h"
#include "device/compiler.h"
#include "device/pocl_cache.h"

/* ---- opening and closing ----------------------------------------------------------------- */

void device_arenas(struct device *device, struct arena **array)
{
    struct arena *const all[DEVICE_ARENAS] = {&device->input, &device->spectrum, &device->state,
                                              &device->output, &device->table};
    memcpy(array, all, sizeof all);
}

static int open_arenas(struct device *device, const struct device_options *options,
                       struct problem *problem)
{
    const struct {
        struct arena *arena;
        const char *name; /* the configuration's key */
        uint64_t bytes;
        bool copied;
    } arenas[] = {
        {&device->input, "input memory", options->input_bytes, true},
        {&device->spectrum, "spectrum memory", options->spectrum_bytes, false},
        {&device->state, "state memory", options->state_bytes, false},
        {&device->output, "batch memory", options->output_bytes, true},
        {&device->table, "batch table", options->table_bytes, false},
    };
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof arenas / sizeof arenas[0]; i++) {
        error = arena_open(arenas[i].arena, arenas[i].name, arenas[i].bytes, &device->found.info,
                           options->guards, problem);
        arenas[i].arena->copied = arenas[i].copied && device->found.info.gpu;
    }
    return error;
}

static void choose_place(struct device *device, const struct device_options *options)
{
    struct number_set here = {0};
    if (options->allowed == NULL)
        processors_allowed(&here);
    node_choose("", options->node, device->found.info.memory_node,
                options->allowed != NULL ? options->allowed : &here, &device->place);
}

/* Before anything touches the arenas. Memory elsewhere is slower, and no reason not to start. */
static void prefer_node(struct device *device)
{
    struct arena *arenas[DEVICE_ARENAS];
    int refused = 0;
    device_arenas(device, arenas);
    for (int i = 0; i < DEVICE_ARENAS && device->place.bound && refused == 0; i++)
        refused = memory_prefer_node(arenas[i]->host, arenas[i]->bytes, device->place.node);
    if (refused == EEXIST)
        log_info("memory node %u: the process has a memory policy (NUMAPolicy=), which the memory "
                 "of %s keeps",
                 device->place.node, device->found.info.name);
    else if (refused != 0)
        log_warning(
            "memory node %u: the memory of %s may lie on any node (mbind: %s); allow the "
            "process this node (AllowedMemoryNodes=) and this call (SystemCallFilter=mbind)",
            device->place.node, device->found.info.name, strerror(refused));
}

static int open_queues(struct device *device, struct problem *problem)
{
    cl_command_queue *const queues[] = {&device->compute[0], &device->upload, &device->compute[1],
                                        &device->in,         &device->out,    &device->rows,
                                        &device->late};
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        if (i == 2) /* `upload` is there to ask with */
            device->mirrored = device->found.info.gpu ||
                               !arena_is_shared(&device->table, device->context, device->upload);
        if (i >= 3 && !device->mirrored)
            break;
        *queues[i] = clCreateCommandQueue(device->context, device->found.device, 0, &code);
        if (*queues[i] == NULL)
            return opencl_problem(problem, code, "clCreateCommandQueue");
    }
    device->queue = device->compute[0];
    return 0;
}

static void release(struct device *device)
{
    device_finish(device);
    kernel_cache_release(&device->kernels);
    struct arena *arenas[DEVICE_ARENAS];
    device_arenas(device, arenas);
    for (int i = 0; i < DEVICE_ARENAS; i++)
        arena_release(arenas[i]);
    cl_command_queue *const queues[] = {&device->upload,     &device->in,  &device->compute[0],
                                        &device->compute[1], &device->out, &device->rows,
                                        &device->late};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        if (*queues[i] != NULL)
            clReleaseCommandQueue(*queues[i]);
        *queues[i] = NULL;
    }
    device->queue = NULL;
    if (device->context != NULL)
        clReleaseContext(device->context);
    device->context = NULL;
}

/* What NVIDIA's driver (580) answers to everything once a kernel has written where there is no
 * memory: every context of the process is gone, and it makes no other. */
enum { NVIDIA_PROCESS_ENDED = -9999 };

static int no_context(cl_int code, struct problem *problem)
{
    if (code == NVIDIA_PROCESS_ENDED)
        return problem_set(problem, ERROR_DRIVER,
                           "its driver makes no context in this process any more (%d), as after a "
                           "kernel's faulty access",
                           (int)code);
    int error = opencl_problem(problem, code, "clCreateContext");
    if (code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES)
        error = problem_prefix(problem, error, "no memory is left there, or on this machine");
    return error;
}

static int create(struct device *device, struct problem *problem)
{
    if (device_is_host(&device->found.info))
        return 0; /* it needs memory alone */
    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)device->found.platform, 0};
    device->context = clCreateContext(properties, 1, &device->found.device, NULL, NULL, &code);
    if (device->context == NULL)
        return no_context(code, problem);
    device->kernels.target = (struct program_request){
        .context = device->context,
        .device = device->found.device,
        .info = &device->found.info,
        .kernels_dir = device->kernels_dir,
        .cache_dir = device->cache_dir,
        .build_apart = device->traits.builds_apart ? compiler_build : NULL,
    };
    int error = open_queues(device, problem);
    struct arena *arenas[DEVICE_ARENAS];
    device_arenas(device, arenas);
    for (int i = 0; error == 0 && i < DEVICE_ARENAS; i++)
        error = arena_attach(arenas[i], device->context, device->upload, device->mirrored, problem);
    if (error < 0)
        release(device);
    return error;
}

static int keep_directories(struct device *device, const struct device_options *options,
                            struct problem *problem)
{
    struct stat folder;
    if (options->kernels_dir != NULL &&
        (stat(options->kernels_dir, &folder) != 0 || !S_ISDIR(folder.st_mode)))
        return problem_set(problem, ERROR_NO_FILE,
                           "%s is not a directory of kernels; write one that exists, or leave out "
                           "--kernels",
                           options->kernels_dir);
    if (options->kernels_dir != NULL)
        device->kernels_dir = strdup(options->kernels_dir);
    if (options->cache_dir != NULL)
        device->cache_dir = strdup(options->cache_dir);
    if ((options->kernels_dir != NULL && device->kernels_dir == NULL) ||
        (options->cache_dir != NULL && device->cache_dir == NULL))
        return problem_set(problem, ERROR_MEMORY, "out of memory for the device");
    return 0;
}

int device_open(struct device *device, const struct device_options *options,
                struct problem *problem)
{
    int error = keep_directories(device, options, problem);
    if (error < 0)
        return error;
    pocl_cache_set(options->cache_dir);
    error = device_select(options->name, options->cpu_threads, &device->found, problem);
    if (error < 0)
        return error;
    device->traits = device_traits_of(&device->found.info);
    error = open_arenas(device, options, problem);
    if (error < 0)
        return error;
    choose_place(device, options);
    prefer_node(device);
    return create(device, problem);
}

void device_close(struct device *device)
{
    if (device->context != NULL)
        release(device);
    kernel_cache_close(&device->kernels);
    struct arena *arenas[DEVICE_ARENAS];
    device_arenas(device, arenas);
    for (int i = 0; i < DEVICE_ARENAS; i++)
        arena_close(arenas[i]);
    free(device->kernels_dir);
    free(device->cache_dir);
}

/* ---- enqueueing -------------------------------------------------------------------------- */

void device_finish(struct device *device)
{
    const cl_command_queue queues[] = {device->in,         device->rows, device->compute[0],
                                       device->compute[1], device->out,  device->late};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (queues[i] != NULL)
            clFinish(queues[i]);
}

void device_flush(struct device *device, bool all)
{
    const cl_command_queue queues[] = {device->in, device->rows, device->compute[0],
                                       device->compute[1], device->out};
    if (device->context == NULL)
        return;
    if (!all) { /* each call takes 2 to 3 us on an H100's host */
        clFlush(device->queue);
        return;
    }
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (queues[i] != NULL)
            clFlush(queues[i]);
}

cl_int device_launch(struct device *device, cl_kernel kernel,
                     const struct kernel_argument *arguments, cl_uint count, const size_t global[2],
                     const size_t local[2], cl_event *event)
{
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; code == CL_SUCCESS && i < count; i++)
        code = clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value);
    if (code == CL_SUCCESS)
        code =
            clEnqueueNDRangeKernel(device->queue, kernel, 2, NULL, global, local, 0, NULL, event);
    return code;
}
