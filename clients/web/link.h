/*
 * A link: one connection to a control socket of the daemon, which speaks JSON, one object a line
 * each way, and may pass a descriptor with a line (SCM_RIGHTS). When the daemon goes, the link
 * tries again by itself, after 0.1 s at first and every 2 s at last.
 *
 * Loop thread; never blocks. What waits to be sent and the length of a line are bounded.
 */
#ifndef CONVOLV_WEB_LINK_H
#define CONVOLV_WEB_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "core/error.h"

struct link;

/* None of these may close the link. */
struct link_events {
    void *context;
    void (*up)(void *context);
    /* fd: the descriptor that came with the line; -1: none. It and the object are valid until the
     * call returns. */
    void (*line)(void *context, json_t *object, int fd);
    /* `reason` is a sentence. Also called when the first attempt fails. */
    void (*down)(void *context, const char *reason);
};

/* The socket is NAME in `directory`, or, without one, in the first directory where a daemon
 * listens. `events` is copied. 0 or ERROR_MEMORY. */
int link_open(uv_loop_t *loop, const char *directory, const char *name,
              const struct link_events *events, struct link **out);
/* No event follows; memory is freed once the loop has closed its handles. NULL is fine. */
void link_close(struct link *link);

bool link_is_up(const struct link *link);
/* Sends one line. False: the link is down, or too much waits. */
bool link_send(struct link *link, const json_t *object);

#endif
