/* Who asked for what is in force: the name in flight stays while the next one is written. */
#include "control/change_who.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct change_request request(enum change_kind kind, const char *who)
{
    struct change_request made = {.kind = kind};
    snprintf(made.who, sizeof made.who, "%s", who);
    return made;
}

static void test_names_of_a_group(void **state)
{
    (void)state;
    char name[EVENT_WHO_BYTES];
    const struct change_request first = request(CHANGE_GAIN, "anna (uid 1000)"),
                                merged[] = {request(CHANGE_MUTE, "anna (uid 1000)"),
                                            request(CHANGE_FILTER, "OSC 127.0.0.1:9001"),
                                            request(CHANGE_GAIN, "olaf (uid 1001)")};
    static const struct {
        uint32_t count;
        bool filter;
        const char *name;
    } cases[] = {
        {0, false, "anna (uid 1000)"},
        {1, false, "anna (uid 1000)"},
        {1, true, ""},
        {2, false, "anna (uid 1000)"},
        {2, true, "OSC 127.0.0.1:9001"},
        {3, false, "anna (uid 1000) and others"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(change_who_of(&first, merged, cases[i].count, cases[i].filter, name),
                            cases[i].name);
}

static void test_names_take_turns(void **state)
{
    (void)state;
    struct change_who who = {.changes = 0};
    assert_null(change_who_now(&who));
    const char *first = change_who_next(&who, "anna");
    change_who_take(&who, true);
    assert_ptr_equal(change_who_now(&who), first);
    change_who_next(&who, "olaf"); /* fails */
    const char *second = change_who_next(&who, "otto");
    assert_string_equal(first, "anna");
    change_who_take(&who, true);
    assert_string_equal(change_who_now(&who), "otto");
    change_who_take_back(&who); /* cancelled: results in flight have the first */
    assert_string_equal(change_who_now(&who), "anna");
    assert_string_equal(change_who_next(&who, "olaf"), "olaf");
    assert_string_equal(first, "anna");
    change_who_take(&who, true);
    change_who_take(&who, false); /* gains alone */
    assert_string_equal(change_who_now(&who), "olaf");
    change_who_take_back(&who);
    assert_string_equal(change_who_now(&who), "olaf");
    (void)second;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_a_group),
        cmocka_unit_test(test_names_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
