/* The SDP file of a sink: see sdp_file.h. */
#include "io/net/sdp_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/loop_work.h"

/* Shared, so that the sink before, which is about to close, may have the same file. A reader that
 * tries the lock holds it for a moment. */
static int lock(int fd, int how)
{
    enum { TRIES = 20, PAUSE_US = 1000 };
    int failed = flock(fd, how | LOCK_NB);
    for (int i = 0; how == LOCK_SH && failed != 0 && errno == EWOULDBLOCK && i < TRIES; i++) {
        usleep(PAUSE_US);
        failed = flock(fd, how | LOCK_NB);
    }
    return failed;
}

int sdp_file_write(struct sdp_file *file, const struct sdp_media *media, const char *path,
                   struct problem *problem)
{
    struct stat facts;
    const int error = sdp_write(media, path, problem);
    if (error != 0)
        return error;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0 || lock(fd, LOCK_SH) != 0)
        log_notice("the SDP file %s cannot be locked (%s): a reader cannot tell whether it is "
                   "current",
                   path, strerror(errno));
    if (fd < 0)
        return 0;
    file->path = path;
    file->lock = fd;
    file->device = facts.st_dev;
    file->inode = facts.st_ino;
    return 0;
}

static void remove_own(void *context)
{
    const struct sdp_file *file = context;
    struct stat facts;
    if (stat(file->path, &facts) == 0 && facts.st_dev == file->device &&
        facts.st_ino == file->inode)
        unlink(file->path);
    close(file->lock);
}

/* Whether convolvd has written it (sdp.c). */
static bool is_ours(int fd)
{
    char text[SDP_BYTES];
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return false;
    const ssize_t count = read(fd, text, sizeof text - 1);
    text[count > 0 ? count : 0] = '\0';
    return strstr(text, "\r\na=tool:convolvd ") != NULL;
}

static void sweep(int directory, const char *path, const char *name)
{
    const size_t length = strlen(name);
    if (length <= 4 || strcmp(name + length - 4, ".sdp") != 0)
        return;
    const int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (is_ours(fd) && lock(fd, LOCK_EX) == 0 && unlinkat(directory, name, 0) == 0)
        log_info("removed %s/%s, which a daemon that was killed has left", path, name);
    close(fd);
}

void sdp_file_sweep(const char *directory)
{
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        sweep(dirfd(entries), directory, entry->d_name);
    if (entries != NULL)
        closedir(entries);
}

static void on_removed(void *context)
{
    const struct sdp_file *file = context;
    file->removed(file->context);
}

bool sdp_file_remove(struct sdp_file *file, uv_loop_t *loop, void (*removed)(void *context),
                     void *context)
{
    if (file->path == NULL)
        return false;
    file->removed = removed;
    file->context = context;
    loop_work_start(&file->work, loop, remove_own, on_removed, file);
    return true;
}
