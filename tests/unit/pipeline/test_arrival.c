/* Whether frames come at the declared rate: runs of checks a second apart, and what each reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "pipeline/arrival.h"

#define RATE 1000.0

struct run {
    struct arrival arrival;
    uint64_t frames;
    int64_t now_ns;
    double figure;
};

/* Seconds with so many frames each; returns the one event there was, and in *at its second. */
static enum arrival_event go(struct run *run, int seconds, uint64_t frames, int *at)
{
    enum arrival_event seen = ARRIVAL_NONE;
    for (int i = 1; i <= seconds; i++) {
        run->frames += frames;
        run->now_ns += NS_PER_SECOND;
        enum arrival_event event =
            arrival_check(&run->arrival, run->frames, RATE, run->now_ns, &run->figure);
        if (event == ARRIVAL_NONE)
            continue;
        assert_int_equal(seen, ARRIVAL_NONE);
        seen = event;
        *at = i;
    }
    return seen;
}

static void test_rates(void **state)
{
    (void)state;
    static const struct {
        uint64_t frames;
        enum arrival_event expect;
    } cases[] = {{1000, ARRIVAL_NONE},     {800, ARRIVAL_NONE},      {1200, ARRIVAL_NONE},
                 {500, ARRIVAL_OFF_RATE},  {2000, ARRIVAL_OFF_RATE}, {740, ARRIVAL_OFF_RATE},
                 {1260, ARRIVAL_OFF_RATE}, {1, ARRIVAL_OFF_RATE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run run = {.now_ns = NS_PER_SECOND};
        int at = 0;
        assert_int_equal(go(&run, 30, cases[i].frames, &at), cases[i].expect);
        if (cases[i].expect == ARRIVAL_NONE)
            continue;
        assert_true(at >= 6 && at <= 8);
        assert_float_equal(run.figure, (double)cases[i].frames, 1e-9);
        assert_int_equal(go(&run, 30, 1000, &at), ARRIVAL_ON_RATE);
        assert_true(at <= 10);
    }
}

static void test_silence(void **state)
{
    (void)state;
    struct run run = {.now_ns = NS_PER_SECOND};
    int at = 0;
    assert_int_equal(go(&run, 8, 1000, &at), ARRIVAL_NONE);
    assert_int_equal(go(&run, 9, 0, &at), ARRIVAL_NONE); /* a pause is no wrong rate */
    assert_int_equal(go(&run, 8, 1000, &at), ARRIVAL_NONE);
    assert_int_equal(go(&run, 60, 0, &at), ARRIVAL_SILENT);
    assert_int_equal(at, 10);
    assert_float_equal(run.figure, 10, 1e-9);
    assert_int_equal(go(&run, 4, 1000, &at), ARRIVAL_AGAIN);
    assert_int_equal(at, 1);
    assert_float_equal(run.figure, 61, 1e-9);
    assert_int_equal(go(&run, 30, 1000, &at), ARRIVAL_NONE);
    /* Never a frame since the start. */
    run = (struct run){.now_ns = NS_PER_SECOND};
    assert_int_equal(go(&run, 60, 0, &at), ARRIVAL_SILENT);
    assert_int_equal(at, 11);
}

/* Frames that were due meanwhile come at once, after the process was stopped or the sender's frames
 * have waited on their way. More than those are a wrong rate. */
static void test_catching_up(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        /* A longer pause of the sender is a silence, which has its own lines. */
        for (int seconds = 4; seconds <= (stopped ? 64 : 8); seconds *= 2) {
            struct run run = {.now_ns = NS_PER_SECOND};
            int at = 0;
            assert_int_equal(go(&run, 20, 1000, &at), ARRIVAL_NONE);
            if (stopped) {
                run.now_ns += seconds * NS_PER_SECOND;
                assert_int_equal(go(&run, 1, 500, &at), ARRIVAL_STOPPED);
                assert_float_equal(run.figure, seconds + 1, 1e-9);
                assert_true(run.arrival.catches_up);
            } else {
                (void)go(&run, seconds, 0, &at);
            }
            const enum arrival_event fast = go(&run, seconds, 1990, &at);
            assert_true(fast == ARRIVAL_NONE || (fast == ARRIVAL_CATCHES_UP && !stopped));
            const enum arrival_event then = go(&run, 30, 1000, &at); /* a window ends late */
            assert_true(then == ARRIVAL_NONE ||
                        (then == ARRIVAL_CATCHES_UP && fast == ARRIVAL_NONE && !stopped));
            assert_false(run.arrival.catches_up);
            assert_int_equal(go(&run, 60, 2000, &at), ARRIVAL_OFF_RATE);
        }
    }
}

/* A stop while nothing came before is no news, and a stop is no silence. */
static void test_a_stop_is_no_silence(void **state)
{
    (void)state;
    struct run run = {.now_ns = NS_PER_SECOND};
    int at = 0;
    assert_int_equal(go(&run, 20, 1000, &at), ARRIVAL_NONE);
    run.now_ns += 60 * NS_PER_SECOND;
    assert_int_equal(go(&run, 1, 0, &at), ARRIVAL_STOPPED);
    assert_int_equal(go(&run, 9, 0, &at), ARRIVAL_NONE);
    assert_int_equal(go(&run, 5, 0, &at), ARRIVAL_SILENT);
    run.now_ns += 60 * NS_PER_SECOND;
    assert_int_equal(go(&run, 5, 0, &at), ARRIVAL_NONE);
    assert_int_equal(go(&run, 5, 1000, &at), ARRIVAL_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_catching_up),
        cmocka_unit_test(test_a_stop_is_no_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
