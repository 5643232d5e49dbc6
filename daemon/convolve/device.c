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
#include <stdio.h>
#include <string.h>

#include "convolve/hooks.h"
#include "core/log.h"
#include "device/program.h"

struct engine_hooks engine_hooks;

static const struct {
    const char *file, *function;
} kernel_table[KERNELS] = {
    [KERNEL_FUSED] = {"fused.cl", "fused"},
    [KERNEL_FORWARD] = {"general.cl", "general_forward"},
    [KERNEL_PRODUCT] = {"general.cl", "general_product"},
    [KERNEL_GATHER] = {"overlap_add.cl", "overlap_add_gather"},
    [KERNEL_LANES] = {"lanes.cl", "lanes"},
};

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

static int build_kernel(struct engine *engine, enum kernel_id id, enum scratch scratch,
                        struct problem *problem)
{
    char options[160];
    /* Oclgrind 21.10 does not interpret what inlining leaves behind
     * (llvm.experimental.noalias.scope.decl). */
    const bool simulator = strcmp(engine->found.info.platform, "Oclgrind") == 0;
    snprintf(options, sizeof options, "-D LANES=%u -D ITEMS=%u%s%s", engine->lanes, engine->items,
             scratch == SCRATCH_GLOBAL ? " -D GLOBAL_SCRATCH" : "", simulator ? " -cl-opt-disable" : "");
    const struct program_request request = {
        .context = engine->context,
        .device = engine->found.device,
        .info = &engine->found.info,
        .kernels_dir = engine->kernels_dir,
        .cache_dir = engine->cache_dir,
        .file = kernel_table[id].file,
        .options = options,
    };
    /* Kernels of one file share its program. */
    cl_program program = NULL;
    for (int other = 0; other < KERNELS && program == NULL; other++)
        if (strcmp(kernel_table[other].file, kernel_table[id].file) == 0 &&
            (program = engine->programs[other][scratch]) != NULL)
            clRetainProgram(program);
    if (program == NULL) {
        int error = program_build(&request, &program, problem);
        if (error < 0)
            return error;
    }
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(program, kernel_table[id].function, &code);
    if (kernel == NULL) {
        clReleaseProgram(program);
        opencl_problem(problem, code, kernel_table[id].function);
        return problem_prefix(problem, ERROR_PROGRAM, "%s", kernel_table[id].file);
    }
    engine->programs[id][scratch] = program;
    engine->kernels[id][scratch] = kernel;
    return 0;
}

int device_kernel(struct engine *engine, enum kernel_id id, enum scratch scratch,
                  struct problem *problem)
{
    if (id == KERNEL_NONE || engine->kernels[id][scratch] != NULL)
        return 0;
    return build_kernel(engine, id, scratch, problem);
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
    engine->twin = !memory_is_shared(engine);

    struct arena *arenas[] = {&engine->input, &engine->spectrum, &engine->state, &engine->output,
                              &engine->table};
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof arenas / sizeof arenas[0]; i++)
        error = arena_attach(arenas[i], engine->context, engine->upload, engine->twin, problem);
    if (error < 0)
        device_destroy(engine);
    return error;
}

void device_destroy(struct engine *engine)
{
    if (engine->queue != NULL)
        clFinish(engine->queue);
    for (int id = 0; id < KERNELS; id++)
        for (int scratch = 0; scratch < SCRATCHES; scratch++) {
            if (engine->kernels[id][scratch] != NULL)
                clReleaseKernel(engine->kernels[id][scratch]);
            if (engine->programs[id][scratch] != NULL)
                clReleaseProgram(engine->programs[id][scratch]);
            engine->kernels[id][scratch] = NULL;
            engine->programs[id][scratch] = NULL;
        }
    arena_release(&engine->input);
    arena_release(&engine->spectrum);
    arena_release(&engine->state);
    arena_release(&engine->output);
    arena_release(&engine->table);
    if (engine->upload != NULL)
        clReleaseCommandQueue(engine->upload);
    if (engine->queue != NULL)
        clReleaseCommandQueue(engine->queue);
    if (engine->context != NULL)
        clReleaseContext(engine->context);
    engine->upload = engine->queue = NULL;
    engine->context = NULL;
}

int device_tree_get(struct engine *engine, uint32_t fft, uint32_t lanes, struct device_tree **out,
                    struct problem *problem)
{
    uint32_t log = 0;
    while ((1u << log) < fft)
        log++;
    struct device_tree *shared = &engine->trees[lanes > 1][log];
    if (shared->users == 0) {
        int error = tree_create(fft, lanes, lanes > 1 ? 4 : 8, &shared->tree, problem);
        if (error < 0)
            return error;
        uint64_t bytes = tree_factor_floats(shared->tree) * sizeof(float);
        error = arena_take(&engine->spectrum, engine->upload, bytes, &shared->offset, problem);
        if (error < 0) {
            tree_free(shared->tree);
            shared->tree = NULL;
            return error;
        }
        tree_factors(shared->tree, (float *)(void *)(engine->spectrum.host + shared->offset));
        error = arena_upload(&engine->spectrum, engine->upload, shared->offset, bytes, problem);
        if (error < 0) {
            shared->users = 1;
            device_tree_put(shared, engine);
            return error;
        }
    }
    shared->users++;
    *out = shared;
    return 0;
}

void device_tree_put(struct device_tree *tree, struct engine *engine)
{
    if (tree == NULL)
        return;
    assert(tree->users > 0);
    if (--tree->users > 0)
        return;
    arena_give(&engine->spectrum, tree->offset);
    tree_free(tree->tree);
    tree->tree = NULL;
}
