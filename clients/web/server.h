/*
 * The server: connections of browsers, by libwebsockets on the process's own loop (its libuv
 * plugin, which it loads by name). It checks Host and Origin of every request and of every upgrade,
 * bounds connections, headers and bodies, and hands requests to http.h and WebSockets to live.h.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_SERVER_H
#define CONVOLV_WEB_SERVER_H

#include "core/error.h"
#include "web.h"

/* Listens at HOST:PORT; port 0 takes any free one, which web->guard.port then says. Sockets that
 * systemd hands over take the place of the address. 0 or an error with its sentence. */
int server_open(struct web *web, const char *address, struct server **out, struct problem *problem);

/* The address where it listens, as a URL has it; NULL: all of them. */
const char *server_address(const struct server *server);
/* Closes the listener and every connection; callbacks come until the loop has ended. NULL is fine.
 */
void server_close(struct server *server);
void server_free(struct server *server); /* the loop has ended; NULL is fine */

#endif
