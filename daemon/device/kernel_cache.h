/*
 * The kernels that are built on a device. Plans share a kernel that they ask for with the same
 * file, function and options; kernels of one file and the same options share a program. A kernel
 * that no plan uses stays built until its entry is needed, so that the next plan of the same shape
 * builds nothing.
 *
 * Worker threads, one at a time; only the device thread launches what stands here.
 */
#ifndef CONVOLVD_DEVICE_KERNEL_CACHE_H
#define CONVOLVD_DEVICE_KERNEL_CACHE_H

#include <stdint.h>

#include "core/error.h"
#include "device/opencl.h"
#include "device/program.h"

enum { KERNELS_MAX = 512, KERNEL_SIZES = 4, KERNEL_OPTIONS = PROGRAM_OPTIONS };

struct kernel {
    char *file, *function, *options;
    cl_program program;
    cl_kernel kernel;
    int32_t spilled_bytes; /* by program_build; the same for all kernels of a program */
    uint32_t users;
    uint32_t ran[KERNEL_SIZES]; /* local sizes at which it has run; 0: none */
    bool widened; /* device thread: a launch as wide as any has been enqueued (device/traits.h) */
};

struct kernel_cache {
    struct program_request target; /* all but file and options */
    struct kernel entries[KERNELS_MAX];
};

/* A kernel of kernels/`file`, built with `options` (at most KERNEL_OPTIONS bytes). 0, ERROR_LIMIT,
 * or what program_build answers. */
int kernel_cache_get(struct kernel_cache *cache, const char *file, const char *function,
                     const char *options, struct kernel **out, struct problem *problem);
void kernel_cache_put(struct kernel *kernel); /* NULL is fine */

/* Releases all OpenCL objects; the entries keep their names. */
void kernel_cache_release(struct kernel_cache *cache);
/* Releases everything and empties the cache. */
void kernel_cache_close(struct kernel_cache *cache);

#endif
