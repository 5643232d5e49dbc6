/* The client of the control sockets: see client.h. */
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/socket.h"
#include "control/socket_folder.h"
#include "core/descriptor.h"

/* A table of 4096 streams is smaller: about 3 KiB a stream and 100 bytes a channel. */
enum { LINE_MAX_BYTES = 64 << 20, ANSWER_MS = 10000, PATH_BYTES = 512 };

struct client {
    int fd, passed; /* -1: none */
    char path[PATH_BYTES];
    char *line;
    size_t used, room;
};

/* ---- finding the daemon ------------------------------------------------------------------ */

static int connect_to(const char *path)
{
    return descriptor_connect(path, SOCK_STREAM, ANSWER_MS);
}

/* Where it was looked for, and why that was in vain. */
struct search {
    char text[600];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void note(struct search *search, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof search->text - search->used;
    const int length = vsnprintf(search->text + search->used, room, format, arguments);
    search->used += (size_t)length < room ? (size_t)length : room - 1;
    va_end(arguments);
}

/* Tries the socket of the role in this folder, then the other one. */
static int try_folder(const char *folder, enum command_role role, char path[PATH_BYTES],
                      struct search *search)
{
    const enum command_role order[ROLES] = {role,
                                            role == ROLE_CONTROL ? ROLE_OBSERVE : ROLE_CONTROL};
    const int refused = socket_folder_check(folder);
    for (int i = 0; i < ROLES; i++) {
        snprintf(path, PATH_BYTES, "%s/%s", folder, control_socket_names[order[i]]);
        const int fd = refused == 0 ? connect_to(path) : -1;
        if (refused != 0)
            errno = -refused;
        if (fd >= 0)
            return fd;
        if (i == 0)
            note(search, "%s%s: %s", search->used > 0 ? ", " : "", path, strerror(errno));
    }
    return -1;
}

static int search_all(const struct client_options *options, char path[PATH_BYTES],
                      struct search *search)
{
    struct socket_folders folders;
    int fd = -1;
    socket_folders_find(options->instance, &folders);
    for (size_t i = 0; i < folders.count && fd < 0; i++)
        fd = try_folder(folders.paths[i], options->role, path, search);
    return fd;
}

int client_open(const struct client_options *options, struct client **out, struct problem *problem)
{
    struct client *client = calloc(1, sizeof *client);
    struct search search = {.used = 0};
    if (client == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    client->passed = -1;
    if (options->socket != NULL) {
        client->fd = connect_to(options->socket);
        snprintf(client->path, sizeof client->path, "%s", options->socket);
        note(&search, "%s: %s", options->socket, strerror(errno));
    } else {
        client->fd = search_all(options, client->path, &search);
    }
    if (client->fd >= 0) {
        *out = client;
        return 0;
    }
    free(client);
    return problem_set(problem, ERROR_NO_FILE,
                       "no daemon answers (%s); start one, join the group of its socket, or name "
                       "the socket: --socket PATH",
                       search.text);
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    if (client->passed >= 0)
        close(client->passed);
    close(client->fd);
    free(client->line);
    free(client);
}

int client_fd(const struct client *client)
{
    return client->fd;
}

int client_take_fd(struct client *client)
{
    const int fd = client->passed;
    client->passed = -1;
    return fd;
}

/* ---- lines ------------------------------------------------------------------------------- */

static int gone(struct problem *problem)
{
    return problem_set(problem, ERROR_CLOSED, "the daemon has gone, or has closed the connection");
}

/* Sends the request, which it takes over. 0, or ERROR_CLOSED. */
static int send_request(struct client *client, json_t *request, struct problem *problem)
{
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    size_t bytes = text != NULL ? strlen(text) : 0;
    if (text == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    text[bytes++] = '\n'; /* replaces the final zero */
    size_t sent = 0;
    while (sent < bytes) {
        const ssize_t now = send(client->fd, text + sent, bytes - sent, MSG_NOSIGNAL);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            break;
        sent += (size_t)now;
    }
    free(text);
    return sent == bytes ? 0 : gone(problem);
}

static bool grow(struct client *client)
{
    const size_t room = client->room > 0 ? 2 * client->room : 65536;
    char *line = room <= LINE_MAX_BYTES ? realloc(client->line, room) : NULL;
    if (line == NULL)
        return false;
    client->line = line;
    client->room = room;
    return true;
}

/* Reads what there is, with the descriptor that may come along. */
static ssize_t receive(struct client *client)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {client->line + client->used, client->room - client->used};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
        if (client->passed >= 0)
            close(client->passed);
        memcpy(&client->passed, CMSG_DATA(header), sizeof(int));
    }
    client->used += got > 0 ? (size_t)got : 0;
    return got;
}

/* Whether client_next has a line without waiting. */
static bool has_line(const struct client *client)
{
    return client->used > 0 && memchr(client->line, '\n', client->used) != NULL;
}

static json_t *take_line(struct client *client, struct problem *problem)
{
    const char *end = memchr(client->line, '\n', client->used);
    json_t *object = json_loadb(client->line, (size_t)(end - client->line), 0, NULL);
    const size_t taken = (size_t)(end - client->line) + 1;
    client->used -= taken;
    memmove(client->line, client->line + taken, client->used);
    if (object == NULL)
        problem_set(problem, ERROR_FORMAT, "%s: what answers there is no convolvd", client->path);
    return object;
}

json_t *client_next(struct client *client, int timeout_ms, struct problem *problem)
{
    while (!has_line(client)) {
        struct pollfd readable = {.fd = client->fd, .events = POLLIN};
        const int ready = poll(&readable, 1, timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0) {
            problem_set(problem, ERROR_LIMIT, "the daemon does not answer");
            return NULL;
        }
        if ((client->used == client->room && !grow(client)) || receive(client) <= 0) {
            gone(problem);
            return NULL;
        }
    }
    return take_line(client, problem);
}

/* *reply is also a reply that is not `ok`. */
static int ask(struct client *client, json_t *request, int timeout_ms, json_t **reply,
               struct problem *problem)
{
    *reply = NULL;
    int error = send_request(client, request, problem);
    json_t *answer = error == 0 ? client_next(client, timeout_ms, problem) : NULL;
    while (answer != NULL && json_object_get(answer, "ok") == NULL) { /* an event */
        json_decref(answer);
        answer = client_next(client, timeout_ms, problem);
    }
    if (answer == NULL)
        return error != 0 ? error : (int)problem->error;
    *reply = answer;
    if (json_is_true(json_object_get(answer, "ok")))
        return 0;
    const char *said = json_string_value(json_object_get(answer, "error"));
    return problem_set(problem, ERROR_ARGUMENT, "%s", said != NULL ? said : "the daemon refused");
}

int client_ask(struct client *client, json_t *request, json_t **reply, struct problem *problem)
{
    const int error = ask(client, request, ANSWER_MS, reply, problem);
    if (error != 0) {
        json_decref(*reply);
        *reply = NULL;
    }
    return error;
}

int client_ask_long(struct client *client, json_t *request, json_t **reply, struct problem *problem)
{
    return ask(client, request, -1, reply, problem);
}

/* ---- status ------------------------------------------------------------------------------ */

static int show_once(struct client *client, bool clear, struct problem *problem)
{
    json_t *answer;
    int error = client_ask(client, json_pack("{s:s}", "command", "status"), &answer, problem);
    const char *table = json_string_value(json_object_get(answer, "table"));
    if (error == 0 && table == NULL)
        error = problem_set(problem, ERROR_FORMAT, "the answer has no table");
    if (error == 0)
        printf("%s%s", clear ? "\033[H\033[2J" : "", table);
    json_decref(answer);
    fflush(stdout);
    return error;
}

int client_show_status(const char *path, bool watch, struct problem *problem)
{
    const struct client_options options = {.socket = path, .role = ROLE_OBSERVE};
    struct client *client;
    int error = client_open(&options, &client, problem);
    if (error < 0)
        return error;
    bool clear = watch && isatty(STDOUT_FILENO);
    error = show_once(client, clear, problem);
    while (watch && error == 0 && !ferror(stdout)) {
        sleep(1);
        error = show_once(client, clear, problem);
    }
    client_close(client);
    return error;
}
