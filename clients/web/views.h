/*
 * Views: what browsers want to see, made from the daemon's ring. All wants together decide what the
 * daemon is asked to watch, so that four browsers that look at the same thing cost it no more than
 * one.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_VIEWS_H
#define CONVOLV_WEB_VIEWS_H

#include <jansson.h>

#include "session.h"
#include "want.h"
#include "web.h"

struct views;

/* 0 or ERROR_MEMORY. */
int views_open(struct web *web, struct views **out);
void views_close(struct views *views); /* NULL is fine */
void views_free(struct views *views);  /* the loop has ended; NULL is fine */

/* Levels are watched while there are sessions. */
void views_watchers(struct views *views, unsigned sessions);

/* A want takes the place of the session's want with the same id. 0, or an error with a sentence for
 * the browser. */
int views_want(struct views *views, struct session *session, const struct want *want,
               struct problem *problem);
void views_drop(struct views *views, struct session *session, uint16_t id);
void views_leave(struct views *views, const struct session *session); /* all of its wants */

/* The daemon's answers to `watch`, and its status. */
void views_watched(struct views *views, json_t *answer, int fd);
void views_status(struct views *views);

#endif
