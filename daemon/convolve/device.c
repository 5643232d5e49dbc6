/*
 * The device's objects: context, queues, arenas' buffers, programs, kernels, transform
 * tables. Everything here can be destroyed between two batches and built again
 * (engine_reset): what it holds is a copy of host memory.
 *
 * Worker threads under engine->workers; during a reset the device thread on a worker's
 * behalf.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/hooks.h"
#include "core/log.h"
#include "device/program.h"

struct engine_hooks engine_hooks;

/* True when a write to a buffer over host memory is seen in that memory without a map: PoCL.
 * Simulators keep a copy. */
static bool memory_is_shared(struct engine *engine)
{
    static const uint8_t mark[16] = "shared memory?";
    if (engine->found.info.gpu)
        return false;
    struct problem problem;
    if (arena_attach(&engine->table, engine->context, engine->upload, false, &problem) < 0)
        return false;
    uint8_t before[sizeof mark];
    memcpy(before, engine->table.host, sizeof mark);
    bool shared = clEnqueueWriteBuffer(engine->upload, engine->table.device, CL_TRUE, 0,
                                       sizeof mark, mark, 0, NULL, NULL) == CL_SUCCESS &&
                  memcmp(engine->table.host, mark, sizeof mark) == 0;
    arena_release(&engine->table);
    memcpy(engine->table.host, before, sizeof mark);
    return shared;
}

/* Program and kernel of an entry whose names are set. */
static int kernel_build(struct engine *engine, struct kernel *entry, struct problem *problem)
{
    const struct program_request request = {
        .context = engine->context,
        .device = engine->found.device,
        .info = &engine->found.info,
        .kernels_dir = engine->kernels_dir,
        .cache_dir = engine->cache_dir,
        .file = entry->file,
        .options = entry->options,
    };
    /* Kernels of one file and the same options share its program. */
    cl_program program = NULL;
    for (int i = 0; i < KERNELS_MAX && program == NULL; i++) {
        const struct kernel *other = &engine->kernels[i];
        if (other->program != NULL && strcmp(other->file, entry->file) == 0 &&
            strcmp(other->options, entry->options) == 0)
            clRetainProgram(program = other->program);
    }
    if (program == NULL) {
        int error = program_build(&request, &program, problem);
        if (error < 0)
            return error;
    }
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(program, entry->function, &code);
    if (kernel == NULL) {
        clReleaseProgram(program);
        opencl_problem(problem, code, entry->function);
        return problem_prefix(problem, ERROR_PROGRAM, "%s", entry->file);
    }
    entry->program = program;
    entry->kernel = kernel;
    return 0;
}

static void kernel_release(struct kernel *entry)
{
    if (entry->kernel != NULL)
        clReleaseKernel(entry->kernel);
    if (entry->program != NULL)
        clReleaseProgram(entry->program);
    entry->kernel = NULL;
    entry->program = NULL;
}

static void kernel_forget(struct kernel *entry)
{
    kernel_release(entry);
    free(entry->file);
    free(entry->function);
    free(entry->options);
    *entry = (struct kernel){0};
}

static bool kernel_is(const struct kernel *entry, const char *file, const char *function,
                      const char *options)
{
    return entry->file != NULL && strcmp(entry->file, file) == 0 &&
           strcmp(entry->function, function) == 0 && strcmp(entry->options, options) == 0;
}

/* The entry itself, else an empty one, else one that nobody uses any more. */
static struct kernel *kernel_find(struct engine *engine, const char *file, const char *function,
                                  const char *options)
{
    struct kernel *empty = NULL, *unused = NULL;
    for (int i = 0; i < KERNELS_MAX; i++) {
        struct kernel *entry = &engine->kernels[i];
        if (kernel_is(entry, file, function, options))
            return entry;
        if (entry->file == NULL && empty == NULL)
            empty = entry;
        if (entry->users == 0 && unused == NULL)
            unused = entry;
    }
    return empty != NULL ? empty : unused;
}

int device_kernel_get(struct engine *engine, const char *file, const char *function,
                      const char *options, struct kernel **out, struct problem *problem)
{
    struct kernel *entry = kernel_find(engine, file, function, options);
    if (entry == NULL)
        return problem_set(problem, ERROR_LIMIT, "more than %d kernels on one device", KERNELS_MAX);
    if (!kernel_is(entry, file, function, options)) {
        kernel_forget(entry);
        entry->file = strdup(file);
        entry->function = strdup(function);
        entry->options = strdup(options);
        if (entry->file == NULL || entry->function == NULL || entry->options == NULL) {
            kernel_forget(entry);
            return problem_set(problem, ERROR_MEMORY, "out of memory for a kernel");
        }
    }
    int error = entry->kernel == NULL ? kernel_build(engine, entry, problem) : 0;
    if (error < 0) {
        kernel_forget(entry);
        return error;
    }
    entry->users++;
    *out = entry;
    return 0;
}

