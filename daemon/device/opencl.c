/*
 * Discovery of OpenCL devices and the names of OpenCL errors, see opencl.h. No state but the
 * environment variable PoCL reads at its first call.
 */
#include "device/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/pci.h"
#include "device/pocl_cache.h"

static void trim(char *text)
{
    size_t length = strlen(text), start = strspn(text, " \t");
    memmove(text, text + start, length - start + 1);
    length -= start;
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\n'))
        text[--length] = '\0';
}

/* Drivers answer with an error when the buffer is short, so ask for the size first. */
static void device_text(cl_device_id device, cl_device_info what, char *text, size_t capacity)
{
    char buffer[1024] = "";
    if (clGetDeviceInfo(device, what, sizeof buffer - 1, buffer, NULL) != CL_SUCCESS)
        buffer[0] = '\0';
    trim(buffer);
    snprintf(text, capacity, "%.*s", (int)capacity - 1, buffer);
}

static void describe(cl_platform_id platform, cl_device_id device, struct device_info *info)
{
    memset(info, 0, sizeof *info);
    char name[1024] = "";
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS)
        snprintf(info->platform, sizeof info->platform, "%.*s", (int)sizeof info->platform - 1,
                 name);
    device_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    device_text(device, CL_DEVICE_VERSION, info->version, sizeof info->version);
    cl_device_type type = 0;
    cl_uint units = 0, floats = 0;
    cl_ulong memory = 0, local = 0, allocation = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    clGetDeviceInfo(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof floats, &floats, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof allocation, &allocation, NULL);
    info->gpu = (type & CL_DEVICE_TYPE_GPU) != 0 && (type & CL_DEVICE_TYPE_CPU) == 0;
    cl_device_fp_config doubles = 0;
    clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
    info->doubles = doubles != 0;
    info->compute_units = units;
    info->memory_bytes = memory;
    info->local_bytes = local;
    info->vector_floats = floats;
    info->allocation_max_bytes = allocation;
    pci_describe(device, info);
}

/* This CPU without OpenCL, on which the variant "host" alone runs. */
static void describe_host(int cpu_threads, struct device_found *found)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    *found = (struct device_found){.info = {.name = "host, this CPU without OpenCL",
                                            .platform = DEVICE_HOST_PLATFORM,
                                            .driver = "none",
                                            .version = "no OpenCL",
                                            .memory_node = -1,
                                            .doubles = true,
                                            .compute_units = cpu_threads > 0 ? (uint32_t)cpu_threads
                                                             : online > 0    ? (uint32_t)online
                                                                             : 1,
                                            .vector_floats = 8}};
    if (pages > 0 && page_bytes > 0)
        found->info.memory_bytes = found->info.allocation_max_bytes =
            (uint64_t)pages * (uint64_t)page_bytes;
}

static bool any_cpu(const struct device_found *found, int count)
{
    for (int i = 0; i < count; i++)
        if (!found[i].info.gpu)
            return true;
    return false;
}

int devices_find(struct device_found *found, int capacity, int cpu_threads, struct problem *problem)
{
    if (cpu_threads > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", cpu_threads);
        setenv("POCL_MAX_PTHREAD_COUNT", text, 1);
    }
    pocl_cache_set(NULL); /* unless it is set already */
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    cl_int code = clGetPlatformIDs(16, platforms, &platform_count);
    int count = 0;
    for (cl_uint p = 0; code == CL_SUCCESS && p < platform_count && p < 16; p++) {
        cl_device_id ids[DEVICES_MAX];
        cl_uint id_count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &id_count) !=
            CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < id_count && d < DEVICES_MAX; d++, count++) {
            if (count >= capacity)
                continue;
            found[count].platform = platforms[p];
            found[count].device = ids[d];
            describe(platforms[p], ids[d], &found[count].info);
        }
    }
    if (count == 0 && pocl_cache_unusable())
        return problem_set(problem, ERROR_NO_DEVICE,
                           "no OpenCL device: PoCL shows none without a folder that it may write; "
                           "write such a folder as `cache` in [device], or as $HOME");
    if (count > 0 && count < capacity)
        describe_host(cpu_threads, &found[count]);
    if (count > 0 && !any_cpu(found, count < capacity ? count : capacity))
        return count + 1;
    if (count == 0)
        return problem_set(problem, ERROR_NO_DEVICE,
                           "no OpenCL device: install pocl-opencl-icd (for the CPU) or your GPU "
                           "vendor's OpenCL driver");
    return count;
}

