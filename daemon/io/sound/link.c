/* Link: see link.h. */
#include "io/sound/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "io/sound/helper.h"

enum { FD_MIN = 16 }; /* above the helper's own descriptors, SOUND_FDS_END */

/* A process that is killed ends within milliseconds, unless it hangs in a driver. */
static const int64_t KILL_NS = NS_PER_SECOND;

struct sound_link {
    struct sound_shared *shared;
    size_t bytes;
    int memory_fd, doorbell_fd, control_fd;
    int filter_fd; /* -1: none */
    pid_t helper;  /* 0: none */
};

/* Moves a descriptor out of the range that spawn fills with the helper's own. Takes -1 too. */
static int move_up(int fd)
{
    if (fd < 0 || fd >= FD_MIN)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
    close(fd);
    return moved;
}

int sound_link_open(const struct sound_request *request, struct sound_link **out,
                    struct problem *problem)
{
    struct sound_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a sound card");
    link->bytes = sound_shared_bytes(request);
    link->control_fd = link->filter_fd = -1;
    link->doorbell_fd = move_up(doorbell_open());
    link->memory_fd = move_up(memfd_create("convolvd-sound", MFD_CLOEXEC));
    if (link->doorbell_fd < 0 || link->memory_fd < 0 ||
        ftruncate(link->memory_fd, (off_t)link->bytes) != 0)
        goto failed;
    void *memory = mmap(NULL, link->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        link->memory_fd, 0);
    if (memory == MAP_FAILED)
        goto failed;
    link->shared = memory;
    link->shared->request = *request;
    sound_shared_reset(link->shared);
    *out = link;
    return 0;

failed:;
    int error = problem_set(problem, ERROR_SYSTEM,
                            "no memory to share with a sound card's helper: %s", strerror(errno));
    sound_link_close(link);
    return error;
}

void sound_link_close(struct sound_link *link)
{
    if (link == NULL)
        return;
    if (link->shared != NULL)
        munmap(link->shared, link->bytes);
    if (link->memory_fd >= 0)
        close(link->memory_fd);
    if (link->doorbell_fd >= 0)
        close(link->doorbell_fd);
    if (link->control_fd >= 0)
        close(link->control_fd);
    if (link->filter_fd >= 0)
        close(link->filter_fd);
    free(link);
}

int sound_link_filters(const void *packed, size_t bytes, struct problem *problem)
{
    int fd = move_up(memfd_create("convolvd-filters", MFD_CLOEXEC));
    for (size_t done = 0; fd >= 0 && done < bytes;) {
        ssize_t written = write(fd, (const uint8_t *)packed + done, bytes - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            close(fd);
            fd = -1;
            break;
        }
        done += (size_t)written;
    }
    return fd >= 0 ? fd
                   : problem_set(problem, ERROR_SYSTEM,
                                 "no memory for the filters of direct mode: %s", strerror(errno));
}

void sound_link_set_filters(struct sound_link *link, int filters)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } with = {0};
    char byte = 'F';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    const struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with};
    with.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&with.head), &filters, sizeof filters);
    if (link->control_fd >= 0) {
        ssize_t sent = sendmsg(link->control_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; /* it fails when the helper has ended; the next one begins with the filters */
    }
    if (link->filter_fd >= 0)
        close(link->filter_fd);
    link->filter_fd = filters;
}

/* ---- the helper -------------------------------------------------------------------------------
 */

/* The helper gets default signals, a process group of its own (so that Ctrl-C does not reach it)
 * and no descriptors but its own. */
