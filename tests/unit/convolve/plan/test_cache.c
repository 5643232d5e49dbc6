/*
 * What a plan keeps on the device: a table of first blocks after blocks [0, 100) were computed, and
 * what has to be computed before each of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "convolve/plan/cache.h"

enum { HISTORY = 10, TAIL = 4, AGAIN = 2, COMPUTED = 100 };

static const struct plan_keeps keeps = {HISTORY, TAIL, HISTORY + TAIL + AGAIN, TAIL + AGAIN};

static const struct {
    const char *what;
    uint64_t first;
    uint64_t spectra_from, planes_from; /* up to `first`; as `first`: nothing is missing */
} table[] = {
    {"the next", 100, 100, 100},
    {"the last again", 99, 99, 99},
    {"as many as an item has again", 98, 98, 98},
    {"one more: others took the slots of what it reads", 97, 83, 93},
    {"behind blocks left out", 103, 100, 100},
    {"behind as many as it reads", 113, 100, 109},
    {"behind more", 120, 106, 116},
    {"the first ever", 0, 0, 0},
};

static void test_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct plan_cache cache = {0};
        struct plan_place place = {.ring_serial = 1};
        plan_cache_computed(&keeps, &cache, &place, COMPUTED);
        place.first = table[i].first;
        const struct plan_rebuild missing = plan_cache_missing(&keeps, &cache, &place);
        if (missing.spectra.from != table[i].spectra_from ||
            missing.spectra.until != table[i].first ||
            missing.planes.from != table[i].planes_from || missing.planes.until != table[i].first)
            fail_msg("%s: spectra from %llu, planes from %llu", table[i].what,
                     (unsigned long long)missing.spectra.from,
                     (unsigned long long)missing.planes.from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
