/*
 * Hits: the events of analyses on their way to browsers. While a browser wants them, one link to
 * the daemon follows its `hits`; what comes is gathered and sent ten times a second. At more than
 * HITS_A_MESSAGE events in that time, or where a browser reads too slowly, events are left out and
 * counted: what a person looks at is a selection anyway, files hold them all.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_HITS_H
#define CONVOLV_WEB_HITS_H

#include <jansson.h>
#include <stdint.h>

#include "session.h"
#include "web.h"

enum { HITS_A_MESSAGE = 500, HITS_EVERY_MS = 100 };

struct hits;

/* 0 or ERROR_MEMORY. */
int hits_open(struct web *web, const char *directory, struct hits **out);
void hits_close(struct hits *hits); /* the loop frees the rest; NULL is fine */

/* The session wants events from now on, with this id, in place of an earlier one. The last ones
 * that the daemon keeps come first. */
void hits_want(struct hits *hits, struct session *session, uint16_t id);
/* 0: whatever its id is. Hits NULL is fine: they are closing. */
void hits_drop(struct hits *hits, const struct session *session, uint16_t id);

#endif
