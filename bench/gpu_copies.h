/*
 * What the engine's figures on a GPU stand beside: the device's own copy from device memory to
 * device memory, and copies between pinned memory of the host and the device, both ways at once.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_GPU_COPIES_H
#define CONVOLVD_BENCH_GPU_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include "device/opencl.h"

/* ---- inside the device ------------------------------------------------------------------- */

struct copier {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    cl_mem from, to;
    uint64_t bytes;
};

/* Two buffers of so many bytes on the device of this name, as device_select takes it. 0, or an
 * error and `problem`. */
int copier_open(struct copier *copier, const char *name, uint64_t bytes, struct problem *problem);
void copier_close(struct copier *copier);
/* Bytes read and written a second, measured for so long. */
double copier_run(struct copier *copier, int64_t for_ns);

/* ---- host to host ------------------------------------------------------------------------ */

enum { DUPLEX_MIB = 64, DUPLEX_COPIES = 8 /* in flight, each way */ };

/* Pinned memory on the host and as much on the device, copied both ways at once. */
struct duplex {
    uint64_t bytes;
    cl_command_queue queues[2];
    cl_mem device[2], pinned[2];
    void *host[2];
};

/* So many bytes each way; false: no such memory. The caller's thread touches them first. */
bool duplex_open(struct duplex *duplex, cl_context context, cl_device_id device, uint64_t bytes);

void duplex_close(struct duplex *duplex);

struct copied {
    double bytes; /* both ways together */
    double seconds;
};
/* For so long, at least DUPLEX_COPIES each way. */
struct copied duplex_run(const struct duplex *duplex, int64_t for_ns);

#endif
