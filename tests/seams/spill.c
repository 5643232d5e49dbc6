/*
 * Spill: with CONVOLVD_TEST_SPILL=KERNEL:BYTES in its environment the compilers of convolvd-test
 * say of a program with that kernel that so many bytes of a work-item's registers go to memory, as
 * NVIDIA's does. The linker redirects build_log_read to the wrapper below (ld --wrap); the shipped
 * daemon links none of this.
 *
 * Any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/build_log.h"

char *__real_build_log_read(cl_program program, cl_device_id device);
char *__wrap_build_log_read(cl_program program, cl_device_id device);
char *__wrap_build_log_read(cl_program program, cl_device_id device)
{
    const char *asked = getenv("CONVOLVD_TEST_SPILL"), *bytes;
    char kernels[256] = "", *text = NULL;
    clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof kernels, kernels, NULL);
    if (asked == NULL || (bytes = strchr(asked, ':')) == NULL ||
        strncmp(kernels, asked, (size_t)(bytes - asked)) != 0)
        return __real_build_log_read(program, device);
    return asprintf(&text,
                    "ptxas info    : Function properties for %s\n"
                    "    0 bytes stack frame, %s bytes spill stores, %s bytes spill loads\n",
                    kernels, bytes + 1, bytes + 1) >= 0
               ? text
               : NULL;
}
