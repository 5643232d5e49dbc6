/* The folder of the control sockets: see socket_folder.h. */
#include "control/socket_folder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char shared_prefix[] = "/tmp/";

/* Adds the path unless it is there already. */
__attribute__((format(printf, 2, 3))) static void add(struct socket_folders *folders,
                                                      const char *format, ...)
{
    char *path = folders->paths[folders->count];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, SOCKET_FOLDER_BYTES, format, arguments);
    va_end(arguments);
    if (length >= SOCKET_FOLDER_BYTES)
        return;
    for (size_t i = 0; i < folders->count; i++)
        if (strcmp(folders->paths[i], path) == 0)
            return;
    folders->count++;
}

/* The folders of a daemon that no service manager started. */
static void add_own(struct socket_folders *folders)
{
    const char *session = getenv("XDG_RUNTIME_DIR");
    if (session != NULL && session[0] != '\0')
        add(folders, "%s/convolvd", session);
    add(folders, "/run/user/%u/convolvd", (unsigned)geteuid());
    add(folders, "%sconvolvd-%u", shared_prefix, (unsigned)geteuid());
}

void socket_folders_find(const char *instance, struct socket_folders *out)
{
    const char *runtime = getenv("RUNTIME_DIRECTORY");
    out->count = 0;
    if (instance != NULL) {
        add(out, "/run/convolvd-%s", instance);
        return;
    }
    if (runtime != NULL && runtime[0] != '\0') /* the first of several */
        add(out, "%.*s", (int)strcspn(runtime, ":"), runtime);
    add_own(out);
    add(out, "/run/convolvd");
}

int socket_folder_check(const char *path)
{
    struct stat found;
    if (strncmp(path, shared_prefix, sizeof shared_prefix - 1) != 0 ||
        strchr(path + sizeof shared_prefix - 1, '/') != NULL)
        return 0; /* its parent lets nobody else make it */
    if (lstat(path, &found) != 0)
        return -errno;
    const bool ours = S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
                      (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return ours ? 0 : -EPERM;
}

int socket_folder_make(char out[SOCKET_FOLDER_BYTES])
{
    struct socket_folders folders = {.count = 0};
    int error = -ENOENT;
    add_own(&folders);
    for (size_t i = 0; i < folders.count; i++) {
        memcpy(out, folders.paths[i], SOCKET_FOLDER_BYTES);
        error = mkdir(out, 0700) == 0 || errno == EEXIST ? socket_folder_check(out) : -errno;
        if (error == 0)
            return 0;
    }
    return error;
}
