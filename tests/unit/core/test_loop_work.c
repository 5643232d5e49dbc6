/*
 * Work for a loop: all of it is done, each once, off the loop's thread, before the loop ends;
 * and what is started in `done` too. Work that blocks keeps no other from a thread while there are
 * more.
 *
 * threads: yes
 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "core/loop_work.h"

enum { WORKS = 300, AGAIN = 3, BLOCKING = 3, PATIENCE_S = 10 };

static uv_loop_t loop;
static pthread_t main_thread;
static _Atomic int on_main, in_vain;

struct item {
    struct loop_work work;
    int worked, done;
    sem_t *blocks; /* NULL: nothing */
};

static void run(void *context)
{
    struct item *item = context;
    if (pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&on_main, 1);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    if (item->blocks != NULL && sem_clockwait(item->blocks, CLOCK_MONOTONIC, &until) != 0)
        atomic_fetch_add(&in_vain, 1);
    item->worked++;
}

static void count(void *context)
{
    struct item *item = context;
    assert_true(pthread_equal(pthread_self(), main_thread));
    item->done++;
    assert_int_equal(item->worked, item->done);
    if (item->done < AGAIN)
        loop_work_start(&item->work, &loop, run, count, item);
}

static void all_is_done(void **state)
{
    (void)state;
    static struct item items[WORKS];
    assert_int_equal(uv_loop_init(&loop), 0);
    for (int i = 0; i < WORKS; i++)
        loop_work_start(&items[i].work, &loop, run, count, &items[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < WORKS; i++)
        assert_int_equal(items[i].done, AGAIN);
    assert_int_equal(atomic_load(&on_main), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void release(void *context)
{
    struct item *item = context;
    for (int i = 0; i < BLOCKING; i++)
        sem_post(item->blocks);
    free(item);
}

static void count_once(void *context)
{
    ((struct item *)context)->done++;
}

static void work_passes_what_blocks(void **state)
{
    (void)state;
    sem_t blocks;
    struct item items[BLOCKING] = {0};
    struct item *last = calloc(1, sizeof *last);
    assert_non_null(last);
    sem_init(&blocks, 0, 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    for (int i = 0; i < BLOCKING; i++) {
        items[i].blocks = &blocks;
        loop_work_start(&items[i].work, &loop, run, count_once, &items[i]);
    }
    last->blocks = &blocks;
    loop_work_start(&last->work, &loop, count_once, release, last);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < BLOCKING; i++)
        assert_int_equal(items[i].done, 1);
    assert_int_equal(atomic_load(&in_vain), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    sem_destroy(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_done),
        cmocka_unit_test(work_passes_what_blocks),
    };
    main_thread = pthread_self();
    return cmocka_run_group_tests_name("core: work for a loop", tests, NULL, NULL);
}
