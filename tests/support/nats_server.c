/* A nats-server for one test: see nats_server.h. */
#include "tests/support/nats_server.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWERS_WITHIN_MS = 10000 };

/* A socket bound to (free) or connected to a port of this machine; negative: not. */
static int loopback(int *port, bool bound)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)*port)};
    socklen_t length = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int result = bound ? bind(fd, (struct sockaddr *)&address, length)
                             : connect(fd, (struct sockaddr *)&address, length);
    if (result != 0) {
        close(fd);
        return -1;
    }
    if (bound && getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        *port = ntohs(address.sin_port);
    return fd;
}

void nats_server_open(struct nats_server *server)
{
    *server = (struct nats_server){.folder = "/tmp/convolvd-nats-XXXXXX"};
    assert_non_null(mkdtemp(server->folder));
    const int fd = loopback(&server->port, true);
    assert_true(fd >= 0);
    close(fd);
    snprintf(server->url, sizeof server->url, "nats://127.0.0.1:%d", server->port);
    nats_server_shell(server, "touch nats.conf");
    nats_server_start(server);
}

void nats_server_start(struct nats_server *server)
{
    char port[16], config[80];
    snprintf(config, sizeof config, "%s/nats.conf", server->folder);
    snprintf(port, sizeof port, "%d", server->port);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(126);
        const char *store = server->plain ? NULL : "-sd", *on = server->plain ? NULL : "-js";
        execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, "-c", config, on, store,
               server->folder, NULL);
        execl("/usr/sbin/nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, "-c", config,
              on, store, server->folder, NULL);
        _exit(127);
    }
    for (int waited_ms = 0; waited_ms < ANSWERS_WITHIN_MS; waited_ms += 10) {
        const int fd = loopback(&server->port, false);
        if (fd >= 0) {
            close(fd);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("nats-server does not answer on %s", server->url);
}

void nats_server_kill(struct nats_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void nats_server_shell(const struct nats_server *server, const char *command)
{
    char line[2048];
    snprintf(line, sizeof line, "cd %s && %s", server->folder, command);
    assert_int_equal(system(line), 0);
}

void nats_server_close(struct nats_server *server)
{
    nats_server_kill(server);
    nats_server_shell(server, "rm -rf /tmp/\"${PWD##*/}\"");
}
