/* Ownership: reads without an answer, as from a leader that has just been elected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream/ownership.h"

static const int64_t ms = 1000000;

static bool reads(struct ownership *o, int64_t now_ns)
{
    struct ownership_action action;
    return ownership_next(o, now_ns, &action) && action.kind == OWNERSHIP_READ;
}

static void test_a_read_without_an_answer_is_sent_again(void **state)
{
    struct ownership o;
    const struct ownership_options options = ownership_usual(7);
    const struct log_mark end = {.end = {40, 3, 5}, .next = 500};
    (void)state;
    ownership_open(&o, &options, 0);
    ownership_stand(&o, true, 0);
    assert_true(reads(&o, 0));
    assert_int_equal(ownership_due(&o), 200 * ms);
    assert_false(reads(&o, 199 * ms));
    assert_true(reads(&o, 200 * ms));
    assert_int_equal(ownership_due(&o), 600 * ms);
    ownership_read(&o, 201 * ms, &end);
    /* The same before it stands, after a lease without a sign of life … */
    assert_true(reads(&o, 1300 * ms));
    assert_int_equal(o.state, OWNERSHIP_READING);
    assert_int_equal(ownership_due(&o), 1500 * ms);
    assert_false(reads(&o, 1499 * ms));
    /* … but what was refused is asked for again a question later. */
    ownership_unread(&o, 1499 * ms);
    assert_int_equal(ownership_due(&o), 1599 * ms);
    assert_true(reads(&o, 1599 * ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_without_an_answer_is_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
