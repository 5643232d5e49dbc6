/* Options of a command-line tool: see options.h. No state. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE_COLUMN = 32 };

static int read_count(const struct tool_option *row, const char *text, struct problem *problem)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    bool number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    if (!number || (double)value < row->min || (double)value > row->max)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--%s %s: give a whole number from %.0f to %.0f", row->name, text,
                           row->min, row->max);
    *(uint64_t *)row->value = value;
    return 0;
}

static int read_quantity(const struct tool_option *row, const char *text, struct problem *problem)
{
    struct quantity quantity;
    int status = quantity_parse(text, row->dimension, &quantity, problem);
    if (status != 0)
        return problem_prefix(problem, status, "--%s", row->name);
    if (quantity.dimension != row->dimension && quantity.dimension != DIMENSION_NUMBER)
        return problem_set(problem, ERROR_ARGUMENT, "--%s %s: this takes %s, such as %s", row->name,
                           text, dimension_words(row->dimension),
                           dimension_example(row->dimension));
    double value = quantity_value(&quantity);
    if (!(value >= row->min && value <= row->max))
        return problem_set(problem, ERROR_ARGUMENT, "--%s %s: give a value from %g to %g",
                           row->name, text, row->min, row->max);
    *(double *)row->value = value;
    return 0;
}

static int read_value(const struct tool_option *row, const char *text, struct problem *problem)
{
    switch (row->kind) {
    case TOOL_TEXT:
        *(const char **)row->value = text;
        return 0;
    case TOOL_LIST: {
        struct tool_list *list = row->value;
        if (list->count == TOOL_LIST_MAX)
            return problem_set(problem, ERROR_LIMIT, "--%s: at most %d of them", row->name,
                               TOOL_LIST_MAX);
        list->items[list->count++] = text;
        return 0;
    }
    case TOOL_COUNT:
        return read_count(row, text, problem);
    case TOOL_QUANTITY:
        return read_quantity(row, text, problem);
    default:
        return problem_set(problem, ERROR_ARGUMENT, "--%s takes no value", row->name);
    }
}

static const struct tool_option *find_row(const struct tool_option *rows, size_t count,
                                          const char *name, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].name != NULL && strlen(rows[i].name) == bytes &&
            strncmp(rows[i].name, name, bytes) == 0)
            return &rows[i];
    return NULL;
}

int tool_options_parse(const struct tool_option *rows, size_t count, int argc, char **argv,
                       bool *help, bool *version, struct problem *problem)
{
    *help = *version = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *help = true;
            continue;
        }
        if (strcmp(argument, "--version") == 0) {
            *version = true;
            continue;
        }
        if (strncmp(argument, "--", 2) != 0)
            return problem_set(problem, ERROR_ARGUMENT, "'%s' is no option: see --help", argument);
        const char *name = argument + 2, *equals = strchr(name, '=');
        size_t bytes = equals != NULL ? (size_t)(equals - name) : strlen(name);
        const struct tool_option *row = find_row(rows, count, name, bytes);
        if (row == NULL)
            return problem_set(problem, ERROR_ARGUMENT, "there is no option --%.*s: see --help",
                               (int)bytes, name);
        if (row->kind == TOOL_FLAG && equals == NULL) {
            *(bool *)row->value = true;
            continue;
        }
        if (row->kind != TOOL_FLAG && equals == NULL && i + 1 == argc)
            return problem_set(problem, ERROR_ARGUMENT, "--%s needs a value: --%s %s", row->name,
                               row->name, row->metavar);
        const char *text = equals != NULL ? equals + 1 : row->kind == TOOL_FLAG ? "" : argv[++i];
        int status = read_value(row, text, problem);
        if (status != 0)
            return status;
    }
    return 0;
}

void tool_options_print_help(const struct tool_option *rows, size_t count, const char *usage)
{
    fputs(usage, stdout);
    for (size_t i = 0; i < count; i++) {
        const struct tool_option *row = &rows[i];
        if (row->kind == TOOL_GROUP) {
            printf("\n%s:\n", row->sentence);
            continue;
        }
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->metavar != NULL ? " " : "",
                 row->metavar != NULL ? row->metavar : "");
        printf("  %-*s%s%s", SENTENCE_COLUMN - 2, left,
               strlen(left) >= SENTENCE_COLUMN - 2 ? " " : "", row->sentence);
        if (row->fallback != NULL)
            printf(" [%s]", row->fallback);
        putchar('\n');
    }
    printf("\n  %-*s%s\n  %-*s%s\n", SENTENCE_COLUMN - 2, "--help", "this text",
           SENTENCE_COLUMN - 2, "--version", "the version");
}
