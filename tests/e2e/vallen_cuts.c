/*
 * vallen_cuts: what the files of the sink `vallen` go through on a disk, for
 * tests/e2e/test_vallen_cuts.py.
 *
 *     vallen_cuts write PRIDB LOG      writes a measurement: hits with transients, marks, commits
 *     vallen_cuts repair PRIDB LOG     repairs what a killed writer has left
 *
 * LOG gets every change to a file in order, each as one line "OPERATION NAME OFFSET BYTES", and the
 * bytes of a write behind it. Operations: write, truncate, unlink, sync. The log is what a disk is
 * asked for: a kill leaves the changes up to a point, a power cut those that were synced and some
 * of the others.
 *
 * SQLite's calls of the system are replaced through its own table (xSetSystemCall); fsync and
 * fdatasync, which are not in it, by functions of that name. Checkpoints come often.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/log.h"
#include "io/event_sinks.h"
#include "io/vallen/repair.h"
#include "tests/support/vallen_files.h"

enum { HITS = 36, COMMIT_EVERY = 4, CHECKPOINT_PAGES = 30 };

static FILE *change_log;

/* The name of an open file without its folder; false: one of those that hold no data. */
static bool name_of(int fd, char name[64])
{
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    const char *slash = strrchr(target, '/'), *ending = strrchr(target, '-');
    snprintf(name, 64, "%.63s", slash != NULL ? slash + 1 : target);
    return ending == NULL || strcmp(ending, "-shm") != 0; /* which is made anew */
}

static void note(const char *operation, int fd, int64_t offset, const void *bytes, size_t count)
{
    char name[64];
    if (change_log == NULL || !name_of(fd, name))
        return;
    fprintf(change_log, "%s %s %lld %zu\n", operation, name, (long long)offset, count);
    if (bytes != NULL)
        fwrite(bytes, 1, count, change_log);
}

static ssize_t noted_pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    const ssize_t written = pwrite(fd, bytes, count, offset);
    if (written > 0)
        note("write", fd, offset, bytes, (size_t)written);
    return written;
}

static ssize_t noted_write(int fd, const void *bytes, size_t count)
{
    const off_t offset = lseek(fd, 0, SEEK_CUR);
    const ssize_t written = write(fd, bytes, count);
    if (written > 0)
        note("write", fd, offset, bytes, (size_t)written);
    return written;
}

static int noted_truncate(int fd, off_t bytes)
{
    note("truncate", fd, bytes, NULL, 0);
    return ftruncate(fd, bytes);
}

static int noted_unlink(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (change_log != NULL && strstr(path, "-shm") == NULL)
        fprintf(change_log, "unlink %s 0 0\n", slash != NULL ? slash + 1 : path);
    return unlink(path);
}

int fsync(int fd)
{
    note("sync", fd, 0, NULL, 0);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    note("sync", fd, 0, NULL, 0);
    return (int)syscall(SYS_fdatasync, fd);
}

static int checkpoint_often(sqlite3 *db, char **message, const void *routines)
{
    (void)message;
    (void)routines;
    return sqlite3_wal_autocheckpoint(db, CHECKPOINT_PAGES);
}

static void listen_to_sqlite(const char *path)
{
    sqlite3_initialize();
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)noted_pwrite);
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)noted_pwrite);
    vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)noted_write);
    vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)noted_truncate);
    vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)noted_unlink);
    sqlite3_auto_extension((void (*)(void))checkpoint_often);
    change_log = fopen(path, "wb");
    if (change_log == NULL)
        exit(1);
}

static void write_measurement(const char *path)
{
    const struct event_sink_ops *ops = &event_sink_vallen;
    struct vallen_world world;
    vallen_world(&world, path);
    struct event_sink *sink = vallen_world_open(&world);
    for (uint64_t i = 0; i < HITS; i++) {
        const uint64_t epoch = i / 20, frame = i % 20 * 1000;
        const struct analysis_event event = vallen_hit(i, epoch, frame);
        const struct sink_mark mark = {
            .epoch = epoch, .frame = frame + 1, .text = "tap", .who = "test"};
        if (ops->put(sink, &event) != 0 || (i % 10 == 5 && ops->mark(sink, &mark) != 0))
            exit(1);
        if (i % COMMIT_EVERY == COMMIT_EVERY - 1)
            ops->flush(sink);
    }
    ops->close(sink);
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 1;
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    listen_to_sqlite(arguments[3]);
    if (strcmp(arguments[1], "write") == 0)
        write_measurement(arguments[2]);
    else
        vallen_repair("archive", arguments[2]);
    return fclose(change_log) == 0 ? 0 : 1;
}
