/* The control sockets: see socket.h. */
#include "control/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/session.h"
#include "control/socket_folder.h"
#include "core/descriptor.h"
#include "core/log.h"

const char *const control_socket_names[ROLES] = {
    [ROLE_OBSERVE] = "observe.sock", [ROLE_CONTROL] = "control.sock"};

/* Without systemd: whoever belongs to the daemon's group observes, its own user controls. */
static const mode_t modes[ROLES] = {[ROLE_OBSERVE] = 0660, [ROLE_CONTROL] = 0600};

struct listener {
    struct control_sockets *sockets;
    struct sessions *sessions; /* NULL: it is not open */
    uv_pipe_t pipe;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* to be removed; empty: systemd's */
};

struct control_sockets {
    const struct process *process;
    struct commands *commands;
    struct listener listeners[ROLES];
    int open_handles;
};

static void release(struct control_sockets *sockets)
{
    if (--sockets->open_handles == 0)
        free(sockets);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    release(listener->sockets);
}

static void on_sessions_closed(void *context)
{
    struct listener *listener = context;
    listener->sessions = NULL;
    uv_close((uv_handle_t *)&listener->pipe, on_listener_closed);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *listener = stream->data;
    if (status == 0)
        sessions_accept(listener->sessions);
}

/* ---- systemd's --------------------------------------------------------------------------- */

bool control_socket_passed(int fd, const char *name, enum command_role *role)
{
    int listening = 0, family = 0;
    socklen_t bytes = sizeof listening, family_bytes = sizeof family;
    return command_role_find(name, role) &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) == 0 && listening != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_bytes) == 0 && family == AF_UNIX;
}

/* ---- our own ----------------------------------------------------------------------------- */

/* Whether a daemon accepts connections at this path. */
static bool alive(const char *path)
{
    /* A daemon that hangs, its queue of connections full, is one too, and must not hang this one.
     */
    const int fd = descriptor_connect(path, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const bool connected = fd >= 0 || errno == EAGAIN;
    descriptor_close(fd);
    return connected;
}

/* 0, or an error of uv; *why says what cannot be. */
static int bind_path(struct listener *listener, enum command_role role, const char **why)
{
    const struct config_daemon *daemon = &listener->sockets->process->config->daemon;
    char own[SOCKET_FOLDER_BYTES];
    const char *folder = daemon->runtime_directory;
    if (folder == NULL || daemon->runtime_of_user) {
        const int failed = socket_folder_make(own);
        folder = own;
        if (failed != 0) {
            snprintf(listener->path, sizeof listener->path, "%.*s", (int)sizeof listener->path - 1,
                     own);
            *why = failed == -EPERM ? "somebody else may write there; remove it, or set `runtime "
                                      "directory` in [daemon]"
                                    : strerror(-failed);
            return failed;
        }
    }
    *why = "the path is too long for a socket";
    if (snprintf(listener->path, sizeof listener->path, "%s/%s", folder,
                 control_socket_names[role]) >= (int)sizeof listener->path)
        return UV_ENAMETOOLONG;
    *why = "it belongs to another daemon; give each its own `runtime directory`";
    if (alive(listener->path))
        return UV_EADDRINUSE;
    unlink(listener->path);
    int failed = uv_pipe_bind(&listener->pipe, listener->path);
    if (failed == 0 && chmod(listener->path, modes[role]) != 0)
        failed = -errno;
    *why = failed != 0 ? uv_strerror(failed) : "";
    return failed;
}

/* ---- life -------------------------------------------------------------------------------- */

/* False: it is not open, and the log says why. */
static bool listen_on(struct control_sockets *sockets, enum command_role role, int passed)
{
    struct listener *listener = &sockets->listeners[role];
    const char *why = "no memory";
    listener->sockets = sockets;
    sockets->open_handles++;
    uv_pipe_init(sockets->process->environment->loop, &listener->pipe, 0);
    listener->pipe.data = listener;
    int failed =
        passed >= 0 ? uv_pipe_open(&listener->pipe, passed) : bind_path(listener, role, &why);
    if (failed == 0)
        failed = sessions_open(sockets->commands, role, &listener->pipe, &listener->sessions) < 0
                     ? UV_ENOMEM
                     : uv_listen((uv_stream_t *)&listener->pipe, SESSIONS_MAX, on_connection);
    if (failed == 0) {
        uv_unref((uv_handle_t *)&listener->pipe);
        log_info("control: %s may %s", passed >= 0 ? "the socket of systemd" : listener->path,
                 command_role_word(role));
        return true;
    }
    log_warning("%s: %s; nobody can %s this daemon there", listener->path,
                why[0] != '\0' ? why : uv_strerror(failed), command_role_word(role));
    listener->path[0] = '\0'; /* not ours to remove */
    if (listener->sessions != NULL)
        sessions_close(listener->sessions, on_sessions_closed, listener);
    else
        uv_close((uv_handle_t *)&listener->pipe, on_listener_closed);
    listener->sessions = NULL;
    return false;
}

int control_sockets_open(const struct process *process, struct commands *commands,
                         const int passed[ROLES], struct control_sockets **out,
                         struct problem *problem)
{
    struct control_sockets *sockets = calloc(1, sizeof *sockets);
    bool open = false;
    if (sockets == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the control sockets");
    sockets->process = process;
    sockets->commands = commands;
    sockets->open_handles = 1; /* of this function */
    for (int role = 0; role < ROLES; role++)
        open = listen_on(sockets, (enum command_role)role, passed[role]) || open;
    if (!open)
        log_warning("no control socket could be opened: convolvctl and convolvd --status will not "
                    "work");
    *out = open ? sockets : NULL;
    release(sockets); /* it stays while a listener is open or closing */
    return 0;
}

void control_sockets_close(struct control_sockets *sockets)
{
    if (sockets == NULL)
        return;
    for (int role = 0; role < ROLES; role++) {
        struct listener *listener = &sockets->listeners[role];
        if (listener->path[0] != '\0')
            unlink(listener->path);
        if (listener->sessions != NULL)
            sessions_close(listener->sessions, on_sessions_closed, listener);
    }
}
