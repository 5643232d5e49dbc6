/*
 * Lingering close (RFC 9112, 9.6): after the last answer of a connection, reads and drops what the
 * client still sends, until the client closes or LINGER_MS have passed. A socket closed with unread
 * input is reset, and a reset takes away what the client has not read of the answer.
 *
 * Bounded: at most as many connections as the caller names; the oldest one is closed for the next.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_LINGER_H
#define CONVOLV_WEB_LINGER_H

#include <uv.h>

enum { LINGER_MS = 2000 };

struct lingers;

/* NULL: out of memory. */
struct lingers *lingers_open(uv_loop_t *loop, unsigned max);
/* Takes the descriptor over: sends the end of the answer and closes it later. */
void lingers_add(struct lingers *lingers, int fd);
/* Closes all connections at once; the loop frees them and itself. NULL is fine. */
void lingers_close(struct lingers *lingers);

#endif
