/*
 * File descriptors: closing one on the way out of a failed call, and connecting a Unix socket.
 *
 * Any thread.
 */
#ifndef CONVOLVD_CORE_DESCRIPTOR_H
#define CONVOLVD_CORE_DESCRIPTOR_H

/* Closes it and leaves errno as it was, so that the caller's reason is not lost. -1 is fine. */
void descriptor_close(int fd);

/* A Unix socket connected to the path, closed on exec; a path that begins with @ is an abstract
 * name. `type`: SOCK_STREAM, SOCK_DGRAM, with SOCK_NONBLOCK or without. `send_ms`: the longest that
 * connecting and each later send may block; 0: without end. Returns it, or -1 with errno. */
int descriptor_connect(const char *path, int type, int send_ms);

#endif
