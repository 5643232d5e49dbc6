/* Log: what a line is about becomes fields of the journal, and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"

static void fields_of_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *given, *expect;
    } table[] = {
        {"running: 2 streams", ""},
        {"stream ae: 5 frames lost", "STREAM=ae "},
        {"stream ae: channel 3: overload", "STREAM=ae CHANNEL=3 "},
        {"sink live: socket full", "SINK=live "},
        {"filter band: 3 taps", "FILTER=band "},
        {"stream a: sink b: channel 1: x", "STREAM=a SINK=b CHANNEL=1 "},
        {"stream a: text: channel 1: x", "STREAM=a "},
        /* Not a subject: no colon right after the name, no name, a word that only begins so. */
        {"stream ae lost 5: frames", ""},
        {"stream : x", ""},
        {"streams ae: x", ""},
        {"stream ae", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct log_field fields[4];
        char got[200] = "";
        int count = log_fields(table[i].given, fields, 4);
        for (int f = 0; f < count; f++) {
            size_t used = strlen(got);
            snprintf(got + used, sizeof got - used, "%s=%.*s ", fields[f].name,
                     (int)fields[f].length, fields[f].value);
        }
        assert_string_equal(got, table[i].expect);
    }
    struct log_field one[1];
    assert_int_equal(log_fields("stream a: channel 2: x", one, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_of_a_line)};
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
