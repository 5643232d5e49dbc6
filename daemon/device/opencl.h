/*
 * Which OpenCL devices there are, the choice among them by name, and the names of OpenCL errors.
 *
 * The first call of a process decides how many threads PoCL uses and which priority they inherit:
 * make it from a thread of normal priority, always with the same `cpu_threads`. Any thread, not per
 * block.
 */
#ifndef CONVOLVD_DEVICE_OPENCL_H
#define CONVOLVD_DEVICE_OPENCL_H

#include <CL/cl.h>

#include "core/error.h"
#include "device/info.h"

enum { DEVICES_MAX = 64 };

struct device_found {
    cl_platform_id platform;
    cl_device_id device;
    struct device_info info;
};

/* Fills up to `capacity` and returns how many there are, or ERROR_NO_DEVICE. `cpu_threads` 0: all
 * cores. */
int devices_find(struct device_found *found, int capacity, int cpu_threads,
                 struct problem *problem);

/* `name`: "auto" (the GPU with most compute units, else the first CPU), "cpu", "gpu", an index of
 * the list, a PCI address (pci.h), or a part of a name, letter case ignored. Returns 0 or
 * ERROR_NO_DEVICE listing those present. */
int device_select(const char *name, int cpu_threads, struct device_found *out,
                  struct problem *problem);

/* All that the name may mean, as indices of the list, the one that device_select takes first.
 * Returns how many, at least 1, or ERROR_NO_DEVICE. */
int device_choices(const char *name, int cpu_threads, int choices[DEVICES_MAX],
                   struct problem *problem);

/* "CL_OUT_OF_RESOURCES" for -5; "OpenCL error" for what the table does not know. */
const char *opencl_error_name(cl_int code);

/* problem_set with the name of an OpenCL error: "what: CL_…". Returns ERROR_DEVICE. */
int opencl_problem(struct problem *problem, cl_int code, const char *what);

#endif