static bool contains(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

/* GPUs with the most compute units first, then the CPUs in the order of the list. */
static bool better(const struct device_info *a, const struct device_info *b)
{
    return a->gpu != b->gpu ? a->gpu : a->gpu && a->compute_units > b->compute_units;
}

/* The index that a number, a PCI address or a part of a name means; -1: none. */
static int index_of(const char *name, const struct device_found *found, int count)
{
    char *end;
    const long index = strtol(name, &end, 10);
    if (*name != '\0' && *end == '\0' && index >= 0 && index < count)
        return (int)index;
    if (strcmp(name, "host") == 0 || (*end == '\0' && end != name && index == count))
        return device_is_host(&found[count - 1].info) ? count - 1 : count;
    for (int i = 0; i < count; i++)
        if (pci_is(name, found[i].info.pci))
            return i;
    for (int i = 0; *name != '\0' && i < count; i++)
        if (contains(found[i].info.name, name) || contains(found[i].info.platform, name))
            return i;
    return -1;
}

/* Fills `choices` with the indices that the name means, best first; returns how many. */
static int choose(const char *name, const struct device_found *found, int count,
                  int choices[DEVICES_MAX])
{
    const bool any = name == NULL || strcmp(name, "auto") == 0;
    const bool gpus = any || strcmp(name, "gpu") == 0, cpus = any || strcmp(name, "cpu") == 0;
    int chosen = 0;
    if (!gpus && !cpus) {
        choices[0] = index_of(name, found, count);
        return choices[0] >= 0;
    }
    for (int i = 0; i < count; i++) {
        if (found[i].info.gpu ? !gpus : !cpus)
            continue;
        int at = chosen++;
        for (; at > 0 && better(&found[i].info, &found[choices[at - 1]].info); at--)
            choices[at] = choices[at - 1];
        choices[at] = i;
    }
    return chosen;
}

/* Finds the devices and chooses among them: returns how many `choices` there are. */
static int find_and_choose(const char *name, int cpu_threads,
                           struct device_found found[DEVICES_MAX], int choices[DEVICES_MAX],
                           struct problem *problem)
{
    int count = devices_find(found, DEVICES_MAX, cpu_threads, problem);
    if (count < 0)
        return count;
    if (count > DEVICES_MAX - 1) /* behind them is the host */
        count = DEVICES_MAX - 1;
    const int chosen = choose(name, found, count, choices);
    if (chosen > 0)
        return chosen;
    char list[320] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%d: %s", i > 0 ? "; " : "", i,
                 found[i].info.name);
    }
    return problem_set(problem, ERROR_NO_DEVICE,
                       "no OpenCL device \"%.64s\"; choose \"auto\" or one of those present: %s",
                       name, list);
}

int device_select(const char *name, int cpu_threads, struct device_found *out,
                  struct problem *problem)
{
    struct device_found found[DEVICES_MAX];
    int choices[DEVICES_MAX];
    const int count = find_and_choose(name, cpu_threads, found, choices, problem);
    if (count < 0)
        return count;
    *out = found[choices[0]];
    return 0;
}

int device_choices(const char *name, int cpu_threads, int choices[DEVICES_MAX],
                   struct problem *problem)
{
    struct device_found found[DEVICES_MAX];
    return find_and_choose(name, cpu_threads, found, choices, problem);
}

/* The codes a driver is known to answer with. */
static const struct {
    cl_int code;
    const char *name;
} error_names[] = {
#define NAME(code)                                                                                 \
    {                                                                                              \
        code, #code                                                                                \
    }
    NAME(CL_DEVICE_NOT_FOUND),
    NAME(CL_DEVICE_NOT_AVAILABLE),
    NAME(CL_COMPILER_NOT_AVAILABLE),
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    NAME(CL_OUT_OF_RESOURCES),
    NAME(CL_OUT_OF_HOST_MEMORY),
    NAME(CL_PROFILING_INFO_NOT_AVAILABLE),
    NAME(CL_BUILD_PROGRAM_FAILURE),
    NAME(CL_MAP_FAILURE),
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    NAME(CL_INVALID_VALUE),
    NAME(CL_INVALID_DEVICE),
    NAME(CL_INVALID_CONTEXT),
    NAME(CL_INVALID_COMMAND_QUEUE),
    NAME(CL_INVALID_MEM_OBJECT),
    NAME(CL_INVALID_BINARY),
    NAME(CL_INVALID_BUILD_OPTIONS),
    NAME(CL_INVALID_PROGRAM),
    NAME(CL_INVALID_PROGRAM_EXECUTABLE),
    NAME(CL_INVALID_KERNEL_NAME),
    NAME(CL_INVALID_KERNEL),
    NAME(CL_INVALID_ARG_INDEX),
    NAME(CL_INVALID_ARG_VALUE),
    NAME(CL_INVALID_ARG_SIZE),
    NAME(CL_INVALID_KERNEL_ARGS),
    NAME(CL_INVALID_WORK_DIMENSION),
    NAME(CL_INVALID_WORK_GROUP_SIZE),
    NAME(CL_INVALID_WORK_ITEM_SIZE),
    NAME(CL_INVALID_EVENT),
    NAME(CL_INVALID_OPERATION),
    NAME(CL_INVALID_BUFFER_SIZE),
    NAME(CL_INVALID_GLOBAL_WORK_SIZE),
#undef NAME
};

const char *opencl_error_name(cl_int code)
{
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (error_names[i].code == code)
            return error_names[i].name;
    return "OpenCL error";
}

int opencl_problem(struct problem *problem, cl_int code, const char *what)
{
    return problem_set(problem, ERROR_DEVICE, "%s: %s (%d)", what, opencl_error_name(code),
                       (int)code);
}
