/* The child that compiles: see compiler_child.h. */
#include "device/compiler_child.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/log.h"
#include "device/compiler.h"
#include "device/device.h"
#include "device/pocl_cache.h"

enum { ARENA_BYTES = 1 << 20, NICE = 10, ALARM_S = 60 };

static cl_int launch(struct device *device, const struct kernel *kernel, char **argv)
{
    const cl_uint zero = 0;
    const cl_ulong wide_zero = 0;
    const size_t items = strtoul(argv[COMPILER_WORD_ITEMS], NULL, 10);
    const size_t local_bytes = strtoul(argv[COMPILER_WORD_LOCAL], NULL, 10);
    const size_t shared_bytes = strtoul(argv[COMPILER_WORD_SHARED], NULL, 10);
    const cl_uint numbers = (cl_uint)strtoul(argv[COMPILER_WORD_NUMBERS], NULL, 10);
    enum { COMMON = 14, MOST = 32 };
    struct kernel_argument arguments[MOST] = {
        {sizeof(cl_mem), &device->input.device},
        {sizeof(cl_mem), &device->spectrum.device},
        {sizeof(cl_mem), &device->output.device},
        {sizeof(cl_mem), &device->state.device},
        {sizeof(cl_mem), &device->table.device},
        {sizeof zero, &zero},
        {sizeof zero, &zero},
        {sizeof zero, &zero},
        {sizeof wide_zero, &wide_zero},
        {sizeof wide_zero, &wide_zero},
        {sizeof zero, &zero},
        {local_bytes, NULL},
        {shared_bytes, NULL},
        {sizeof wide_zero, &wide_zero},
    };
    for (cl_uint i = 0; i < numbers && COMMON + i < MOST; i++)
        arguments[COMMON + i] = (struct kernel_argument){sizeof wide_zero, &wide_zero};
    const size_t group[2] = {items, 1};
    const cl_int code =
        device_launch(device, kernel->kernel, arguments, COMMON + numbers, group, group, NULL);
    device_finish(device);
    return code;
}

static const char *word_or_null(const char *word)
{
    return word[0] != '\0' ? word : NULL;
}

/* Builds the program, which leaves its binary in the cache of programs, and loads it from there as
 * the daemon will, which leaves what the driver makes of it in the driver's own cache. */
static bool build(char **argv)
{
    struct device_found found;
    struct problem problem;
    pocl_cache_set(word_or_null(argv[COMPILER_WORD_CACHE]));
    if (device_select(argv[COMPILER_WORD_DEVICE], 0, &found, &problem) < 0)
        return false;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)found.platform, 0};
    const struct program_request request = {
        .context = clCreateContext(properties, 1, &found.device, NULL, NULL, NULL),
        .device = found.device,
        .info = &found.info,
        .kernels_dir = word_or_null(argv[COMPILER_WORD_KERNELS]),
        .cache_dir = word_or_null(argv[COMPILER_WORD_CACHE]),
        .file = argv[COMPILER_WORD_FILE],
        .options = argv[COMPILER_WORD_OPTIONS],
    };
    cl_program program;
    if (request.context == NULL || program_build(&request, &program, NULL, &problem) < 0)
        return false;
    clReleaseProgram(program);
    cl_uint kernels;
    return program_build(&request, &program, NULL, &problem) == 0 &&
           clCreateKernelsInProgram(program, 0, NULL, &kernels) == CL_SUCCESS;
}

/* Has the driver compile a kernel for a local size. */
static bool compile(char **argv)
{
    static struct device device;
    struct kernel *kernel;
    const struct device_options options = {
        .name = argv[COMPILER_WORD_DEVICE],
        .kernels_dir = word_or_null(argv[COMPILER_WORD_KERNELS]),
        .cache_dir = word_or_null(argv[COMPILER_WORD_CACHE]),
        .input_bytes = ARENA_BYTES,
        .spectrum_bytes = ARENA_BYTES,
        .state_bytes = ARENA_BYTES,
        .output_bytes = ARENA_BYTES,
        .table_bytes = ARENA_BYTES,
    };
    return device_open(&device, &options, NULL) == 0 &&
           kernel_cache_get(&device.kernels, argv[COMPILER_WORD_FILE], argv[COMPILER_WORD_FUNCTION],
                            argv[COMPILER_WORD_OPTIONS], &kernel, NULL) == 0 &&
           launch(&device, kernel, argv) == CL_SUCCESS;
}

int compiler_main(int argc, char **argv)
{
    const struct rlimit no_core = {0};
    const struct sched_param usual = {0};
    if (argc != COMPILER_PROGRAM_WORDS && argc != COMPILER_KERNEL_WORDS)
        return EXIT_FAILURE;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &no_core); /* a kernel on zeros may crash, once it is compiled */
    alarm(ALARM_S);
    /* The thread that started it may be in real time. */
    if (sched_setscheduler(0, SCHED_OTHER, &usual) != 0 || nice(NICE) < 0)
        log_debug("the compiler runs at the daemon's priority");
    const bool done = argc == COMPILER_PROGRAM_WORDS ? build(argv) : compile(argv);
    _exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
}
