/* The compiler: see compiler.h. */
#include "device/compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"

extern char **environ;

enum { DEADLINE_S = 30, POLL_US = 5000, ARENA_BYTES = 1 << 20, NICE = 10 };

/* The words behind COMPILER_ARGUMENT. */
enum {
    WORD_DEVICE = 2,
    WORD_KERNELS,
    WORD_CACHE,
    WORD_FILE,
    WORD_FUNCTION,
    WORD_OPTIONS,
    WORD_ITEMS,
    WORD_LOCAL,
    WORD_SHARED,
    WORD_NUMBERS,
    WORDS,
};

/* ---- the daemon -------------------------------------------------------------------------- */

static bool offered; /* set before other threads run, then immutable */

void compiler_offer(void)
{
    offered = true;
}

static void await(pid_t child)
{
    const int64_t until_ns = clock_monotonic_ns() + DEADLINE_S * NS_PER_SECOND;
    while (waitpid(child, NULL, WNOHANG) == 0) {
        if (clock_monotonic_ns() > until_ns) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            return;
        }
        usleep(POLL_US);
    }
}

void compiler_run(const struct device *device, const struct compiler_job *job)
{
    if (!offered)
        return;
    char items[16], local[24], shared[24], numbers[16];
    snprintf(items, sizeof items, "%u", job->items);
    snprintf(local, sizeof local, "%llu", (unsigned long long)job->local_bytes);
    snprintf(shared, sizeof shared, "%llu", (unsigned long long)job->shared_bytes);
    snprintf(numbers, sizeof numbers, "%u", job->numbers);
    const char *const words[WORDS + 1] = {
        "convolvd",
        COMPILER_ARGUMENT,
        device->found.info.name,
        device->kernels_dir != NULL ? device->kernels_dir : "",
        device->cache_dir != NULL ? device->cache_dir : "",
        job->kernel->file,
        job->kernel->function,
        job->kernel->options,
        items,
        local,
        shared,
        numbers,
    };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (posix_spawn(&child, "/proc/self/exe", &actions, &attributes, (char *const *)words,
                    environ) == 0)
        await(child);
    else
        log_debug("no process to compile %s in; its first launch compiles it", job->kernel->file);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
}

/* ---- the child --------------------------------------------------------------------------- */

static cl_int launch(struct device *device, const struct kernel *kernel, char **argv)
{
    const cl_uint zero = 0;
    const cl_ulong wide_zero = 0;
    const size_t items = strtoul(argv[WORD_ITEMS], NULL, 10);
    const size_t local_bytes = strtoul(argv[WORD_LOCAL], NULL, 10);
    const size_t shared_bytes = strtoul(argv[WORD_SHARED], NULL, 10);
    const cl_uint numbers = (cl_uint)strtoul(argv[WORD_NUMBERS], NULL, 10);
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

int compiler_main(int argc, char **argv)
{
    static struct device device;
    struct kernel *kernel;
    const struct rlimit no_core = {0};
    if (argc != WORDS)
        return EXIT_FAILURE;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core); /* a kernel on zeros may crash, once it is compiled */
    alarm(DEADLINE_S);
    if (nice(NICE) < 0)
        log_debug("the compiler runs at the usual priority");
    const struct device_options options = {
        .name = argv[WORD_DEVICE],
        .kernels_dir = argv[WORD_KERNELS][0] != '\0' ? argv[WORD_KERNELS] : NULL,
        .cache_dir = argv[WORD_CACHE][0] != '\0' ? argv[WORD_CACHE] : NULL,
        .input_bytes = ARENA_BYTES,
        .spectrum_bytes = ARENA_BYTES,
        .state_bytes = ARENA_BYTES,
        .output_bytes = ARENA_BYTES,
        .table_bytes = ARENA_BYTES,
    };
    if (device_open(&device, &options, NULL) != 0 ||
        kernel_cache_get(&device.kernels, argv[WORD_FILE], argv[WORD_FUNCTION], argv[WORD_OPTIONS],
                         &kernel, NULL) != 0)
        _exit(EXIT_FAILURE);
    _exit(launch(&device, kernel, argv) == CL_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE);
}
