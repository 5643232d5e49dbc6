/*
 * Failures: one call of convolvd-test into the C library or the kernel fails, so that a sweep can
 * prove for each of them that the daemon survives it or says why it ends. The linker redirects the
 * calls of the daemon's own objects to the wrappers below (ld --wrap); those of libraries stay as
 * they are, and the shipped daemon links none of this.
 *
 *     CONVOLVD_TEST_FAIL=NAME:N:ERROR     call N (from 1) of NAME fails with that errno; ERROR 0
 *                                         makes a read or write short; N+ makes all from N on fail
 *     CONVOLVD_TEST_FAIL_COUNTS=PATH      writes `NAME CALLS` for each name into PATH at the end
 *
 * NAME is the function, or `allocation` for all functions that return memory.
 *
 * Any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Every name that a test may ask for. */
#define FUNCTIONS(X)                                                                               \
    X(allocation)                                                                                  \
    X(accept4)                                                                                     \
    X(bind)                                                                                        \
    X(connect)                                                                                     \
    X(eventfd)                                                                                     \
    X(fdatasync)                                                                                   \
    X(fopen)                                                                                       \
    X(fsync)                                                                                       \
    X(ftruncate)                                                                                   \
    X(getsockopt)                                                                                  \
    X(listen)                                                                                      \
    X(memfd_create)                                                                                \
    X(mkdir)                                                                                       \
    X(mmap)                                                                                        \
    X(open)                                                                                        \
    X(posix_spawn)                                                                                 \
    X(pread)                                                                                       \
    X(pwrite)                                                                                      \
    X(read)                                                                                        \
    X(recv)                                                                                        \
    X(recvmmsg)                                                                                    \
    X(recvmsg)                                                                                     \
    X(rename)                                                                                      \
    X(send)                                                                                        \
    X(sendmmsg)                                                                                    \
    X(sendmsg)                                                                                     \
    X(setsockopt)                                                                                  \
    X(socket)                                                                                      \
    X(socketpair)                                                                                  \
    X(statvfs)                                                                                     \
    X(timerfd_create)                                                                              \
    X(timerfd_settime)                                                                             \
    X(unlink)                                                                                      \
    X(write)

enum function {
#define X(name) CALL_##name,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT,
};

static const char *const names[] = {
#define X(name) #name,
    FUNCTIONS(X)
#undef X
};

static struct {
    _Atomic unsigned long calls[FUNCTION_COUNT];
    bool set, onward;
    enum function function;
    unsigned long number;
    int error;
} failure;

__attribute__((constructor)) static void read_request(void)
{
    const char *text = getenv("CONVOLVD_TEST_FAIL");
    for (int i = 0; text != NULL && i < FUNCTION_COUNT; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(text, names[i], length) != 0 || text[length] != ':')
            continue;
        char *end;
        failure.function = (enum function)i;
        failure.number = strtoul(text + length + 1, &end, 10);
        failure.onward = *end == '+';
        failure.error = atoi(end + failure.onward + 1);
        failure.set = true;
    }
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("CONVOLVD_TEST_FAIL_COUNTS");
    failure.set = false;
    FILE *out = path != NULL ? fopen(path, "w") : NULL;
    if (out == NULL)
        return;
    for (int i = 0; i < FUNCTION_COUNT; i++)
        fprintf(out, "%s %lu\n", names[i], atomic_load(&failure.calls[i]));
    fclose(out);
}

/* Counts a call; true when it is the one to fail. */
static bool fails(enum function function)
{
    const unsigned long number = atomic_fetch_add(&failure.calls[function], 1) + 1;
    if (!failure.set || failure.function != function || number < failure.number ||
        (number > failure.number && !failure.onward))
        return false;
    errno = failure.error;
    return true;
}

/* Half of what was asked for, at least 1. */
static size_t half(size_t of)
{
    return of > 1 ? of / 2 : of;
}

/* ---- memory -------------------------------------------------------------------------------- */

#define ALLOCATION(result, wrapped, real, parameters, arguments)                                   \
    result real parameters;                                                                        \
    result wrapped parameters;                                                                     \
    result wrapped parameters                                                                      \
    {                                                                                              \
        return fails(CALL_allocation) ? NULL : real arguments;                                     \
    }

ALLOCATION(void *, __wrap_malloc, __real_malloc, (size_t bytes), (bytes))
ALLOCATION(void *, __wrap_calloc, __real_calloc, (size_t count, size_t bytes), (count, bytes))
ALLOCATION(void *, __wrap_realloc, __real_realloc, (void *block, size_t bytes), (block, bytes))
ALLOCATION(void *, __wrap_aligned_alloc, __real_aligned_alloc, (size_t alignment, size_t bytes),
           (alignment, bytes))
ALLOCATION(char *, __wrap_strdup, __real_strdup, (const char *text), (text))
ALLOCATION(FILE *, __wrap_open_memstream, __real_open_memstream, (char **text, size_t *bytes),
           (text, bytes))

/* ---- calls that fail ----------------------------------------------------------------------- */

