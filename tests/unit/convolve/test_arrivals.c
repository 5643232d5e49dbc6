/* When the next batch should come, as the intervals between batches say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "convolve/arrivals.h"
#include "core/clock.h"

enum { BATCHES = 60 };

static const int64_t begin_ns = 1000 * NS_PER_SECOND;

/* After so many batches at this interval, each second one late by `late_ns`. */
static struct arrivals after(int count, int64_t interval_ns, int64_t late_ns, int64_t *last_ns)
{
    struct arrivals arrivals = {0};
    for (int i = 0; i < count; i++)
        arrivals_note(&arrivals, *last_ns = begin_ns + i * interval_ns + i % 2 * late_ns);
    return arrivals;
}

static void regular_batches_are_predicted(void **state)
{
    (void)state;
    static const struct {
        int count;
        int64_t interval_ns, late_ns, within_ns; /* 0: not predicted */
    } rows[] = {
        {BATCHES, 2 * NS_PER_MS, 0, 1 * NS_PER_US},
        {BATCHES, 20 * NS_PER_MS, 30 * NS_PER_US, 40 * NS_PER_US},
        {BATCHES, 2 * NS_PER_MS, 200 * NS_PER_US, 0}, /* too irregular */
        {BATCHES, 300 * NS_PER_US, 0, 0},             /* too often */
        {1, 2 * NS_PER_MS, 0, 0},                     /* nothing is known yet */
        {2, 2 * NS_PER_MS, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t last_ns = 0;
        const struct arrivals arrivals =
            after(rows[i].count, rows[i].interval_ns, rows[i].late_ns, &last_ns);
        const int64_t next_ns = arrivals_next_ns(&arrivals);
        if (rows[i].within_ns == 0) {
            assert_int_equal(next_ns, 0);
            continue;
        }
        const int64_t off_ns = next_ns - (last_ns + rows[i].interval_ns);
        if (off_ns > rows[i].within_ns || off_ns < -rows[i].within_ns)
            fail_msg("row %zu: predicted %lld ns off", i, (long long)off_ns);
    }
}

static void a_pause_is_no_interval(void **state)
{
    (void)state;
    int64_t last_ns = 0;
    struct arrivals arrivals = after(BATCHES, 2 * NS_PER_MS, 0, &last_ns);
    arrivals_note(&arrivals, last_ns += NS_PER_SECOND);
    assert_int_equal(arrivals_next_ns(&arrivals), 0);
    for (int i = 0; i < BATCHES; i++)
        arrivals_note(&arrivals, last_ns += 3 * NS_PER_MS); /* at another rate */
    assert_in_range(arrivals_next_ns(&arrivals) - last_ns, 3 * NS_PER_MS - NS_PER_US,
                    3 * NS_PER_MS + NS_PER_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_batches_are_predicted),
        cmocka_unit_test(a_pause_is_no_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
