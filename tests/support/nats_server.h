/*
 * A nats-server with JetStream for one test: a process on a loopback port of its own, with its
 * store in a scratch folder. It can be killed and started again on what it has stored, with what a
 * test has written to nats.conf there.
 */
#ifndef CONVOLVD_TESTS_SUPPORT_NATS_SERVER_H
#define CONVOLVD_TESTS_SUPPORT_NATS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct nats_server {
    char folder[64], url[64];
    int port;
    pid_t pid;
    bool plain; /* without JetStream, from the next start on */
};

/* Chooses the folder and the port, and starts it; fails the test where it does not answer. */
void nats_server_open(struct nats_server *server);
void nats_server_start(struct nats_server *server);
void nats_server_kill(struct nats_server *server); /* SIGKILL */
/* Kills it and removes the folder. */
void nats_server_close(struct nats_server *server);
/* Runs a command of the shell in its folder. */
void nats_server_shell(const struct nats_server *server, const char *command);

#endif
