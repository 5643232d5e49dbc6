/*
 * File descriptors: closing one on the way out of a failed call, connecting a Unix socket, and the
 * standard ones.
 *
 * Any thread.
 */
#ifndef CONVOLVD_CORE_DESCRIPTOR_H
#define CONVOLVD_CORE_DESCRIPTOR_H

#include <stdbool.h>

/* First of all in main: opens each of standard input, output and error that is closed on /dev/null.
 * A file or socket that the program opens could else get its number, and be read, written or closed
 * in its place. Ends the process where that is not possible. */
void descriptor_open_standard(void);
/* Whether standard descriptor `fd` was closed then: what needs it has to refuse, as it would read
 * or write nothing. */
bool descriptor_was_closed(int fd);

/* Closes it and leaves errno as it was, so that the caller's reason is not lost. -1 is fine. */
void descriptor_close(int fd);

/* A Unix socket connected to the path, closed on exec; a path that begins with @ is an abstract
 * name. `type`: SOCK_STREAM, SOCK_DGRAM, with SOCK_NONBLOCK or without. `send_ms`: the longest that
 * connecting and each later send may block; 0: without end. Returns it, or -1 with errno. */
int descriptor_connect(const char *path, int type, int send_ms);

#endif
