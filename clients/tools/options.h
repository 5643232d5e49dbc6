/*
 * Options of a command-line tool: one table of rows drives parsing and --help, so that they
 * cannot disagree. Values take units (95 kHz, 200 us, 5 %); a plain number is in the base unit
 * (Hz, s, 1).
 *
 * Called once, from main.
 */
#ifndef CONVOLV_TOOLS_OPTIONS_H
#define CONVOLV_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/quantity.h"

enum { TOOL_LIST_MAX = 64 };

struct tool_list {
    const char *items[TOOL_LIST_MAX];
    unsigned count;
};

enum tool_option_kind {
    TOOL_GROUP,    /* a heading of --help: only `sentence` */
    TOOL_FLAG,     /* bool */
    TOOL_TEXT,     /* const char * */
    TOOL_LIST,     /* struct tool_list: may be given several times */
    TOOL_COUNT,    /* uint64_t, decimal or 0x… */
    TOOL_QUANTITY, /* double, in the base unit of `dimension` */
};

struct tool_option {
    const char *name; /* without the dashes */
    enum tool_option_kind kind;
    enum dimension dimension; /* QUANTITY */
    const char *metavar;      /* for --help; NULL with FLAG */
    void *value;
    double min, max;      /* COUNT and QUANTITY, inclusive */
    const char *fallback; /* the default as --help shows it; NULL: none */
    const char *sentence;
};

/* Reads the arguments into the rows' values. Returns 0, or ERROR_ARGUMENT with a sentence. *help is
 * set by --help or -h, *version by --version; parsing goes on. */
int tool_options_parse(const struct tool_option *rows, size_t count, int argc, char **argv,
                       bool *help, bool *version, struct problem *problem);

/* Prints `usage`, then the table. */
void tool_options_print_help(const struct tool_option *rows, size_t count, const char *usage);

#endif
