/*
 * The arguments of the command line. One table of options drives parsing, `--help` and the OPTIONS
 * section of convolvd(8).
 *
 * Main thread, before anything else runs.
 */
#ifndef CONVOLVD_CLI_ARGUMENTS_H
#define CONVOLVD_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "config/schema.h"

/* What the process does; the last one on the command line counts. */
enum command {
    COMMAND_RUN,
    COMMAND_CHECK,
    COMMAND_DESIGN,
    COMMAND_LIST_DEVICES,
    COMMAND_LIST_VARIANTS,
    COMMAND_TUNE,
    COMMAND_EXPLAIN,
    COMMAND_MEASURE_LOOPBACK,
    COMMAND_STATUS,
    COMMAND_REPAIR,
    COMMAND_HELP,
    COMMAND_HELP_CONFIG,
    COMMAND_HELP_OSC,
    COMMAND_HELP_CONTROL,
    COMMAND_MAN,
    COMMAND_VERSION,
};

/* Texts are borrowed from argv; NULL: not given. */
struct arguments {
    enum command command;
    const char *config_path;
    const char *design_name; /* COMMAND_DESIGN: a [filter NAME] */
    const char *out_path;    /* COMMAND_DESIGN: also write the taps or a plot here */
    const char *man_page;    /* COMMAND_MAN */
    const char *kernels_dir;
    const char *variant;
    const char *status_json;
    const char *socket_path; /* COMMAND_STATUS */
    const char *repair_path; /* COMMAND_REPAIR */
    bool watch;              /* COMMAND_STATUS: repeats every second */
    bool as_service;         /* COMMAND_CHECK */
    bool verbose, quiet;
};

/* 0, or ERROR_ARGUMENT with a sentence that says what to write. */
int arguments_parse(int argc, char **argv, struct arguments *out, struct problem *problem);

void arguments_print_help(FILE *out);

/* The rows of the table as the manual takes them; *count: how many. */
const struct manual_option *arguments_manual(unsigned *count);

#endif
