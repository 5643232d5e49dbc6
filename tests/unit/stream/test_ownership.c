/* Ownership of a partition, rule by rule. test_ownership_schedules runs the rules in a simulated
 * cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stream/ownership.h"

static const int64_t ms = 1000000;

static struct ownership opened(void)
{
    struct ownership o;
    const struct ownership_options options = ownership_usual(7);
    ownership_open(&o, &options, 0);
    ownership_stand(&o, true, 0);
    return o;
}

static struct ownership_action asked_for(struct ownership *o, int64_t now_ns,
                                         enum ownership_kind kind)
{
    struct ownership_action action = {0};
    assert_true(ownership_next(o, now_ns, &action));
    assert_int_equal(action.kind, kind);
    return action;
}

static void asked_for_nothing(struct ownership *o, int64_t now_ns)
{
    struct ownership_action action;
    assert_false(ownership_next(o, now_ns, &action));
}

static struct log_mark mark(uint64_t sequence, uint64_t term, uint64_t owner, uint64_t next)
{
    return (struct log_mark){.end = {sequence, term, owner}, .next = next};
}

/* Its take is under way. */
static struct ownership taking(struct ownership_action *take)
{
    struct ownership o = opened();
    const struct log_mark end = mark(40, 3, 5, 500);
    asked_for(&o, 0, OWNERSHIP_READ);
    ownership_read(&o, 0, &end);
    asked_for_nothing(&o, 50 * ms);
    asked_for(&o, 100 * ms, OWNERSHIP_ASK);
    ownership_no_responders(&o, 100 * ms, 3);
    asked_for(&o, 101 * ms, OWNERSHIP_READ); /* has it given the partition up? */
    ownership_read(&o, 102 * ms, &end);
    asked_for(&o, 200 * ms, OWNERSHIP_ASK);
    ownership_no_responders(&o, 200 * ms, 3);
    asked_for(&o, 200 * ms, OWNERSHIP_READ);
    ownership_read(&o, 201 * ms, &end);
    *take = asked_for(&o, 201 * ms, OWNERSHIP_TAKE);
    return o;
}

/* Brings it to own the partition of an owner that died, at frame 500 behind record 40. */
static struct ownership owning(void)
{
    struct ownership_action take;
    struct ownership o = taking(&take);
    const struct log_mark end = mark(40, 3, 5, 500);
    assert_int_equal(take.term, 4);
    assert_memory_equal(&take.expect, &end.end, sizeof end.end);
    ownership_appended(&o, 202 * ms, take.token, 41);
    const struct ownership_action resume = asked_for(&o, 202 * ms, OWNERSHIP_RESUME);
    assert_int_equal(resume.from.next, 500);
    ownership_resumed(&o, 203 * ms);
    return o;
}

static void test_a_dead_owner_is_replaced_after_two_questions(void **state)
{
    (void)state;
    struct ownership o = owning();
    struct log_end expect;
    uint64_t token;
    assert_true(ownership_may_send(&o, 203 * ms));
    assert_true(ownership_append(&o, 203 * ms, &expect, &token));
    assert_true(expect.sequence == 41 && expect.term == 4 && expect.owner == 7);
    assert_true(ownership_append(&o, 203 * ms, &expect, &token));
    assert_true(expect.sequence == 42 && expect.term == 4 && expect.owner == 7);
    assert_true(ownership_answers(&o, 4) && !ownership_answers(&o, 3));
}

static void test_an_owner_that_answers_or_appends_is_left_alone(void **state)
{
    (void)state;
    struct ownership o = opened();
    struct ownership_action action;
    struct log_mark end = mark(40, 3, 5, 500);
    asked_for(&o, 0, OWNERSHIP_READ);
    ownership_read(&o, 0, &end);
    for (int64_t now = 100 * ms; now < 5000 * ms; now += 100 * ms) {
        while (ownership_next(&o, now, &action)) {
            if (action.kind == OWNERSHIP_READ)
                ownership_read(&o, now, &end);
            else
                assert_int_equal(action.kind, OWNERSHIP_ASK);
        }
        if (now < 2500 * ms) {
            ownership_answered(&o, now, 3);
        } else if (now / ms % 900 == 0) {
            end.end.sequence++;
            ownership_seen(&o, now, &end);
        }
    }
    /* Neither: after a lease it stands. */
    while (ownership_next(&o, 6000 * ms, &action) && action.kind == OWNERSHIP_ASK)
        continue;
    assert_int_equal(action.kind, OWNERSHIP_READ);
}

