/* Limits of `keep`: what reads as one, which field it means, and which events it lets pass. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/limits.h"

struct body {
    double level, share[3], amplitude;
    uint32_t counts;
    uint64_t last;
};

static const struct analysis_field fields[] = {
    {"level_db", "dB", ANALYSIS_DOUBLE, offsetof(struct body, level), 0, "a level"},
    {"share", "", ANALYSIS_DOUBLE, offsetof(struct body, share), 3, "shares"},
    {"counts", "", ANALYSIS_UINT32, offsetof(struct body, counts), 0, "counts"},
    {"last", "frames", ANALYSIS_UINT64, offsetof(struct body, last), 0, "a frame"},
    {"amplitude", NULL, ANALYSIS_DOUBLE, offsetof(struct body, amplitude), 0, "of the channel"},
    {"peak_db", "dB", ANALYSIS_DOUBLE, offsetof(struct body, level), 0, "a level re a reference"},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static const char *const units[] = {"V", "V"}, *const different[] = {"V", "Pa"};
static const double full_scale[] = {10, 10};
static const struct analysis_stream stream = {
    .channels = 2, .units = units, .full_scale = full_scale};

static bool holds(const char *text, const struct body *body)
{
    const struct analysis_event event = {.body = body, .body_bytes = sizeof *body};
    struct analysis_limit limit;
    struct problem problem;
    assert_int_equal(limit_find(text, fields, FIELDS, &stream, &limit, &problem), 0);
    return limits_hold(&limit, 1, &event);
}

static void relations_are_strict_where_they_say_so(void **state)
{
    static const struct {
        const char *text;
        bool holds;
    } table[] = {
        {"level_db > 45", false},
        {"level_db >= 45", true},
        {"level_db < 45", false},
        {"level_db<=45 dB", true},
        {"level_db > 44.9", true},
        {"level_db > 45.1", false},
        {"share_2 > 0.4", true},
        {"share_3 > 0.4", false},
        {"counts >= 7", true},
        {"counts < 7", false},
        {"last > 4e9", true},
        {"last <= 5000000000", true},
        {"level_db > -1e300", true},
        {"amplitude >= 1 mV", true},
        {"amplitude > 1 mV", false},
        {"amplitude >= 60 dB(AE)", true},
        {"amplitude > 60 dBAE", false},
        {"amplitude >= -80 dBFS", true},
        {"amplitude > 0", true},
        {"peak_db > 44.9", true},
        {"peak_db >= 45 dB", true},
        {"peak_db > 44.9 dB(AE)", true},
        {"peak_db > 45.1 dB re 1 uV", false},
        {"peak_db > 100 uV", true},
        {"peak_db > 1 mV", false},
    };
    const struct body body = {45, {0.1, 0.5, NAN}, 1e-3, 7, UINT64_C(5000000000)};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (holds(table[i].text, &body) != table[i].holds)
            fail_msg("%s", table[i].text);
}

static void what_is_not_defined_holds_no_limit(void **state)
{
    const struct body body = {.level = NAN};
    (void)state;
    assert_false(holds("level_db > 0", &body));
    assert_false(holds("level_db <= 0", &body));
}

static void bad_limits_are_told(void **state)
{
    static const char *const texts[] = {"level_db",       "level_db = 3", "> 3", "level_db > x",
                                        "level_db > inf", "> ",           ""};
    const struct option_row row = {.key = "keep"};
    struct option_value value;
    struct analysis_limit limit;
    struct problem problem;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(limit_option(&row, texts[i], &value, &problem), ERROR_CONFIG);
    assert_int_equal(limit_find("levl_db > 3", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "write level_db"));
    assert_int_equal(limit_find("level_db > 3 us", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "dB"));
    assert_int_equal(limit_find("level_db > 3 dB(AE)", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG); /* a ratio */
    assert_int_equal(limit_find("amplitude > 1", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "write 1 dB(AE), 1 mV or 1 V"));
    const struct analysis_stream mixed = {.channels = 2, .units = different};
    assert_int_equal(limit_find("amplitude > 40 dB", fields, FIELDS, &mixed, &limit, &problem), 0);
    assert_int_equal(limit_find("amplitude > 40 dBFS", fields, FIELDS, &mixed, &limit, &problem),
                     ERROR_CONFIG);
    assert_int_equal(limit_find("share_4 > 3", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG);
    assert_int_equal(limit_find("share > 3", fields, FIELDS, &stream, &limit, &problem),
                     ERROR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relations_are_strict_where_they_say_so),
        cmocka_unit_test(what_is_not_defined_holds_no_limit),
        cmocka_unit_test(bad_limits_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
