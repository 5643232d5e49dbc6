/*
 * Waits for a file that another program is about to write, such as the SDP file of a daemon that
 * starts beside the tool.
 *
 * Called before the work begins; blocks the thread. A signal handler that sets *stop ends it.
 */
#ifndef CONVOLV_TOOLS_WAIT_FILE_H
#define CONVOLV_TOOLS_WAIT_FILE_H

#include <signal.h>
#include <stdbool.h>

/* True as soon as `path` can be read; false after `seconds`, or once *stop is not 0. Says on stderr
 * what it waits for when the file is not there at once, unless `quiet`. */
bool wait_for_file(const char *program, const char *path, double seconds, bool quiet,
                   const volatile sig_atomic_t *stop);

#endif