#define CALL(function, failed, result, wrapped, real, parameters, arguments)                       \
    result real parameters;                                                                        \
    result wrapped parameters;                                                                     \
    result wrapped parameters                                                                      \
    {                                                                                              \
        return fails(CALL_##function) ? failed : real arguments;                                   \
    }

CALL(accept4, -1, int, __wrap_accept4, __real_accept4,
     (int fd, struct sockaddr *address, socklen_t *bytes, int flags), (fd, address, bytes, flags))
CALL(bind, -1, int, __wrap_bind, __real_bind,
     (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
CALL(connect, -1, int, __wrap_connect, __real_connect,
     (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
CALL(eventfd, -1, int, __wrap_eventfd, __real_eventfd, (unsigned value, int flags), (value, flags))
CALL(fdatasync, -1, int, __wrap_fdatasync, __real_fdatasync, (int fd), (fd))
CALL(fopen, NULL, FILE *, __wrap_fopen, __real_fopen, (const char *path, const char *mode),
     (path, mode))
CALL(fsync, -1, int, __wrap_fsync, __real_fsync, (int fd), (fd))
CALL(ftruncate, -1, int, __wrap_ftruncate, __real_ftruncate, (int fd, off_t bytes), (fd, bytes))
CALL(getsockopt, -1, int, __wrap_getsockopt, __real_getsockopt,
     (int fd, int level, int option, void *value, socklen_t *bytes),
     (fd, level, option, value, bytes))
CALL(listen, -1, int, __wrap_listen, __real_listen, (int fd, int backlog), (fd, backlog))
CALL(memfd_create, -1, int, __wrap_memfd_create, __real_memfd_create,
     (const char *name, unsigned flags), (name, flags))
CALL(mkdir, -1, int, __wrap_mkdir, __real_mkdir, (const char *path, mode_t mode), (path, mode))
CALL(mmap, MAP_FAILED, void *, __wrap_mmap, __real_mmap,
     (void *address, size_t bytes, int protection, int flags, int fd, off_t offset),
     (address, bytes, protection, flags, fd, offset))
CALL(rename, -1, int, __wrap_rename, __real_rename, (const char *from, const char *to), (from, to))
CALL(setsockopt, -1, int, __wrap_setsockopt, __real_setsockopt,
     (int fd, int level, int option, const void *value, socklen_t bytes),
     (fd, level, option, value, bytes))
CALL(socket, -1, int, __wrap_socket, __real_socket, (int domain, int type, int protocol),
     (domain, type, protocol))
CALL(socketpair, -1, int, __wrap_socketpair, __real_socketpair,
     (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))
CALL(statvfs, -1, int, __wrap_statvfs, __real_statvfs, (const char *path, struct statvfs *about),
     (path, about))
CALL(timerfd_create, -1, int, __wrap_timerfd_create, __real_timerfd_create, (int clock, int flags),
     (clock, flags))
CALL(timerfd_settime, -1, int, __wrap_timerfd_settime, __real_timerfd_settime,
     (int fd, int flags, const struct itimerspec *to, struct itimerspec *before),
     (fd, flags, to, before))
CALL(unlink, -1, int, __wrap_unlink, __real_unlink, (const char *path), (path))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return fails(CALL_open) ? -1 : __real_open(path, flags, mode);
}

/* It returns its error. */
int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
    return fails(CALL_posix_spawn)
               ? failure.error
               : __real_posix_spawn(pid, path, actions, attributes, arguments, environment);
}

/* ---- calls that fail or do less ------------------------------------------------------------- */

#define TRANSFER(function, result, wrapped, real, parameters, arguments, shorter)                  \
    result real parameters;                                                                        \
    result wrapped parameters;                                                                     \
    result wrapped parameters                                                                      \
    {                                                                                              \
        if (!fails(CALL_##function))                                                               \
            return real arguments;                                                                 \
        return failure.error != 0 ? -1 : real shorter;                                             \
    }

TRANSFER(pread, ssize_t, __wrap_pread, __real_pread, (int fd, void *to, size_t bytes, off_t offset),
         (fd, to, bytes, offset), (fd, to, half(bytes), offset))
TRANSFER(pwrite, ssize_t, __wrap_pwrite, __real_pwrite,
         (int fd, const void *from, size_t bytes, off_t offset), (fd, from, bytes, offset),
         (fd, from, half(bytes), offset))
TRANSFER(recv, ssize_t, __wrap_recv, __real_recv, (int fd, void *to, size_t bytes, int flags),
         (fd, to, bytes, flags), (fd, to, half(bytes), flags))
TRANSFER(recvmmsg, int, __wrap_recvmmsg, __real_recvmmsg,
         (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
         (fd, messages, count, flags, timeout), (fd, messages, 1, flags, timeout))
TRANSFER(recvmsg, ssize_t, __wrap_recvmsg, __real_recvmsg,
         (int fd, struct msghdr *message, int flags), (fd, message, flags), (fd, message, flags))
TRANSFER(send, ssize_t, __wrap_send, __real_send,
         (int fd, const void *from, size_t bytes, int flags), (fd, from, bytes, flags),
         (fd, from, half(bytes), flags))
TRANSFER(sendmmsg, int, __wrap_sendmmsg, __real_sendmmsg,
         (int fd, struct mmsghdr *messages, unsigned count, int flags),
         (fd, messages, count, flags), (fd, messages, 1, flags))
TRANSFER(sendmsg, ssize_t, __wrap_sendmsg, __real_sendmsg,
         (int fd, const struct msghdr *message, int flags), (fd, message, flags),
         (fd, message, flags))
/* Of eventfds and timerfds, whose eight bytes come whole and at once, none fails. */
enum { COUNTER_BYTES = 8 };

ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
    if (bytes == COUNTER_BYTES || !fails(CALL_read))
        return __real_read(fd, to, bytes);
    return failure.error != 0 ? -1 : __real_read(fd, to, half(bytes));
}

ssize_t __real_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes)
{
    if (bytes == COUNTER_BYTES || !fails(CALL_write))
        return __real_write(fd, from, bytes);
    return failure.error != 0 ? -1 : __real_write(fd, from, half(bytes));
}
