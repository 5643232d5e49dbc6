/*
 * The client of the control socket: what `convolvd --status` does.
 *
 * Main thread; blocks.
 */
#ifndef CONVOLVD_CONTROL_CLIENT_H
#define CONVOLVD_CONTROL_CLIENT_H

#include <stdbool.h>

#include "core/error.h"

/* Prints the status table of the daemon that listens at `path`; NULL: in $RUNTIME_DIRECTORY,
 * /run/convolvd or $XDG_RUNTIME_DIR, whichever answers first. With `watch` again every second until
 * the daemon ends. 0 or an error with its sentence. */
int client_show_status(const char *path, bool watch, struct problem *problem);

#endif
