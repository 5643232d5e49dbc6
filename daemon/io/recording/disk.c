/* Disk: see disk.h. */
#include "io/recording/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/replace_file.h"

int disk_create(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    /* Only a repair can hold the lock of a new file, for an instant. A file system without locks
     * refuses, and the recording is written all the same. */
    if (fd >= 0)
        (void)flock(fd, LOCK_EX);
    return fd;
}

int disk_open_unused(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

uint64_t disk_write(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset)
{
    uint64_t done = 0;
    while (done < count) {
        ssize_t written = pwrite(fd, bytes + done, count - done, (off_t)(offset + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            if (written == 0)
                errno = ENOSPC;
            break;
        }
        done += (uint64_t)written;
    }
    return done;
}

int disk_truncate(int fd, uint64_t bytes)
{
    return ftruncate(fd, (off_t)bytes);
}

int disk_sync(int fd)
{
    return fdatasync(fd);
}

void disk_begin_sync(int fd)
{
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int disk_replace(const char *path, const char *text, bool sync, struct problem *problem)
{
    if (sync)
        return replace_file_text_synced(path, text, problem);
    return replace_file_text(path, text, problem);
}

int disk_reserve(const char *folder, uint64_t bytes)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        if (errno == EISDIR || errno == EINVAL)
            errno = EOPNOTSUPP; /* open(2): a kernel or a file system without O_TMPFILE */
        return -1;
    }
    if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

void disk_release(int fd)
{
    close(fd);
}

int disk_remove(const char *path)
{
    return unlink(path);
}
