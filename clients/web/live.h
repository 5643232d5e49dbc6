/*
 * Live: what browsers are told over WebSocket, and what they ask. A session says hello, gets the
 * status twice a second, levels, events and what it has asked for: pictures (views.h) and the
 * events of analyses (hits.h).
 *
 *     server.c ──► live.c ──► views.c, hits.c ──► session.c
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_LIVE_H
#define CONVOLV_WEB_LIVE_H

#include <jansson.h>
#include <libwebsockets.h>

#include "session.h"
#include "web.h"

/* A WebSocket is open. NULL: out of memory. */
struct session *live_join(struct web *web, struct lws *wsi, const struct holder *holder);
void live_leave(struct web *web, struct session *session); /* session NULL is fine */
/* A part of a message. False: close the connection for the reason in *status. */
bool live_receive(struct web *web, struct session *session, const char *text, size_t bytes,
                  bool last, enum lws_close_status *status);

/* ---- news of the daemon ------------------------------------------------------------------ */

void live_status(struct web *web);
void live_event(struct web *web, const json_t *event);
void live_daemon(struct web *web);

#endif
