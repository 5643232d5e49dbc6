/*
 * Commands: what the process does once its arguments are known: run the service, check a
 * configuration, show a design, list devices, print help and manuals.
 *
 * Main thread.
 */
#ifndef CONVOLVD_SERVICE_COMMANDS_H
#define CONVOLVD_SERVICE_COMMANDS_H

#include "service/arguments.h"

/* The exit status of the process. */
int command_run(const struct arguments *arguments);

#endif