/* An owner that stands still, its connection open: the questions are delivered and not answered. */
static void test_an_owner_that_stands_still_is_replaced_after_one_lease(void **state)
{
    (void)state;
    struct ownership o = opened();
    struct ownership_action action;
    struct log_mark end = mark(40, 3, 5, 500);
    int reads = 0;
    int64_t now = 0;
    asked_for(&o, now, OWNERSHIP_READ);
    ownership_read(&o, now, &end);
    for (now = 10 * ms; o.state != OWNERSHIP_TAKING; now += 10 * ms) {
        assert_true(now < 3000 * ms);
        if (now <= 500 * ms)
            end.end.sequence++; /* it appends, which a follower is not told */
        while (ownership_next(&o, now, &action)) {
            if (action.kind == OWNERSHIP_READ) {
                reads++;
                ownership_read(&o, now, &end);
            } else if (action.kind == OWNERSHIP_ASK && now <= 500 * ms) {
                ownership_answered(&o, now + 1, 3);
            }
        }
    }
    /* Where the log ended when it fell silent, that it still ends there, and before the take. */
    assert_int_equal(reads, 3);
    /* The last answer at 500 ms, the reading 200 ms after it, and a lease. */
    assert_true(now <= 1720 * ms);
}

static void test_candidates_stand_in_their_order(void **state)
{
    (void)state;
    struct ownership o = opened();
    struct log_mark end = mark(40, 3, 5, 500);
    end.released = true;
    ownership_stand(&o, true, 3);
    asked_for(&o, 0, OWNERSHIP_READ);
    ownership_read(&o, 0, &end);
    asked_for_nothing(&o, 10 * ms);
    asked_for(&o, 110 * ms, OWNERSHIP_READ); /* another may have taken it */
    ownership_read(&o, 110 * ms, &end);
    assert_int_equal(ownership_due(&o), 160 * ms);
    asked_for(&o, 160 * ms, OWNERSHIP_READ);
    /* The first in the order was faster. */
    const struct log_mark taken = mark(41, 4, 9, 500);
    ownership_read(&o, 161 * ms, &taken);
    asked_for_nothing(&o, 162 * ms);
    ownership_stand(&o, false, 0); /* it has no room: it takes nothing, whoever is dead */
    for (int64_t now = 200 * ms; now < 9000 * ms; now += 100 * ms) {
        struct ownership_action action;
        while (ownership_next(&o, now, &action)) {
            assert_int_equal(o.state, OWNERSHIP_FOLLOWING);
            if (action.kind == OWNERSHIP_READ)
                ownership_read(&o, now, &taken);
            else
                ownership_no_responders(&o, now, 4);
        }
    }
}

/* A follower that knows of an owner, and finds it gone with the first question. */
static struct ownership finding_released(uint64_t term, enum release_for given_to)
{
    struct ownership o = opened();
    struct log_mark end = mark(40, term, 5, 500);
    ownership_stand(&o, true, 3);
    asked_for(&o, 0, OWNERSHIP_READ);
    ownership_read(&o, 0, &end);
    asked_for(&o, 100 * ms, OWNERSHIP_ASK);
    ownership_no_responders(&o, 101 * ms, term);
    asked_for(&o, 101 * ms, OWNERSHIP_READ);
    end = mark(44, term, 5, 900); /* what it appended last */
    end.released = true;
    end.given_to = given_to;
    ownership_read(&o, 102 * ms, &end);
    return o;
}

static void test_a_released_partition_is_taken_after_one_question(void **state)
{
    (void)state;
    struct ownership o = finding_released(3, RELEASE_FOR_ANY);
    asked_for_nothing(&o, 102 * ms);
    assert_int_equal(ownership_due(&o), 200 * ms);
    asked_for(&o, 200 * ms, OWNERSHIP_READ);
    asked_for_nothing(&o, 251 * ms);
    asked_for(&o, 252 * ms, OWNERSHIP_READ); /* the fourth of the candidates */
    assert_int_equal(o.state, OWNERSHIP_READING);
}

