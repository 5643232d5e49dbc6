/*
 * Show: with CONVOLVD_TEST_SHOW_US in its environment convolvd-test takes so many microseconds of
 * the processor longer to show viewers a run of frames, as a slow machine does. The linker
 * redirects tap_put to the wrapper below (ld --wrap); the shipped daemon links none of this.
 *
 * Loop thread.
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "control/tap.h"
#include "core/clock.h"

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

void __real_tap_put(struct tap *tap, struct watch_writer *writer, const struct tap_run *run,
                    bool frames);
void __wrap_tap_put(struct tap *tap, struct watch_writer *writer, const struct tap_run *run,
                    bool frames);
void __wrap_tap_put(struct tap *tap, struct watch_writer *writer, const struct tap_run *run,
                    bool frames)
{
    const char *asked = getenv("CONVOLVD_TEST_SHOW_US");
    const int64_t until_ns = cpu_ns() + (asked != NULL ? atoll(asked) * 1000 : 0);
    __real_tap_put(tap, writer, run, frames);
    while (asked != NULL && cpu_ns() < until_ns)
        continue;
}
