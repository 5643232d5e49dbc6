/*
 * Control: questions to a running daemon over a Unix socket, one JSON object a line each way.
 *
 *     {"command": "status"}                     -> {"ok": true, "table": "…"}
 *     {"command": "status", "format": "json"}   -> {"ok": true, "status": {…}}
 *     anything else                             -> {"ok": false, "error": "…"}
 *
 * The daemon's side runs on the loop: bounded in clients, bytes of a line and answers a second, so
 * that no client can hold up a stream or fill the memory. The client's side (control_show) is what
 * `convolvd --status` does; main thread.
 */
#ifndef CONVOLVD_CONTROL_CONTROL_H
#define CONVOLVD_CONTROL_CONTROL_H

#include <stdbool.h>

#include "core/error.h"

enum { CONTROL_LINE_MAX = 4096 }; /* bytes of a question */

/* The socket's name within the runtime directory. */
extern const char control_name[];

/* Prints the table of the daemon that listens at `path` (NULL: the usual places are tried), once a
 * second with `watch` until it ends. */
int control_show(const char *path, bool watch, struct problem *problem);

#endif
