/* File descriptors: see descriptor.h. */
#include "core/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static bool was_closed[STDERR_FILENO + 1];

void descriptor_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* The lowest free number, as those below are open. */
        if (open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_FAILURE);
        was_closed[fd] = true;
    }
}

bool descriptor_was_closed(int fd)
{
    return was_closed[fd];
}

void descriptor_close(int fd)
{
    const int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
}

int descriptor_connect(const char *path, int type, int send_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(path);
    if (length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length);
    const bool abstract = path[0] == '@';
    if (abstract) /* its length says where it ends, a file's zero does */
        address.sun_path[0] = '\0';
    const socklen_t bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + !abstract);
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    const struct timeval most = {.tv_sec = send_ms / 1000, .tv_usec = send_ms % 1000 * 1000};
    if (fd >= 0 && send_ms > 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, bytes) == 0)
        return fd;
    descriptor_close(fd);
    return -1;
}
