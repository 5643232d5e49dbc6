/*
 * The commands of the program: run the service, check a configuration, show a design, list devices,
 * measure, print the status, help and manuals.
 *
 * Main thread.
 */
#ifndef CONVOLVD_CLI_COMMANDS_H
#define CONVOLVD_CLI_COMMANDS_H

#include "cli/arguments.h"

/* Runs the command and returns the exit status of the process. */
int command_run(const struct arguments *arguments);

#endif
