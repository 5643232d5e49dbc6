/*
 * The build log: what the compiler wrote about a program of one device.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_DEVICE_BUILD_LOG_H
#define CONVOLVD_DEVICE_BUILD_LOG_H

#include "device/opencl.h"

/* The log of the latest build of `program` for `device`. The caller frees it; NULL: there is none.
 * NVIDIA's driver writes none for a program that it finds in its own cache. */
char *build_log_read(cl_program program, cl_device_id device);

#endif
