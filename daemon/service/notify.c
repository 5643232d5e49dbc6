/* Notify: see notify.h. */
#include "service/notify.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"

enum { TEXT_MAX = 512 };

/* A socket connected to $NOTIFY_SOCKET, a path or "@" and an abstract name; -1: errno says why. */
static int manager_socket(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (path == NULL || strlen(path) < 2) {
        errno = EDESTADDRREQ;
        return -1;
    }
    return descriptor_connect(path, SOCK_DGRAM | SOCK_NONBLOCK, 0);
}

/* `passed`: a descriptor that goes with the text; -1: none. */
static bool send_message(const char *text, size_t length, int passed)
{
    const int fd = manager_socket();
    if (fd < 0)
        return errno == EDESTADDRREQ && passed < 0;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    descriptor_close(fd);
    return sent == (ssize_t)length;
}

bool notify_send(const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return send_message(text, strnlen(text, length < 0 ? 0 : sizeof text), -1);
}

bool notify_room(void)
{
    struct pollfd manager = {.fd = manager_socket(), .events = POLLOUT};
    const bool room = manager.fd >= 0 && poll(&manager, 1, 0) == 1 && manager.revents == POLLOUT;
    if (manager.fd >= 0)
        close(manager.fd);
    return room;
}

enum notify_verdict notify_keep(int fd, const char *name)
{
    char text[TEXT_MAX];
    const int length = snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
    if (send_message(text, (size_t)length, fd))
        return NOTIFY_TAKEN;
    return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? NOTIFY_FULL : NOTIFY_REFUSED;
}
