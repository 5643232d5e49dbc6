/*
 * Programs: kernel sources built for one device. A cache directory keeps their binaries under the
 * hash of everything they depend on: source, options, device, driver, and beside each what the
 * compiler told of spilled registers. A cache file that is damaged, or that an earlier version
 * wrote, costs one build and nothing else.
 *
 * Worker threads; one caller at a time per context.
 */
#ifndef CONVOLVD_DEVICE_PROGRAM_H
#define CONVOLVD_DEVICE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "device/opencl.h"

enum { PROGRAM_OPTIONS = 768 }; /* bytes of a request's options, at most */

struct program_request {
    cl_context context;
    cl_device_id device;
    const struct device_info *info;
    const char *kernels_dir; /* NULL: the embedded files */
    const char *cache_dir;   /* NULL: none */
    const char *file;        /* "general.cl" */
    const char *options;     /* -D … */
    /* Has another process build what the cache lacks, and leave it there; NULL: none does. False:
     * this one is to build it. */
    bool (*build_apart)(const struct program_request *request);
};

/* *spilled_bytes, which may be NULL, becomes the most bytes that a work-item of one of its kernels
 * keeps in memory for want of registers, SPILL_UNKNOWN where the compiler does not tell (spill.h).
 * Returns 0, ERROR_PROGRAM with the head of the compiler's log (all of it goes to the log), or the
 * errors of kernel_source. */
int program_build(const struct program_request *request, cl_program *out, int32_t *spilled_bytes,
                  struct problem *problem);

#endif
