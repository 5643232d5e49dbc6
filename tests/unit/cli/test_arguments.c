/* The command line: every row of the table in all its forms, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/arguments.h"

enum { ARGUMENTS_MAX = 8 }; /* the last one stays NULL */

static int parse(const char *const *given, struct arguments *out, struct problem *problem)
{
    char *argv[ARGUMENTS_MAX + 1] = {(char *)"convolvd"};
    int argc = 1;
    for (; given[argc - 1] != NULL; argc++)
        argv[argc] = (char *)given[argc - 1];
    return arguments_parse(argc, argv, out, problem);
}

static void assert_text(const char *got, const char *want)
{
    if (want == NULL)
        assert_null(got);
    else
        assert_string_equal(got, want);
}

static void arguments_become_a_command(void **state)
{
    (void)state;
    static const struct {
        const char *given[ARGUMENTS_MAX];
        struct arguments want;
    } cases[] = {
        {{NULL}, {.command = COMMAND_RUN}},
        {{"a.conf"}, {.command = COMMAND_RUN, .config_path = "a.conf"}},
        {{"-c", "a.conf", "-v"},
         {.command = COMMAND_RUN, .config_path = "a.conf", .verbose = true}},
        {{"--config=a=b.conf", "-q"},
         {.command = COMMAND_RUN, .config_path = "a=b.conf", .quiet = true}},
        {{"--check", "a.conf"}, {.command = COMMAND_CHECK, .config_path = "a.conf"}},
        {{"--check=a.conf"}, {.command = COMMAND_CHECK, .config_path = "a.conf"}},
        {{"-c", "a.conf", "--check"}, {.command = COMMAND_CHECK, .config_path = "a.conf"}},
        {{"--check", "-c", "a.conf"}, {.command = COMMAND_CHECK, .config_path = "a.conf"}},
        {{"--check"}, {.command = COMMAND_CHECK}},
        {{"--design", "bp", "-c", "a.conf", "--out", "x.png"},
         {.command = COMMAND_DESIGN,
          .design_name = "bp",
          .config_path = "a.conf",
          .out_path = "x.png"}},
        {{"--list-devices"}, {.command = COMMAND_LIST_DEVICES}},
        {{"--list-variants"}, {.command = COMMAND_LIST_VARIANTS}},
        {{"--kernels", "k", "--variant", "v", "a.conf"},
         {.command = COMMAND_RUN, .kernels_dir = "k", .variant = "v", .config_path = "a.conf"}},
        {{"--status-json=s.json"}, {.command = COMMAND_RUN, .status_json = "s.json"}},
        {{"--man", "convolvd"}, {.command = COMMAND_MAN, .man_page = "convolvd"}},
        {{"-h"}, {.command = COMMAND_HELP}},
        {{"--help-config"}, {.command = COMMAND_HELP_CONFIG}},
        {{"--help-osc"}, {.command = COMMAND_HELP_OSC}},
        {{"--version"}, {.command = COMMAND_VERSION}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arguments got;
        struct problem problem = {0};
        const struct arguments *want = &cases[i].want;
        if (parse(cases[i].given, &got, &problem) != 0)
            fail_msg("case %zu: %s", i, problem.text);
        assert_int_equal(got.command, want->command);
        assert_text(got.config_path, want->config_path);
        assert_text(got.design_name, want->design_name);
        assert_text(got.out_path, want->out_path);
        assert_text(got.kernels_dir, want->kernels_dir);
        assert_text(got.variant, want->variant);
        assert_text(got.status_json, want->status_json);
        assert_text(got.man_page, want->man_page);
        assert_int_equal(got.verbose, want->verbose);
        assert_int_equal(got.quiet, want->quiet);
    }
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *given[ARGUMENTS_MAX];
        const char *says;
    } cases[] = {
        {{"--chek", "a"}, "--chek: no such option; see convolvd --help"},
        {{"-x"}, "-x: no such option; see convolvd --help"},
        {{"--config"}, "--config: its value is missing; write --config FILE"},
        {{"-c"}, "-c: its value is missing; write --config FILE"},
        {{"--verbose=1"}, "--verbose=1: takes no value; write --verbose"},
        {{"a.conf", "b.conf"},
         "b.conf: a second configuration after a.conf; put fragments of the first into "
         "a.conf.d/"},
        {{"--out", "x.npy"}, "--out goes with --design; results of streams go to a [sink NAME]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arguments got;
        struct problem problem = {0};
        assert_int_equal(parse(cases[i].given, &got, &problem), ERROR_ARGUMENT);
        assert_string_equal(problem.text, cases[i].says);
    }
}

static void help_and_manual_show_every_row(void **state)
{
    (void)state;
    unsigned count;
    const struct manual_option *rows = arguments_manual(&count);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    arguments_print_help(out);
    fclose(out);
    assert_true(count > 10);
    for (unsigned i = 0; i < count; i++) {
        assert_non_null(strstr(text, rows[i].option));
        assert_true(strlen(rows[i].sentence) > 10);
        assert_int_equal(rows[i].sentence[strlen(rows[i].sentence) - 1], '.');
    }
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        assert_true(end != NULL && end - line <= 100);
        line = end + 1;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_become_a_command),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(help_and_manual_show_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
