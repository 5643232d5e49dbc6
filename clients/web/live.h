/*
 * Live: the sessions of browsers over WebSocket. A session says hello, gets the status twice a
 * second, levels, events and the pictures that it has asked for (views.h).
 *
 * Every queue is bounded. What is newest replaces what is of the same kind and was not sent yet
 * (status, levels of a stream, a picture of a want), so a slow browser loses pictures, and is told
 * how many; one that lets other messages pile up is disconnected and asks again when it comes back.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_LIVE_H
#define CONVOLV_WEB_LIVE_H

#include <jansson.h>
#include <libwebsockets.h>

#include "web.h"

enum {
    LIVE_MESSAGE_MAX = 4096, /* bytes of a message from a browser */
    /* Keys of messages of which only the newest counts; 0: every one counts. */
    LIVE_KEY_STATUS = 1,
    LIVE_KEY_SHED = 2,
    LIVE_KEY_DAEMON = 3,
    LIVE_KEY_LEVELS = 0x10000,   /* + the stream's place in the status */
    LIVE_KEY_PICTURE = 0x100000, /* + the want's id */
};

struct live;
struct session;

/* 0 or ERROR_MEMORY. */
int live_open(struct web *web, struct live **out);
void live_close(struct live *live); /* all sessions have left; NULL is fine */

/* ---- for server.c ------------------------------------------------------------------------ */

/* A WebSocket is open. NULL: out of memory. */
struct session *live_join(struct live *live, struct lws *wsi, const struct holder *holder);
void live_leave(struct session *session); /* NULL is fine */
/* A part of a message. False: close the connection for the reason in *status. */
bool live_receive(struct session *session, const char *text, size_t bytes, bool last,
                  enum lws_close_status *status);
/* The socket takes more: sends one message. False: close the connection. */
bool live_write(struct session *session);
unsigned live_sessions(const struct live *live);

/* ---- news of the daemon ------------------------------------------------------------------ */

void live_status(struct live *live);
void live_event(struct live *live, const json_t *event);
void live_daemon(struct live *live);

/* ---- messages ---------------------------------------------------------------------------- */

/* To one session, or with session NULL to all; the object is taken over. */
void live_send(struct live *live, struct session *session, uint32_t key, json_t *object);

/* A binary message, made for one session: what message_new returned is filled and handed over. */
struct message;
struct message *message_new(size_t bytes); /* NULL: out of memory */
uint8_t *message_bytes(struct message *message);
void live_send_picture(struct session *session, uint16_t want, struct message *message);
/* Messages that wait to be sent. */
unsigned live_waiting(const struct session *session);
/* A picture of this want waits to be sent: making another one would only shed it. */
bool live_picture_waits(const struct session *session, uint16_t want);

#endif
