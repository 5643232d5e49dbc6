/*
 * Show: with CONVOLVD_TEST_SHOW_US in its environment convolvd-test takes so many microseconds of
 * the processor longer to show viewers 256 frames, as a slow machine does. The linker
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

void __real_tap_put(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until);
void __wrap_tap_put(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until);
void __wrap_tap_put(struct tap *tap, const struct tap_run *run, uint32_t from, uint32_t until)
{
    const char *asked = getenv("CONVOLVD_TEST_SHOW_US");
    const int64_t frames_us = asked != NULL ? atoll(asked) * (until - from) : 0;
    const int64_t until_ns = cpu_ns() + frames_us * 1000 / 256;
    __real_tap_put(tap, run, from, until);
    while (asked != NULL && cpu_ns() < until_ns)
        continue;
}
