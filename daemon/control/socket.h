/*
 * Control sockets: two Unix stream sockets on which the daemon answers requests, one for each role.
 * Whoever may connect has the role: owner, group and mode of the socket decide.
 *
 *     observe.sock   may look: status, streams, events …
 *     control.sock   may also change: filter, gain, record …
 *
 * Each request is one JSON object a line, and so is each reply:
 *
 *     {"command": "status", "id": 1}   -> {"ok": true, "table": "…", "id": 1}
 *     anything wrong                   -> {"ok": false, "error": "sentence", "code": "word"}
 *
 * command_table.h lists the commands; session.h says what bounds a client. systemd may pass the
 * sockets (FileDescriptorName=observe, control), with the owner and mode that their units name;
 * else the daemon makes them in its runtime directory, or in the folder of socket_folder.h:
 * control.sock for its own user alone, observe.sock for its group too. The other end is
 * control/client.h.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_SOCKET_H
#define CONVOLVD_CONTROL_SOCKET_H

#include "control/commands.h"
#include "control/process.h"

struct control_sockets;

/* File names within the runtime directory, by role. */
extern const char *const control_socket_names[ROLES];

/* The role of a listener that systemd passed under this name. False: the name is no role, or the
 * descriptor no listening Unix socket. */
bool control_socket_passed(int fd, const char *name, enum command_role *role);

/* Listens on the sockets passed[role] of systemd, which it takes over, and for those that are -1 in
 * the folder that is due. A socket that cannot be used costs no more than its
 * commands: the log says which and why. *out NULL: none could be opened. `process` and `commands`
 * outlive it. 0 or ERROR_MEMORY. */
int control_sockets_open(const struct process *process, struct commands *commands,
                         const int passed[ROLES], struct control_sockets **out,
                         struct problem *problem);
/* Frees itself after uv's closes; NULL is fine. */
void control_sockets_close(struct control_sockets *sockets);

#endif
