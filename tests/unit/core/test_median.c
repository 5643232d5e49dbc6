/*
 * The median against its definition (sort, take the middle), for every count up to 600, with equal
 * values among them; and that it allocates nothing, since the loop calls it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/median.h"
#include "core/random.h"

enum { COUNT_MOST = 600 };

static _Thread_local bool counted;
static _Atomic unsigned allocations;

#if defined __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if !SANITIZED /* a sanitizer has a malloc of its own */
extern void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes);
void *malloc(size_t bytes)
{
    allocations += counted;
    return __libc_malloc(bytes);
}
#endif

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void it_is_the_middle_and_allocates_nothing(void **state)
{
    (void)state;
    struct random_state random = {7};
    double values[COUNT_MOST], sorted[COUNT_MOST];
    for (size_t count = 1; count <= COUNT_MOST; count++) {
        for (size_t i = 0; i < count; i++) /* a fifth of them equal to another */
            values[i] = i % 5 == 4 ? values[i - 1] : random_unit(&random) - 0.5;
        memcpy(sorted, values, count * sizeof *values);
        qsort(sorted, count, sizeof *sorted, by_value);
        const double expect =
            count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
        counted = true;
        const double got = median(values, count);
        counted = false;
        if (got != expect)
            fail_msg("count %zu: %.17g instead of %.17g", count, got, expect);
    }
    assert_int_equal(allocations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_middle_and_allocates_nothing),
    };
    return cmocka_run_group_tests_name("median", tests, NULL, NULL);
}