void device_kernel_put(struct kernel *kernel)
{
    if (kernel == NULL)
        return;
    assert(kernel->users > 0);
    kernel->users--;
}

int device_kernels_rebuild(struct engine *engine, struct problem *problem)
{
    int error = 0;
    for (int i = 0; i < KERNELS_MAX && error == 0; i++)
        if (engine->kernels[i].users > 0)
            error = kernel_build(engine, &engine->kernels[i], problem);
    return error;
}

void device_kernels_forget(struct engine *engine)
{
    for (int i = 0; i < KERNELS_MAX; i++)
        kernel_forget(&engine->kernels[i]);
}

int device_create(struct engine *engine, struct problem *problem)
{
    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)engine->found.platform, 0};
    engine->context = clCreateContext(properties, 1, &engine->found.device, NULL, NULL, &code);
    if (engine->context == NULL)
        return opencl_problem(problem, code, "clCreateContext");
    engine->queue = clCreateCommandQueue(engine->context, engine->found.device, 0, &code);
    if (engine->queue != NULL)
        engine->upload = clCreateCommandQueue(engine->context, engine->found.device, 0, &code);
    if (engine->queue == NULL || engine->upload == NULL) {
        device_destroy(engine);
        return opencl_problem(problem, code, "clCreateCommandQueue");
    }
    engine->twin = engine_hooks.twin || !memory_is_shared(engine);
    if (engine->twin) {
        engine->in = clCreateCommandQueue(engine->context, engine->found.device, 0, &code);
        if (engine->in != NULL)
            engine->out = clCreateCommandQueue(engine->context, engine->found.device, 0, &code);
        if (engine->out == NULL) {
            device_destroy(engine);
            return opencl_problem(problem, code, "clCreateCommandQueue");
        }
    }

    struct arena *arenas[] = {&engine->input, &engine->spectrum, &engine->state, &engine->output,
                              &engine->table};
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof arenas / sizeof arenas[0]; i++)
        error = arena_attach(arenas[i], engine->context, engine->upload, engine->twin, problem);
    if (error < 0)
        device_destroy(engine);
    return error;
}

void device_finish(struct engine *engine)
{
    const cl_command_queue queues[] = {engine->in, engine->queue, engine->out};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (queues[i] != NULL)
            clFinish(queues[i]);
}

void device_flush(struct engine *engine)
{
    const cl_command_queue queues[] = {engine->in, engine->queue, engine->out};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (queues[i] != NULL)
            clFlush(queues[i]);
}

void device_destroy(struct engine *engine)
{
    device_finish(engine);
    for (int i = 0; i < KERNELS_MAX; i++)
        kernel_release(&engine->kernels[i]);
    arena_release(&engine->input);
    arena_release(&engine->spectrum);
    arena_release(&engine->state);
    arena_release(&engine->output);
    arena_release(&engine->table);
    cl_command_queue *const queues[] = {&engine->upload, &engine->in, &engine->queue, &engine->out};
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        if (*queues[i] != NULL)
            clReleaseCommandQueue(*queues[i]);
        *queues[i] = NULL;
    }
    if (engine->context != NULL)
        clReleaseContext(engine->context);
    engine->context = NULL;
}

int device_fft_plan_get(struct engine *engine, uint32_t fft, uint32_t lanes,
                        struct device_fft_plan **out, struct problem *problem)
{
    uint32_t log = 0;
    while ((1u << log) < fft)
        log++;
    struct device_fft_plan *shared = &engine->fft_plans[lanes > 1][log];
    if (shared->users == 0) {
        int error = fft_plan_create(fft, lanes, lanes > 1 ? 4 : 8, &shared->plan, problem);
        if (error < 0)
            return error;
        uint64_t bytes = fft_plan_twiddle_floats(shared->plan) * sizeof(float);
        error = arena_take(&engine->spectrum, engine->upload, bytes, &shared->offset, problem);
        if (error < 0) {
            fft_plan_free(shared->plan);
            shared->plan = NULL;
            return error;
        }
        fft_plan_twiddles(shared->plan, (float *)(void *)(engine->spectrum.host + shared->offset));
        error = arena_upload(&engine->spectrum, engine->upload, shared->offset, bytes, problem);
        if (error < 0) {
            shared->users = 1;
            device_fft_plan_put(shared, engine);
            return error;
        }
    }
    shared->users++;
    *out = shared;
    return 0;
}

void device_fft_plan_put(struct device_fft_plan *fft_plan, struct engine *engine)
{
    if (fft_plan == NULL)
        return;
    assert(fft_plan->users > 0);
    if (--fft_plan->users > 0)
        return;
    arena_give(&engine->spectrum, fft_plan->offset);
    fft_plan_free(fft_plan->plan);
    fft_plan->plan = NULL;
}
