/*
 * The list of devices, with this program in place of the OpenCL loader. Where no OpenCL device is a
 * CPU, the list ends with the host convolver, and "cpu" names it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/opencl.h"

/* The types of the devices that the one platform has. */
static const cl_device_type *types;
static cl_uint type_count;

cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms, cl_uint *count)
{
    if (entries > 0 && platforms != NULL)
        platforms[0] = (cl_platform_id)(uintptr_t)1;
    *count = type_count > 0;
    return CL_SUCCESS;
}

/* NOLINTBEGIN(readability-non-const-parameter): the signatures are OpenCL's */
cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t bytes, void *value,
                         size_t *used)
{
    (void)platform, (void)what, (void)bytes, (void)value, (void)used;
    return CL_INVALID_VALUE;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries,
                      cl_device_id *devices, cl_uint *count)
{
    (void)platform, (void)type;
    for (cl_uint i = 0; i < type_count && i < entries; i++)
        devices[i] = (cl_device_id)(uintptr_t)(i + 1);
    *count = type_count;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *value,
                       size_t *used)
{
    (void)used;
    if (what != CL_DEVICE_TYPE || bytes != sizeof *types)
        return CL_INVALID_VALUE;
    memcpy(value, &types[(uintptr_t)device - 1], sizeof *types);
    return CL_SUCCESS;
}
/* NOLINTEND(readability-non-const-parameter) */

static void the_host_is_the_cpu_where_opencl_has_none(void **state)
{
    (void)state;
    static const cl_device_type kinds[][2] = {
        {CL_DEVICE_TYPE_GPU},
        {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_GPU},
        {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU},
        {CL_DEVICE_TYPE_CPU},
    };
    static const struct {
        cl_uint devices;
        int listed, cpu, host; /* how many are listed; what "cpu" and "host" mean */
    } want[] = {{1, 2, 1, 1}, {2, 3, 2, 2}, {2, 2, 1, 2}, {1, 1, 0, 1}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct device_found found[DEVICES_MAX];
        struct problem problem = {0};
        int choices[DEVICES_MAX];
        types = kinds[i];
        type_count = want[i].devices;
        assert_int_equal(devices_find(found, DEVICES_MAX, 3, &problem), want[i].listed);
        assert_true(device_choices("cpu", 3, choices, &problem) >= 1);
        assert_int_equal(choices[0], want[i].cpu);
        assert_int_equal(device_choices("host", 3, choices, &problem), 1);
        assert_int_equal(choices[0], want[i].host);
        char number[16];
        snprintf(number, sizeof number, "%d", want[i].host);
        assert_int_equal(device_select(number, 3, &found[0], &problem), 0);
        assert_true(device_is_host(&found[0].info));
        assert_int_equal(found[0].info.compute_units, 3);
        /* a GPU is preferred */
        assert_true(device_choices("auto", 3, choices, &problem) >= 1);
        assert_int_equal(choices[0], 0);
    }
}

static void without_any_device_there_is_none(void **state)
{
    (void)state;
    struct device_found found[DEVICES_MAX];
    struct problem problem = {0};
    type_count = 0;
    assert_int_equal(devices_find(found, DEVICES_MAX, 0, &problem), ERROR_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_the_cpu_where_opencl_has_none),
        cmocka_unit_test(without_any_device_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
