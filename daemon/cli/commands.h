/*
 * The commands of the program: run the service, check a configuration, show a design, list devices,
 * measure, print the status, help and manuals.
 *
 * Main thread.
 */
#ifndef CONVOLVD_CLI_COMMANDS_H
#define CONVOLVD_CLI_COMMANDS_H

#include "cli/arguments.h"
#include "config/config.h"

/* Runs the command and returns the exit status of the process. */
int command_run(const struct arguments *arguments);

/* The configuration that the arguments name, or the system's, with its messages on stderr; the
 * caller's to free. NULL: it cannot be used, as the messages say. */
struct config *command_config(const struct arguments *arguments);

#endif
