/*
 * Notify: messages to the service manager, as sd_notify(3) sends them, but never waiting: a manager
 * that does not read (its socket takes some ten messages) loses messages and holds nothing up.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_NOTIFY_H
#define CONVOLVD_SERVICE_NOTIFY_H

#include <stdbool.h>

/* One message: lines NAME=VALUE. Does nothing without $NOTIFY_SOCKET. False: the manager did not
 * take it. */
bool notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the manager has room for a message now. */
bool notify_room(void);

enum notify_verdict { NOTIFY_TAKEN, NOTIFY_FULL /* try again later */, NOTIFY_REFUSED };

/* Gives the manager a duplicate of `fd` to keep in its descriptor store under `name`. Unless it is
 * taken, errno says why. */
enum notify_verdict notify_keep(int fd, const char *name);

#endif
