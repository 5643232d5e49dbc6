/* Levels: the table that the daemon, the page and the Python package share, and the warnings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/level.h"

enum { COLUMNS = 4 };

/* Ends each column and trims it. */
static void split(char *line, char *columns[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        char *end = line + strcspn(line, c + 1 < COLUMNS ? "|" : "\n"),
             *next = end + (*end != '\0');
        while (*line == ' ')
            line++;
        while (end > line && end[-1] == ' ')
            end--;
        *end = '\0';
        columns[c] = line;
        line = next;
    }
}

static void check_row(char *columns[COLUMNS])
{
    const struct level_scale scale = {columns[1], strtod(columns[2], NULL), 0};
    struct problem problem = {.text = ""};
    double amplitude = NAN;
    const int status = level_read(columns[0], &scale, &amplitude, &problem);
    if (columns[3][0] == '!') {
        if (status != ERROR_CONFIG || strstr(problem.text, columns[3] + 2) == NULL)
            fail_msg("`%s` of %s: %d, \"%s\"", columns[0], columns[1], status, problem.text);
        return;
    }
    const double want = strtod(columns[3], NULL);
    if (status != 0 || !(fabs(amplitude - want) <= 1e-8 * fabs(want)))
        fail_msg("`%s` of %s: %.17g, %s", columns[0], columns[1], amplitude, problem.text);
}

static void test_every_spelling(void **state)
{
    (void)state;
    char line[256];
    int rows = 0;
    FILE *file = fopen("tests/support/levels.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char *columns[COLUMNS];
        if (line[0] == '#' || line[0] == '\n')
            continue;
        split(line, columns);
        check_row(columns);
        rows++;
    }
    fclose(file);
    assert_in_range(rows, 80, 200);
}

static void test_amplitudes_are_exact(void **state)
{
    (void)state;
    const struct level_scale volts = {"V", 0, 0};
    struct problem problem;
    double amplitude;
    assert_int_equal(level_read("10 mV", &volts, &amplitude, &problem), 0);
    assert_true(amplitude == 0.01);
    assert_int_equal(level_read("0.3 uV", &volts, &amplitude, &problem), 0);
    assert_true(amplitude == 0.3e-6);
}

static void test_rows_prove_the_form(void **state)
{
    (void)state;
    static const struct {
        double minimum;
        const char *text, *says; /* "": it is good */
    } cases[] = {
        {0, "40", ""},
        {0, "40 dB(AE)", ""},
        {0, "-40 dB", ""},
        {0, "-1 mV", "below 0"},
        {-1, "-1 mV", ""},
        {0, "2000 dB", "out of range"},
        {0, "1e40 V", "out of range"},
        {0, "3 ms", "a time"},
        {0, "40 dBx", "is no level"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct option_row row = {.key = "threshold",
                                       .type = OPTION_OWN,
                                       .minimum = cases[i].minimum,
                                       .parse = level_parse};
        struct option_value value;
        struct problem problem = {.text = ""};
        const int status = option_parse(&row, cases[i].text, &value, &problem);
        if ((status == 0) != (cases[i].says[0] == '\0') ||
            strstr(problem.text, cases[i].says) == NULL)
            fail_msg("`%s`: %d, \"%s\"", cases[i].text, status, problem.text);
    }
}

static void keep_text(void *context, const char *key, bool warning, const char *text)
{
    assert_true(warning);
    assert_string_equal(key, "threshold");
    snprintf(context, 512, "%s", text);
}

static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        double amplitude;
        struct level_scale scale;
        const char *says; /* "": nothing */
    } cases[] = {
        {1, {"V", 10, 3e-4}, ""},
        {9.99, {"V", 10, 3e-4}, ""},
        {10, {"V", 10, 3e-4}, "not below full scale, 10 V at the sensor"},
        {0.3, {"V", 0.2, 3e-6}, "not below full scale, 0.2 V at the sensor"},
        {3e-4, {"V", 10, 3e-4}, ""},
        {2.9e-4, {"V", 10, 3e-4}, "below one step of the converter, 0.0003 V"},
        {0, {"V", 10, 3e-4}, ""},
        {1e9, {"V", 0, 0}, ""},
        {0.1, {"FS", 1, 3e-5}, "0.1 of full scale, since the channel is not calibrated"},
        {0.1, {"FS", 0, 0}, "not calibrated"},
        {0, {"FS", 1, 3e-5}, ""},
        {1, {"FS", 1, 3e-5}, "not below full scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512] = "";
        const struct option_check check = {.context = text, .report = keep_text};
        const bool warned = level_warn(&check, "threshold", "threshold =", "X", cases[i].amplitude,
                                       &cases[i].scale);
        assert_int_equal(warned, cases[i].says[0] != '\0');
        if (strstr(text, cases[i].says) == NULL)
            fail_msg("case %zu: \"%s\"", i, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_spelling),
        cmocka_unit_test(test_amplitudes_are_exact),
        cmocka_unit_test(test_rows_prove_the_form),
        cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
