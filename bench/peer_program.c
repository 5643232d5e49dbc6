/*
 * See peer_program.h. A peer that has ended (no library, no device) answers nothing more: every
 * later question finds its pipe closed and gives no figure.
 */
#include "bench/peer_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int peer_program_open(struct peer_program *peer, const char *name, const char *program)
{
    int to[2], from[2];
    const char *ending = strrchr(program, '.');
    const bool script = ending != NULL && strcmp(ending, ".py") == 0;
    peer->name = name;
    if (access(program, script ? R_OK : X_OK) != 0 || pipe2(to, O_CLOEXEC) != 0 ||
        pipe2(from, O_CLOEXEC) != 0)
        return -1;
    signal(SIGPIPE, SIG_IGN);
    peer->child = fork();
    if (peer->child == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        if (script)
            execl("/usr/bin/python3", "python3", program, (char *)NULL);
        else
            execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer->ask = fdopen(to[1], "w");
    peer->answer = fdopen(from[0], "r");
    return peer->child > 0 && peer->ask != NULL && peer->answer != NULL ? 0 : -1;
}

int peer_program_start(struct peer_program *peer, char *what)
{
    char *equals = strchr(what, '=');
    if (equals == NULL)
        return peer_program_open(peer, "cuFFT", what);
    *equals = '\0';
    return peer_program_open(peer, what, equals + 1);
}

double peer_program_ask(struct peer_program *peer, double *error, const char *question, ...)
{
    char line[256];
    double ns = 0;
    int length = 0;
    va_list arguments;
    va_start(arguments, question);
    vfprintf(peer->ask, question, arguments);
    va_end(arguments);
    fputc('\n', peer->ask);
    if (fflush(peer->ask) != 0 || fgets(line, sizeof line, peer->answer) == NULL) {
        snprintf(peer->said, sizeof peer->said, "it has ended");
        return 0;
    }
    line[strcspn(line, "\n")] = '\0';
    const bool figures = sscanf(line, "%lf %lf %n", &ns, error, &length) == 2;
    snprintf(peer->said, sizeof peer->said, "%s",
             figures ? line + length : line + strspn(line, "- "));
    return figures ? ns : 0;
}

double peer_program_run(struct peer_program *peer, uint32_t points, int64_t for_ns, double *error)
{
    return peer_program_ask(peer, error, "%u %lld", points, (long long)for_ns) * 1e-9;
}

void peer_program_stop(struct peer_program *peer)
{
    if (peer->child <= 0)
        return;
    if (peer->ask != NULL)
        fclose(peer->ask);
    if (peer->answer != NULL)
        fclose(peer->answer);
    waitpid(peer->child, NULL, 0);
}
