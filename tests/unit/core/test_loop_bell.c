/*
 * Waking a loop from another thread: rings coalesce and none is lost, the loop waits for nobody,
 * and a bell that is closed leaves nothing behind.
 *
 * threads: yes
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/loop_bell.h"

enum { RINGS = 20000, RINGS_IN_REAL_TIME = 5, PRIORITY = 5 };

struct world {
    uv_loop_t loop;
    struct loop_bell bell;
    _Atomic int rung, seen; /* by the thread that rings; by the loop */
    int rings, closed;
    bool one_by_one; /* the thread rings when the loop has seen the ring before */
    cpu_set_t processor;
};

static void on_closed(uv_handle_t *handle)
{
    ((struct world *)handle->data)->closed++;
}

static void on_rung(void *context)
{
    struct world *world = context;
    atomic_store(&world->seen, atomic_load(&world->rung));
    if (atomic_load(&world->seen) == world->rings)
        loop_bell_close(&world->bell, on_closed);
}

static void *ring(void *context)
{
    struct world *world = context;
    for (int i = 1; i <= world->rings; i++) {
        while (world->one_by_one && atomic_load(&world->seen) < i - 1)
            sched_yield();
        atomic_store(&world->rung, i);
        loop_bell_ring(&world->bell);
    }
    return NULL;
}

static int descriptors(void)
{
    int count = 0;
    for (int descriptor = 0; descriptor < 256; descriptor++)
        count += lseek(descriptor, 0, SEEK_CUR) >= 0 || errno == ESPIPE;
    return count;
}

/* Rings from another thread until the loop has seen the last one. */
static void ring_all(struct world *world)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ring, world), 0);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&world->seen), world->rings);
    assert_int_equal(world->closed, 1);
}

static void the_last_ring_is_seen(void **state)
{
    (void)state;
    struct world world = {.rings = RINGS};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    const int before = descriptors();
    loop_bell_open(&world.bell, &world.loop, on_rung, &world);
    assert_true(world.bell.descriptor >= 0);
    ring_all(&world);
    assert_int_equal(descriptors(), before);
    assert_int_equal(uv_loop_close(&world.loop), 0);
}

static void it_works_without_a_descriptor(void **state)
{
    (void)state;
    struct world world = {.rings = RINGS};
    struct rlimit limit, none;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    loop_bell_open(&world.bell, &world.loop, on_rung, &world);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(world.bell.descriptor, -1);
    ring_all(&world);
    assert_int_equal(uv_loop_close(&world.loop), 0);
}

static void *run_in_real_time(void *context)
{
    struct world *world = context;
    const struct sched_param priority = {.sched_priority = PRIORITY};
    static int64_t ran_ns;
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0)
        return NULL;
    pthread_setaffinity_np(pthread_self(), sizeof world->processor, &world->processor);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    ran_ns = ran.tv_sec * NS_PER_SECOND + ran.tv_nsec;
    return &ran_ns;
}

/* On one processor the loop takes the place of the thread that rings, as soon as it is woken: were
 * that thread still to do anything for the loop to go on, the loop would wait until the kernel
 * takes the processor from it. */
static void a_loop_in_real_time_waits_for_nobody(void **state)
{
    (void)state;
    struct world world = {.rings = RINGS_IN_REAL_TIME, .one_by_one = true};
    CPU_ZERO(&world.processor);
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int processor = 0;
    while (!CPU_ISSET(processor, &allowed))
        processor++;
    CPU_SET(processor, &world.processor);
    assert_int_equal(uv_loop_init(&world.loop), 0);
    loop_bell_open(&world.bell, &world.loop, on_rung, &world);
    pthread_t rings, runs;
    assert_int_equal(pthread_create(&runs, NULL, run_in_real_time, &world), 0);
    pthread_attr_t there;
    pthread_attr_init(&there);
    pthread_attr_setaffinity_np(&there, sizeof world.processor, &world.processor);
    assert_int_equal(pthread_create(&rings, &there, ring, &world), 0);
    pthread_attr_destroy(&there);
    void *ran_ns = NULL;
    pthread_join(runs, &ran_ns);
    if (ran_ns == NULL) { /* no real time here: the ringing thread needs a loop all the same */
        uv_run(&world.loop, UV_RUN_DEFAULT);
        pthread_join(rings, NULL);
        uv_loop_close(&world.loop);
        print_message("real-time priority is not granted\n");
        skip();
    }
    pthread_join(rings, NULL);
    assert_int_equal(atomic_load(&world.seen), RINGS_IN_REAL_TIME);
    assert_in_range(*(int64_t *)ran_ns, 0, NS_PER_SECOND); /* of its processor, in all */
    assert_int_equal(uv_loop_close(&world.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ring_is_seen),
        cmocka_unit_test(it_works_without_a_descriptor),
        cmocka_unit_test(a_loop_in_real_time_waits_for_nobody),
    };
    return cmocka_run_group_tests_name("core: waking a loop", tests, NULL, NULL);
}
