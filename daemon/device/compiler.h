/*
 * The compiler: has a CPU's driver compile a kernel in a process of its own.
 *
 * PoCL compiles a kernel for a local size when it first runs, and meanwhile holds a lock that every
 * launch of the process needs (pocl_dlhandle_lock): for seconds no block of any stream would be
 * computed. So while streams run, a child process, the program itself with another argument, opens
 * the same device and launches the kernel once, on zeros. That leaves the code in PoCL's cache on
 * disk, from where the daemon's own first launch loads it in milliseconds. What becomes of the
 * child does not matter: without it the first launch compiles.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_DEVICE_COMPILER_H
#define CONVOLVD_DEVICE_COMPILER_H

#include <stdint.h>

#include "device/device.h"

#define COMPILER_ARGUMENT "--compile-kernel"

struct compiler_job {
    const struct kernel *kernel;
    uint32_t items;                     /* the local size */
    uint64_t local_bytes, shared_bytes; /* of the arguments in local memory */
    uint32_t numbers;                   /* arguments behind the common ones */
};

/* The main of this program answers COMPILER_ARGUMENT: from now on compiler_run starts it. Before
 * other threads run. */
void compiler_offer(void);
/* Waits for the child, at most for half a minute. Does nothing unless the program offers it. */
void compiler_run(const struct device *device, const struct compiler_job *job);
/* The child: what main returns when argv[1] is COMPILER_ARGUMENT. */
int compiler_main(int argc, char **argv);

#endif
