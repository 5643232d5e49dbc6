/*
 * Sessions: browsers over WebSocket, each with the queue of messages that wait for it.
 *
 * Every queue is bounded. What is newest replaces what is of the same kind and was not sent yet
 * (status, levels of a stream, a picture of a want), so a slow browser loses pictures, and is told
 * how many; one that lets other messages pile up is disconnected and asks again when it comes back.
 *
 * Knows nothing of what the messages say: live.h tells and asks, views.h and hits.h send what was
 * asked for. Loop thread.
 */
#ifndef CONVOLV_WEB_SESSION_H
#define CONVOLV_WEB_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tokens.h"

enum {
    SESSION_TEXT_MAX = 4096, /* bytes of a message from a browser */
    /* Keys of messages of which only the newest counts; 0: every one counts. */
    KEY_STATUS = 1,
    KEY_SHED = 2,
    KEY_DAEMON = 3,
    KEY_LEVELS = 0x10000,   /* + the stream's place in the status */
    KEY_PICTURE = 0x100000, /* + the want's id */
};

struct lws;
struct session;

/* All of them; starts as zeros. */
struct sessions {
    struct session *first;
    unsigned count;
};

/* NULL: out of memory. */
struct session *session_open(struct sessions *sessions, struct lws *wsi,
                             const struct holder *holder);
void session_close(struct sessions *sessions, struct session *session);
const struct holder *session_holder(const struct session *session);

/* A part of a message. False: the message is longer than SESSION_TEXT_MAX. */
bool session_gather(struct session *session, const char *text, size_t bytes);
/* The message whose last part has come; valid until the next part. */
const char *session_take(struct session *session, size_t *bytes);

/* To one session, or to all; the object is taken over. */
void session_send(struct session *session, uint32_t key, json_t *object);
void sessions_send(struct sessions *sessions, uint32_t key, json_t *object);

/* A binary message, made for one session: what message_new returned is filled and handed over. */
struct message;
struct message *message_new(size_t bytes); /* NULL: out of memory */
uint8_t *message_bytes(struct message *message);
void session_send_picture(struct session *session, uint16_t want, struct message *message);
/* Messages that wait to be sent. */
unsigned session_waiting(const struct session *session);
/* A picture of this want waits to be sent: making another one would only shed it. */
bool session_picture_waits(const struct session *session, uint16_t want);
/* The socket takes more: sends one message. False: close the connection. */
bool session_write(struct session *session);

#endif
