/* The init of a container: see init.h. No state but the signal mask, which the child restores. */
#include "cli/init.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"

enum { SIGNALLED = 128 }; /* the shell's status of a program that a signal has ended */

/* Variables that name the process they are meant for (sd_listen_fds(3), sd_watchdog_enabled(3)). */
static const char *const addressed[] = {"LISTEN_PID", "WATCHDOG_PID"};

static void readdress(void)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    for (size_t i = 0; i < sizeof addressed / sizeof *addressed; i++) {
        const char *value = getenv(addressed[i]);
        if (value != NULL && strcmp(value, "1") == 0)
            setenv(addressed[i], pid, 1);
    }
}

/* Waits for all that have ended. Returns true with the status to end with once `child` is one. */
static bool reap(pid_t child, int *status)
{
    bool ended = false;
    int how;
    pid_t gone;
    while ((gone = waitpid(-1, &how, WNOHANG)) > 0)
        if (gone == child) {
            ended = true;
            *status = WIFEXITED(how) ? WEXITSTATUS(how) : SIGNALLED + WTERMSIG(how);
        }
    return ended;
}

/* A terminal sends its signals to the whole foreground group, the child included. */
static bool came_from_terminal(const siginfo_t *info)
{
    return info->si_code == SI_KERNEL &&
           (info->si_signo == SIGINT || info->si_signo == SIGQUIT || info->si_signo == SIGHUP);
}

static _Noreturn void serve(pid_t child, const sigset_t *signals)
{
    int status = EXIT_FAILURE;
    do {
        siginfo_t info;
        const int number = sigwaitinfo(signals, &info);
        if (number > 0 && number != SIGCHLD && !came_from_terminal(&info))
            kill(child, number);
    } while (!reap(child, &status));
    _exit(status);
}

void init_fork(void)
{
    if (getpid() != 1)
        return;
    sigset_t all, before;
    sigfillset(&all);
    /* Faults of init itself are not to be waited for. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t child = fork();
    if (child > 0)
        serve(child, &all);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0)
        readdress();
    else
        log_warning("as process 1 it cannot fork (%s): orphans stay zombies; start the container "
                    "with an init (docker run --init)",
                    strerror(errno));
}
