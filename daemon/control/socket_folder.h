/*
 * The folder of the control sockets: where a daemon makes them, and where its clients look.
 *
 * systemd names the folder in $RUNTIME_DIRECTORY. The daemon of a shell takes the first of
 *
 *     $XDG_RUNTIME_DIR/convolvd   of a session
 *     /run/user/UID/convolvd      after su or sudo, which keep no environment
 *     /tmp/convolvd-UID           on a machine without sessions
 *
 * /tmp is everybody's: a folder there is used only if this user owns it and nobody else may write
 * to it, by the daemon as by its clients.
 *
 * Any thread; system calls on local files alone.
 */
#ifndef CONVOLVD_CONTROL_SOCKET_FOLDER_H
#define CONVOLVD_CONTROL_SOCKET_FOLDER_H

#include <stddef.h>

enum { SOCKET_FOLDERS = 5, SOCKET_FOLDER_BYTES = 256 };

struct socket_folders {
    char paths[SOCKET_FOLDERS][SOCKET_FOLDER_BYTES];
    size_t count;
};

/* Where a client looks for the daemon, in this order. `instance`: of convolvd@INSTANCE; NULL: the
 * daemon of this user's shell, then the system's. Paths that are too long are left out. */
void socket_folders_find(const char *instance, struct socket_folders *out);

/* Makes the folder of a shell's daemon if it is not there. 0; -errno: none can be, *out is the last
 * that was tried; -EPERM: somebody else may write to it. */
int socket_folder_make(char out[SOCKET_FOLDER_BYTES]);

/* 0 if a client may connect to a socket in this folder; else -errno as above. */
int socket_folder_check(const char *path);

#endif
