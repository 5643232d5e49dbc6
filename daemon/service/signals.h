/*
 * Signals of the service: read from a signalfd on the loop, one handler for each.
 *
 * Uses a signalfd, not handlers: the compiler inside a CPU driver (LLVM) installs handlers of its
 * own for these signals when it first builds a kernel.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_SIGNALS_H
#define CONVOLVD_SERVICE_SIGNALS_H

#include <sys/signalfd.h>
#include <uv.h>

#include "core/error.h"

struct signal_row {
    int number;
    void (*handle)(void *context, const struct signalfd_siginfo *info);
};

struct signals {
    const struct signal_row *rows;
    int count;
    void *context;
    int fd; /* -1: not open */
    uv_poll_t poll;
};

/* Blocks the signals: before any other thread is made, so that all threads inherit the mask. From
 * here on they wait for signals_watch. `rows` outlive it. 0 or ERROR_SYSTEM. */
int signals_open(struct signals *signals, const struct signal_row *rows, int count, void *context,
                 struct problem *problem);

void signals_watch(struct signals *signals, uv_loop_t *loop);
void signals_unwatch(struct signals *signals); /* closes the handle */

/* From here on a signal ends the process by default, should a driver hang while it is closed. May
 * be called twice. */
void signals_close(struct signals *signals);

#endif
