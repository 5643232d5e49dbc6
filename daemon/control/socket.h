/*
 * The control socket: a Unix socket in the runtime directory on which the daemon answers questions,
 * one JSON object a line each way.
 *
 *     {"command": "status"}                     -> {"ok": true, "table": "…"}
 *     {"command": "status", "format": "json"}   -> {"ok": true, "status": {…}}
 *     anything else                             -> {"ok": false, "error": "…"}
 *
 * The number of clients, the bytes of a line and the answers per second are bounded, so that no
 * client can delay a stream or fill the memory. The other end is control/client.h.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_SOCKET_H
#define CONVOLVD_CONTROL_SOCKET_H

#include "control/process.h"
#include "control/status_queue.h"
#include "core/error.h"

struct control_socket;

/* The socket's name within the runtime directory. */
extern const char control_socket_name[];

/* Listens in the runtime directory of the configuration; without one, or when another daemon
 * listens there, *out is left as it is. `process` and `status`, which makes its answers, outlive
 * it. 0 or ERROR_MEMORY. */
int control_socket_open(const struct process *process, struct status_queue *status,
                        struct control_socket **out, struct problem *problem);
/* Frees itself after uv's closes; NULL is fine. */
void control_socket_close(struct control_socket *server);

#endif
