/*
 * A device: the OpenCL objects that one engine computes with, and the memory that host and kernels
 * share. It owns the context, the queues, the arenas and the built kernels.
 *
 * Everything that OpenCL holds is a copy of host memory. Where host and device share their memory
 * an arena is the device's buffer; elsewhere the device has a mirror of each arena, and whoever
 * writes the host's side copies it.
 *
 * One thread, the engine's device thread, enqueues on `compute`, `in`, `out`, `rows`, `late`.
 * Workers enqueue on `upload`, one at a time.
 */
#ifndef CONVOLVD_DEVICE_DEVICE_H
#define CONVOLVD_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory_nodes.h"
#include "device/arena.h"
#include "device/kernel_cache.h"
#include "device/opencl.h"
#include "device/traits.h"

enum { DEVICE_ARENAS = 5, DEVICE_QUEUES = 2 };

struct device {
    /* immutable while open */
    struct device_found found;
    struct device_traits traits;
    struct node_place place;       /* where its memory is and its threads run */
    char *kernels_dir, *cache_dir; /* NULL: the embedded kernels; no cache of binaries */

    /* arenas have a mutex each */
    struct arena input;    /* rings: samples and presence bits */
    struct arena spectrum; /* filter spectra, twiddles and other tables of plans */
    struct arena state;    /* delay lines, tails and scratch */
    struct arena output;   /* samples and reports of batches */
    struct arena table;    /* rows of launches */

    /* workers, one at a time */
    cl_context context;
    /* kernels, and the copies of small batches */
    cl_command_queue compute[DEVICE_QUEUES];
    cl_command_queue queue; /* device thread: the one of `compute` that it launches on now */
    /* beside the kernels of other batches, copies both ways, and rows; NULL: not mirrored */
    cl_command_queue in, out, rows;
    cl_command_queue late;   /* copies of completed batches that nothing may hold up; likewise */
    cl_command_queue upload; /* the workers' */
    bool mirrored;           /* the device's memory is its own */
    struct kernel_cache kernels;
};

struct device_options {
    const char *name; /* as device_select takes it */
    int cpu_threads;  /* 0: all cores; for CPU devices */
    const char *kernels_dir, *cache_dir;
    uint64_t input_bytes, spectrum_bytes, state_bytes, output_bytes, table_bytes;
    bool guards; /* guard zones around every piece of memory */
    struct node_setting node;
    const struct number_set *allowed; /* where threads may run; NULL: where the caller may */
};

/* WORKER. On error *device needs device_close all the same. */
int device_open(struct device *device, const struct device_options *options,
                struct problem *problem);
/* Whatever has been opened; no thread may use it. */
void device_close(struct device *device);

/* The arenas: array[DEVICE_ARENAS] is filled. */
void device_arenas(struct device *device, struct arena **array);

/* Device thread: starts what was enqueued, on `all` of its queues or on `queue`; waits until all
 * of it is done. */
void device_flush(struct device *device, bool all);
void device_finish(struct device *device);

/* An argument of a kernel; `value` NULL: as many bytes of local memory. */
struct kernel_argument {
    size_t bytes;
    const void *value;
};

/* Device thread: sets all arguments and enqueues a launch on device->queue. `event` may be NULL. */
cl_int device_launch(struct device *device, cl_kernel kernel,
                     const struct kernel_argument *arguments, cl_uint count, const size_t global[2],
                     const size_t local[2], cl_event *event);

#endif
