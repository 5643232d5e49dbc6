/*
 * What is known of an OpenCL device, for lists, logs and sidecars. Knows no OpenCL.
 */
#ifndef CONVOLVD_DEVICE_INFO_H
#define CONVOLVD_DEVICE_INFO_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
