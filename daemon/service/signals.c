/* Signals: see signals.h. */
#include "service/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void fill_set(const struct signals *signals, sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < signals->count; i++)
        sigaddset(set, signals->rows[i].number);
}

int signals_open(struct signals *signals, const struct signal_row *rows, int count, void *context,
                 struct problem *problem)
{
    *signals = (struct signals){.rows = rows, .count = count, .context = context};
    sigset_t set;
    fill_set(signals, &set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of its write */
    signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd < 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "no signalfd: %s; raise the limit of open files (ulimit -n)",
                           strerror(errno));
    return 0;
}

static void on_signals(uv_poll_t *poll, int status, int events)
{
    const struct signals *signals = poll->data;
    (void)status;
    (void)events;
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        for (int i = 0; i < signals->count; i++) {
            if (signals->rows[i].number == (int)info.ssi_signo)
                signals->rows[i].handle(signals->context, &info);
        }
    }
}

void signals_watch(struct signals *signals, uv_loop_t *loop)
{
    uv_poll_init(loop, &signals->poll, signals->fd);
    signals->poll.data = signals;
    uv_poll_start(&signals->poll, UV_READABLE, on_signals);
}

void signals_unwatch(struct signals *signals)
{
    uv_close((uv_handle_t *)&signals->poll, NULL);
}

void signals_close(struct signals *signals)
{
    sigset_t set;
    if (signals->fd < 0)
        return;
    fill_set(signals, &set);
    close(signals->fd);
    signals->fd = -1;
    for (int i = 0; i < signals->count; i++)
        signal(signals->rows[i].number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
