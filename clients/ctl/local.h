/*
 * Local: the commands that need no daemon. They are the daemon's own code, which prints a report to
 * standard output and what is wrong to standard error; with --json both become one object:
 *
 *     {"ok": false, "problems": [{"file", "line", "severity", "text"}], "report": "…"}
 *
 * `file` and `line` are null where a problem has no place in a file.
 *
 * Main thread, before any other is started.
 */
#ifndef CONVOLVCTL_LOCAL_H
#define CONVOLVCTL_LOCAL_H

#include <stdbool.h>

#include "cli/arguments.h"

/* Runs the command; the exit status. */
int local_run(const struct arguments *arguments, bool json);

#endif
