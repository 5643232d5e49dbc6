/*
 * The client of the control sockets: what convolvctl and `convolvd --status` share. It finds the
 * daemon of a user's shell and the one of the system, and says where it has looked.
 *
 * Main thread; blocks, at most for a time.
 */
#ifndef CONVOLVD_CONTROL_CLIENT_H
#define CONVOLVD_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "control/command_table.h"
#include "core/error.h"

struct client;

struct client_options {
    const char *socket;     /* NULL: looks for one */
    const char *instance;   /* of convolvd@NAME; NULL: any */
    enum command_role role; /* the socket of this role; where there is none, the other */
};

/* Connects to `socket`, or to the first that a daemon listens on in the folders of
 * socket_folder.h. 0, or an error whose sentence names each socket and why it did not answer. */
int client_open(const struct client_options *options, struct client **out, struct problem *problem);
void client_close(struct client *client);   /* NULL is fine */
int client_fd(const struct client *client); /* to poll */

/* The next line, the caller's; waits at most `timeout_ms`, -1: for as long as it takes. NULL: the
 * daemon has gone, or does not answer in time; problem->error is ERROR_LIMIT for the latter. */
json_t *client_next(struct client *client, int timeout_ms, struct problem *problem);
/* The descriptor that came with the last line, the caller's; -1: none. */
int client_take_fd(struct client *client);
/* Both: the reply to a request. A reply that is not `ok` is an error with the daemon's sentence;
 * *reply is then NULL. */
int client_ask(struct client *client, json_t *request, json_t **reply, struct problem *problem);

/* The same, waiting for as long as it takes; *reply is also a reply that is not `ok`. */
int client_ask_long(struct client *client, json_t *request, json_t **reply,
                    struct problem *problem);

/* Prints the status table of the daemon that listens at `path`, NULL: of the one that is found.
 * With `watch` again every second until the daemon ends. 0 or an error with its sentence. */
int client_show_status(const char *path, bool watch, struct problem *problem);

#endif
