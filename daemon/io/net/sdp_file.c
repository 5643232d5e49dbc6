/* The SDP file of a sink: see sdp_file.h. */
#include "io/net/sdp_file.h"

#include <sys/stat.h>
#include <unistd.h>

int sdp_file_write(struct sdp_file *file, const struct sdp_media *media, const char *path,
                   struct problem *problem)
{
    struct stat facts;
    const int error = sdp_write(media, path, problem);
    if (error != 0 || stat(path, &facts) != 0)
        return error;
    file->path = path;
    file->device = facts.st_dev;
    file->inode = facts.st_ino;
    return 0;
}

static void remove_own(uv_work_t *work)
{
    const struct sdp_file *file = work->data;
    struct stat facts;
    if (stat(file->path, &facts) == 0 && facts.st_dev == file->device &&
        facts.st_ino == file->inode)
        unlink(file->path);
}

static void on_removed(uv_work_t *work, int status)
{
    const struct sdp_file *file = work->data;
    (void)status; /* nobody cancels it */
    file->removed(file->context);
}

bool sdp_file_remove(struct sdp_file *file, uv_loop_t *loop, void (*removed)(void *context),
                     void *context)
{
    if (file->path == NULL)
        return false;
    file->removed = removed;
    file->context = context;
    file->work.data = file;
    return uv_queue_work(loop, &file->work, remove_own, on_removed) == 0;
}
