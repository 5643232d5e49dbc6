/* The client of the control socket: see client.h. */
#include "control/client.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/socket.h"

/* A table of 4096 streams is smaller: about 3 KiB a stream and 100 bytes a channel. */
enum { ANSWER_MAX_BYTES = 64 << 20, TIMEOUT_S = 10 };

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Connects to `path`, or without one to the first directory where a daemon listens. */
static int find_daemon(const char *path, struct problem *problem)
{
    static const char *const variables[] = {"RUNTIME_DIRECTORY", NULL, "XDG_RUNTIME_DIR"};
    char candidate[4096];
    if (path != NULL) {
        int fd = connect_to(path);
        return fd >= 0 ? fd
                       : problem_set(problem, ERROR_NO_FILE,
                                     "%s: %s; is the daemon running, and may you reach it?", path,
                                     strerror(errno));
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *directory = variables[i] != NULL ? getenv(variables[i]) : "/run/convolvd";
        if (directory == NULL)
            continue;
        snprintf(candidate, sizeof candidate, "%s/%s", directory, control_socket_name);
        int fd = connect_to(candidate);
        if (fd >= 0)
            return fd;
        if (errno == EACCES)
            return problem_set(problem, ERROR_NO_FILE,
                               "%s: permission denied; run as root or join the group of the daemon",
                               candidate);
    }
    return problem_set(
        problem, ERROR_NO_FILE,
        "no daemon answers in /run/convolvd, $RUNTIME_DIRECTORY or $XDG_RUNTIME_DIR; "
        "start it, or name its socket: --socket PATH/%s",
        control_socket_name);
}

/* One line without its newline, to be freed; NULL: the daemon has gone or does not answer in time.
 */
static char *read_line(int fd)
{
    size_t used = 0, room = 65536;
    char *line = malloc(room);
    while (line != NULL) {
        ssize_t got = read(fd, line + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        char *end = memchr(line + used, '\n', (size_t)got);
        if (end != NULL) {
            *end = '\0';
            return line;
        }
        used += (size_t)got;
        if (used == room) {
            char *grown = room < ANSWER_MAX_BYTES ? realloc(line, 2 * room) : NULL;
            if (grown == NULL)
                break;
            line = grown;
            room *= 2;
        }
    }
    free(line);
    return NULL;
}

static int show_once(int fd, bool clear, struct problem *problem)
{
    static const char question[] = "{\"command\": \"status\"}\n";
    char *line = NULL;
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) == (ssize_t)sizeof question - 1)
        line = read_line(fd);
    json_t *answer = line != NULL ? json_loads(line, 0, NULL) : NULL;
    free(line);
    if (answer == NULL)
        return problem_set(problem, ERROR_CLOSED, "the daemon has gone, or does not answer");
    const char *table = json_string_value(json_object_get(answer, "table"));
    const char *said = json_string_value(json_object_get(answer, "error"));
    int error = 0;
    if (table == NULL)
        error = problem_set(problem, ERROR_FORMAT, "%s",
                            said != NULL ? said : "the answer has no table");
    else
        printf("%s%s", clear ? "\033[H\033[2J" : "", table);
    json_decref(answer);
    fflush(stdout);
    return error;
}

int client_show_status(const char *path, bool watch, struct problem *problem)
{
    int fd = find_daemon(path, problem);
    if (fd < 0)
        return fd;
    bool clear = watch && isatty(STDOUT_FILENO);
    int error = show_once(fd, clear, problem);
    while (watch && error == 0 && !ferror(stdout)) {
        sleep(1);
        error = show_once(fd, clear, problem);
    }
    close(fd);
    return error;
}
