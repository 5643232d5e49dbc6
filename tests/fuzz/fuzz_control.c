/*
 * Any bytes on the control socket of the role control, in two writes: each line gets one answer, an
 * object with `ok`, and whatever a client sends, the next one is served. What the bytes are as JSON
 * is held against every row of the table, too.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/socket.h"
#include "tests/fuzz/require.h"

enum { TURNS_MAX = 2000, ANSWER_MAX_BYTES = 1 << 16, LINE_MAX_BYTES = 16384 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uv_loop_t loop;
static char directory[] = "/tmp/convolvd-fuzz-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void remove_directory(void)
{
    char observe[sizeof address.sun_path];
    snprintf(observe, sizeof observe, "%s/%s", directory, control_socket_names[ROLE_OBSERVE]);
    unlink(observe);
    unlink(address.sun_path);
    rmdir(directory);
}

static bool no_reload(void *context)
{
    (void)context;
    return false;
}

static void listen_once(void)
{
    static struct config config;
    static struct io_environment environment;
    static struct process process;
    static struct commands *commands;
    static struct control_sockets *server;
    static const struct commands_host host = {.reload = no_reload};
    static const int passed[ROLES] = {-1, -1};
    static struct status_queue *status;
    static uv_async_t alive; /* the listener alone does not keep the loop running */
    struct problem problem;
    if (server != NULL)
        return;
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    REQUIRE(uv_loop_init(&loop) == 0 && mkdtemp(directory) != NULL);
    config.daemon.runtime_directory = directory;
    REQUIRE(uv_async_init(&loop, &alive, NULL) == 0);
    environment.loop = &loop;
    process.environment = &environment;
    process.config = &config;
    REQUIRE(status_queue_open(&process, &status) == 0);
    REQUIRE(commands_open(&process, status, &host, &commands) == 0);
    REQUIRE(control_sockets_open(&process, commands, passed, &server, &problem) == 0 &&
            server != NULL);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", directory,
             control_socket_names[ROLE_CONTROL]);
    atexit(remove_directory);
}

static int connected(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    REQUIRE(fd >= 0);
    int failed = -1;
    for (int turn = 0; failed != 0 && turn < TURNS_MAX; turn++) {
        failed = connect(fd, (struct sockaddr *)&address, sizeof address);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    REQUIRE(failed == 0);
    return fd;
}

static void say(int fd, const uint8_t *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const ssize_t sent = send(fd, data + at, bytes - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* the daemon has closed the connection */
        at += sent > 0 ? (size_t)sent : 0;
        uv_run(&loop, UV_RUN_NOWAIT);
        if (sent < 0)
            return; /* it reads no more before it has answered */
    }
}

/* The first answer, or nothing when the daemon closes the connection. */
static void require_answer(int fd)
{
    static char answer[ANSWER_MAX_BYTES];
    size_t used = 0;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (poll(&readable, 1, 1) <= 0)
            continue;
        const ssize_t got = recv(fd, answer + used, sizeof answer - used, 0);
        if (got <= 0)
            return;
        used += (size_t)got;
        if (answer[used - 1] != '\n')
            continue;
        json_t *object =
            json_loadb(answer, used, JSON_DISABLE_EOF_CHECK, NULL); /* the first line */
        REQUIRE(json_is_boolean(json_object_get(object, "ok")));
        json_decref(object);
        return;
    }
    REQUIRE(!"an answer within two seconds");
}

/* A refusal has a sentence. */
static void hold_against_the_table(const uint8_t *data, size_t bytes)
{
    json_t *request = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);
    for (int i = 0; json_is_object(request) && i < CONTROL_WORDS; i++) {
        struct problem problem = {0};
        if (command_table[i].name != NULL && command_check(&command_table[i], request, &problem))
            REQUIRE(problem.text[0] != '\0');
    }
    json_decref(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t question[] = "{\"command\": \"status\"}\n";
    listen_once();
    hold_against_the_table(data, bytes);
    const uint8_t *end = bytes > 0 ? memchr(data, '\n', bytes) : NULL;
    int fd = connected();
    say(fd, data, bytes / 2);
    say(fd, data + bytes / 2, bytes - bytes / 2);
    if (end != NULL && end - data < LINE_MAX_BYTES)
        require_answer(fd);
    close(fd);
    fd = connected();
    say(fd, question, sizeof question - 1);
    require_answer(fd);
    close(fd);
    uv_run(&loop, UV_RUN_NOWAIT);
    return 0;
}
