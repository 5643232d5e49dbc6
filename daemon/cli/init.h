/*
 * A small init for containers. The kernel hands every orphan of a PID namespace to process 1, which
 * must wait for it, or it stays a zombie. A daemon that waited for any child would take its own
 * helpers' exit statuses away from the code that started them, so process 1 forks: the child
 * continues as the program, and process 1 stays behind as init.
 *
 * Init passes signals on to its child, waits for every other process that ends, and ends with the
 * child's status: its exit status, or 128 + the number of the signal that ended it.
 *
 * Main thread, before any other thread exists.
 */
#ifndef CONVOLVD_CLI_INIT_H
#define CONVOLVD_CLI_INIT_H

/* Returns in the process that is to be the program: at once where this is not process 1, else in
 * the child. Process 1 does not return unless it cannot fork; then it continues as the program. */
void init_fork(void);

#endif
