/* Notify: see notify.h. */
#include "service/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The address of $NOTIFY_SOCKET, a path or "@" and an abstract name; 0: there is none. */
static socklen_t manager_address(struct sockaddr_un *address)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof address->sun_path)
        return 0;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, length + 1);
    if (path[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@'));
}

bool notify_send(const char *format, ...)
{
    struct sockaddr_un address = {0};
    const socklen_t address_bytes = manager_address(&address);
    if (address_bytes == 0)
        return true;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text)
        length = (int)sizeof text - 1;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    ssize_t sent =
        sendto(fd, text, (size_t)length, MSG_NOSIGNAL, (struct sockaddr *)&address, address_bytes);
    close(fd);
    return sent == length;
}
