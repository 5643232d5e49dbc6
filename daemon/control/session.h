/*
 * Sessions: the clients of one control socket (socket.h). Each sends requests, one JSON object a
 * line, and gets one line back for each, in order; one that has asked for `events` gets a line for
 * each event as well, as long as it stays.
 *
 * Hostile clients: connections, bytes of a line, and requests in a second are bounded; no second
 * request is read before the answer to the first is written; a follower who reads too slowly loses
 * events and is told how many. A new connection replaces the one idle longest, so nobody keeps the
 * others out.
 *
 * Who asks: the user behind the connection (SO_PEERCRED), whose name a worker looks up. With
 * `holder` and `role` in a request a program asks for somebody else, in the lower of the two roles.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_SESSION_H
#define CONVOLVD_CONTROL_SESSION_H

#include <uv.h>

#include "control/commands.h"

enum { SESSIONS_MAX = 16 }; /* of each socket */

struct sessions;

/* `listener` is open and outlives the sessions; `commands` too. 0 or ERROR_MEMORY. */
int sessions_open(struct commands *commands, enum command_role role, uv_pipe_t *listener,
                  struct sessions **out);
/* Takes the connection that waits at the listener. */
void sessions_accept(struct sessions *sessions);
/* Closes every connection; `closed` is called from a later turn of the loop, and then the sessions
 * are freed. */
void sessions_close(struct sessions *sessions, void (*closed)(void *context), void *context);

#endif