static void test_whom_it_is_released_for_takes_at_once_and_the_others_wait(void **state)
{
    (void)state;
    struct ownership o = finding_released(3, RELEASE_FOR_THIS);
    asked_for(&o, 102 * ms, OWNERSHIP_READ);
    o = finding_released(3, RELEASE_FOR_ANOTHER);
    struct ownership_action action;
    for (int64_t now = 102 * ms; now < 2252 * ms; now += 10 * ms)
        while (ownership_next(&o, now, &action))
            assert_int_equal(o.state, OWNERSHIP_FOLLOWING);
    asked_for(&o, 2252 * ms, OWNERSHIP_READ);
    assert_int_equal(o.state, OWNERSHIP_READING);
}

static void test_who_released_takes_what_is_handed_straight_back(void **state)
{
    (void)state;
    struct ownership o = owning();
    ownership_release(&o);
    const struct ownership_action release = asked_for(&o, 300 * ms, OWNERSHIP_RELEASE);
    ownership_appended(&o, 301 * ms, release.token, 42);
    asked_for(&o, 301 * ms, OWNERSHIP_STOP);
    asked_for(&o, 301 * ms, OWNERSHIP_READ);
    struct log_mark end = mark(42, 4, 7, 500);
    end.released = true;
    ownership_read(&o, 302 * ms, &end);
    asked_for(&o, 401 * ms, OWNERSHIP_READ);
    end = mark(50, 5, 9, 700); /* the other had it, and gives it back */
    end.released = true;
    ownership_read(&o, 402 * ms, &end);
    asked_for(&o, 402 * ms, OWNERSHIP_READ);
    assert_int_equal(o.state, OWNERSHIP_READING);
}

static void test_a_refusal_ends_the_term(void **state)
{
    (void)state;
    struct ownership o = owning();
    struct log_end expect;
    uint64_t first, second;
    assert_true(ownership_append(&o, 203 * ms, &expect, &first));
    assert_true(ownership_append(&o, 203 * ms, &expect, &second));
    ownership_refused(&o, 204 * ms, first);
    assert_false(ownership_may_send(&o, 204 * ms));
    assert_false(ownership_append(&o, 204 * ms, &expect, &first));
    asked_for(&o, 204 * ms, OWNERSHIP_STOP);
    ownership_refused(&o, 205 * ms, second); /* of the ended term: nothing */
    asked_for(&o, 205 * ms, OWNERSHIP_READ);
}

/* A worker is stopped in the moment in which it takes. */
static void test_a_release_waits_for_the_take(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct ownership_action take;
        struct ownership o = taking(&take);
        ownership_release(&o);
        asked_for_nothing(&o, 202 * ms);
        if (refused) {
            ownership_refused(&o, 203 * ms, take.token);
            assert_int_equal(o.state, OWNERSHIP_FOLLOWING);
            assert_false(o.releases);
            continue;
        }
        ownership_appended(&o, 203 * ms, take.token, 41);
        asked_for(&o, 203 * ms, OWNERSHIP_RESUME);
        asked_for(&o, 204 * ms, OWNERSHIP_RELEASE);
    }
}

/* A record of term 4 may still be under way to a log that has lost what this run has written. */
static void test_a_log_that_went_back_sees_no_term_twice(void **state)
{
    (void)state;
    struct ownership o = owning();
    const struct log_mark end = mark(40, 3, 5, 500);
    struct ownership_action action = {0};
    struct log_end expect;
    uint64_t token;
    assert_true(ownership_append(&o, 203 * ms, &expect, &token));
    ownership_refused(&o, 204 * ms, token);
    for (int64_t now = 204 * ms; action.kind != OWNERSHIP_TAKE && now < 5000 * ms; now += ms) {
        if (!ownership_next(&o, now, &action))
            continue;
        if (action.kind == OWNERSHIP_READ)
            ownership_read(&o, now, &end);
        else if (action.kind == OWNERSHIP_ASK)
            ownership_no_responders(&o, now, action.term);
    }
    assert_int_equal(action.kind, OWNERSHIP_TAKE);
    assert_memory_equal(&action.expect, &end.end, sizeof end.end);
    assert_int_equal(action.term, 5);
}

