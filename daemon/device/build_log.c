/* The build log, see build_log.h. No state. */
#include "device/build_log.h"

#include <stdlib.h>

char *build_log_read(cl_program program, cl_device_id device)
{
    size_t bytes = 0;
    char *text = NULL;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
            CL_SUCCESS ||
        bytes == 0 || (text = calloc(1, bytes + 1)) == NULL)
        return NULL;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL) ==
        CL_SUCCESS)
        return text;
    free(text);
    return NULL;
}
