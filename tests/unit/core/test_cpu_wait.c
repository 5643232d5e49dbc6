/* Waiting for a processor: a thread that another one keeps from its core waits, one that sleeps
 * does not. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/cpu_wait.h"

static _Atomic bool ends;

static void *compute(void *argument)
{
    const cpu_set_t *core = argument;
    pthread_setaffinity_np(pthread_self(), sizeof *core, core);
    while (!atomic_load(&ends))
        continue;
    return NULL;
}

/* A core that this process may use. */
static cpu_set_t one_core(void)
{
    cpu_set_t allowed, core;
    int number = 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    while (!CPU_ISSET(number, &allowed))
        number++;
    CPU_ZERO(&core);
    CPU_SET(number, &core);
    return core;
}

static void two_threads_on_one_core_wait(void **state)
{
    (void)state;
    struct cpu_wait *wait = cpu_wait_open();
    if (wait == NULL)
        skip(); /* the kernel does not say */
    cpu_set_t core = one_core();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &core), 0);
    const int64_t deadline_ns = clock_monotonic_ns() + 30 * NS_PER_SECOND;
    int64_t waited_ns = 0;
    cpu_wait_sample(wait, clock_monotonic_ns());
    while (waited_ns < 20 * NS_PER_MS && clock_monotonic_ns() < deadline_ns) {
        usleep(20000);
        waited_ns += cpu_wait_sample(wait, clock_monotonic_ns());
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cpu_wait_close(wait);
    assert_true(waited_ns >= 20 * NS_PER_MS);
}

static void nothing_is_known_of_nothing(void **state)
{
    (void)state;
    assert_int_equal(cpu_wait_sample(NULL, 1), 0);
    cpu_wait_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_on_one_core_wait),
        cmocka_unit_test(nothing_is_known_of_nothing),
    };
    return cmocka_run_group_tests_name("core: waiting for a processor", tests, NULL, NULL);
}
