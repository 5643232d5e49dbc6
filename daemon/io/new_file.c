/* New files: see new_file.h. */
#include "io/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/log.h"

enum { NUMBERS_MAX = 10000 };

enum { PIPE_BYTES = 1 << 20 };

/* A named pipe that is there already, opened such that neither this nor a write fails while nobody
 * reads it; -1: it is none. */
static int open_pipe(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISFIFO(status.st_mode))
        return -1;
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES); /* where the system's limit allows it */
    return fd;
}

int new_file_create(const char *sink, const char *path, char name[PATH_MAX],
                    struct problem *problem)
{
    const char *slash = strrchr(path, '/'), *file = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(file, '.');
    const int stem = (int)(dot != NULL && dot > file ? (size_t)(dot - path) : strlen(path));
    snprintf(name, PATH_MAX, "%s", path);
    const int pipe = open_pipe(path);
    if (pipe >= 0)
        return pipe;
    for (int number = 1; number < NUMBERS_MAX; number++) {
        const int length =
            number == 1 ? snprintf(name, PATH_MAX, "%s", path)
                        : snprintf(name, PATH_MAX, "%.*s-%04d%s", stem, path, number, path + stem);
        if (length >= PATH_MAX)
            return problem_set(problem, ERROR_CONFIG, "sink %s: `path` is too long", sink);
        const int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (fd >= 0) {
            if (number > 1)
                log_notice("sink %s: %s exists and is not overwritten; writing to %s", sink, path,
                           name);
            return fd;
        }
        if (errno != EEXIST)
            return problem_set(problem, ERROR_NO_FILE, "sink %s: %s cannot be created: %s", sink,
                               name, strerror(errno));
    }
    return problem_set(problem, ERROR_NO_FILE, "sink %s: no free name is left beside %s", sink,
                       path);
}
