/*
 * The choice between the receive paths, with costs of a datagram from a table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/net/receive_trial.h"

enum { WAKE_DATAGRAMS = 64, WAKES_MAX = 100000 };

/* A wake-up that read WAKE_DATAGRAMS, each in a message of its own, at so much a datagram. */
static bool note(struct receive_trial *trial, int64_t now_ns, int64_t cost_ns, bool settled)
{
    const struct receive_wake wake = {WAKE_DATAGRAMS, WAKE_DATAGRAMS, WAKE_DATAGRAMS * cost_ns,
                                      settled};
    return receive_trial_note(trial, now_ns, &wake);
}

/*
 * Runs one trial in which a datagram costs so much on each path; false: it never ended. After each
 * switch so many wake-ups read what the queue held before, at the other path's cost.
 */
static bool run_trial_behind(struct receive_trial *trial, int64_t *now_ns, const int64_t *cost_ns,
                             int queued_wakes)
{
    enum receive_path before = trial->path;
    int queued = 0;
    for (int wake = 0; wake < WAKES_MAX; wake++) {
        *now_ns += NS_PER_MS;
        if (trial->path != before)
            queued = queued_wakes;
        before = trial->path;
        if (queued > 0) {
            queued--;
            assert_false(note(trial, *now_ns, cost_ns[!trial->path], false));
            continue;
        }
        /* One turn of a whole trial is disturbed: the median must not mind. */
        int64_t dear = trial->turn == 5 ? 3 : 1;
        if (note(trial, *now_ns, dear * cost_ns[trial->path], true))
            return true;
        assert_true((unsigned)trial->path < RECEIVE_PATHS);
    }
    return false;
}

static bool run_trial(struct receive_trial *trial, int64_t *now_ns, const int64_t *cost_ns)
{
    return run_trial_behind(trial, now_ns, cost_ns, 0);
}

