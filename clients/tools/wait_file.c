/* Waiting for a file: see wait_file.h. */
#include "wait_file.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

enum { POLL_MS = 20 };

bool wait_for_file(const char *program, const char *path, double seconds, bool quiet,
                   const volatile sig_atomic_t *stop)
{
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)(seconds * 1e9);
    const struct timespec pause = {.tv_nsec = POLL_MS * NS_PER_MS};
    if (access(path, R_OK) == 0)
        return true;
    if (seconds > 0 && !quiet)
        fprintf(stderr, "%s: waiting up to %.3g s for %s, which the daemon writes when it starts\n",
                program, seconds, path);
    while (*stop == 0 && clock_monotonic_ns() < until_ns) {
        nanosleep(&pause, NULL);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}
