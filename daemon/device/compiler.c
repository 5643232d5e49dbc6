/* The compiler: see compiler.h. */
#include "device/compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "device/program.h"

extern char **environ;

enum { POLL_US = 5000 };

/* A child that is killed and does not go (it hangs in a driver) is left behind after this. */
static const int64_t kill_ns = NS_PER_SECOND;

static int64_t deadline_ns; /* of a child; 0: none is started. Set before other threads run */
static _Atomic bool streams_run, hung;

void compiler_offer(int64_t child_deadline_ns)
{
    deadline_ns = child_deadline_ns;
}

void compiler_streams_run(void)
{
    atomic_store_explicit(&streams_run, true, memory_order_relaxed);
}

/* Whether the child has ended within this time. */
static bool ends_within(pid_t child, int64_t ns, int *status)
{
    const int64_t until_ns = clock_monotonic_ns() + ns;
    while (waitpid(child, status, WNOHANG) == 0) {
        if (clock_monotonic_ns() > until_ns)
            return false;
        usleep(POLL_US);
    }
    return true;
}

/* Runs a child to its end. NULL: it has done its work, else what became of it. */
static const char *run_child(const char *const *words)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    int status = 0;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error =
        posix_spawn(&child, "/proc/self/exe", &actions, &attributes, (char *const *)words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return "cannot be started";
    if (!ends_within(child, deadline_ns, &status)) {
        kill(child, SIGKILL);
        ends_within(child, kill_ns, &status);
        atomic_store(&hung, true);
        return "hangs; it was the last one that this daemon starts";
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS ? NULL : "fails";
}

static const char *or_empty(const char *directory)
{
    return directory != NULL ? directory : "";
}

bool compiler_build(const struct program_request *request)
{
    if (deadline_ns == 0 || !atomic_load_explicit(&streams_run, memory_order_relaxed) ||
        atomic_load(&hung) || request->cache_dir == NULL)
        return false;
    const char *const words[COMPILER_PROGRAM_WORDS + 1] = {
        "convolvd",         COMPILER_ARGUMENT, request->info->name, or_empty(request->kernels_dir),
        request->cache_dir, request->file,     request->options,
    };
    const int64_t begin_ns = clock_monotonic_ns();
    const char *failure = run_child(words);
    if (failure == NULL)
        log_info("%s was compiled for %s in a process of its own, in %.1f s", request->file,
                 request->info->name, (double)(clock_monotonic_ns() - begin_ns) / NS_PER_SECOND);
    else
        log_warning("the process that was to compile %s for %s %s. The daemon compiles it, which "
                    "may hold results up",
                    request->file, request->info->name, failure);
    return failure == NULL;
}

void compiler_run(const struct program_request *request, const struct compiler_launch *launch)
{
    if (deadline_ns == 0 || atomic_load(&hung))
        return;
    char items[16], local[24], shared[24], numbers[16];
    snprintf(items, sizeof items, "%u", launch->items);
    snprintf(local, sizeof local, "%llu", (unsigned long long)launch->local_bytes);
    snprintf(shared, sizeof shared, "%llu", (unsigned long long)launch->shared_bytes);
    snprintf(numbers, sizeof numbers, "%u", launch->numbers);
    const char *const words[COMPILER_KERNEL_WORDS + 1] = {
        "convolvd",
        COMPILER_ARGUMENT,
        request->info->name,
        or_empty(request->kernels_dir),
        or_empty(request->cache_dir),
        request->file,
        request->options,
        launch->function,
        items,
        local,
        shared,
        numbers,
    };
    const char *failure = run_child(words);
    if (failure != NULL)
        log_debug("the process that was to compile %s %s; its first launch compiles it",
                  request->file, failure);
}
