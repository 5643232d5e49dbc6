/*
 * What is known of an OpenCL device, for lists, logs and sidecars. Knows no OpenCL.
 */
#ifndef CONVOLVD_DEVICE_INFO_H
#define CONVOLVD_DEVICE_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct device_info {
    char name[128];    /* CL_DEVICE_NAME */
    char platform[64]; /* CL_PLATFORM_NAME */
    char driver[64];   /* CL_DRIVER_VERSION */
    char version[64];  /* CL_DEVICE_VERSION */
    char pci[24];      /* "0000:3b:00.0"; empty: its driver tells none */
    int memory_node;   /* NUMA node that its bus hangs on; -1: not known */
    bool gpu;
    bool doubles; /* kernels can compute in double */
    uint32_t compute_units;
    uint32_t vector_floats; /* floats of the device's own vectors, as the driver says */
    uint64_t memory_bytes, local_bytes, allocation_max_bytes;
};

/* The platform's name of the device that is this CPU without OpenCL. */
#define DEVICE_HOST_PLATFORM "convolvd"

static inline bool device_is_host(const struct device_info *info)
{
    return strcmp(info->platform, DEVICE_HOST_PLATFORM) == 0;
}

#endif
