/* The control socket: see socket.h. */
#include "control/socket.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/log.h"

enum {
    CLIENTS_MAX = 16,
    LINE_MAX_BYTES = 4096, /* of a question */
    PAUSE_MS = 50,         /* between two answers to one client */
};

const char control_socket_name[] = "convolvd.sock";

struct client {
    struct control_socket *server; /* NULL: the entry is free */
    uv_pipe_t pipe;
    uv_timer_t pause;
    uv_write_t write;
    char line[LINE_MAX_BYTES];
    size_t used;
    char *answer;      /* being written; NULL: none */
    bool asked;        /* and not yet answered */
    uint64_t since_ms; /* uv_now when it asked, was answered or came */
    int open_handles;
    bool closing;
};

struct control_socket {
    const struct process *process;
    struct status_queue *status;
    uv_pipe_t listener;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    struct client clients[CLIENTS_MAX];
    int open_handles;
    bool waiting; /* a connection waits for an entry to become free */
    bool closing;
};

/* ---- answers ---------------------------------------------------------------------------- */

static json_t *failed(const char *error)
{
    return json_pack("{s:b, s:s}", "ok", 0, "error", error);
}

static void on_status_made(void *context, char *text, size_t bytes);

/* NULL: the answer comes later. */
static json_t *answer_status(struct client *client, const json_t *question)
{
    struct control_socket *server = client->server;
    const char *format = json_string_value(json_object_get(question, "format"));
    bool json = format != NULL && strcmp(format, "json") == 0;
    if (!server->process->connected)
        return failed("still preparing: nothing to show yet");
    if (status_queue_request(server->status, json ? STATUS_ANSWER_JSON : STATUS_ANSWER_TABLE,
                             on_status_made, client) < 0)
        return failed("no memory for the status");
    return NULL;
}

static const struct {
    const char *name;
    json_t *(*answer)(struct client *client, const json_t *question);
} commands[] = {
    {"status", answer_status},
};

/* NULL: the answer comes later. */
static json_t *answer_line(struct client *client, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *question = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
    if (question == NULL)
        return failed("not JSON: write one object a line, such as {\"command\": \"status\"}");
    const char *command = json_string_value(json_object_get(question, "command"));
    for (size_t i = 0; command != NULL && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(command, commands[i].name) == 0) {
            json_t *answer = commands[i].answer(client, question);
            json_decref(question);
            return answer;
        }
    }
    json_decref(question);
    return failed("no such command: write {\"command\": \"status\"}");
}

/* ---- clients ---------------------------------------------------------------------------- */

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer);
static void answer(struct client *client, size_t line_bytes);
static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);

static void release(struct control_socket *server)
{
    if (--server->open_handles == 0)
        free(server);
}

static void on_connection(uv_stream_t *listener, int status);

static void on_client_closed(uv_handle_t *handle)
{
    struct client *client = handle->data;
    struct control_socket *server = client->server;
    if (--client->open_handles == 0) {
        free(client->answer);
        memset(client, 0, sizeof *client);
        if (server->waiting && !server->closing) {
            server->waiting = false;
            on_connection((uv_stream_t *)&server->listener, 0);
        }
    }
    release(server);
}

static void close_client(struct client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    status_queue_cancel(client->server->status, client);
    uv_close((uv_handle_t *)&client->pipe, on_client_closed);
    uv_close((uv_handle_t *)&client->pause, on_client_closed);
}

/* The next question may have arrived together with the last one. */
static void listen_again(uv_timer_t *timer)
{
    struct client *client = timer->data;
    const char *end = memchr(client->line, '\n', client->used);
    if (client->closing)
        return;
    if (end != NULL)
        answer(client, (size_t)(end - client->line));
    else if (uv_read_start((uv_stream_t *)&client->pipe, on_buffer, on_read) != 0)
        close_client(client);
}

static void on_written(uv_write_t *write, int status)
{
    struct client *client = write->data;
    free(client->answer);
    client->answer = NULL;
    client->asked = false;
    client->since_ms = uv_now(client->pipe.loop);
    if (client->closing)
        return;
    if (status != 0)
        close_client(client);
    else
        uv_timer_start(&client->pause, listen_again, PAUSE_MS, 0);
}

/* Takes the text over: a line with its newline. */
static void send_text(struct client *client, char *text, size_t bytes)
{
    client->answer = text;
    if (text == NULL) {
        close_client(client);
        return;
    }
    uv_buf_t buffer = uv_buf_init(text, (unsigned)bytes);
    client->write.data = client;
    if (uv_write(&client->write, (uv_stream_t *)&client->pipe, &buffer, 1, on_written) != 0)
        close_client(client);
}

static void on_status_made(void *context, char *text, size_t bytes)
{
    send_text(context, text, bytes);
}

/* Reads nothing more from the client until its answer is written, so a client that does not read
 * gets no second answer. */
