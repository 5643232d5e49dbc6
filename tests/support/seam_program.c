/* A compiler that tells of spilled registers, see engine_seams.h. */
#include <stdio.h>
#include <stdlib.h>

#include "device/build_log.h"
#include "tests/support/engine_seams.h"

char *__real_build_log_read(cl_program program, cl_device_id device);
char *__wrap_build_log_read(cl_program program, cl_device_id device);
char *__wrap_build_log_read(cl_program program, cl_device_id device)
{
    char kernels[256] = "", *text = NULL;
    if (engine_seams.spilled_bytes == NULL)
        return __real_build_log_read(program, device);
    clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof kernels, kernels, NULL);
    const int32_t bytes = engine_seams.spilled_bytes(kernels);
    if (bytes < 0)
        return __real_build_log_read(program, device);
    return asprintf(&text,
                    "ptxas info    : Function properties for %s\n"
                    "    0 bytes stack frame, %d bytes spill stores, %d bytes spill loads\n",
                    kernels, bytes, bytes) >= 0
               ? text
               : NULL;
}
