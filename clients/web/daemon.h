/*
 * The daemon as convolv-web sees it: its status, its events, answers to commands, and the ring of
 * pictures. Each has a link of its own, so that a long answer holds up nothing else:
 *
 *     observe.sock   status, twice a second        control.sock   commands of holders with the role
 *                    events, as they happen                       control, where it is allowed
 *                    commands that only look
 *                    watch, the ring (watch.h)
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_DAEMON_H
#define CONVOLV_WEB_DAEMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "tokens.h"

struct daemon;

enum { DAEMON_EVENTS_KEPT = 2000 };

struct daemon_options {
    uv_loop_t *loop;
    const char *directory; /* of its sockets; NULL: the usual ones */
    bool control;          /* whether control.sock is used at all */
    void *context;
    /* A status has come; daemon_status. */
    void (*status)(void *context);
    /* An event has happened; valid until the call returns. */
    void (*event)(void *context, const json_t *event);
    /* The daemon has come or gone; daemon_up, daemon_reason. */
    void (*changed)(void *context);
    /* An answer on the link of `watch`, with the descriptor that came with it as in link.h. NULL:
     * the link is new, and nothing is watched. */
    void (*watched)(void *context, json_t *answer, int fd);
};

/* 0 or ERROR_MEMORY. */
int daemon_open(const struct daemon_options *options, struct daemon **out);
void daemon_close(struct daemon *daemon); /* the loop frees the rest; NULL is fine */

bool daemon_up(const struct daemon *daemon);
/* Why it is not up: a sentence. */
const char *daemon_reason(const struct daemon *daemon);
/* The newest status; NULL: none, or the daemon has gone. */
const json_t *daemon_status(const struct daemon *daemon);
/* The stream of the newest status with this name; NULL: there is none. */
const json_t *daemon_stream(const struct daemon *daemon, const char *name);

/* Those kept from number `since` on, as a new array. */
json_t *daemon_events(const struct daemon *daemon, json_int_t since);

/* Asks for `holder`: name and role go along, and the daemon decides. The command goes over
 * control.sock where the holder has that role and it is allowed. `reply` is called once, with NULL
 * when the daemon goes or does not answer within 10 s. ERROR_CLOSED: the daemon is away;
 * ERROR_FULL: too many commands wait. */
typedef void daemon_reply(void *context, json_t *answer);
int daemon_ask(struct daemon *daemon, const struct holder *holder, json_t *request,
               daemon_reply *reply, void *context);
/* Whoever asked with this context is no more: its answers are dropped. */
void daemon_forget(struct daemon *daemon, const void *context);

/* Sends a line over the link of `watch`. False: it is down. */
bool daemon_watch(struct daemon *daemon, const json_t *request);

#endif
