/* A run at its natural end: which looks cut it off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "pipeline/run_end.h"

#define MS NS_PER_MS

/* One look each: when, the progress so far, whether a device computes, and whether the run is cut
 * off. The patience is 100 ms. */
static const struct look {
    int64_t at_ns;
    uint64_t progress;
    bool busy, late;
} looks[] = {
    {0, 7, false, false},          /* earlier progress does not count */
    {50 * MS, 7, false, false},    /* … */
    {99 * MS, 7, false, false},    /* … */
    {100 * MS, 8, false, false},   /* progress just in time */
    {150 * MS, 8, false, false},   /* the patience begins again */
    {199 * MS, 8, false, false},   /* … */
    {10000 * MS, 9, false, false}, /* a look that comes late sees the progress */
    {10050 * MS, 9, true, false},  /* a device computes */
    {10100 * MS, 9, true, false},  /* for as long as its own deadline lets it */
    {60000 * MS, 9, false, false}, /* a pause of the process */
    {60049 * MS, 9, false, false}, /* … */
    {60050 * MS, 9, false, true},  /* nothing moves */
};

static void test_patience(void **state)
{
    (void)state;
    struct run_end end = {.patience_ns = 100 * MS, .progress = 7};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        const struct look *look = &looks[i];
        if (run_end_is_late(&end, look->progress, look->busy, look->at_ns) != look->late)
            fail_msg("look %zu is wrong", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
