/*
 * The word `reload`: waits until the daemon has taken the configuration over or has refused it, and
 * prints what is wrong, line by line as `convolvd --check` does.
 *
 * With --or-signal PID it is what `systemctl reload` runs: where no control socket answers, it
 * sends SIGHUP to this process, which reloads as well but does not report what became of it.
 *
 * Main thread; blocks for as long as the reload takes.
 */
#ifndef CONVOLVCTL_RELOAD_H
#define CONVOLVCTL_RELOAD_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/client.h"
#include "core/error.h"

struct reload_options {
    pid_t pid; /* the process to signal; 0: none */
};

int reload_options_read(int count, char *const *words, struct reload_options *options,
                        struct problem *problem);

/* The result when all of a refusal is printed already, as with --json. */
enum { RELOAD_PRINTED = 1 };

/* 0, RELOAD_PRINTED, or an error with its sentence. */
int reload_run(const struct client_options *client_options, const struct reload_options *options,
               bool json, struct problem *problem);

#endif
