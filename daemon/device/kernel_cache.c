/* Kernels that are built on a device, see kernel_cache.h. */
#include "device/kernel_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "device/spill.h"

/* Program and kernel of an entry whose names are set. */
static int kernel_build(struct kernel_cache *cache, struct kernel *entry, struct problem *problem)
{
    struct program_request request = cache->target;
    request.file = entry->file;
    request.options = entry->options;
    /* Kernels of one file and the same options share its program. */
    cl_program program = NULL;
    int32_t spilled_bytes = SPILL_UNKNOWN;
    for (int i = 0; i < KERNELS_MAX && program == NULL; i++) {
        const struct kernel *other = &cache->entries[i];
        if (other->program != NULL && strcmp(other->file, entry->file) == 0 &&
            strcmp(other->options, entry->options) == 0) {
            clRetainProgram(program = other->program);
            spilled_bytes = other->spilled_bytes;
        }
    }
    if (program == NULL) {
        int error = program_build(&request, &program, &spilled_bytes, problem);
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
    entry->spilled_bytes = spilled_bytes;
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
static struct kernel *kernel_find(struct kernel_cache *cache, const char *file,
                                  const char *function, const char *options)
{
    struct kernel *empty = NULL, *unused = NULL;
    for (int i = 0; i < KERNELS_MAX; i++) {
        struct kernel *entry = &cache->entries[i];
        if (kernel_is(entry, file, function, options))
            return entry;
        if (entry->file == NULL && empty == NULL)
            empty = entry;
        if (entry->users == 0 && unused == NULL)
            unused = entry;
    }
    return empty != NULL ? empty : unused;
}

int kernel_cache_get(struct kernel_cache *cache, const char *file, const char *function,
                     const char *options, struct kernel **out, struct problem *problem)
{
    struct kernel *entry = kernel_find(cache, file, function, options);
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
    int error = entry->kernel == NULL ? kernel_build(cache, entry, problem) : 0;
    if (error < 0) {
        kernel_forget(entry);
        return error;
    }
    entry->users++;
    *out = entry;
    return 0;
}

void kernel_cache_put(struct kernel *kernel)
{
    if (kernel == NULL)
        return;
    assert(kernel->users > 0);
    kernel->users--;
}

void kernel_cache_release(struct kernel_cache *cache)
{
    for (int i = 0; i < KERNELS_MAX; i++)
        kernel_release(&cache->entries[i]);
}

void kernel_cache_close(struct kernel_cache *cache)
{
    for (int i = 0; i < KERNELS_MAX; i++)
        kernel_forget(&cache->entries[i]);
}
