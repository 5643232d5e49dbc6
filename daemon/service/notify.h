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

#endif