static void test_a_log_that_numbers_otherwise_ends_the_term(void **state)
{
    (void)state;
    struct ownership o = owning();
    struct log_end expect;
    uint64_t token;
    assert_true(ownership_append(&o, 203 * ms, &expect, &token));
    ownership_appended(&o, 204 * ms, token, 43); /* 42 would be its place */
    asked_for(&o, 204 * ms, OWNERSHIP_STOP);
}

static void test_an_owner_that_nobody_confirms_falls_silent(void **state)
{
    (void)state;
    struct ownership o = owning();
    struct log_end expect;
    uint64_t token, appends = 0;
    while (ownership_append(&o, 300 * ms, &expect, &token))
        appends++;
    assert_int_equal(appends, OWNERSHIP_UNACKNOWLEDGED);
    assert_true(ownership_may_send(&o, 1200 * ms));
    assert_false(ownership_may_send(&o, 1201 * ms)); /* a lease after the take was sent */
    asked_for_nothing(&o, 2299 * ms);
    struct ownership_action action;
    assert_false(ownership_next(&o, 2300 * ms, &action)); /* it ends the term … */
    asked_for(&o, 2300 * ms, OWNERSHIP_STOP);             /* … and says so */
    o = owning();
    ownership_give_up(&o, 1201 * ms); /* before, where other sinks wait for it */
    assert_false(ownership_append(&o, 1202 * ms, &expect, &token));
    asked_for(&o, 1202 * ms, OWNERSHIP_STOP);
}

static void test_an_idle_owner_beats_and_a_released_one_ends(void **state)
{
    (void)state;
    struct ownership o = owning();
    asked_for_nothing(&o, 500 * ms);
    const struct ownership_action beat = asked_for(&o, 535 * ms, OWNERSHIP_BEAT);
    assert_int_equal(beat.expect.sequence, 41);
    ownership_release(&o);
    asked_for_nothing(&o, 536 * ms); /* the beat is still under way */
    ownership_appended(&o, 540 * ms, beat.token, 42);
    const struct ownership_action release = asked_for(&o, 540 * ms, OWNERSHIP_RELEASE);
    struct log_end expect;
    uint64_t token;
    assert_false(ownership_append(&o, 541 * ms, &expect, &token));
    ownership_appended(&o, 542 * ms, release.token, 43);
    asked_for(&o, 542 * ms, OWNERSHIP_STOP);
    struct log_mark end = mark(43, 4, 7, 500);
    end.released = true;
    asked_for(&o, 542 * ms, OWNERSHIP_READ);
    ownership_read(&o, 542 * ms, &end);
    for (int64_t now = 700 * ms; now < 2500 * ms; now += 100 * ms) {
        struct ownership_action action;
        while (ownership_next(&o, now, &action))
            ownership_read(&o, now, &end);
        assert_int_equal(o.state, OWNERSHIP_FOLLOWING); /* others first, for a while */
    }
    asked_for(&o, 2600 * ms, OWNERSHIP_READ);
    assert_int_equal(o.state, OWNERSHIP_READING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dead_owner_is_replaced_after_two_questions),
        cmocka_unit_test(test_an_owner_that_answers_or_appends_is_left_alone),
        cmocka_unit_test(test_an_owner_that_stands_still_is_replaced_after_one_lease),
        cmocka_unit_test(test_candidates_stand_in_their_order),
        cmocka_unit_test(test_a_released_partition_is_taken_after_one_question),
        cmocka_unit_test(test_whom_it_is_released_for_takes_at_once_and_the_others_wait),
        cmocka_unit_test(test_who_released_takes_what_is_handed_straight_back),
        cmocka_unit_test(test_a_refusal_ends_the_term),
        cmocka_unit_test(test_a_release_waits_for_the_take),
        cmocka_unit_test(test_a_log_that_went_back_sees_no_term_twice),
        cmocka_unit_test(test_a_log_that_numbers_otherwise_ends_the_term),
        cmocka_unit_test(test_an_owner_that_nobody_confirms_falls_silent),
        cmocka_unit_test(test_an_idle_owner_beats_and_a_released_one_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