static void answer(struct client *client, size_t line_bytes)
{
    uv_read_stop((uv_stream_t *)&client->pipe);
    client->asked = true;
    client->since_ms = uv_now(client->pipe.loop);
    json_t *object = answer_line(client, client->line, line_bytes);
    client->used -= line_bytes + 1;
    memmove(client->line, client->line + line_bytes + 1, client->used);
    if (object == NULL)
        return;
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    size_t bytes = text != NULL ? strlen(text) : 0;
    char *line = text != NULL ? realloc(text, bytes + 1) : NULL;
    if (line == NULL)
        free(text);
    else
        line[bytes] = '\n'; /* replaces the final zero */
    send_text(client, line, bytes + 1);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct client *client = handle->data;
    (void)suggested;
    *buffer =
        uv_buf_init(client->line + client->used, (unsigned)(sizeof client->line - client->used));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct client *client = stream->data;
    (void)buffer;
    if (got < 0) { /* it has gone, or its line is longer than the buffer */
        close_client(client);
        return;
    }
    client->used += (size_t)got;
    const char *end = memchr(client->line, '\n', client->used);
    if (end != NULL)
        answer(client, (size_t)(end - client->line));
}

/* Closes a client for a new one, unless one is closing already: the one idle longest, else the one
 * that has waited longest for its answer, which it may never read. */
static void make_room(struct control_socket *server)
{
    struct client *victim = NULL;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (client->closing)
            return;
        const bool earlier = victim != NULL && client->since_ms < victim->since_ms;
        if (victim == NULL || (client->asked == victim->asked ? earlier : !client->asked))
            victim = client;
    }
    close_client(victim);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct control_socket *server = listener->data;
    struct client *client = NULL;
    for (int i = 0; i < CLIENTS_MAX && client == NULL; i++) {
        if (server->clients[i].server == NULL)
            client = &server->clients[i];
    }
    if (status != 0)
        return;
    if (client == NULL) { /* its turn comes when an entry is free */
        server->waiting = true;
        make_room(server);
        return;
    }
    client->server = server;
    uv_pipe_init(server->process->environment->loop, &client->pipe, 0);
    uv_timer_init(server->process->environment->loop, &client->pause);
    client->pipe.data = client->pause.data = client;
    client->open_handles = 2;
    client->since_ms = uv_now(client->pipe.loop);
    server->open_handles += 2;
    if (uv_accept(listener, (uv_stream_t *)&client->pipe) != 0 ||
        uv_read_start((uv_stream_t *)&client->pipe, on_buffer, on_read) != 0)
        close_client(client);
}

/* ---- life ------------------------------------------------------------------------------- */

/* Whether a daemon accepts connections at this path. */
static bool alive(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    /* A daemon that hangs, its queue of connections full, is one too, and must not hang this one.
     */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool connected = fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ||
                                 errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return connected;
}

static void on_listener_closed(uv_handle_t *handle)
{
    release(handle->data);
}

/* Binds and listens; a socket that cannot be used costs only `convolvd --status`. */
static void listen_at_path(struct control_socket *server)
{
    int failed = uv_pipe_bind(&server->listener, server->path);
    if (failed == 0)
        failed = chmod(server->path, 0660) == 0
                     ? uv_listen((uv_stream_t *)&server->listener, CLIENTS_MAX, on_connection)
                     : -errno;
    if (failed != 0)
        log_warning("%s: %s; convolvd --status will not work", server->path, uv_strerror(failed));
}

int control_socket_open(const struct process *process, struct status_queue *status,
                        struct control_socket **out, struct problem *problem)
{
    const char *directory = process->config->daemon.runtime_directory;
    if (directory == NULL)
        return 0;
    struct control_socket *server = calloc(1, sizeof *server);
    if (server == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the control socket");
    int length =
        snprintf(server->path, sizeof server->path, "%s/%s", directory, control_socket_name);
    if (length >= (int)sizeof server->path) {
        log_warning("%s/%s is too long for a socket; convolvd --status will not work", directory,
                    control_socket_name);
        free(server);
        return 0;
    }
    if (alive(server->path)) {
        log_warning(
            "%s belongs to another daemon; convolvd --status shows that one: give each its own "
            "`runtime directory`",
            server->path);
        free(server);
        return 0;
    }
    unlink(server->path);
    server->process = process;
    server->status = status;
    server->open_handles = 1;
    uv_pipe_init(process->environment->loop, &server->listener, 0);
    server->listener.data = server;
    listen_at_path(server);
    uv_unref((uv_handle_t *)&server->listener);
    *out = server;
    return 0;
}

void control_socket_close(struct control_socket *server)
{
    if (server == NULL)
        return;
    server->closing = true;
    unlink(server->path);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (server->clients[i].server != NULL)
            close_client(&server->clients[i]);
    }
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
}
