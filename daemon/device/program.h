/*
 * Programs: kernel sources built for one device. A cache directory keeps their binaries under the
 * hash of everything they depend on: source, options, device, driver. A damaged cache file costs
 * one build and nothing else.
 *
 * Worker threads; one caller at a time per context.
 */
#ifndef CONVOLVD_DEVICE_PROGRAM_H
#define CONVOLVD_DEVICE_PROGRAM_H

#include <stdbool.h>

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

/* Returns 0, ERROR_PROGRAM with the head of the compiler's log (all of it goes to the log), or the
 * errors of kernel_source. */
int program_build(const struct program_request *request, cl_program *out, struct problem *problem);

/* The most bytes that a kernel of NVIDIA's compiler log keeps in memory for want of registers. */
long program_spilled_bytes(const char *log);

#endif
