/*
 * Several loops: the main loop's turn excludes theirs, begins although a loop is always ready, and
 * what it gives to a loop that sleeps is handled at once. Streams that share something with others
 * stay on the main loop.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/sink.h"
#include "io/source.h"
#include "pipeline/loop_choice.h"
#include "pipeline/loops.h"

enum { MORE = 3, TURNS = 200 };

/* One handle on each loop that is always ready, as a scheduler that polls its device is. */
static struct {
    struct loops *loops;
    uv_loop_t main;
    uv_idle_t busy[MORE];
    uv_timer_t timer, given;
    uint64_t plain[MORE];    /* counted by the loop, read by the main one: only turns guard it */
    _Atomic uint64_t inside; /* loops in their turn */
    _Atomic bool met;        /* two loops at once … */
    bool excluded;           /* … and nobody beside the main one */
    uint64_t last[MORE];
    int turns;
    int64_t given_ns, handled_ns;
} t;

static void on_busy(uv_idle_t *idle)
{
    uint64_t *plain = idle->data;
    if (atomic_fetch_add(&t.inside, 1) > 0)
        atomic_store(&t.met, true);
    for (int i = 0; i < 100; i++)
        ++*(volatile uint64_t *)plain;
    atomic_fetch_sub(&t.inside, 1);
}

static void on_turn(uv_timer_t *timer)
{
    uint64_t seen[MORE];
    t.excluded = t.excluded && atomic_load(&t.inside) == 0;
    for (int i = 0; i < MORE; i++)
        seen[i] = t.plain[i];
    usleep(200);
    for (int i = 0; i < MORE; i++)
        t.excluded = t.excluded && seen[i] == *(volatile uint64_t *)&t.plain[i];
    if (++t.turns < TURNS)
        return;
    uv_close((uv_handle_t *)timer, NULL);
    for (int i = 0; i < MORE; i++)
        uv_close((uv_handle_t *)&t.busy[i], NULL);
}

static void test_turns(void **state)
{
    (void)state;
    struct problem problem;
    t.excluded = true;
    assert_int_equal(uv_loop_init(&t.main), 0);
    assert_int_equal(loops_open(&t.main, MORE, &t.loops, &problem), 0);
    for (uint32_t i = 0; i < MORE; i++) {
        uv_idle_init(loops_at(t.loops, i + 1), &t.busy[i]);
        t.busy[i].data = &t.plain[i];
        uv_idle_start(&t.busy[i], on_busy);
    }
    uv_timer_init(&t.main, &t.timer);
    uv_timer_start(&t.timer, on_turn, 1, 1);
    loops_run(t.loops);
    loops_stop(t.loops);
    assert_true(t.excluded);
    assert_true(t.met);
    for (int i = 0; i < MORE; i++)
        assert_true(t.plain[i] > 0);
    loops_close(t.loops);
    assert_int_equal(uv_loop_close(&t.main), 0);
}

/* ---- a loop that sleeps ------------------------------------------------------------------- */

static void on_given(uv_timer_t *timer)
{
    t.handled_ns = clock_monotonic_ns();
    uv_close((uv_handle_t *)timer, NULL);
}

static void on_give(uv_timer_t *timer)
{
    t.given_ns = clock_monotonic_ns();
    uv_timer_start(&t.given, on_given, 20, 0);
    uv_close((uv_handle_t *)timer, NULL);
}

/* A timer that the main loop starts there is due 20 ms later, although the loop has slept without
 * end until then, and its time is stale. */
static void test_a_loop_that_sleeps_wakes(void **state)
{
    (void)state;
    struct problem problem;
    assert_int_equal(uv_loop_init(&t.main), 0);
    assert_int_equal(loops_open(&t.main, 1, &t.loops, &problem), 0);
    uv_timer_init(loops_at(t.loops, 1), &t.given);
    uv_timer_init(&t.main, &t.timer);
    uv_timer_start(&t.timer, on_give, 50, 0);
    loops_run(t.loops);
    loops_stop(t.loops);
    assert_true(t.handled_ns - t.given_ns >= 19 * NS_PER_MS);
    loops_close(t.loops);
    assert_int_equal(uv_loop_close(&t.main), 0);
}

/* ---- which loop ---------------------------------------------------------------------------- */

static void test_the_least_loaded_is_chosen(void **state)
{
    (void)state;
    struct problem problem;
    struct loops *loops;
    assert_int_equal(uv_loop_init(&t.main), 0);
    assert_int_equal(loops_open(&t.main, 0, &loops, &problem), 0);
    assert_int_equal(loops_choose(loops, 1), 0);
    loops_close(loops);
    assert_int_equal(loops_open(&t.main, 2, &loops, &problem), 0);
    assert_int_equal(loops_choose(loops, 3), 1);
    assert_int_equal(loops_choose(loops, 1), 2);
    assert_int_equal(loops_choose(loops, 1), 2);
    assert_int_equal(loops_choose(loops, 2), 2);
    assert_int_equal(loops_choose(loops, 1), 1);
    loops_leave(loops, 2, 4);
    assert_int_equal(loops_choose(loops, 1), 2);
    loops_close(loops);
    assert_int_equal(uv_loop_close(&t.main), 0);
}

static void test_what_stays_on_the_main_loop(void **state)
{
    (void)state;
    static const struct source_ops free_source = {.name = "udp"}, card = {.main_loop = "the cards"};
    static const struct sink_ops free_sink = {.name = "file"}, osc = {.main_loop = "the server"};
    const struct config_stream streams[] = {
        {.name = "free", .driver = &free_source, .upstream = -1},
        {.name = "card", .driver = &card, .upstream = -1},
        {.name = "root", .driver = &free_source, .upstream = -1},
        {.name = "middle", .upstream = 2},
        {.name = "end", .upstream = 3},
        {.name = "analysed", .driver = &free_source, .upstream = -1},
    };
    const struct config_sink sinks[] = {{.driver = &free_sink, .stream = 0},
                                        {.driver = &osc, .stream = 4}};
    const struct config_analysis analyses[] = {{.stream = 5}};
    const struct config config = {.streams = (struct config_stream *)streams,
                                  .stream_count = 6,
                                  .sinks = (struct config_sink *)sinks,
                                  .sink_count = 2,
                                  .analyses = (struct config_analysis *)analyses,
                                  .analysis_count = 1};
    static const char *const expect[] = {NULL,         "the cards",  "the server",
                                         "the server", "the server", "an analysis"};
    for (int i = 0; i < 6; i++) {
        const char *needs = stream_needs_main_loop(&config, &streams[i]);
        if (expect[i] == NULL)
            assert_null(needs);
        else
            assert_string_equal(needs, expect[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_a_loop_that_sleeps_wakes),
        cmocka_unit_test(test_the_least_loaded_is_chosen),
        cmocka_unit_test(test_what_stays_on_the_main_loop),
    };
    return cmocka_run_group_tests_name("loop_turns", tests, NULL, NULL);
}
