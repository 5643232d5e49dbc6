/*
 * Commands: what the process does once its arguments are known: run the service, check a
 * configuration, show a design, list devices, print help and manuals.
 *
 * Main thread.
 */
#ifndef CONVOLVD_CLI_COMMANDS_H
#define CONVOLVD_CLI_COMMANDS_H

#include "cli/arguments.h"

/* The exit status of the process. */
int command_run(const struct arguments *arguments);

#endif
