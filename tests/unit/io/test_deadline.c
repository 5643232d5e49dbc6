/*
 * The deadline of a close: the timer reaches it neither early nor twice, however stale the loop's
 * time is; a deadline in the past is reached on the next iteration, and none never.
 *
 * timeout: 20
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/deadline.h"

struct reached {
    unsigned count;
    int64_t first_ns;
};

static void reach(uv_timer_t *timer)
{
    struct reached *reached = timer->data;
    if (reached->count++ == 0)
        reached->first_ns = clock_monotonic_ns();
}

static void deadlines(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        int64_t in_ns; /* from the start on; INT64_MAX: none */
        unsigned reached;
    } cases[] = {
        {"in 20 ms", 20 * NS_PER_MS, 1}, {"within the millisecond", NS_PER_MS / 2, 1},
        {"passed", -NS_PER_SECOND, 1},   {"before the machine's start", INT64_MIN / 2, 1},
        {"none", INT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uv_loop_t loop;
        uv_timer_t timer;
        struct reached reached = {0};
        assert_int_equal(uv_loop_init(&loop), 0);
        assert_int_equal(uv_timer_init(&loop, &timer), 0);
        timer.data = &reached;
        usleep(30000);    /* the loop's time is stale now by more than the deadlines are away */
        int64_t start_ns; /* early in a millisecond: "within" it is before the next one */
        do
            start_ns = clock_monotonic_ns();
        while (start_ns % NS_PER_MS > NS_PER_MS / 10);
        int64_t deadline_ns = cases[i].in_ns == INT64_MAX ? INT64_MAX : start_ns + cases[i].in_ns;
        deadline_start(&timer, deadline_ns, reach);
        assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
        if (reached.count != cases[i].reached)
            fail_msg("%s: reached %u times", cases[i].given, reached.count);
        if (reached.count > 0 && reached.first_ns < deadline_ns)
            fail_msg("%s: reached %lld ns early", cases[i].given,
                     (long long)(deadline_ns - reached.first_ns));
        uv_close((uv_handle_t *)&timer, NULL);
        assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines),
    };
    return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