static void test_the_cheaper_path_is_kept(void **state)
{
    (void)state;
    static const struct {
        int64_t cost_ns[2][RECEIVE_PATHS]; /* of two trials */
        enum receive_path expect[2];
    } rows[] = {
        {{{1000, 500}, {1000, 500}}, {RECEIVE_GRO, RECEIVE_GRO}},
        {{{1000, 1500}, {1000, 1500}}, {RECEIVE_RECVMMSG, RECEIVE_RECVMMSG}},
        {{{1000, 500}, {500, 1000}}, {RECEIVE_GRO, RECEIVE_RECVMMSG}},
        /* A little cheaper is not enough to move, in either direction. */
        {{{1000, 950}, {1000, 950}}, {RECEIVE_RECVMMSG, RECEIVE_RECVMMSG}},
        {{{1000, 850}, {950, 1000}}, {RECEIVE_GRO, RECEIVE_GRO}},
        {{{1000, 910}, {1000, 890}}, {RECEIVE_RECVMMSG, RECEIVE_GRO}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct receive_trial trial;
        int64_t now_ns = NS_PER_SECOND;
        receive_trial_reset(&trial, RECEIVE_AUTO);
        for (int round = 0; round < 2; round++) {
            assert_true(run_trial(&trial, &now_ns, rows[i].cost_ns[round]));
            if (trial.chosen != rows[i].expect[round] || trial.path != trial.chosen)
                fail_msg("row %zu, trial %d: %s", i, round, receive_path_name(trial.chosen));
            for (int path = 0; path < RECEIVE_PATHS; path++)
                assert_int_equal((int64_t)trial.cost_ns[path], rows[i].cost_ns[round][path]);
            now_ns = trial.next_ns;
        }
    }
}

/* The turns of a trial in which a datagram costs so much on each path, and in one turn, counted
 * from 0, so many times as much; -1: in none. */
static uint32_t turns_of(const int64_t *cost_ns, int disturbed, int64_t times)
{
    struct receive_trial trial;
    uint32_t turn = 0;
    receive_trial_reset(&trial, RECEIVE_AUTO);
    for (int wake = 0; wake < WAKES_MAX; wake++) {
        turn = trial.turn;
        const int64_t dear = (int)turn == disturbed ? times : 1;
        if (note(&trial, 0, dear * cost_ns[trial.path], true))
            return turn + 1;
    }
    return 0;
}

static void test_a_clear_difference_ends_a_trial(void **state)
{
    (void)state;
    enum { EARLY = 2 * RECEIVE_PATH_CLEAR_TURNS, ALL = 2 * RECEIVE_PATH_TURNS };
    static const struct {
        int64_t cost_ns[RECEIVE_PATHS];
        int disturbed;
        int64_t times;
        uint32_t turns;
    } rows[] = {
        {{1000, 500}, -1, 1, EARLY}, {{500, 1000}, -1, 1, EARLY}, {{1000, 501}, -1, 1, ALL},
        {{1000, 1000}, -1, 1, ALL},  {{1000, 500}, 0, 2, ALL},    {{1000, 500}, 2, 2, ALL},
        {{1000, 1000}, 3, 9, ALL},   {{1000, 1000}, 1, 9, ALL},   {{1000, 300}, 1, 9, EARLY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (turns_of(rows[i].cost_ns, rows[i].disturbed, rows[i].times) != rows[i].turns)
            fail_msg("row %zu: %u turns", i,
                     turns_of(rows[i].cost_ns, rows[i].disturbed, rows[i].times));
}

/* The wake-ups of one turn, of so many datagrams each. */
static int turn_wakes(int datagrams)
{
    const int warm = (RECEIVE_PATH_WARM_DATAGRAMS + datagrams - 1) / datagrams;
    return warm + (RECEIVE_PATH_TURN_DATAGRAMS + datagrams - 1) / datagrams;
}

/* The wake-ups of a trial in which so many datagrams come in so many messages; 0: it never ended.
 */
static int wakes_of(struct receive_trial *trial, uint32_t datagrams, uint32_t messages)
{
    const struct receive_wake wake = {datagrams, messages, 1000 * datagrams, true};
    receive_trial_reset(trial, RECEIVE_AUTO);
    for (int wakes = 1; wakes < WAKES_MAX; wakes++)
        if (receive_trial_note(trial, 0, &wake))
            return wakes;
    return 0;
}

/* The path that is too slow for long trains is never tried: its cost stays unknown. */
static void test_long_trains_end_a_trial_at_once(void **state)
{
    (void)state;
    enum { TRAINS = 4, LONG = TRAINS * RECEIVE_PATH_TRAIN };
    struct receive_trial trial;
    assert_int_equal(turn_wakes(LONG), wakes_of(&trial, LONG, TRAINS));
    assert_int_equal(trial.path, RECEIVE_GRO);
    assert_int_equal(trial.chosen, RECEIVE_GRO);
    assert_int_equal((int64_t)trial.cost_ns[RECEIVE_GRO], 1000);
    assert_int_equal((int64_t)trial.cost_ns[RECEIVE_RECVMMSG], 0);
    assert_int_equal(trial.next_ns, RECEIVE_PATH_PAUSE_NS);
    /* One datagram fewer, and both are measured. */
    assert_true(wakes_of(&trial, LONG - 1, TRAINS) > 2 * turn_wakes(LONG - 1));
    assert_int_equal((int64_t)trial.cost_ns[RECEIVE_RECVMMSG], 1000);
    assert_int_equal(trial.chosen, RECEIVE_RECVMMSG);
}

/* A socket that is behind holds more of the other kind than any fixed warm-up passes over. */
static void test_a_backlog_is_not_measured(void **state)
{
    (void)state;
    static const struct {
        int64_t cost_ns[RECEIVE_PATHS];
        enum receive_path expect;
    } rows[] = {{{1000, 500}, RECEIVE_GRO}, {{500, 1000}, RECEIVE_RECVMMSG}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct receive_trial trial;
        int64_t now_ns = NS_PER_SECOND;
        receive_trial_reset(&trial, RECEIVE_AUTO);
        assert_true(run_trial_behind(&trial, &now_ns, rows[i].cost_ns, 500));
        assert_int_equal(trial.chosen, rows[i].expect);
        for (int path = 0; path < RECEIVE_PATHS; path++)
            assert_int_equal((int64_t)trial.cost_ns[path], rows[i].cost_ns[path]);
    }
}

/* Nothing changes: trials become seldom, up to a limit; a change makes them frequent again. */
static void test_trials_become_seldom(void **state)
{
    (void)state;
    static const int64_t same_ns[] = {1000, 1000}, gro_ns[] = {1000, 100};
    struct receive_trial trial;
    int64_t now_ns = 0;
    receive_trial_reset(&trial, RECEIVE_AUTO);
    for (int64_t pause_ns = RECEIVE_PATH_PAUSE_NS; pause_ns <= RECEIVE_PATH_PAUSE_MAX_NS;
         pause_ns *= 2) {
        assert_true(run_trial(&trial, &now_ns, same_ns));
        assert_int_equal(trial.next_ns - now_ns, pause_ns);
        assert_false(trial.measuring);
        note(&trial, trial.next_ns - 1, 0, true);
        assert_false(trial.measuring);
        now_ns = trial.next_ns;
    }
    assert_true(run_trial(&trial, &now_ns, same_ns));
    assert_int_equal(trial.next_ns - now_ns, RECEIVE_PATH_PAUSE_MAX_NS);
    now_ns = trial.next_ns;
    assert_true(run_trial(&trial, &now_ns, gro_ns));
    assert_int_equal(trial.next_ns - now_ns, RECEIVE_PATH_PAUSE_NS);
}

static void test_a_configured_path_is_not_measured(void **state)
{
    (void)state;
    static const int64_t cost_ns[] = {1, 1};
    static const enum receive_path requests[] = {RECEIVE_RECVMMSG, RECEIVE_GRO};
    for (int i = 0; i < 2; i++) {
        struct receive_trial trial;
        int64_t now_ns = 0;
        receive_trial_reset(&trial, requests[i]);
        assert_int_equal(trial.path, requests[i]);
        assert_false(run_trial(&trial, &now_ns, cost_ns));
        assert_int_equal(trial.path, requests[i]);
    }
    struct receive_trial trial;
    receive_trial_reset(&trial, RECEIVE_AUTO);
    receive_trial_refuse(&trial);
    int64_t now_ns = 0;
    assert_int_equal(trial.path, RECEIVE_RECVMMSG);
    assert_false(run_trial(&trial, &now_ns, cost_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheaper_path_is_kept),
        cmocka_unit_test(test_a_clear_difference_ends_a_trial),
        cmocka_unit_test(test_long_trains_end_a_trial_at_once),
        cmocka_unit_test(test_a_backlog_is_not_measured),
        cmocka_unit_test(test_trials_become_seldom),
        cmocka_unit_test(test_a_configured_path_is_not_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
