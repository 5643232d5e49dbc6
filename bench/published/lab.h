/*
 * What the published systems share on the host: one OpenCL device with two queues, buffers,
 * launches, transfers and their times. Every launch and transfer is waited for before the
 * next, as the papers' hosts do; with profiling on, the time between an event's start and end is
 * added up (the "pure" time of kernels), on a queue of its own because profiling costs time.
 *
 * Errors stick: the first one fills `problem`, later calls do nothing, and the caller looks once
 * at the end (lab_status). Kernel sources come from the binary, binaries from the cache.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_LAB_H
#define CONVOLVD_BENCH_PUBLISHED_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/opencl.h"

struct lab {
    struct device_found found;
    const char *cache_dir; /* NULL: none */
    cl_context context;
    cl_command_queue queue, profiled;
    size_t group_max;          /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    uint32_t fft_group_stages; /* PW of single_fft.c once it is known; 0 before */
    bool profiling;            /* set by the caller between runs */
    int64_t kernel_ns;         /* of launches since the caller set it to 0; profiling only */
    int64_t transfer_ns;       /* the same of transfers */
    int error;                 /* sticky */
    struct problem problem;
};

/* `device` as for device_select. Returns 0 or an error in lab->problem. */
int lab_open(struct lab *lab, const char *device, int cpu_threads, const char *cache_dir);
void lab_close(struct lab *lab);

/* Forgets an error; a context that a failed launch left unusable is made anew. */
int lab_recover(struct lab *lab);
int lab_status(const struct lab *lab);

/* "published/….cl" with options; NULL on error. */
cl_program lab_program(struct lab *lab, const char *file, const char *options);
cl_kernel lab_kernel(struct lab *lab, cl_program program, const char *name);
cl_mem lab_buffer(struct lab *lab, size_t bytes);
void lab_release_buffers(cl_mem *buffers, size_t count);
void lab_release_kernels(cl_kernel *kernels, size_t count);

void lab_write(struct lab *lab, cl_mem to, const void *from, size_t bytes);
void lab_read(struct lab *lab, void *to, cl_mem from, size_t bytes);

struct lab_argument {
    size_t bytes;
    const void *value; /* NULL: local memory */
};
#define LAB_VALUE(variable)                                                                        \
    {                                                                                              \
        sizeof(variable), &(variable)                                                              \
    }
#define LAB_LOCAL(bytes)                                                                           \
    {                                                                                              \
        bytes, NULL                                                                                \
    }
void lab_set(struct lab *lab, cl_kernel kernel, const struct lab_argument *arguments, size_t count);
#define LAB_SET(lab, kernel, ...)                                                                  \
    lab_set(lab, kernel, (const struct lab_argument[]){__VA_ARGS__},                               \
            sizeof((const struct lab_argument[]){__VA_ARGS__}) / sizeof(struct lab_argument))

/* One launch, waited for. `local` NULL: the driver chooses. */
void lab_launch(struct lab *lab, cl_kernel kernel, cl_uint dimensions, const size_t *global,
                const size_t *local);

/* floor(log2 n), n > 0. */
uint32_t log2_of(uint32_t n);

/* exp(-2 pi i u / n), u = 0 … count-1, rounded from double; interleaved re, im. */
void fill_factors(float *w, uint32_t n, uint32_t count);

#endif
