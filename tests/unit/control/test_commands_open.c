/*
 * sanitizers: no, they have a calloc of their own
 *
 * Opening the commands while memory runs out: whichever allocation fails, it says so and leaves no
 * handle in the loop, so that the daemon can end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/commands.h"

void *__libc_calloc(size_t count, size_t bytes); /* glibc's own */

static int allocations_left; /* the one that fails; 0: none does */

/* Takes the place of the C library's. */
void *calloc(size_t count, size_t bytes)
{
    if (allocations_left > 0 && --allocations_left == 0)
        return NULL;
    return __libc_calloc(count, bytes);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    uv_loop_t loop;
    const struct io_environment environment = {.loop = &loop};
    const struct process process = {.environment = &environment};
    const struct commands_host host = {0};
    int failed = -1, fails = 0;
    while (failed != 0) {
        struct commands *commands = NULL;
        assert_int_equal(uv_loop_init(&loop), 0);
        allocations_left = ++fails;
        failed = commands_open(&process, NULL, &host, &commands);
        allocations_left = 0;
        if (failed != 0)
            assert_int_equal(failed, ERROR_MEMORY);
        else
            commands_stop(commands);
        uv_run(&loop, UV_RUN_DEFAULT);
        commands_close(commands);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
    assert_true(fails > 3); /* of the commands, the viewers and the changes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
