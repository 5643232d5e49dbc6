/*
 * Stalls: a batch has its time once the process could run for so long, however the clock went
 * meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/clock.h"
#include "stream/stall.h"

#define MS NS_PER_MS

static int64_t waits_ns; /* what the next question hears */

static int64_t waited(void *context, int64_t now_ns)
{
    (void)context, (void)now_ns;
    return waits_ns;
}

static struct stall opened(void)
{
    struct stall stall;
    waits_ns = 0;
    stall_open(&stall, waited, NULL);
    assert_int_equal(stall.due_ns, INT64_MAX);
    return stall;
}

/* Checks whenever due, `late_ns` after that; when the verdict comes, or 0 after `most_ns`. */
static int64_t verdict_ns(struct stall *stall, int64_t given_ns, int64_t late_ns, int64_t most_ns)
{
    int64_t now_ns = 0;
    assert_false(stall_check(stall, 1, given_ns, now_ns));
    while (now_ns < most_ns) {
        now_ns = stall->due_ns + late_ns;
        if (stall_check(stall, 1, given_ns, now_ns))
            return now_ns;
    }
    return 0;
}

static void nothing_in_flight_is_no_stall(void **state)
{
    (void)state;
    struct stall stall = opened();
    assert_false(stall_check(&stall, 1, 100 * MS, 0));
    assert_false(stall_check(&stall, 0, 100 * MS, 1000 * MS));
    assert_int_equal(stall.due_ns, INT64_MAX);
}

static void a_stalled_batch_is_found_in_time(void **state)
{
    (void)state;
    struct stall stall = opened();
    assert_int_equal(verdict_ns(&stall, 100 * MS, 0, NS_PER_SECOND), 100 * MS);
}

static void checks_in_between_change_nothing(void **state)
{
    (void)state;
    struct stall stall = opened();
    for (int64_t now_ns = 0; now_ns < 100 * MS; now_ns += MS)
        assert_false(stall_check(&stall, 1, 100 * MS, now_ns));
    assert_true(stall_check(&stall, 1, 100 * MS, 100 * MS));
}

static void each_batch_has_its_own_time(void **state)
{
    (void)state;
    struct stall stall = opened();
    for (uint64_t batch = 1; batch < 50; batch++)
        assert_false(stall_check(&stall, batch, 100 * MS, (int64_t)batch * 90 * MS));
}

static void a_pause_counts_nothing(void **state)
{
    (void)state;
    struct stall stall = opened();
    /* stopped between the submission and the first timer, then for each timer */
    assert_false(stall_check(&stall, 1, 100 * MS, 0));
    assert_false(stall_check(&stall, 1, 100 * MS, 3000 * MS));
    stall = opened();
    const int64_t at_ns = verdict_ns(&stall, 100 * MS, 3000 * MS, 60 * NS_PER_SECOND);
    assert_true(at_ns >= 12000 * MS); /* a hung device is found all the same */
}

static void waiting_for_a_processor_counts_nothing(void **state)
{
    (void)state;
    struct stall stall = opened();
    waits_ns = NS_PER_SECOND; /* some thread waits all the time */
    const int64_t at_ns = verdict_ns(&stall, 100 * MS, 0, 120 * NS_PER_SECOND);
    /* up to 30 s: a busy machine hides no dead device */
    assert_true(at_ns >= 30 * NS_PER_SECOND && at_ns <= 30 * NS_PER_SECOND + 200 * MS);
    stall = opened();
    waits_ns = 10 * MS; /* of each 25 */
    assert_in_range(verdict_ns(&stall, 100 * MS, 0, NS_PER_SECOND), 130 * MS, 170 * MS);
}

static void more_time_may_be_given_meanwhile(void **state)
{
    (void)state;
    struct stall stall = opened();
    assert_false(stall_check(&stall, 1, 100 * MS, 0));
    assert_false(stall_check(&stall, 1, 5000 * MS, 100 * MS));
    assert_false(stall_check(&stall, 1, 5000 * MS, stall.due_ns));
    assert_true(stall.due_ns > NS_PER_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_in_flight_is_no_stall),
        cmocka_unit_test(a_stalled_batch_is_found_in_time),
        cmocka_unit_test(checks_in_between_change_nothing),
        cmocka_unit_test(each_batch_has_its_own_time),
        cmocka_unit_test(a_pause_counts_nothing),
        cmocka_unit_test(waiting_for_a_processor_counts_nothing),
        cmocka_unit_test(more_time_may_be_given_meanwhile),
    };
    return cmocka_run_group_tests_name("stream: stalls", tests, NULL, NULL);
}