static int spawn(struct sound_link *link, int control)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char name[] = "convolvd", argument[] = SOUND_HELPER_ARGUMENT;
    char *const arguments[] = {name, argument, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int error = posix_spawn_file_actions_adddup2(&actions, link->memory_fd, SOUND_MEMORY_FD);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, control, SOUND_CONTROL_FD);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, link->doorbell_fd, SOUND_DOORBELL_FD);
    if (error == 0)
        error = link->filter_fd >= 0
                    ? posix_spawn_file_actions_adddup2(&actions, link->filter_fd, SOUND_FILTER_FD)
                    : posix_spawn_file_actions_addopen(&actions, SOUND_FILTER_FD, "/dev/null",
                                                       O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, SOUND_FDS_END);
    if (error == 0)
        error =
            posix_spawn(&link->helper, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int sound_link_spawn(struct sound_link *link, struct problem *problem)
{
    int pair[2] = {-1, -1};
    sound_shared_reset(link->shared);
    link->helper = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return problem_set(problem, ERROR_SYSTEM, "no socket for a sound card's helper: %s",
                           strerror(errno));
    int control = move_up(pair[1]);
    int error = control < 0 ? errno : spawn(link, control);
    if (control >= 0)
        close(control);
    if (error != 0) {
        link->helper = 0;
        close(pair[0]);
        return problem_set(problem, ERROR_SYSTEM, "no helper process for a sound card: %s",
                           strerror(error));
    }
    link->control_fd = move_up(pair[0]);
    return 0;
}

enum sound_state sound_link_state(struct sound_link *link)
{
    char byte;
    ssize_t bytes = 1;
    while (link->control_fd >= 0 && bytes == 1)
        bytes = recv(link->control_fd, &byte, 1, MSG_DONTWAIT);
    enum sound_state state = (enum sound_state)atomic_load(&link->shared->state);
    bool ended =
        link->control_fd < 0 || bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR);
    if (ended && state <= SOUND_RUNNING) {
        snprintf(link->shared->problem, sizeof link->shared->problem,
                 "the helper process of the sound card ended");
        state = SOUND_LOST;
        atomic_store(&link->shared->state, state);
    }
    return state;
}

enum sound_state sound_link_wait(struct sound_link *link, int timeout_ms)
{
    int64_t until_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    enum sound_state state;
    while ((state = sound_link_state(link)) == SOUND_STARTING) {
        int64_t left_ns = until_ns - clock_monotonic_ns();
        struct pollfd control = {.fd = link->control_fd, .events = POLLIN};
        if (left_ns <= 0) {
            sound_link_stop(link, true);
            snprintf(link->shared->problem, sizeof link->shared->problem,
                     "the sound system does not answer");
            atomic_store(&link->shared->state, SOUND_ABSENT);
            return SOUND_ABSENT;
        }
        poll(&control, 1, (int)(left_ns / NS_PER_MS) + 1);
    }
    return state;
}

void sound_link_start(struct sound_link *link)
{
    char byte = 'S';
    ssize_t sent = send(link->control_fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it fails when the helper has ended; sound_link_state reports that */
}

/* Never waits: a helper inside a driver that hangs (state D) ends when the driver lets it. */
bool sound_link_stop(struct sound_link *link, bool now)
{
    if (link->control_fd >= 0)
        close(link->control_fd);
    link->control_fd = -1;
    if (link->helper == 0)
        return true;
    if (now)
        kill(link->helper, SIGKILL);
    pid_t gone = waitpid(link->helper, NULL, WNOHANG);
    if (gone == 0 || (gone < 0 && errno == EINTR))
        return false;
    link->helper = 0;
    return true;
}

bool sound_link_kill(struct sound_link *link)
{
    const struct timespec pause = {.tv_nsec = 2 * NS_PER_MS};
    const int64_t until_ns = clock_monotonic_ns() + KILL_NS;
    while (!sound_link_stop(link, true)) {
        if (clock_monotonic_ns() > until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

struct sound_shared *sound_link_shared(const struct sound_link *link)
{
    return link->shared;
}

int sound_link_doorbell(const struct sound_link *link)
{
    return link->doorbell_fd;
}

bool sound_link_spawned(const struct sound_link *link)
{
    return link->control_fd >= 0;
}
